"""tfprof's three checkers: accelerator utilisation, operation, expensive operation."""

from __future__ import annotations

from collections.abc import Mapping

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.report import micros
from stepscope.analyze.tfprof.report import profile as ask
from stepscope.analyze.views.tree import Numbers
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
    report = ask("op", profile, ViewOptions(max_depth=3, min_micros=1, order_by="micros"))
    whole = report.total["micros"][0]
    return (
        "\n".join(
            f"top {rank} operation type: {line.name}, {_times(report.own, line.node)} "
            f"({100.0 * report.own['micros'][line.node] / (whole + 1e-10):.2f}%)"
            for rank, line in enumerate(report.lines[:_TOP], 1)
        )
        or None
    )


def _top_scopes(profile: Profile) -> str | None:
    report = ask("scope", profile, ViewOptions(max_depth=100, min_micros=100, order_by="micros"))
    top = [line for line in report.lines if line.depth == 1][:_TOP]
    # The scope's own times, although it was chosen by its total: so does tfprof.
    return (
        "\n".join(
            f"top {rank} graph node: {line.name}, {_times(report.own, line.node)}"
            for rank, line in enumerate(top, 1)
        )
        or None
    )


def _top_lines(profile: Profile) -> str | None:
    report = ask("code", profile, ViewOptions(max_depth=100, min_micros=1, order_by="micros"))
    below: list[list[int]] = [[] for _ in report.lines]
    above: list[int] = []
    for at, line in enumerate(report.lines):
        del above[line.depth :]
        if above:
            below[above[-1]].append(at)
        above.append(at)

    def lines(at: int, depth: int) -> list[str]:
        if len(below[at]) <= 1 or depth > _CODE_DEPTH:
            return []
        shown = []
        for child in below[at][:_TOP]:
            line = report.lines[child]
            if report.total["micros"][line.node] >= _CODE_LEAST_MICROS:
                times = _times(report.total, line.node)
                shown += [f"{' ' * 2 * depth}{line.name}, {times}", *lines(child, depth + 1)]
        return shown

    top = 0
    while len(below[top]) == 1:
        top = below[top][0]
    return "\n".join(lines(top, 0)) if below[top] else None


def _times(values: Mapping[str, Numbers], node: int) -> str:
    cpu, accelerator, total = (
        micros(int(values[metric][node])) for metric in ("cpu_micros", "accelerator_micros", "micros")
    )
    return f"cpu: {cpu}, accelerator: {accelerator}, total: {total}"
