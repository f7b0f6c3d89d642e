"""Answer to ``GET ranks/frontier``: the answer of ``stepscope ranks`` for a run, and over time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from stepscope.analyze.health.slow_rank import slow_ranks
from stepscope.analyze.ranks.account import accounts_of, notes_of, onset, over_time
from stepscope.analyze.ranks.stuck import stuck_ranks
from stepscope.errors import EmptyTraceError
from stepscope.serve.encode import extended, projection
from stepscope.serve.rank_types import (
    FrontierBlame,
    FrontierGroup,
    FrontierOnset,
    FrontierSlower,
    FrontierStage,
    RankFrontier,
    StalledRank,
)
from stepscope.store.ranks import edges_between
from stepscope.trace.ranks import absent_ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from stepscope.analyze.ranks.account import Account, Onset
    from stepscope.store.ranks import Ranks, StageTable

MAX_BLAMED = 50
"""Ranks of a blame table; the rest lost less."""


def frontier_answer(
    run: str, ranks: Ranks, *, columns: int, attempt: int | None, begin: int | None, end: int | None
) -> RankFrontier:
    """Return the frontier of a run over a range of steps; unknown parts say why."""
    table = ranks.stages(attempt=attempt, begin=begin, end=end)
    size = ranks.size()
    edges = edges_between(table.steps, columns)
    refused: str | None = None
    accounts: tuple[Account, ...] = ()
    try:
        if len(table.ranks) < 2:
            raise EmptyTraceError(
                f"expected the telemetry of several ranks, found {len(table.ranks)}",
                hint="create the run in every process",
            )
        accounts = accounts_of(table)
    except EmptyTraceError as error:
        refused = error.message
    return RankFrontier(
        run=run,
        attempt=table.attempt,
        size=size,
        missing=absent_ranks(size or 0, table.ranks),
        stages=table.stages,
        steps=edges[:-1].tolist(),
        end=int(edges[-1]) if len(edges) else 0,
        groups=[_group(account, table, edges) for account in accounts],
        stuck=[projection(StalledRank, rank) for rank in stuck_ranks(ranks.stalled())],
        refused=refused,
        clock="device" if table.clock == "device" else "host",
        notes=[*(notes_of(accounts, table) if accounts else []), *ranks.notes()],
    )


def _group(account: Account, table: StageTable, edges: NDArray[np.int64]) -> FrontierGroup:
    frontier = account.frontier
    means, counts = over_time(account, edges)
    hosts = dict(zip(table.ranks, table.hosts, strict=True))
    began = onset(account)
    return FrontierGroup(
        group=account.group,
        ranks=list(frontier.ranks),
        steps=frontier.steps,
        group_s=frontier.group_s,
        meets=account.meets,
        apart=account.apart,
        noise_s=frontier.noise_s,
        counts=counts.tolist(),
        stages=[
            extended(
                FrontierStage,
                row,
                mean_s=[None if math.isnan(value) else value for value in means[at].tolist()],
            )
            for at, row in enumerate(frontier.stages)
        ],
        blame=_blame(account, began, hosts) if account.own is None else [],
        onset=None if began is None else extended(FrontierOnset, began, host=hosts.get(began.rank)),
        slower=_slower(account, hosts),
        own_steps=account.own is not None,
    )  # fmt: skip


def _blame(account: Account, began: Onset | None, hosts: dict[int, str | None]) -> list[FrontierBlame]:
    frontier = account.frontier
    first = 0 if began is None else int(np.searchsorted(account.steps, began.since))
    led_s, led = frontier.led_from(first)
    steps = frontier.steps - first
    lost, whole = led_s.sum(axis=0), frontier.led_s.sum(axis=0)
    total = float(lost.sum())
    pauses = None if frontier.pauses is None else frontier.pauses.rank
    rows = []
    for at in np.argsort(-lost, kind="stable")[:MAX_BLAMED].tolist():
        if lost[at] <= 0:
            break
        rank = frontier.ranks[at]
        stage = int(led_s[:, at].argmax())
        row = frontier.stages[stage]
        leads = row.leader == rank
        clear = any(stage.leader == rank and stage.label == "persistent" for stage in frontier.stages)
        rows.append(
            FrontierBlame(
                rank, hosts.get(rank), row.stage, float(lost[at]) / steps, float(lost[at]) / total,
                float(led[stage, at]), float(whole[at]) / frontier.steps, row.margin_s if leads else 0.0,
                "clear" if clear else "single steps" if rank == pauses else "cannot tell",
            )
        )  # fmt: skip
    return rows


def _slower(account: Account, hosts: dict[int, str | None]) -> FrontierSlower | None:
    if account.own is None:
        return None
    for finding in slow_ranks([account], hosts=hosts, walls={})[0]:
        if finding.rank is not None:
            return FrontierSlower(finding.rank, finding.summary, finding.action)
    return None
