"""Ask a view of a trace, and get lines that can be printed, sorted or exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

import numpy as np

from stepscope import text
from stepscope.analyze.flops import calls_of, credited
from stepscope.analyze.options import ViewOptions, matches, near
from stepscope.analyze.views.build import BUILDERS, FLAT
from stepscope.analyze.views.choose import AnswerLine as AnswerLine
from stepscope.analyze.views.choose import choose, summed, terms_of_trace
from stepscope.analyze.views.measure import Bools, Measures, measure, names_of, owners
from stepscope.analyze.views.memory import MEASURES as MEMORY
from stepscope.analyze.views.memory import with_memory
from stepscope.analyze.views.tree import Floats, Numbers, Tree
from stepscope.attribute.step_tree import parts_of
from stepscope.errors import EmptyTraceError, UsageError
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace

VIEWS = tuple(BUILDERS)


@dataclass(frozen=True)
class AnswerColumn:
    """One column of numbers, in the order of the answer's lines; NaN is "not recorded"."""

    key: str
    head: str
    values: Numbers
    text: Callable[[float], str]


@dataclass(frozen=True)
class Answer:
    """The answer of a view.

    Attributes:
        view: Which one.
        options: The options of the view.
        windows: How many steps (times ranks) the numbers are a mean of.
        label: The same for people.
        lines: The root first.
        columns: The numbers of the lines.
        notes: Data that was not recorded, or does not apply.
        tree: All nodes; ``lines`` refer to them.
        words: Columns of words by their heads, in the order of the lines.
    """

    view: str
    options: ViewOptions
    windows: int
    label: str
    lines: list[AnswerLine]
    columns: list[AnswerColumn]
    notes: list[str]
    tree: Tree
    words: dict[str, list[str]] = field(default_factory=dict, kw_only=True)
    source: ClassVar[Literal["trace", "tfprof"]] = "trace"

    @property
    def text(self) -> str:
        """A table, the numbers first and the name last, for names can be long."""
        cells = [[column.text(float(value)) for value in column.values] for column in self.columns]
        names = [f"{'  ' * line.depth}{line.name}" for line in self.lines]
        heads = [*(column.head for column in self.columns), "name"]
        rows = text.table_lines([heads, *map(list, zip(*cells, names, strict=True))])
        notes = [f"note: {note}" for note in self.notes]
        return "\n".join([f"{self.view} view · {self.label}", *notes, "", *rows]) + "\n"

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON types: numbers as they are, null if not recorded."""
        rows = [
            {
                "name": line.name,
                "depth": line.depth,
                **{column.key: _number(column.values[index]) for column in self.columns},
            }
            for index, line in enumerate(self.lines)
        ]
        return {
            "view": self.view,
            "windows": self.windows,
            "denominator": self.label,
            "notes": self.notes,
            "rows": rows,
        }


def _number(value: float) -> float | int | None:
    if np.isnan(value):
        return None
    return int(value) if float(value).is_integer() else round(float(value), 6)


def view(
    name: str,
    trace: Trace,
    options: ViewOptions | None = None,
    *,
    measures: Measures | None = None,
    by_part: bool = False,
) -> Answer:
    """Ask one of the views.

    Args:
        name: One of :data:`VIEWS`.
        trace: Any trace.
        options: tfprof's.
        measures: The measures of the trace's events for the requested step, if known already.
        by_part: Whether the parts of the step, as its breakdown has them, are the children of the root; only
            the step's time is then shown.

    Raises:
        UsageError: No such view or step.
        EmptyTraceError: The trace is empty, or lacks the data of the view.
    """
    options = options or ViewOptions()
    if name not in BUILDERS:
        raise UsageError(f"unknown view {name!r}: expected {', '.join(VIEWS)}", hint=near(name, VIEWS))
    if not len(trace):
        raise EmptyTraceError(
            f"no {name} view: the {trace.format} profile holds no event that took time",
            hint="record while the training works, or ask for another view",
        )
    measures = measures or measure(trace, step=options.step)
    if by_part and measures.stretches is not None:
        measures = replace(measures, part=parts_of(trace))
    if _flops_asked(options) and name != "kernel":
        flops, unknown = credited(trace)
        measures = replace(measures, flops=flops, flops_unknown=unknown)
    tree = BUILDERS[name](trace, measures, _accounted(trace, measures, options))
    if _memory_asked(options):
        tree = with_memory(tree, trace, measures)
    # A node in which nothing was recorded is not an answer to anything.
    split = measures.part is not None
    able = summed(tree, ("step_ns",) if split else ("calls", "device_ns", "host_ns", "step_ns")) > 0
    terms = terms_of_trace(measures.windows)
    chosen = choose(tree, options, terms, able=able, flat=name in FLAT and not split)
    lines, columns = chosen.lines, _columns(name, chosen.tree, np.array(chosen.nodes), options, measures)
    return Answer(
        name,
        options,
        measures.windows,
        measures.label,
        lines,
        columns,
        _notes(trace, measures, options),
        chosen.tree,
    )


def _flops_asked(options: ViewOptions) -> bool:
    return options.order_by == "float_ops" or "float_ops" in options.select or options.min_float_ops > 0


def _memory_asked(options: ViewOptions) -> bool:
    least = any(getattr(options, f"min_{name}") for name in MEMORY)
    return least or options.order_by in MEMORY or bool(set(MEMORY).intersection(options.select))


def _accounted(trace: Trace, measures: Measures, options: ViewOptions) -> Bools | None:
    """Return which events count: by operator name, kind (``kernel``, ``host_op``) or device (``gpu:0``)."""
    if options.account_type_regexes == (".*",):
        return None
    named = np.array(
        [matches(text, options.account_type_regexes) for text in trace.strings.texts()] + [False]
    )
    kinds = np.zeros(256, bool)
    for kind in Kind:
        kinds[kind] = matches(kind.name.lower(), options.account_type_regexes)
    devices = distinct(trace.device)
    placed = np.array([matches(device_name(int(device)), options.account_type_regexes) for device in devices])
    keep = named[trace.name] | named[names_of(trace, owners(trace, measures))]
    return np.asarray(keep | kinds[trace.kind] | placed[np.searchsorted(devices, trace.device)])


def device_name(index: int) -> str:
    """Name a device as options do."""
    return f"gpu:{index}" if index >= 0 else "cpu:0"


def _columns(
    name: str, tree: Tree, order: Any, options: ViewOptions, measures: Measures
) -> list[AnswerColumn]:
    columns: list[AnswerColumn] = []
    whole = "step" if measures.marked else "wall"
    for key, head in (("step_ns", whole), ("device_ns", "device"), ("host_ns", "host")):
        shown = _selected(key, options) and (measures.part is None or key == "step_ns")
        if shown and key in tree.own and tree.own[key].any():
            columns += _times(
                name in FLAT and measures.part is None, tree, order, key, head, measures.windows
            )
    calls = tree.own["calls"][order] / measures.windows
    calls[calls == 0] = np.nan  # a scope or the root, which no event stands for
    columns.append(AnswerColumn("calls", "calls", calls, text.quantity))
    main = next((key for key in ("step_ns", "device_ns", "host_ns") if key in tree.spread), "")
    if main and measures.windows > 1:
        for index, head in enumerate(("min", "median", "max")):
            key = f"{main.removesuffix('_ns')}_{head}_ns"
            columns.append(AnswerColumn(key, head, tree.spread[main][order, index], text.time))
    columns += _rates(tree, order, measures)
    for key, head in (("bytes", "allocated"), ("peak_bytes", "at peak"), ("residual_bytes", "at end")):
        if key in tree.total and key in options.select:
            per = measures.windows if key == "bytes" else 1
            columns.append(AnswerColumn(key, head, tree.total[key][order] / per, text.size))
    return columns


def _selected(key: str, options: ViewOptions) -> bool:
    of_key = {"device_ns": "accelerator_micros", "host_ns": "cpu_micros"}
    wanted = {"micros", of_key.get(key, "micros")}
    times = {"micros", "accelerator_micros", "cpu_micros"}.intersection(options.select)
    return not times or bool(wanted.intersection(times))


def _times(flat: bool, tree: Tree, order: Any, key: str, head: str, windows: int) -> list[AnswerColumn]:
    own, total = tree.own[key], tree.total[key]
    stem = key.removesuffix("_ns")
    share = total / total[0] if total[0] else total
    if flat:
        columns = [AnswerColumn(f"{stem}_ns", head, total[order] / windows, text.time)]
    else:
        columns = [
            AnswerColumn(f"{stem}_total_ns", f"{head} total", total[order] / windows, text.time),
            AnswerColumn(f"{stem}_self_ns", f"{head} self", own[order] / windows, text.time),
        ]
    return [*columns, AnswerColumn(f"{stem}_ratio", "share", share[order], text.share)]


def _rates(tree: Tree, order: Any, measures: Measures) -> list[AnswerColumn]:
    columns: list[AnswerColumn] = []
    windows = measures.windows
    for key, head, amount_text, rate, rate_text in (
        ("flops", "FLOPs", text.flops, "flops_per_second", text.flop_rate),
        ("moved_bytes", "moved", text.size, "moved_bytes_per_second", text.byte_rate),
    ):
        if key not in tree.total:
            continue
        amount = np.where(tree.total[key] > 0, tree.total[key], np.nan)[order]
        spent = _seconds(tree, key)[order]
        with np.errstate(divide="ignore", invalid="ignore"):
            speed = np.where(spent > 0, amount / spent, np.nan)
        if key == "flops" and measures.flops_unknown:
            # Of what holds others, a part may not be counted, while all of the time is.
            speed = np.where(tree.total[key][order] == tree.own[key][order], speed, np.nan)
        columns += [
            AnswerColumn(key, head, amount / windows, amount_text),
            AnswerColumn(rate, "achieved", speed, rate_text),
        ]
    return columns


def _seconds(tree: Tree, key: str) -> Floats:
    """Time in which the amount was achieved: the device's if it worked for the node, else the host's."""
    if key == "moved_bytes":
        return tree.total["moved_bytes_ns"] / 1e9
    return np.where(tree.total["device_ns"] > 0, tree.total["device_ns"], tree.total["host_ns"]) / 1e9


_REDUNDANT = ("launch_arrows",)
"""Counted as dropped, although the columns say the same in another way."""


def losses(trace: Trace) -> Iterator[str]:
    """Yield the parts of the file that are not in the trace, and the importer's repairs."""
    yield from trace.notes
    for what, count in trace.dropped.items():
        if what not in _REDUNDANT:
            yield f"dropped or mended: {count:,} {what.replace('_', ' ')}"


def _flops_notes(trace: Trace, measures: Measures) -> list[str]:
    if measures.flops is None or not (measures.flops > 0).any():
        reason = trace.not_recorded.get("shapes", "no matrix product, convolution or attention with shapes")
        return [f"FLOPs not recorded, and not computable: {reason}"]
    if (trace.flops > 0).any():
        return []
    notes = [
        "FLOPs are those of matrix products, convolutions and attention, from the shapes of their inputs"
    ]
    if unknown := measures.flops_unknown:
        notes.append(
            f"FLOPs of sums are too low: those of {calls_of(unknown)} cannot be told from what was recorded"
        )
    return notes


def _notes(trace: Trace, measures: Measures, options: ViewOptions) -> list[str]:
    notes = list(losses(trace))
    outside = int((~measures.counted & (measures.device_ns + measures.host_ns > 0)).sum())
    if outside:
        spent = int((measures.device_ns + measures.host_ns)[~measures.counted].sum())
        what = f"{outside:,} event{'s' * (outside != 1)} outside the counted steps ({text.time(spent)})"
        notes.append(f"left out: {what}")
    if measures.overlaps and measures.stretches is not None and len(trace.lanes) > 1:
        notes.append(
            "nothing says which thread runs the steps: a time is how long at least one slice of the name was "
            "open on any thread, and shares of threads that overlap add up to more than 100 %"
        )
    if measures.waited_ns:
        per_step = text.time(measures.waited_ns / measures.windows)
        notes.append(f"left out: {per_step} in which threads that run no steps or operators waited")
    if _flops_asked(options):
        notes += _flops_notes(trace, measures)
    if "device" not in trace.recorded:
        notes.append(
            f"device time not recorded: {trace.not_recorded.get('device', 'no device work in the file')}"
        )
    if _memory_asked(options) and "memory" not in trace.recorded:
        notes.append(f"memory not recorded: {trace.not_recorded.get('memory', 'no allocations in the file')}")
    lacking = [name for name in ("params", "tensor_value", "output_bytes") if name in options.select]
    if lacking:
        notes.append(f"not recorded in a {trace.format} profile: {', '.join(lacking)}")
    words = [name for name in ("device", "op_types", "input_shapes") if name in options.select]
    if words:
        notes.append(f"shown for tfprof's own files only: {', '.join(words)}")
    return notes
