"""Jobs with a planted cause, told from the telemetry of their ranks alone; healthy ones that are accused.

Each job has 4 to 64 ranks that exchange gradients at the end of ``backward``, heavy-tailed noise, and one
cause of random size and begin: a slow device (forward and backward), a slow loader, an optimizer that takes
longer, a loader that is held up on changing ranks, a slow link, or none. A slow link slows the exchange of
all ranks alike: it is told as all ranks being slower since a step, so it begins during the job. The peer is
the rank with the longest mean step, as a table of step times by rank has it.

``python benchmarks/ranks_seeded.py [FIRST_SEED]``: other seeds are jobs that no rule has been tried on.
"""

from __future__ import annotations

import sys
from collections import Counter

import numpy as np

from stepscope.analyze.health.slow_rank import SLOW, TOGETHER, WANDERING, slow_ranks
from stepscope.analyze.ranks.account import accounts

STAGES = ["data", "copy", "forward", "backward", "optimizer", "rest"]
TYPICAL_S = np.array([2.0, 1.0, 20.0, 40.0, 5.0, 1.0]) / 1e3
MEETS = STAGES.index("backward")
EXCHANGE_S = 0.006
CAUSES = ("device", "loader", "optimizer", "wandering", "link", "none")
JOBS = 40
"""Of each cause."""
HEALTHY = 200


def main() -> int:
    """Tell the causes of all jobs, and say how many were right."""
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
    ranks = range(taken.shape[1])
    found = accounts(taken, ranks=ranks, stages=STAGES, steps=np.arange(len(taken)))
    findings, _ = slow_ranks(found, hosts={}, walls={})
    if not findings:
        return "none", None
    first = findings[0]
    if first.rule in (WANDERING, TOGETHER):
        return {WANDERING: "wandering", TOGETHER: "link"}[first.rule], None
    assert first.rule == SLOW
    stage = first.summary.split(" up in ")[1].split()[0]
    return {"data": "loader", "optimizer": "optimizer"}.get(stage, "device"), first.rank


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
