"""A view of tfprof's own data: its numbers for the page and for JSON, and tfprof's own output as text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from stepscope import text
from stepscope.analyze.options import VIEWS, ViewOptions, near
from stepscope.analyze.tfprof.grow import DEFINED, METRICS, Grown, numbers, shown
from stepscope.analyze.views.answer import Answer, AnswerColumn
from stepscope.analyze.views.answer import view as view_of
from stepscope.analyze.views.choose import name_key
from stepscope.analyze.views.tree import Numbers
from stepscope.errors import UsageError
from stepscope.trace.model import Trace
from stepscope.trace.tfprof import Profile, ProfileNode, in_byte_order

_NAME_WIDTH = 25

_MEMORY = {
    "bytes": "requested bytes",
    "peak_bytes": "peak bytes",
    "residual_bytes": "residual bytes",
    "output_bytes": "output bytes",
}
TIMES = {
    "micros": "total execution time",
    "accelerator_micros": "accelerator execution time",
    "cpu_micros": "cpu execution time",
}
_STATIC = {"params": "# parameters", "float_ops": "# float_ops"}


def number(count: int) -> str:
    """Format a count: ``999``, ``1.00k``, ``1.00m``, ``1.00b``."""
    return _scaled(count, "", "k", "m", "b")


def micros(count: int) -> str:
    """Format microseconds; there is no unit above the second."""
    return _scaled(count, "us", "ms", "sec")


def memory(count: int) -> str:
    """Format bytes in powers of ten; there is no unit above the megabyte."""
    return _scaled(count, "B", "KB", "MB")


def _scaled(count: int, unit: str, *larger: str) -> str:
    power = next((power for power in range(len(larger)) if count < 1000 ** (power + 1)), len(larger))
    return f"{count / 1000**power:.2f}{larger[power - 1]}" if power else f"{count}{unit}"


_MISSING_STREAM = (
    "\n\nFound accelerator operation but misses accelerator stream stats!\n\n"
    "It's likely a gpu tracing issue rather than tf-profiler issue.\n"
    "If you found your operation missing accelerator time, "
    "consider to post to discuss@tensorflow.org!\n\n"
)

_ABOUT = {
    "scope": "scope: The nodes in the model graph are organized by their names, "
    "which is hierarchical like filesystem.",
    "code": "code: When python trace is available, the nodes are python lines and "
    "their are organized by the python call stack.",
    "op": "op: The nodes are operation kernel type, such as MatMul, Conv2D. "
    "Graph nodes belonging to the same type are aggregated together.",
}
_ABOUT["graph"] = _ABOUT["scope"]  # tfprof says so, wrongly

_TOTAL = "total execution time: Sum of accelerator execution time and cpu execution time."
_ACCELERATOR = (
    "accelerator execution time: Time spent executing on the accelerator. "
    "This is normally measured by the actual hardware library."
)
_CPU = (
    "cpu execution time: The time from the start to the end of the operation. "
    "It's the sum of actual cpu run time plus the time that it spends waiting "
    "if part of computation is launched asynchronously."
)
_MEANING = {
    "bytes": "requested bytes: The memory requested by the operation, accumulatively.",
    "micros": f"{_TOTAL}\n{_CPU}\n{_ACCELERATOR}",
    "params": "param: Number of parameters (in the Variable).",
    "float_ops": "flops: Number of float operations. "
    "Note: Please read the implementation for the math behind it.",
    "tensor_value": "tensor_value: Not supported now.",
    "device": "device: which device is placed on.",
    "op_types": "op_types: The attributes of the operation, "
    "includes the Kernel name device placed on and user-defined strings.",
    "occurrence": "occurrence: The number of times it occurs",
    "input_shapes": "input shape: The shape of input tensors",
    "accelerator_micros": _ACCELERATOR,
    "cpu_micros": _CPU,
    "peak_bytes": "peak bytes: The peak amount of memory that the operation is holding at some point.",
    "residual_bytes": "residual bytes: The memory not de-allocated after the operation finishes.",
    "output_bytes": "output bytes: The memory that is output from the operation "
    "(not necessarily allocated by the operation)",
}


_HEADS = {
    "micros": "time", "accelerator_micros": "accelerator", "cpu_micros": "cpu", "bytes": "requested",
    "peak_bytes": "peak", "residual_bytes": "residual", "output_bytes": "output", "params": "params",
    "float_ops": "FLOPs", "occurrence": "runs",
}  # fmt: skip
_WORDS = {"device": "devices", "op_types": "types", "input_shapes": "input shapes", "tensor_value": "value"}


@dataclass(frozen=True)
class TfprofReport(Answer):
    """The answer of a view of a tfprof source; the op view's root is not a line.

    Attributes:
        profile: The source of the numbers.
        grown: The graph nodes of the tree's nodes.
    """

    profile: Profile
    grown: Grown
    source: ClassVar[Literal["trace", "tfprof"]] = "tfprof"

    @property
    def text(self) -> str:
        """Exactly tfprof's output with ``-output file:outfile=…``."""
        warning = _MISSING_STREAM if self.profile.misses_accelerator_stream else ""
        meaning = "\n".join(_MEANING[column] for column in sorted(set(self.options.select)))
        head = f"{warning}\nDoc:\n{_ABOUT[self.view]}\n{meaning}\n\nProfile:\n"
        return head + "".join(_Printer(self).lines())

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON types: one row per line, numbers as they are."""
        rows = [
            {
                "name": line.name,
                "depth": line.depth,
                "accounted": self.accounted(at),
                "own": {name: int(self.own[name][line.node]) for name in METRICS},
                "total": {name: int(self.total[name][line.node]) for name in METRICS},
                "defined": int(self.total[DEFINED][line.node]),
                "devices": [device for device in self.devices(at) if device],
                "types": sorted(self.types(at)),
            }
            for at, line in enumerate(self.lines)
        ]
        return {"view": self.view, "source": "tfprof", "steps": self.profile.steps, "rows": rows}

    @property
    def own(self) -> dict[str, Numbers]:
        """The values of the tree's nodes themselves, by metric."""
        return self.tree.own

    @property
    def total(self) -> dict[str, Numbers]:
        """The same with all below them; in the op view with all later rows."""
        return self.tree.total

    @property
    def nodes(self) -> list[int]:
        """The tree's nodes of the lines."""
        return [line.node for line in self.lines]

    def counted(self, at: int) -> list[ProfileNode]:
        """Return the graph nodes that a line counts."""
        return self.grown.nodes[self.lines[at].node]

    def accounted(self, at: int) -> bool:
        """Return whether a line counts itself, rather than only passes on all that is below."""
        return bool(self.grown.accounted[self.lines[at].node])

    def devices(self, at: int) -> list[str]:
        """Return the devices of a line's nodes."""
        devices = {node.canonical_device for node in self.counted(at)}
        return sorted(devices - {""} if self.view in ("scope", "graph") else devices, key=name_key)

    def types(self, at: int) -> set[str]:
        """Return the types of a line's nodes."""
        return set().union(*(node.types for node in self.counted(at)))


def show(
    view: str,
    source: Profile | None,
    trace: Callable[[], Trace],
    options: ViewOptions,
    *,
    by_part: bool = False,
) -> Answer:
    """Show a view: as tfprof does of its own data, which has no kernel table, and of all others as ``view``.

    Args:
        view: Which one.
        source: tfprof's data, if the profile is that.
        trace: Returns the profile as a trace.
        options: tfprof's.
        by_part: As for ``view`` of ``stepscope.analyze.views``.
    """
    if source is not None and view in VIEWS:
        return profile(view, source, options)
    return view_of(view, trace(), options, by_part=by_part)


def profile(view: str, source: Profile, options: ViewOptions | None = None) -> TfprofReport:
    """Make a view of a tfprof source.

    Raises:
        UsageError: No such view, or a step that was not profiled.
        EmptyTraceError: The code view of a profile without stacks.
    """
    options = options or ViewOptions()
    if view not in VIEWS:
        raise UsageError(f"unknown view {view!r}: expected {', '.join(VIEWS)}", hint=near(view, list(VIEWS)))
    if options.step >= 0 and options.step not in source.steps:
        raise UsageError(
            f"step {options.step} was not profiled",
            hint=f"steps: {', '.join(map(str, source.steps)) or 'none'}",
        )
    grown, chosen = shown(view, source, options)
    one = options.step >= 0
    report = TfprofReport(
        view,
        options,
        1 if one else max(1, len(source.steps)),
        f"step {options.step}" if one else f"mean over the steps in which a node ran, of {len(source.steps)}",
        chosen.lines,
        [],
        ["tfprof's own profile, and its own numbers: a parent's peak is the sum of its children's peaks"],
        chosen.tree,
        source,
        grown,
    )
    return replace(report, columns=list(_columns(report)), words=_words(report))


def _columns(report: TfprofReport) -> Iterator[AnswerColumn]:
    """Yield total and own of each metric; in the op view own, and that and the running total as shares."""
    options, nodes = report.options, report.nodes
    wanted = {*options.select, *(TIMES if "micros" in options.select else ())}
    metrics = [metric for metric in _HEADS if metric in wanted]
    accounted = report.grown.accounted[nodes]
    for metric in metrics:
        key, head, scale = metric, _HEADS[metric], 1
        kind: Callable[[float], str] = text.quantity
        if metric in TIMES:
            key, kind, scale = f"{metric.removesuffix('micros') or 'total_'}ns", text.time, 1000
        elif metric.endswith("bytes"):
            kind = text.size
        elif metric == "float_ops":
            kind = text.flops
        own, total = report.own[metric][nodes] * scale, report.total[metric][nodes] * scale
        if report.view == "op":
            whole = report.total[metric][0] * scale
            yield AnswerColumn(key, head, own, kind)
            yield AnswerColumn(f"{metric}_running_ratio", "with later rows", _share(total, whole), text.share)
            yield AnswerColumn(f"{metric}_ratio", "share", _share(own, whole), text.share)
        else:
            yield AnswerColumn(key if metric in TIMES else f"{key}_all", f"{head} total", total, kind)
            yield AnswerColumn(f"{key}_self", f"{head} self", np.where(accounted, own, np.nan), kind)
    if report.view != "op" and metrics:
        total = report.total[metrics[0]]
        yield AnswerColumn(f"{metrics[0]}_ratio", "share", _share(total[nodes], total[0]), text.share)


def _share(values: Numbers, whole: int) -> Numbers:
    return values / whole if whole else np.full(len(values), np.nan)


def _words(report: TfprofReport) -> dict[str, list[str]]:
    """Return by head the selected columns of words."""
    words: dict[str, list[str]] = {}
    for column, head in _WORDS.items():
        if column not in report.options.select:
            continue
        cells = [""] * len(report.lines)
        for at in range(len(cells)):
            if column == "device":
                cells[at] = ", ".join(filter(None, report.devices(at)))
            elif column == "op_types":
                cells[at] = ", ".join(sorted(report.types(at)))
            elif column == "input_shapes" and report.view in ("scope", "graph"):
                shapes = report.profile.input_shapes(report.counted(at)[0]).items()
                cells[at] = ", ".join(f"{i}: {_shape(shape) or 'unknown'}" for i, shape in shapes)
        words[head] = cells
    return words


# --- tfprof's text ----------------------------------------------------------------------------------


class _Printer:
    def __init__(self, report: TfprofReport) -> None:
        self.report, self.view, self.selected = report, report.view, set(report.options.select)
        wanted = self.selected | (TIMES.keys() if "micros" in self.selected else set())
        self.static = [name for name in _STATIC if name in wanted]
        self.measured = [name for name in (*_MEMORY, *TIMES) if name in wanted]
        nodes = [0, *report.nodes]
        rows = {name: zip(report.own[name][nodes].tolist(), report.total[name][nodes].tolist(), strict=True)
                for name in (*METRICS, DEFINED)}  # fmt: skip
        # Per metric what a line has itself, and in all; the first is the root's.
        self.sums = {name: list(pairs) for name, pairs in rows.items()}

    def lines(self) -> Iterator[str]:
        yield f"node name | {' | '.join(self._heads())}\n"
        for at, line in enumerate(self.report.lines):
            if self.view == "op":
                padding = " " * (_NAME_WIDTH - len(line.name.encode("utf-8", "surrogateescape")))
                yield f"{line.name}{padding}{', '.join(self._shares(at))}\n{self._input_types(at)}"
            else:
                yield f"{' ' * 2 * line.depth}{line.name} ({', '.join(self._attributes(at))})\n"

    def _heads(self) -> list[str]:
        of_nodes = self.view in ("scope", "graph")
        heads = {**_MEMORY, **TIMES, **_STATIC}
        first = [self.static, self.measured] if of_nodes else [self.measured, self.static]
        words = {
            "device": "assigned devices",
            "op_types": "op types",
            "occurrence": f"op {'count' if of_nodes else 'occurrence'} (run|defined)",
            "input_shapes": "input shapes",
        }
        rest = [head for column, head in words.items() if column in self.selected]
        return [*(heads[name] for names in first for name in names), *rest]

    # --- scope, graph, code: name (own/total, …) ---

    def _attributes(self, at: int) -> list[str]:
        static = [
            f"{self._pair(at, name)} {'flops' if name == 'float_ops' else name}" for name in self.static
        ]
        measured = [self._pair(at, name) for name in self.measured]
        words = self._devices_and_types(at)
        if self.view == "code":
            missing = [name for name in ("occurrence", "input_shapes") if name in self.selected]
            return [*measured, *static, *words, *(f"{name} N/A in code view" for name in missing)]
        node = self.report.counted(at)[0]
        if "params" in self.selected and node.shape:
            static.insert(0, _shape(node.shape))
        if "occurrence" in self.selected:
            defined = number(self.sums[DEFINED][at + 1][1])
            words.append(f"{self._pair(at, 'occurrence')}|{self._own(at, '1')}/{defined}")
        if "input_shapes" in self.selected:
            shapes = self.report.profile.input_shapes(node)
            words.append("|".join(f"{index}:{_shape(shape) or 'unknown'}" for index, shape in shapes.items()))
        return [*static, *measured, *words]

    def _devices_and_types(self, at: int) -> list[str]:
        words = []
        devices = self.report.devices(at)
        if "device" in self.selected and (devices or self.view == "op"):
            words.append("|".join(devices))
        if "op_types" in self.selected:
            words.append("|".join(in_byte_order(self.report.types(at))))
        return words

    def _own(self, at: int, shown: str) -> str:
        return shown if self.report.accounted(at) else "--"

    def _pair(self, at: int, name: str) -> str:
        own, total = self.sums[name][at + 1]
        unit = memory if name in _MEMORY else micros if name in TIMES else number
        return f"{self._own(at, unit(own))}/{unit(total)}"

    # --- op: padded columns with shares ---

    def _shares(self, at: int) -> Iterator[str]:
        for name in (*self.measured, *self.static):
            own, total = self.sums[name][at + 1]
            whole = self.sums[name][0][1]
            known = whole and (own if name in _MEMORY else total) > 0
            running, share = (100.0 * total / whole, 100.0 * own / whole) if known else (0.0, 0.0)
            unit = memory if name in _MEMORY else micros if name in TIMES else number
            shown = f"{unit(own)} {name}" if name in _STATIC else unit(own)
            yield f"{shown} ({running:.2f}%, {share:.2f}%)".rjust(30)
        yield from self._devices_and_types(at)
        if "occurrence" in self.selected:
            runs = self._measured(at)["occurrence"].sum()
            yield f"{runs}|{len(self.report.counted(at))}".rjust(10)

    def _input_types(self, at: int) -> str:
        nodes = self.report.counted(at)
        if "input_shapes" not in self.selected or not nodes:
            return ""
        measured = self._measured(at)
        counted: dict[str, list[int]] = {}
        for node, runs, time in zip(
            nodes, measured["occurrence"].tolist(), measured["micros"].tolist(), strict=True
        ):
            shapes = self.report.profile.input_shapes(node).items()
            key = "input_type: " + ",\t".join(
                f"{index}:{_shape(shape) or 'unknown'}" for index, shape in shapes
            )
            sums = counted.setdefault(key, [0, 0, 0])
            for place, value in enumerate((1, runs, time)):
                sums[place] += value
        ordered = sorted(sorted(counted.items()), key=lambda item: -item[1][1])
        lines = "\n".join(
            f"{key}\t(run*{runs}|defined*{defined})\texec_time: {micros(time)}"
            for key, (defined, runs, time) in ordered
        )
        return f"\n{lines}\n\n"

    def _measured(self, at: int) -> dict[str, np.ndarray]:
        """Return the numbers of the nodes of a line, each node once."""
        profile = self.report.profile
        place = {name: number for number, name in enumerate(profile.nodes)}
        rows = numbers(profile, self.report.options.step)[[place[n.name] for n in self.report.counted(at)]]
        return dict(zip(METRICS, rows.T, strict=True))


def _shape(shape: list[int]) -> str:
    return "x".join(map(str, shape))
