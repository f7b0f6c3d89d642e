"""Jobs with a planted cause, told from the telemetry of their ranks alone; healthy ones that are accused.

Each job has 4 to 64 ranks that exchange gradients at the end of ``backward``, heavy-tailed noise, and one
cause of random size and begin: a slow device (forward and backward), a slow loader, an optimizer that takes
longer, a loader that is held up on changing ranks, a slow link, or none. A slow link slows the exchange of
all ranks alike: it is told as all ranks being slower since a step, so it begins during the job. The peer is
the rank with the longest mean step, as a table of step times by rank has it.

Other jobs have one rank that pauses every 10 to 200 steps, at least four times, in any stage before or after
the exchange. They are right if the first finding has this rank, its stage and period, and the cost within a
fifth. Beside them are jobs in which nobody is at fault: noise, garbage collection of all ranks at random or
in a rhythm of each rank's own, checkpoints and an evaluation of all ranks together. A pause within
``backward`` is none of these: all ranks end that stage together, so its lengths do not show who was late.

``python benchmarks/ranks_seeded.py [FIRST_SEED]``: other seeds are jobs that no rule has been tried on.
"""

from __future__ import annotations

import sys
from collections import Counter
from types import SimpleNamespace

import numpy as np

from stepscope.analyze.health.slow_rank import SLOW, TOGETHER, WANDERING, slow_ranks
from stepscope.analyze.ranks.account import accounts_of
from stepscope.health import Finding

STAGES = ["data", "copy", "forward", "backward", "optimizer", "rest"]
TYPICAL_S = np.array([2.0, 1.0, 20.0, 40.0, 5.0, 1.0]) / 1e3
MEETS = STAGES.index("backward")
EXCHANGE_S = 0.006
CAUSES = ("device", "loader", "optimizer", "wandering", "link", "none")
JOBS = 40
"""Of each cause."""
HEALTHY = 200
PAUSING = ("pause", "checkpoint", "short")
IN_PEACE = ("noise", "collector", "garbage", "saved together", "evaluation")
PAUSED_JOBS = 20
"""Of each kind of pauses, and of jobs beside them."""


def main() -> int:
    """Tell the causes of all jobs, and say how many were right."""
    return max(causes(), paused_jobs())


def paused_jobs() -> int:
    """Tell who pauses, and say how many were right and how many jobs were left in peace."""
    first = int(sys.argv[1]) if sys.argv[1:] else 0
    right: Counter[bool] = Counter()
    for number, kind in enumerate((*PAUSING, *IN_PEACE)):
        results = []
        for seed in range(first, first + PAUSED_JOBS):
            taken, truth = paused_job(kind, np.random.default_rng([100 + number, seed]))
            results.append(is_right(findings_of(taken), truth))
        right[kind in PAUSING] += sum(results)
        print(f"{kind:<14} right {sum(results):>3} of {PAUSED_JOBS:>3}")
    share = right[True] / len(PAUSING) / PAUSED_JOBS
    false = 1 - right[False] / len(IN_PEACE) / PAUSED_JOBS
    print(
        f"pauses of one rank right in {100 * share:.1f} % (bound 95 %), "
        f"false alarms in {100 * false:.1f} % of the jobs beside them (bound 2 %)"
    )
    return int(share < 0.95 or false > 0.02)


def causes() -> int:
    """Tell causes that last, and say how many were right."""
    right, peer, accused = Counter(), Counter(), 0
    first = int(sys.argv[1]) if sys.argv[1:] else 0
    for number, cause in enumerate(CAUSES):
        for seed in range(first, first + (JOBS if cause != "none" else HEALTHY)):
            taken, rank = job(cause, np.random.default_rng([number, seed]))
            told = verdict(taken)
            right[cause] += told == (cause, rank)
            accused += cause == "none" and told[0] != cause
            peer[cause] += cause not in ("wandering", "link", "none") and slowest(taken) == rank
    named = [cause for cause in CAUSES if cause != "none"]
    found, jobs = sum(right[cause] for cause in named), JOBS * len(named)
    for cause in CAUSES:
        beside = f", longest mean step: {peer[cause]}" if cause in named[:3] else ""
        count = JOBS if cause != "none" else HEALTHY
        print(f"{cause:<10} right {right[cause]:>3} of {count:>3}{beside}")
    share, false = found / jobs, accused / HEALTHY
    print(f"cause and rank first in {100 * share:.1f} % of {jobs} jobs (bound 95 %)")
    print(f"false alarms in {100 * false:.1f} % of {HEALTHY} healthy jobs (bound 2 %)")
    return int(share < 0.95 or false > 0.02)


def verdict(taken: np.ndarray) -> tuple[str, int | None]:
    """Return the cause that is told first, in the words of ``CAUSES``, and its rank."""
    findings = findings_of(taken)
    if not findings:
        return "none", None
    first = findings[0]
    if first.rule in (WANDERING, TOGETHER):
        return {WANDERING: "wandering", TOGETHER: "link"}[first.rule], None
    assert first.rule == SLOW
    stage = first.summary.split(" up in ")[1].split()[0]
    return {"data": "loader", "optimizer": "optimizer"}.get(stage, "device"), first.rank


def findings_of(taken: np.ndarray) -> list[Finding]:
    """Return what is told of a job."""
    table = SimpleNamespace(
        durations_s=taken, ranks=[*range(taken.shape[1])], stages=STAGES, steps=np.arange(len(taken)),
        groups={}, own_steps=False, lines={},
    )  # fmt: skip
    found = accounts_of(table)
    return slow_ranks(found, hosts={}, walls={})[0]


def is_right(findings: list[Finding], truth: dict[str, float] | None) -> bool:
    """Return whether the first finding is the planted one, or there is none where nothing was planted."""
    if truth is None or not findings:
        return truth is None and not findings
    first = findings[0]
    told = (
        first.rank,
        first.values.get("every_n_steps"),
        f" up in {STAGES[int(truth['stage'])]} " in first.summary,
    )
    cost = first.values["share"] / truth["share"]
    return told == (truth["rank"], truth["every"], True) and 0.8 < cost < 1.25


def paused_job(kind: str, random: np.random.Generator) -> tuple[np.ndarray, dict[str, float] | None]:
    """Return seconds by step, rank and stage, and what was planted; None if nobody is at fault."""
    ranks, steps = int(random.integers(2, 65)), int(random.integers(200, 2001))
    if kind == "checkpoint":
        steps = int(random.integers(400, 901))
    elif kind == "short":
        steps = int(random.integers(200, 301))
    noise = random.uniform(0.005, 0.05)
    own = TYPICAL_S * random.lognormal(0, noise, (steps, ranks, len(STAGES)))
    own += 0.01 * (random.random(own.shape) < 0.0005)  # a hiccup of the host, now and then
    truth = None
    if kind in PAUSING:
        every = 100 if kind == "checkpoint" else int(random.integers(10, min(200, steps // 5) + 1))
        stage = int(random.choice([at for at in range(len(STAGES)) if at != MEETS]))
        rank, worth = int(random.integers(ranks)), random.uniform(0.02, 0.3)
        at = np.arange(int(random.integers(1, every)), steps, every)
        pause = every * (TYPICAL_S.sum() + EXCHANGE_S) * worth / (1 - worth)
        pauses = pause * random.lognormal(0, 0.15, len(at))
        own[at, rank, stage] += pauses
    elif kind == "collector":
        every, begin = int(random.integers(20, 200)), random.integers(0, 200, ranks)
        pause = every * TYPICAL_S.sum() * random.uniform(0.002, 0.02) / ranks
        for rank in range(ranks):
            own[int(begin[rank]) :: every, rank, 2] += pause
    elif kind == "garbage":
        at = random.random((steps, ranks)) < random.uniform(0.2, 1.0) / 100 / ranks
        own[:, :, 2] += at * random.lognormal(-2.5, 0.3, (steps, ranks))
    elif kind == "saved together":
        own[:: int(random.integers(50, 200)), :, 4] += random.uniform(0.2, 2) * random.lognormal(
            0, 0.1, ranks
        )
    elif kind == "evaluation":
        own[int(random.integers(steps)), :, 5] += random.uniform(1, 20) * random.lognormal(0, 0.05, ranks)
    taken = together(own, np.full(steps, EXCHANGE_S))
    if kind in PAUSING:
        group = taken.sum(axis=2).max(axis=1).sum() if ranks else 0.0
        whole = float(np.sort(taken.sum(axis=2).sum(axis=0))[-1])
        truth = {
            "rank": rank,
            "stage": stage,
            "every": every,
            "share": float(pauses.sum()) / min(group, whole),
        }
    return taken, truth


def slowest(taken: np.ndarray) -> int:
    """Return the rank with the longest mean step."""
    return int(taken.sum(axis=2).mean(axis=0).argmax())


def job(cause: str, random: np.random.Generator) -> tuple[np.ndarray, int | None]:
    """Return seconds by step, rank and stage, and the rank at fault."""
    ranks, steps = int(random.choice([4, 8, 16, 32, 64])), int(random.integers(150, 600))
    noise = random.uniform(0.005, 0.03)
    own = TYPICAL_S * random.lognormal(0, noise, (steps, ranks, len(STAGES)))
    own += 0.01 * (random.random(own.shape) < 0.0005)  # a hiccup of the host, now and then
    begin = int(random.integers(0, steps // 2)) if random.random() < 0.7 else 0
    worth = TYPICAL_S.sum() * random.uniform(0.1, 0.5)
    rank: int | None = int(random.integers(ranks))
    if cause == "device":
        own[begin:, rank, 2:4] *= 1 + worth / TYPICAL_S[2:4].sum()
    elif cause in ("loader", "optimizer"):
        own[begin:, rank, STAGES.index("data" if cause == "loader" else cause)] += worth
    elif cause == "wandering":
        late = np.flatnonzero(random.random(steps) < random.uniform(0.1, 0.3))
        own[late, random.integers(0, ranks, len(late)), 0] += worth * 4
        rank = None
    else:
        rank = None
    exchange = np.full(steps, EXCHANGE_S)
    if cause == "link":
        exchange[max(begin, steps // 5) :] += worth
    return together(own, exchange), rank


def together(own: np.ndarray, exchange: np.ndarray) -> np.ndarray:
    """Let the ranks wait for the last of them in the exchange of each step."""
    taken, ready = own.copy(), np.zeros(own.shape[1])
    for step in range(len(own)):
        arrived = ready + own[step, :, : MEETS + 1].sum(axis=1)
        taken[step, :, MEETS] += arrived.max() - arrived + exchange[step]
        ready = own[step, :, MEETS + 1 :].sum(axis=1)
    return taken


if __name__ == "__main__":
    sys.exit(main())
