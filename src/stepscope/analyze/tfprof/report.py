"""A view as tfprof prints it: what the columns mean, their heads, and one line per row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepscope.analyze.options import ViewOptions, near
from stepscope.analyze.tfprof import columns
from stepscope.analyze.tfprof.code import code_view
from stepscope.analyze.tfprof.graph import graph_view
from stepscope.analyze.tfprof.op import op_view
from stepscope.analyze.tfprof.scope import scope_view
from stepscope.analyze.tfprof.stats import METRICS, ViewRow
from stepscope.errors import UsageError
from stepscope.trace.tfprof import Profile

VIEWS = {"scope": scope_view, "graph": graph_view, "op": op_view, "code": code_view}

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


@dataclass(frozen=True)
class TfprofReport:
    """A view of a tfprof source.

    Attributes:
        view: ``scope``, ``graph``, ``op`` or ``code``.
        options: The options of the view.
        root: The rows shown. The op view's root is not a row; its children are the list.
        profile: The source of the numbers.
    """

    view: str
    options: ViewOptions
    root: ViewRow
    profile: Profile

    @property
    def text(self) -> str:
        """Exactly what tfprof writes with ``-output file:outfile=…``."""
        warning = _MISSING_STREAM if self.profile.misses_accelerator_stream else ""
        selected = set(self.options.select)
        meaning = "\n".join(_MEANING[column] for column in sorted(selected))
        head = f"{warning}\nDoc:\n{_ABOUT[self.view]}\n{meaning}\n\nProfile:\n"
        return head + "".join(columns.lines(self.view, self.root, self.options, self.profile))


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
    return TfprofReport(view, options, VIEWS[view](source, options), source)


def as_dict(report: TfprofReport) -> dict[str, Any]:
    """Return a view as JSON types: one row per line, numbers as they are."""
    rows = []
    for row, depth in _with_depth(report):
        rows.append(
            {
                "name": row.name,
                "depth": depth,
                "accounted": row.accounted,
                "own": dict(zip(METRICS, row.own, strict=True)),
                "total": dict(zip(METRICS, row.total, strict=True)),
                "defined": row.defined,
                "devices": [device for device in row.devices if device],
                "types": sorted(row.types),
            }
        )
    return {"view": report.view, "source": "tfprof", "steps": report.profile.steps, "rows": rows}


def _with_depth(report: TfprofReport) -> list[tuple[ViewRow, int]]:
    if report.view == "op":
        return [(row, 0) for row in report.root.children]
    return [(row, row.indent // 2) for row in columns.preorder(report.root)]
