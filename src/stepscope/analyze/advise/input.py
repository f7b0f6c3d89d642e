"""input-bound: the step waits for data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, gathered, graded
from stepscope.analyze.input import HIGH_RATIO, MODERATE_RATIO, RankInput, input_waits

RULE = "input-bound"


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the share of the steps in which a device waits for data or its copy with XProf's limits."""
    found = input_waits(facts.timeline)
    if not found.ranks:
        raise Abstain(found.missing or "no event of data loading")
    bound = [_evidence(rank) for rank in found.ranks if rank.ratio >= MODERATE_RATIO]
    if bound:
        places = gathered(bound, "input_ratio", of=len(found.ranks))
        ratio = places.worst["input_ratio"]
        yield Finding(
            RULE,
            graded(ratio, medium=MODERATE_RATIO, high=HIGH_RATIO),
            f"{places.label}{ratio:.0%} of the step is spent waiting for data",
            {**places.worst, **places.others},
            {"input_ratio": MODERATE_RATIO},
            "load in parallel and ahead: DataLoader(num_workers=…, pin_memory=True, prefetch_factor=…), "
            "tf.data prefetch and parallel map; move decoding out of the training process",
        )


def _evidence(rank: RankInput) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "input_ratio": rank.ratio,
        "loading_ratio": rank.loading_ratio,
        "waiting_ratio": rank.waiting_ratio,
        "copy_ratio": rank.copy_ratio,
        "slowest_step_ratio": rank.slowest_ratio,
        "median_loading_ns": rank.median_loading_ns,
        "steps": len(rank.steps),
        "loaders": list(rank.loaders[:3]),
    }
