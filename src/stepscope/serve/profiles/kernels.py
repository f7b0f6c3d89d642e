"""The kernels of a profile as a table of the page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from stepscope.analyze.kernel_details import KernelDetail, KernelDetails, kernel_details
from stepscope.serve.encode import projection
from stepscope.serve.profiles.draw import related
from stepscope.serve.profiles.open_profiles import OpenProfile, Steps, command
from stepscope.serve.profiles.types import KernelAnswer, KernelRow
from stepscope.serve.reply import refusing
from stepscope.serve.routes import get
from stepscope.trace.model import Trace

MOST_ROWS = 5000


@get("profile/kernels")
def kernels(profile: OpenProfile, steps: Steps = "") -> KernelAnswer:
    """Return the work of a device by name, or the host's operators if no device was recorded.

    Raises:
        Refusal: No such steps, or nothing that worked.
    """
    with refusing():
        trace = profile.chosen(steps)
        details = profile.once(("kernels", steps), lambda: kernel_details(trace))
    return KernelAnswer(
        path=profile.path,
        on_device=details.on_device,
        rows=[row_of(profile, one) for one in details.rows[:MOST_ROWS]],
        total=len(details.rows),
        windows=details.windows,
        steps=[number for _, number in details.steps],
        left_out=details.left_out,
        step_mean_ns=details.total_ns / details.windows,
        peak=details.peak,
        not_recorded=list(lacking(trace, details)),
        notes=list(details.notes),
        command=command(
            "profile",
            "kernel" if details.on_device else "op",
            profile.path,
            "-order_by",
            "micros",
            "-max_depth",
            "10000",
            steps=steps,
        ),
    )


def row_of(profile: OpenProfile, one: KernelDetail) -> KernelRow:
    """Return one row."""
    longest = related(profile, one.longest_row)
    return projection(KernelRow, one, **asdict(one.launch), **asdict(one.rate), longest=longest)


def lacking(trace: Trace, details: KernelDetails) -> Iterator[str]:
    """Yield the columns that no row has, with the reason as far as the profile gives one."""
    rows = details.rows
    if not details.on_device:
        yield f"device: {trace.not_recorded.get('device', 'no work of a device in the file')}"
    elif all(row.launch.delay_median_ns is None for row in rows):
        yield f"launch delay: {trace.not_recorded.get('launches', 'which call launched what')}"
    if details.on_device and all(row.launch.occupancy_ratio is None for row in rows):
        yield f"occupancy: {trace.not_recorded.get('occupancy', 'not in the file')}"
    if all(row.rate.flops is None for row in rows):
        why = "no matrix product, convolution or attention whose shapes tell"
        yield f"FLOP/s: {trace.not_recorded.get('shapes', why)}"
