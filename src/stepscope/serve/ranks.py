"""Answers to ``GET ranks`` and ``GET ranks/steps``: who the ranks of a run are, and a fact rank by step."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any, get_args

from msgspec import Meta

from stepscope.events.rank_file import unrecorded_text
from stepscope.lru import Lru
from stepscope.serve.encode import number, projection
from stepscope.serve.frame import FrameArrays, pack
from stepscope.serve.rank_types import (
    MAX_RANK_COLUMNS,
    RankedRun,
    RankedRuns,
    RankFact,
    RankFrontier,
    RankList,
    RankSteps,
    RankSummary,
    StageMeans,
)
from stepscope.serve.reply import run_of
from stepscope.serve.routes import LARGEST, get
from stepscope.store import Log
from stepscope.store.ranks import STAGE, VALUE, table_grid

if TYPE_CHECKING:
    from stepscope.store.ranks import FactGrid, Rank, Ranks

Run = Annotated[str, Meta(description="name of a run")]
Fact = Annotated[
    str,
    Meta(
        pattern=f"^({'|'.join(get_args(RankFact))}|{STAGE}.*|{VALUE}.*)$",
        description=f"one of {', '.join(get_args(RankFact))}, {STAGE} and the name of a stage, or {VALUE} "
        "and the tag of a series of which each rank keeps its own values",
    ),
]
Whole = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]
Columns = Annotated[int, Meta(ge=1, le=MAX_RANK_COLUMNS, description="columns over the steps")]
Attempt = Annotated[Whole | None, Meta(description="default: the newest")]
Begin = Annotated[Whole | None, Meta(description="first step; default: the first recorded one")]
End = Annotated[Whole | None, Meta(description="the step after the last; default: all recorded ones")]
OWN_WORK: RankFact = "own_work_s"
KEPT_RUNS = 2
"""Number of runs whose ranks' data stays in memory: some 25 bytes per step and rank."""


class RankAnswers:
    """Answers questions about ranks and holds the newest runs that were asked for. Safe for threads."""

    def __init__(self) -> None:
        self._runs: Lru[str, Ranks] = Lru(KEPT_RUNS)

    @get("ranks")
    def listing(
        self,
        log: Log | None,
        run: Annotated[
            str | None, Meta(description="name of a run; default: list the runs that have ranks")
        ] = None,
    ) -> RankList | RankedRuns:
        """Return the runs that have ranks, or with ``run`` its ranks.

        Raises:
            Refusal: No such run.
        """
        if run is None:
            return RankedRuns(runs_of(log))
        ranks = self.ranks(run, log)
        members = ranks.members()
        return RankList(
            run,
            ranks.size(),
            ranks.attempts(),
            [summary_of(rank) for rank in members],
            ranks.stalled_at(),
            ranks.values(),
            unrecorded_text(rank.facts for rank in members),
        )

    @get("ranks/steps", frame=RankSteps)
    def steps(
        self,
        log: Log | None,
        run: Run,
        fact: Fact = "step_time_s",
        columns: Columns = 600,
        attempt: Attempt = None,
        begin: Begin = None,
        end: End = None,
    ) -> bytes:
        """Return a fact rank by step as a frame.

        Raises:
            Refusal: No such run.
        """
        ranks = self.ranks(run, log)
        if fact == OWN_WORK:
            grid = work_grid(ranks, attempt, columns=columns, begin=begin, end=end)
        else:
            grid = ranks.grid(fact, attempt=attempt, columns=columns, begin=begin, end=end)
        arrays = FrameArrays()
        header = RankSteps(
            run=run,
            fact=fact,
            attempt=grid.attempt,
            labels=grid.labels,
            ranks=grid.ranks.tolist(),
            columns=len(grid.steps),
            end=grid.end,
            steps=arrays.add(grid.steps.astype("f8")),
            maximum=arrays.add(grid.maximum.ravel()),
            mean=arrays.add(grid.mean.ravel()),
            count=arrays.add(grid.count.ravel()),
            nonfinite=arrays.add(grid.nonfinite.ravel()),
        )
        return pack(header, arrays)

    @get("ranks/stages")
    def stages(self, log: Log | None, run: Run) -> StageMeans:
        """Return how long the stages of the newest steps took, of a training in one process.

        Raises:
            Refusal: No such run.
        """
        ranks = self.ranks(run, log)
        means, steps = ({}, 0) if ranks.several else ranks.newest_stages()
        return StageMeans(run, list(means), list(means.values()), steps)

    @get("ranks/frontier")
    def frontier(
        self,
        log: Log | None,
        run: Run,
        columns: Columns = 300,
        attempt: Attempt = None,
        begin: Begin = None,
        end: End = None,
    ) -> RankFrontier:
        """Return the time of a run's ranks, stage by stage.

        Raises:
            Refusal: No such run.
        """
        from stepscope.serve.rank_frontier import frontier_answer

        ranks = self.ranks(run, log)
        return frontier_answer(run, ranks, columns=columns, attempt=attempt, begin=begin, end=end)

    def ranks(self, run: str, log: Log | None) -> Ranks:
        """Return the ranks of a run, and release the rows of others.

        Raises:
            Refusal: No such run.
        """
        stored = run_of(log, run)[1].ranks
        for ranks in self._runs.put(run, stored):
            ranks.release()
        return stored


def work_grid(
    ranks: Ranks, attempt: int | None, *, columns: int, begin: int | None, end: int | None
) -> FactGrid:
    """Return how long each rank worked in each step, without waiting for others.

    All steps tell in which stage the ranks meet, also if some are asked for.
    """
    from stepscope.analyze.ranks.account import own_work

    table = ranks.stages(attempt=attempt)
    if table.own_steps:  # the table numbers steps by each rank's own order, and none waits for another
        grid = ranks.grid("step_time_s", attempt=attempt, columns=columns, begin=begin, end=end)
        return replace(grid, fact=OWN_WORK)
    return table_grid(table, OWN_WORK, own_work(table), columns=columns, begin=begin, end=end)


def runs_of(log: Log | None) -> list[RankedRun]:
    """Return the runs that have ranks."""
    runs = log.runs() if log is not None else []
    known = [(run.name, run.ranks) for run in runs]
    return [
        RankedRun(name, ranks.count(), ranks.size(), ranks.attempts())
        for name, ranks in known
        if ranks.several
    ]


def summary_of(rank: Rank) -> RankSummary:
    """Return one rank as the page shows it."""
    facts, digest = rank.facts, rank.digest
    devices = facts.get("devices")
    return projection(
        RankSummary,
        rank,
        **asdict(digest)
        | {
            "local_rank": of_type(facts.get("local_rank"), int),
            "node": of_type(facts.get("node"), int),
            "source": of_type(facts.get("source"), str),
            "devices": [str(device) for device in devices] if isinstance(devices, list) else [],
            "loss_tag": of_type(facts.get("loss"), str),
            "step": digest.last_step,
            "wall": digest.last_wall,
            "loss": None if digest.loss is None else number(digest.loss),
            "unreadable": rank.skipped,
            "unrecorded": of_type(facts.get("unrecorded"), int) or 0,
        },
    )


def of_type(value: Any, kind: type) -> Any:
    """Return a value that a file holds if it is of the type that it should be."""
    return value if isinstance(value, kind) and not isinstance(value, bool) else None
