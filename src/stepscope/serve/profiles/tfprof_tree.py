"""Views of tfprof's own profiles as tables of the page: the numbers that tfprof prints."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof import profile as ask
from stepscope.analyze.tfprof.columns import preorder
from stepscope.analyze.tfprof.report import TfprofReport
from stepscope.analyze.tfprof.stats import METRICS, ViewRow
from stepscope.errors import UsageError
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.types import TreeAnswer, TreeColumn, TreeRow, Unit
from stepscope.trace.tfprof import Profile as Source

HEADS = {
    "micros": "time", "accelerator_micros": "accelerator", "cpu_micros": "cpu", "bytes": "requested",
    "peak_bytes": "peak", "residual_bytes": "residual", "output_bytes": "output", "params": "params",
    "float_ops": "FLOPs", "occurrence": "runs",
}  # fmt: skip
TIMES = ("micros", "accelerator_micros", "cpu_micros")
ORDER = (*TIMES, "bytes", "peak_bytes", "residual_bytes", "output_bytes", "params", "float_ops", "occurrence")
WORDS = {"device": "devices", "op_types": "types", "input_shapes": "input shapes", "tensor_value": "value"}


def of_tfprof(profile: OpenProfile, name: str, options: ViewOptions, steps: str, command: str) -> TreeAnswer:
    """Return a view of a profile that is one of tfprof's own.

    Raises:
        UsageError: Several steps were chosen: tfprof knows one, or the mean of all.
        EmptyTraceError: The code view of a profile without stacks.
    """
    source = profile.tfprof
    assert source is not None
    if steps:
        if not steps.isdecimal():
            raise UsageError(f"steps {steps} of tfprof's own data", hint="choose one step, or all")
        from dataclasses import replace

        options = replace(options, step=int(steps))
        command = f"{command} -step {int(steps)}"
    report = ask(name, source, options)
    metrics = selected(options)
    columns, rows = list(columns_of(name, metrics)), list(rows_of(report, metrics, options, source))
    words = [WORDS[word] for word in WORDS if word in options.select]
    one = options.step >= 0
    return TreeAnswer(
        view=name,
        windows=1 if one else max(1, len(source.steps)),
        denominator=f"step {options.step}"
        if one
        else f"mean over the steps in which a node ran, of {len(source.steps)}",
        notes=[
            "tfprof's own profile, and its own numbers: a parent's peak is the sum of its children's peaks"
        ],
        columns=columns,
        rows=rows,
        command=command,
        source="tfprof",
        words=words,
    )


def selected(options: ViewOptions) -> list[str]:
    """Return the columns of numbers; ``micros`` is three times."""
    wanted = {*options.select, *(TIMES if "micros" in options.select else ())}
    return [metric for metric in ORDER if metric in wanted]


def columns_of(view: str, metrics: list[str]) -> Iterator[TreeColumn]:
    """Yield total and own of each; in the op view own, its share, and that of it and all later rows."""
    for metric in metrics:
        kind = unit(metric)
        key = (
            f"{metric.removesuffix('_micros') if metric != 'micros' else 'total'}_ns"
            if metric in TIMES
            else metric
        )
        head = HEADS[metric]
        if view == "op":
            yield TreeColumn(key, head, kind)
            yield TreeColumn(f"{metric}_running_ratio", "with later rows", "ratio")
            yield TreeColumn(f"{metric}_ratio", "share", "ratio")
        else:
            yield TreeColumn(f"{key}_all" if metric not in TIMES else key, f"{head} total", kind)
            yield TreeColumn(f"{key}_self", f"{head} self", kind)
    if view != "op" and metrics:
        yield TreeColumn(f"{metrics[0]}_ratio", "share", "ratio")


def unit(metric: str) -> Unit:
    """Return the unit of a metric on the page."""
    if metric in TIMES:
        return "ns"
    return "bytes" if metric.endswith("bytes") else "flop" if metric == "float_ops" else "count"


def rows_of(
    report: TfprofReport, metrics: list[str], options: ViewOptions, source: Source
) -> Iterator[TreeRow]:
    """Yield the lines of a view, in its order."""
    listed = report.view == "op"
    rows = [(row, 0) for row in report.root.children] if listed else _indented(report.root)
    for row, depth in rows:
        values: list[float | None] = []
        for metric in metrics:
            at, scale = METRICS.index(metric), 1000 if metric in TIMES else 1
            own = row.own[at] * scale if row.accounted or listed else None
            whole = report.root.total[at]
            if listed:
                values += [own, *(part / whole if whole else None for part in (row.total[at], row.own[at]))]
            else:
                values += [row.total[at] * scale, own]
        if not listed and metrics:
            at = METRICS.index(metrics[0])
            values.append(row.total[at] / report.root.total[at] if report.root.total[at] else None)
        yield TreeRow(row.name, depth, values, list(_words(row, options, source)))


def _indented(root: ViewRow) -> Iterator[tuple[ViewRow, int]]:
    return ((row, row.indent // 2) for row in preorder(root))


def _words(row: ViewRow, options: ViewOptions, source: Source) -> Iterator[str]:
    for word in WORDS:
        if word not in options.select:
            continue
        if word == "device":
            yield ", ".join(device for device in row.devices if device)
        elif word == "op_types":
            yield ", ".join(sorted(row.types))
        elif word == "input_shapes" and row.node is not None:
            shapes = source.input_shapes(row.node).items()
            yield ", ".join(f"{at}: {'x'.join(map(str, shape)) or 'unknown'}" for at, shape in shapes)
        else:
            yield ""
