"""Four ranks with gradients that are pending sums, and with one that is slow at measuring."""

import json
from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_ranks
from support.modules import load
from support.records import histograms, numbers

from stepscope.record.edges import counts, rows

JOB = Path(__file__).with_name("gradient_parts.py")
RANKS = 4
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    out = tmp_path_factory.mktemp("parts")
    run_ranks([JOB, out], RANKS)
    return out


def gradient(name, step):
    """Return the whole gradient: the sum over the ranks, or over the pairs that hold the same of it."""
    module = load(JOB)
    who = {"sum": range(4), "mean": range(4), "replicas": range(2)}.get(name)
    if who is None:  # shards: of each half, the ranks that hold it
        halves = [
            sum(module.part(name, rank, step).chunk(2)[half] for rank in (half, half + 2)) for half in (0, 1)
        ]
        return np.concatenate([each.numpy() for each in halves])
    whole = sum(module.part(name, rank, step) for rank in who)
    return (whole / 4 if name == "mean" else whole).numpy()


@pytest.mark.parametrize("name", ["sum", "mean", "replicas", "shards"])
def test_a_pending_sum_is_measured_as_what_it_comes_to(job, name):
    found, shapes = numbers(job / "pending"), histograms(job / "pending")
    steps = sorted(found[f"gradients/{name}/norm"])
    # The first is where it shows that the gradient is pending; then the ranks make room for it.
    assert steps[-1] == 5
    assert len(steps) >= 4
    for step in steps:
        whole = gradient(name, step).astype("f8")
        for statistic, expected in {
            "norm": np.linalg.norm(whole),
            "mean": whole.mean(),
            "min": whole.min(),
            "max": whole.max(),
            "zero_ratio": (whole == 0).mean(),
        }.items():
            assert found[f"gradients/{name}/{statistic}"][step] == pytest.approx(expected, rel=1e-6, abs=1e-9)
        np.testing.assert_array_equal(shapes[f"gradients/{name}/histogram", step], rows(counts(whole)))


def test_the_norm_is_that_of_all_pending_sums(job):
    names = ("sum", "mean", "replicas", "shards")
    found = numbers(job / "pending")
    for step in sorted(found["gradients/sum/norm"]):
        squares = sum((gradient(name, step).astype("f8") ** 2).sum() for name in names)
        assert found["gradients/norm"][step] == pytest.approx(np.sqrt(squares), rel=1e-6)


def test_the_slowest_ranks_cost_stretches_the_distances_of_all_alike(job):
    stretches = [json.loads((job / f"slow.{rank}.json").read_text()) for rank in range(RANKS)]
    assert stretches.count(stretches[0]) == RANKS
    assert max(factor for _, factor in stretches[0]) >= 4  # 50 ms a sample, some ms a step
    assert len(sorted(numbers(job / "slow")["gradients/weight/norm"])) < 120 / 2 / 2
