"""Findings of a run's health from the telemetry of its ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from stepscope.analyze.health.slow_rank import MOST_VALUES, TITLES, slow_ranks
from stepscope.analyze.ranks.account import accounts_of
from stepscope.errors import EmptyTraceError
from stepscope.health import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection

    from stepscope.store import StoredRun


def ranks_of(run: StoredRun, number: int) -> list[int]:
    """Return the ranks that wrote in an attempt, empty if there is one."""
    names = run.ranks.names().values()
    found = sorted({name.rank for name in names if name.kind == "rank" and name.attempt == number})
    return found if len(found) > 1 else []


def with_ranks(verdict: Verdict, run: StoredRun, number: int, *, off: Collection[str] = ()) -> Verdict:
    """Return a verdict with what the ranks' stages say, unchanged where there is one rank.

    Args:
        verdict: Of the other rules.
        run: The run.
        number: Of the attempt.
        off: Rules that are switched off.
    """
    ranks = ranks_of(run, number)
    if not ranks or set(TITLES) <= set(off):
        return verdict
    ends = [run.ranks.steps(rank, attempt=number).step for rank in ranks]
    last = max((int(steps.max()) for steps in ends if len(steps)), default=0)
    table = run.ranks.stages(attempt=number, begin=last + 1 - MOST_VALUES // len(ranks))
    try:
        found = accounts_of(table)
    except EmptyTraceError:
        return verdict
    first = run.ranks.steps(table.ranks[0], attempt=number)
    judged = first.step >= table.steps[0]
    walls = dict(zip(first.step[judged].tolist(), first.wall[judged].tolist(), strict=True))
    findings, abstained = slow_ranks(
        found, hosts=dict(zip(table.ranks, table.hosts, strict=True)), walls=walls
    )
    findings = [each for each in findings if each.rule not in off]
    told = {each.rule for each in findings} | {each.rule for each in abstained} | set(off)
    return replace(
        verdict,
        findings=[*verdict.findings, *findings],
        abstained=[*verdict.abstained, *(each for each in abstained if each.rule not in off)],
        passed=[*verdict.passed, *(rule for rule in TITLES if rule not in told)],
    )
