"""rank-divergence: one rank's loss or gradient norm differs from the others'."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf, isfinite

from stepscope.health.batch import StreamBatch
from stepscope.health.gate import AlarmGate
from stepscope.health.ring import median
from stepscope.health.rule import At, Rule, thresholds
from stepscope.health.series import Stream, without_rank
from stepscope.text import number

TOGETHER = 0.75
"""Share of the ranks that must have a step, on average over a block, for means to be compared."""


@dataclass
class _RankBlock:
    """The points of one rank in one block of steps; ``steps`` has a bit for each step."""

    steps: int = 0
    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    bad: int = 0
    first_step: int = 0


@dataclass
class _Job:
    """The ranks of one series.

    Attributes:
        blocks: By the number of the block of steps, the sums of each rank.
        newest: By rank, the number of the block that its newest point is in.
        first: Number of the first block in which ranks were compared.
        losing: Ranks that ever had a loss other than 0.
    """

    blocks: dict[int, dict[Stream, _RankBlock]] = field(default_factory=dict)
    newest: dict[Stream, int] = field(default_factory=dict)
    gates: dict[Stream, AlarmGate] = field(default_factory=dict)
    judged: int = -1
    first: int | None = None
    losing: set[Stream] = field(default_factory=set)


class RankDivergence(Rule):
    """Compares the means of the ranks over the same steps with the median rank, against their own noise.

    Formula: |mean of a rank - median of the ranks' means| > max(ratio * |median|, z standard errors) over
        a block of steps, two blocks in a row, not counting ranks that never had a loss other than 0; or a
        rank is not finite where most are
    Fires: within 150 steps, once the others have recorded them too
    Chance: below 1e-6 a block (6 standard errors, twice)
    Source: Megatron-LM's rerun machine and nvidia-resiliency-ext compare steps for this; over blocks:
        ours
    """

    id = "rank-divergence"
    title = "A rank diverges"
    severity = "high"
    fewest = "50 steps of 2 ranks"
    roles = ("rank_loss", "loss", "gradient_norm")
    defaults = thresholds(ratio=0.2, z=6, block=50, blocks=2)
    action = (
        "are the replicas' parameters still equal (compare checksums), do the ranks get different data, is a "
        "device faulty? Restart from a checkpoint without that host"
    )

    def __init__(self, limits: Mapping[str, float] | None = None) -> None:
        super().__init__(limits)
        self._jobs: dict[tuple[str, str], _Job] = {}
        self._ranks: set[int] = set()
        self._together = True

    def look(self, batch: StreamBatch) -> None:
        """Add up each rank's points; judge a block when every rank is past it."""
        chunks = [c for c in batch.of(self.roles) if c.stream.rank is not None and c.stream.split != "eval"]
        self._ranks.update(chunk.stream.rank for chunk in chunks if chunk.stream.rank is not None)
        for stream, step, value, wall in StreamBatch(chunks).points(self.roles):
            self._point(stream, step, value, wall)

    def _point(self, stream: Stream, step: int, value: float, wall: float) -> None:
        job = self._jobs.setdefault((stream.run, without_rank(stream.tag)), _Job())
        place = step // self.limit("block")
        block = job.blocks.setdefault(place, {}).setdefault(stream, _RankBlock(first_step=step))
        block.steps |= 1 << step % self.limit("block")
        if isfinite(value):
            block.count += 1
            block.total += value
            block.squares += value * value
        else:
            block.bad += 1
        if job.newest.get(stream, place - 1) < place:
            job.newest[stream] = place
        if len(job.newest) > 1:
            self._finish_blocks(job, min(job.newest.values()), At(stream, step, wall, step))
        elif len(job.blocks) > 1000:  # one rank alone: nothing to compare with
            job.blocks.pop(min(job.blocks))

    def _finish_blocks(self, job: _Job, until: int, at: At) -> None:
        for place in sorted(place for place in job.blocks if place < until):
            ranks = job.blocks.pop(place)
            if len(ranks) > 1 and place > job.judged:
                job.judged = place
                self._judge(job, place, ranks, at)

    def _judge(self, job: _Job, place: int, ranks: dict[Stream, _RankBlock], at: At) -> None:
        self._together = are_together(ranks)
        if self._together:
            self.judged()
        job.losing |= {stream for stream, block in ranks.items() if block.squares > 0}
        # Of a pipeline only the last stage has a loss; the others record 0.
        means = {
            stream: block.total / block.count
            for stream, block in ranks.items()
            if block.count and (stream in job.losing or not job.losing)
        }
        if job.first is None and len(means) > 1:
            job.first = place
        middle = median(list(means.values())) if means else 0.0
        others_finite = sum(not block.bad for block in ranks.values()) * 2 >= len(ranks)
        for stream, block in ranks.items():
            mean = means.get(stream, middle if block.count else inf)
            noise = error_of(block) if block.count else 0.0
            limit = max(self.limits["ratio"] * abs(middle), self.limits["z"] * noise)
            nonfinite = block.bad > 0 and others_finite
            far = abs(mean - middle) * (2 if len(means) == 2 else 1) > limit
            bad = nonfinite or (not block.bad and self._together and far)
            blocks = self.limit("blocks")
            gate = job.gates.setdefault(stream, AlarmGate(opens=blocks, closes=blocks))
            change = gate.see(bad, place)
            since = min(block.first_step, at.step)
            if change == "close":
                self.close(At(stream, at.step, at.wall, since))
            elif change == "open":
                others = "that of the other" if len(means) == 2 else "the median rank's"
                usual = 2 * middle - mean if len(means) == 2 else middle
                begins = ", from the first steps on" if gate.since == job.first else ""
                text = f"is {number(mean)} on average, {others} {number(usual)}{begins}"
                if block.bad:
                    text = f"is not finite in {block.bad} of its last steps; on the others it is"
                since = min(gate.since * self.limit("block"), since)
                values = {"mean": mean, "median": middle, "limit": limit, "nonfinite": block.bad}
                text = f"{without_rank(stream.tag)} of rank {stream.rank} {text}"
                self.open(At(stream, at.step, at.wall, since), text, values, since_step=since)

    @property
    def missing(self) -> str | None:
        """Ranks are needed."""
        if len(self._ranks) < 2:
            return "not recorded: the losses of several ranks"
        if not self._together:
            return "not judged: the ranks do not take the same steps: each runs on its own"
        return super().missing


def are_together(ranks: Mapping[Stream, _RankBlock]) -> bool:
    """Return whether the ranks take the same steps; workers of parameter servers divide the numbers."""
    union = 0
    for block in ranks.values():
        union |= block.steps
    held = sum(block.steps.bit_count() for block in ranks.values())
    return held >= TOGETHER * len(ranks) * union.bit_count()


def error_of(block: _RankBlock) -> float:
    """Return the standard error of the mean of a block."""
    mean = block.total / block.count
    variance = max(block.squares / block.count - mean * mean, 0.0)
    return (variance / block.count) ** 0.5 if isfinite(variance) else inf


ROWS = (RankDivergence,)
