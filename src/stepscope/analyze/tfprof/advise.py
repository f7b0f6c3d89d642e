"""tfprof's three checkers: accelerator utilisation, operation, expensive operation."""

from __future__ import annotations

from collections.abc import Sequence

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.code import code_view
from stepscope.analyze.tfprof.columns import micros
from stepscope.analyze.tfprof.op import op_view
from stepscope.analyze.tfprof.scope import scope_view
from stepscope.analyze.tfprof.stats import ACCELERATOR, CPU, MICROS, ViewRow
from stepscope.trace.tfprof import Profile, in_byte_order

UTILIZATION, OPERATION, EXPENSIVE = (
    "AcceleratorUtilizationChecker",
    "OperationChecker",
    "ExpensiveOperationChecker",
)

UNFUSED = "Maybe use faster FusedBatchNorm instead of BatchNorm"
CHANNELS_LAST = "Found operation using NHWC data_format on GPU. Maybe NCHW is faster."

_LOW_UTILIZATION = 0.5
_TOP = 3
_CODE_DEPTH = 3
_CODE_LEAST_MICROS = 1000


def advise(profile: Profile) -> dict[str, list[str]]:
    """Return the reports of each checker, in the order in which tfprof's answer holds them."""
    return {
        OPERATION: operation_reports(profile),
        EXPENSIVE: expensive_reports(profile),
        UTILIZATION: utilization_reports(profile),
    }


# --- accelerator utilisation --------------------------------------------------------------------------


def utilizations(profile: Profile) -> dict[str, float]:
    """Return per accelerator the share of the last step in which its nodes executed.

    The numerator is a sum, so streams that overlap can bring it above 1. Devices without any time are left
    out.
    """
    spans: dict[str, list[int]] = {}
    for node in profile.nodes.values():
        if not node.executions or "gpu" not in node.canonical_device:
            continue
        last = node.executions[max(node.executions)]
        span = spans.setdefault(node.canonical_device, [0, 0, 0])
        if span[0] == 0:
            span[0] = last.start_micros
        elif last.start_micros != 0:
            span[0] = min(span[0], last.start_micros)
        span[1] = max(span[1], last.end_micros)
        span[2] += last.accelerator_micros
    return {
        device: busy / (end - start)
        for device, (start, end, busy) in ((device, spans[device]) for device in in_byte_order(spans))
        if end > start
    }


def utilization_reports(profile: Profile) -> list[str]:
    """Report every accelerator; below one half its utilisation is called low."""
    return [
        f"device: {device} {'' if share >= _LOW_UTILIZATION else 'low '}utilization: {share:.2f}"
        for device, share in utilizations(profile).items()
    ]


# --- operation ----------------------------------------------------------------------------------------


def operation_reports(profile: Profile) -> list[str]:
    """Report a batch norm that is not fused, and a channels-last layout on an accelerator."""
    nodes = profile.nodes.values()
    reports = []
    if any("BatchNorm" in node.name for node in nodes) and not any(
        "FusedBatchNorm" in node.types for node in nodes
    ):
        reports.append(UNFUSED)
    if any(node.data_format == "NHWC" and "gpu" in node.canonical_device for node in nodes):
        reports.append(CHANNELS_LAST)
    return reports


# --- expensive operation ------------------------------------------------------------------------------


def expensive_reports(profile: Profile) -> list[str]:
    """Report the operation types, top scopes and Python lines that take most of the time."""
    reports = [_top_operations(profile)] if profile.steps else []
    reports.append(_top_scopes(profile))
    if profile.has_stacks:
        reports.append(_top_lines(profile))
    return [report for report in reports if report is not None]


def _top_operations(profile: Profile) -> str | None:
    root = op_view(profile, ViewOptions(max_depth=3, min_micros=1, order_by="micros"))
    if not root.children:
        return None
    return "\n".join(
        f"top {rank} operation type: {row.name}, {_times(row.own)} "
        f"({100.0 * row.own[MICROS] / (root.total[MICROS] + 1e-10):.2f}%)"
        for rank, row in enumerate(root.children[:_TOP], 1)
    )


def _top_scopes(profile: Profile) -> str | None:
    root = scope_view(profile, ViewOptions(max_depth=100, min_micros=100, order_by="micros"))
    if not root.children:
        return None
    # The scope's own times, although it was chosen by its total: so does tfprof.
    return "\n".join(
        f"top {rank} graph node: {row.name}, {_times(row.own)}"
        for rank, row in enumerate(root.children[:_TOP], 1)
    )


def _top_lines(profile: Profile) -> str | None:
    row = code_view(profile, ViewOptions(max_depth=100, min_micros=1, order_by="micros"))
    while len(row.children) == 1:
        row = row.children[0]
    return "\n".join(_lines(row, 0)) if row.children else None


def _lines(row: ViewRow, depth: int) -> list[str]:
    if len(row.children) <= 1 or depth > _CODE_DEPTH:
        return []
    lines = []
    for child in row.children[:_TOP]:
        if child.total[MICROS] >= _CODE_LEAST_MICROS:
            lines += [f"{' ' * 2 * depth}{child.name}, {_times(child.total)}", *_lines(child, depth + 1)]
    return lines


def _times(values: Sequence[int]) -> str:
    cpu, accelerator, total = (values[metric] for metric in (CPU, ACCELERATOR, MICROS))
    return f"cpu: {micros(cpu)}, accelerator: {micros(accelerator)}, total: {micros(total)}"
