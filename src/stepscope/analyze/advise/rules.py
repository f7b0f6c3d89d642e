"""Every rule of advice on a profile: its check, its formula, and the source of its limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepscope.analyze.advise import (
    activities,
    between,
    blocking,
    busy,
    callbacks,
    communication,
    device,
    eager,
    expensive,
    hang,
    host,
    kernels,
    memory,
    steps,
    syncs,
    utilization,
)
from stepscope.analyze.advise.cause import Cause
from stepscope.analyze.advise.causes import CAUSES
from stepscope.analyze.advise.finding import Check, Facts, Finding


class Rule(NamedTuple):
    """One rule, as the reference of rules shows it.

    Attributes:
        check: None for a rule whose findings come from another rule's check.
        formula: The measured quantity, in Markdown.
        fires: From which value on, beyond a gain of 3 % of the step.
        source: Source of the formula and its limits.
        width: As of a :class:`~stepscope.analyze.advise.cause.Cause`, like the two that follow.
        idles: Whether it is a reason why an accelerator stands still.
        waits: Whether it looks at waits.
    """

    check: Check | None
    formula: str
    fires: str = ""
    source: str = "ours"
    width: int = 0
    idles: bool = False
    waits: bool = True


def rows(*causes: Cause) -> dict[str, Rule]:
    """Return rows by their ids; a rule of several rows asks each of them."""
    return {
        one.rule: Rule(
            _check([row for row in causes if row.rule == one.rule]),
            one.formula,
            one.fires,
            one.source,
            one.width,
            one.idles,
            one.waits,
        )
        for one in causes
    }


def _check(causes: list[Cause]) -> Check:
    def check(facts: Facts) -> Iterator[Finding]:
        for cause in causes:
            yield from cause.check(facts)

    return check


RULES: dict[str, Rule] = {
    "accelerator-utilization": Rule(
        utilization.check,
        formula=(
            "U(work of one device) inside the steps / step; on tfprof's own data, Σ accelerator time of the "
            "last step / its span. A symptom: if other findings explain half of the idle time, it becomes "
            "the start of their chain"
        ),
        fires="< 0.5 medium, ≤ 0.2 high",
        source="tfprof",
        width=5,
        waits=False,
    ),
    "operation": rows(device.LAYOUTS)["operation"]._replace(check=device.operation, waits=False),
    "expensive-operation": Rule(
        expensive.check,
        formula=(
            "the three operations that take most time: by operator, out of all device time, with "
            "collectives listed separately; without a device, by their share of the steps as `glance` and "
            "the views show it, on whichever thread. Wrappers and waits do not count. On tfprof's own data, "
            "its own report"
        ),
        fires="always, info",
        source="tfprof",
        waits=False,
    ),
    **rows(*(activity.cause for activity in activities.WHOLE)),
    **rows(blocking.BLOCKING),
    "busy-machine": Rule(
        busy.check,
        formula=(
            "how long T waited for a processor while no device worked, over the steps; known from sampled "
            "stacks on Linux (`/proc/…/schedstat`). Worth knowing, and no gain: the times of the host hold "
            "these waits"
        ),
        fires="≥ 0.2, info",
        waits=False,
    ),
    **rows(callbacks.CALLBACK),
    "between-steps": rows(between.BETWEEN)["between-steps"]._replace(check=between.check),
    **rows(communication.COMMUNICATION_BOUND),
    "slow-rank": Rule(
        communication.slow_rank,
        formula=(
            "with several ranks: Σ waiting in joint collectives, attributed to the rank that came last. The "
            "gain is a bound: the median of the other ranks' waits, with waits for several exchanges at "
            "once counted once. The line is the one in which the late rank spends most of that time"
        ),
        fires=(
            "0.5 + 0.6 / ranks of all waiting, and last more often than one of equal ranks may be by chance "
            "(binomial, 15 %)"
        ),
        source="HTA, [ranks](../guides/ranks.md)",
        idles=True,
    ),
    "hang": Rule(
        hang.check,
        formula=(
            "with the flight-recorder dumps of two or more ranks: the ranks at which all chains of waits "
            "end, with the reason and how certain it is; see [ranks](../guides/ranks.md)"
        ),
        fires="always, high",
        waits=False,
    ),
    **rows(host.HOST),
    **rows(syncs.SYNCS),
    **rows(kernels.SMALL),
    **rows(eager.EAGER),
    **rows(kernels.OPTIMIZER),
    **rows(device.PRECISION),
    "memory-near-limit": Rule(
        memory.check,
        formula=(
            "peak of the memory reserved by the allocator (or in use, if the reserved amount is unknown) / "
            "device memory; or a recorded out-of-memory error"
        ),
        fires="≥ 0.9 medium, ≥ 0.97 high",
        waits=False,
    ),
    **rows(device.PAGEABLE),
    "step-variation": Rule(
        steps.check,
        formula=(
            "longest step / median step - 1, and mean - median; over at least 3 steps after the first, in "
            "which the profiler starts; not counting the profiler's own time and what follows a step's last "
            "event. Names the activity, and the line, that account for 0.6 of the difference, and how many "
            "more steps are that much longer. If another finding is about this line, the two are one. "
            "Info if neither is known or T, without a device, waited for a processor for 0.2 of the steps"
        ),
        fires="≥ 0.25 and ≥ 0.03",
        width=4,
        waits=False,
    ),
    **rows(*CAUSES),
    "launch-bound": Rule(
        None,
        formula=(
            "a `host-bound` finding if launch calls are at least half of it. Copies do not count as "
            "launches, and a call that blocks because 64 or more pieces of work are queued is waiting for "
            "the device"
        ),
        source="XProf's kernel launch",
        width=host.WIDTH,
        idles=True,
    ),
    "python-overhead": Rule(
        None,
        formula=(
            "a `host-bound` finding if Python is at least half of it. Without an accelerator: the self time "
            "of frames on T, from 0.2 of the step, because recording stacks slows Python down; with sampled "
            "stacks, the time in which T runs outside operators, or within an operator that is a "
            "`torch.autograd.Function` in Python, from 0.1 if one line accounts for half of its samples. "
            "Both are relative to the part of the steps in which T does not wait for a processor. Info if "
            "less than half of what was sampled of it is in lines that run hardly any operator"
        ),
        width=host.WIDTH,
        idles=True,
    ),
}
"""Every rule by its id, in the order in which they are asked. The check of ``host-bound`` also finds
``launch-bound`` and ``python-overhead``."""
