"""What the telemetry of a run's ranks says of its health."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analyze.health.slow_rank import MOST_VALUES, TITLES, slow_ranks
from stepscope.analyze.ranks.account import accounts
from stepscope.errors import EmptyTraceError
from stepscope.health import SEVERITIES, Verdict

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepscope.store import StoredRun


def with_ranks(verdict: Verdict, run: StoredRun, number: int, *, off: Collection[str] = ()) -> Verdict:
    """Return a verdict with what the ranks' stages say, unchanged where there is one rank.

    Args:
        verdict: Of the other rules.
        run: The run.
        number: Of the attempt.
        off: Rules that are not wanted.
    """
    names = run.ranks.names().values()
    ranks = {name.rank for name in names if name.kind == "rank" and name.attempt == number}
    if len(ranks) < 2 or set(TITLES) <= set(off):
        return verdict
    ends = [run.ranks.steps(rank, attempt=number).step for rank in sorted(ranks)]
    last = max((int(steps.max()) for steps in ends if len(steps)), default=0)
    table = run.ranks.stages(attempt=number, begin=last + 1 - MOST_VALUES // len(ranks))
    try:
        found = accounts(
            table.durations_s, ranks=table.ranks, stages=table.stages, steps=table.steps, groups=table.groups
        )
    except EmptyTraceError:
        return verdict
    first = run.ranks.steps(table.ranks[0], attempt=number)
    walls = dict(zip(first.step.tolist(), np.asarray(first.wall).tolist(), strict=True))
    findings, abstained = slow_ranks(
        found, hosts=dict(zip(table.ranks, table.hosts, strict=True)), walls=walls
    )
    findings = [each for each in findings if each.rule not in off]
    told = {each.rule for each in findings} | {each.rule for each in abstained} | set(off)
    everything = sorted(
        [*verdict.findings, *findings], key=lambda each: (SEVERITIES.index(each.severity), not each.is_open)
    )
    return replace(
        verdict,
        findings=everything,
        abstained=[*verdict.abstained, *(each for each in abstained if each.rule not in off)],
        passed=[*verdict.passed, *(rule for rule in TITLES if rule not in told)],
    )
