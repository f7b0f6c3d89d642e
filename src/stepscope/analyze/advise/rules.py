"""Every rule of advice on a profile. ``rules.md`` beside this file says what each of them measures."""

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
from stepscope.analyze.advise.finding import Abstain, Check, Facts, Finding
from stepscope.analyze.advise.values import VALUES


class Rule(NamedTuple):
    """One rule.

    Attributes:
        check: None for a rule whose findings come from another rule's check.
        width: As of a :class:`~stepscope.analyze.advise.cause.Cause`, like the two that follow.
        idles: Whether it is a reason why an accelerator stands still.
        waits: Whether it looks at waits.
    """

    check: Check | None
    width: int = 0
    idles: bool = False
    waits: bool = True


def rows(*causes: Cause) -> dict[str, Rule]:
    """Return rows by their ids; a rule of several rows asks each of them."""
    return {
        one.rule: Rule(
            _check([row for row in causes if row.rule == one.rule]), one.width, one.idles, one.waits
        )
        for one in causes
    }


def _check(causes: list[Cause]) -> Check:
    def check(facts: Facts) -> Iterator[Finding]:
        answers = [_answer(cause, facts) for cause in causes]
        missing = [one for one in answers if isinstance(one, Abstain)]
        # A rule can judge if one of its rows can.
        if len(missing) == len(answers):
            raise missing[0]
        for one in answers:
            if not isinstance(one, Abstain):
                yield from one

    return check


def _answer(cause: Cause, facts: Facts) -> list[Finding] | Abstain:
    try:
        return list(cause.check(facts))
    except Abstain as lacks:
        return lacks


RULES: dict[str, Rule] = {
    "accelerator-utilization": Rule(utilization.check, width=5, waits=False),
    "operation": rows(device.LAYOUTS)["operation"]._replace(check=device.operation, waits=False),
    "expensive-operation": Rule(expensive.check, waits=False),
    **rows(*(activity.cause for activity in activities.WHOLE)),
    **rows(blocking.BLOCKING),
    "busy-machine": Rule(busy.check, waits=False),
    **rows(callbacks.CALLBACK),
    "between-steps": rows(between.BETWEEN)["between-steps"]._replace(check=between.check),
    **rows(communication.COMMUNICATION_BOUND),
    "slow-rank": Rule(communication.slow_rank, idles=True),
    "hang": Rule(hang.check, waits=False),
    **rows(host.HOST),
    **rows(syncs.SYNCS),
    **rows(kernels.SMALL),
    **rows(eager.EAGER),
    **rows(kernels.OPTIMIZER),
    **rows(device.PRECISION),
    "memory-near-limit": Rule(memory.check, waits=False),
    **rows(device.PAGEABLE),
    "step-variation": Rule(steps.check, width=4, waits=False),
    **rows(*CAUSES, *VALUES),
    "launch-bound": Rule(None, width=host.WIDTH, idles=True),
    "python-overhead": Rule(None, width=host.WIDTH, idles=True),
}
"""Every rule by its id, in the order in which they are asked. The check of ``host-bound`` also finds
``launch-bound`` and ``python-overhead``."""
