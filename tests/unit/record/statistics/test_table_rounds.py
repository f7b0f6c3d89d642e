"""Rounds of several ranks, each with a thread, that exchange through memory."""

import itertools
import threading

import numpy as np
import pytest

from stepscope.record.statistics import table as formulas
from stepscope.record.statistics.table import COUNT, MAX_WAITING, Round, Rounds, StatisticsTable


class Meeting:
    """Where the ranks meet; one of another size breaks it, as it may break a real one."""

    def __init__(self, ranks):
        self.barrier = threading.Barrier(ranks, timeout=20)
        self.values = [None] * ranks

    def exchange(self, rank, values, combine):
        self.values[rank] = values.copy()
        self.barrier.wait()
        assert len({(each.shape, each.dtype) for each in self.values}) == 1
        found = combine(self.values)
        self.barrier.wait()
        values[:] = found


class Seat:
    def __init__(self, meeting, rank):
        self.meeting, self.rank, self.ranks = meeting, rank, len(meeting.values)

    def add(self, values):
        if values.size:
            self.meeting.exchange(self.rank, values, sum)

    def largest(self, values):
        self.meeting.exchange(self.rank, values, np.maximum.reduce)


def job(ranks=2, **options):
    meeting = Meeting(ranks)
    done = [[] for _ in range(ranks)]
    failed = [[] for _ in range(ranks)]
    made = [
        Rounds(
            done[rank].append,
            Seat(meeting, rank),
            failed=lambda *words, rank=rank: failed[rank].append(words),
            **options,
        )
        for rank in range(ranks)
    ]
    return made, done, failed


def round_of(step, values=(), *, full=True, **more):
    table = StatisticsTable(2, histograms=full)
    table.add(1, np.asarray(values, np.float32))
    return Round(step, table, full, **more)


def drain(made):
    assert [each.close(20) for each in made] == [True] * len(made)


def test_tables_of_all_ranks_are_added_up():
    values = np.random.default_rng(0).standard_normal(99).astype("f4")
    made, done, failed = job(3)
    for rank, each in enumerate(made):
        each.put(round_of(7, values[rank::3], loose=np.ones(1), cost_seconds=float(rank)))
    drain(made)
    whole = StatisticsTable(2, histograms=True)
    whole.add(1, values)
    for [found] in done:
        np.testing.assert_allclose(found.table.moments, whole.moments, rtol=1e-13)
        np.testing.assert_array_equal(found.table.counts, whole.counts)
        assert (found.loose[0], found.cost_seconds) == (3, 2)
    assert failed == [[], [], []]


def test_ranks_at_other_steps_are_found_out_and_get_back_in_line():
    made, done, failed = job(2)
    for step in (0, 1, 2, 3, 4):
        made[0].put(round_of(step, [step]))
    for step in (0, 2, 3, 4):  # this rank missed step 1
        made[1].put(round_of(step, [step]))
    drain(made)
    assert [[each.step for each in some] for some in done] == [[0, 3, 4], [0, 3, 4]]
    assert [len(some) for some in failed] == [1, 1]
    assert failed[0][0][0] == "ranks"
    assert "steps 1 and 2" in failed[0][0][1]


@pytest.mark.parametrize("other", [{"full": False}, {"shape": 5}])
def test_ranks_that_measure_in_other_ways_exchange_no_sums(other):
    made, done, failed = job(2)
    made[0].put(round_of(3, [1.0]))
    made[1].put(round_of(3, [1.0], **other))
    for each in made:
        each.put(round_of(4, [1.0]))
    drain(made)
    assert [[each.step for each in some] for some in done] == [[4], [4]]
    assert "step 3 in different ways" in failed[1][0][1]


def test_one_rank_wishes_for_a_new_layout_and_all_make_it():
    made, done, failed = job(2)
    for each in made:
        each._relayout = lambda each=each: setattr(each, "version", each.version + 1)
    made[0].put(round_of(0))
    made[1].put(round_of(0, relayout=True))
    for each in made:
        each.put(round_of(1))  # still of the old layout: left out everywhere
        each.put(round_of(2, version=1))
    drain(made)
    assert [[each.step for each in some] for some in done] == [[0, 2], [0, 2]]
    assert failed == [[], []]


def test_a_broken_exchange_ends_it_and_nothing_waits():
    made, done, failed = job(2)
    made[0]._exchange.meeting.barrier.abort()
    made[0].put(round_of(0))
    made[0].put(round_of(1))
    made[0].close(20)
    assert made[0].over
    assert made[0].full
    assert [words[0] for words in failed[0]] == ["statistics"]
    assert done[0] == []
    made[0].put(round_of(2, alone=True))  # what needs nobody goes on
    made[0].close(20)
    assert [each.step for each in done[0]] == [2]


def test_rounds_without_other_ranks_and_those_that_need_none():
    done, failed = [], []
    alone = Rounds(done.append, failed=lambda *words: failed.append(words))
    alone.put(round_of(0, [1.0]))
    alone.put(round_of(1, wait=lambda: 1 / 0))
    alone.put(round_of(2, [1.0]))
    assert alone.close(20)
    assert [each.step for each in done] == [0, 2]
    assert "ZeroDivisionError" in failed[0][1]
    assert not alone.over
    assert alone.idle
    made, done, _ = job(2)
    made[0].put(round_of(5, alone=True))
    assert made[0].close(20)
    assert [each.step for each in done[0]] == [5]


def test_so_many_may_wait():
    made, _, _ = job(2)
    for step in range(MAX_WAITING + 2):
        made[0].put(round_of(step))
    assert made[0].full
    assert not made[0].drain(0.01)
    made[0]._exchange.meeting.barrier.abort()
    made[0].close(20)


def test_formulas():
    table = StatisticsTable(3)
    table.add(0, np.array([1.0, 2, 3, 0]))
    table.add(1, np.array([np.nan, 1.0, np.inf]))
    found = formulas.finish(table.moments)
    assert {name: value[0] for name, value in found.items()} == pytest.approx(
        {
            "norm": 14**0.5,
            "mean": 1.5,
            "std": 1.25**0.5,
            "min": 0,
            "max": 3,
            "zero_ratio": 0.25,
            "nonfinite_count": 0,
        }
    )
    assert np.isnan(found["norm"][1])
    assert (found["min"][1], found["max"][1], found["nonfinite_count"][1]) == (1, np.inf, 2)
    assert all(np.isnan(value[2]) for value in found.values())
    assert table.moments[2, COUNT] == 0


def test_the_noise_scale_of_gradients_that_are_known():
    random = np.random.default_rng(0)
    truth, ranks, sigma = np.ones(50), 4, 2.0
    found = []
    for _ in range(2000):
        own = truth + sigma * random.standard_normal((ranks, 50))
        local, reduced = (own**2).sum(1).mean(), (own.mean(0) ** 2).sum()
        found.append(formulas.noise_scale(local, reduced, ranks))
    trace, squared = np.mean(found, 0)
    assert trace == pytest.approx(50 * sigma**2, rel=0.03)
    assert squared == pytest.approx(50, rel=0.03)


def gradient_in_torch(weights, sample):
    torch = pytest.importorskip("torch")
    known = torch.tensor(weights, requires_grad=True)
    (0.5 * (known - torch.tensor(sample)).square().sum()).backward()
    return known.grad.numpy()


def gradient_in_jax(weights, sample):
    jax = pytest.importorskip("jax")
    return np.asarray(
        jax.grad(lambda known: 0.5 * ((known - sample) ** 2).sum())(weights.astype("float32")), "f8"
    )


@pytest.mark.parametrize(
    ("gradient", "near"), [(gradient_in_torch, 1e-12), (gradient_in_jax, 1e-5)], ids=["torch", "jax"]
)
@pytest.mark.parametrize("ranks", [2, 3])
def test_the_noise_scale_of_a_quadratic_is_exact(gradient, near, ranks):
    """Over all draws of a small data set, S is the trace of its covariance and |G|^2 that of the mean.

    The loss of a sample x at w is |w - x|^2 / 2, so its gradient is w - x.
    """
    data = np.array([[1.0, 0.0, 2.0], [-1.0, 3.0, 0.5], [0.0, -2.0, 4.0], [5.0, 1.0, -1.5]])
    weights = np.array([0.5, -2.0, 1.0])
    own = [gradient(weights, sample) for sample in data]
    estimates = []
    for drawn in itertools.product(own, repeat=ranks):
        local = np.mean([np.square(each).sum() for each in drawn])
        estimates.append(formulas.noise_scale(local, np.square(np.mean(drawn, 0)).sum(), ranks))
    trace, squared = np.mean(estimates, 0)
    assert trace == pytest.approx(data.var(axis=0).sum(), rel=near)
    assert squared == pytest.approx(np.square(weights - data.mean(0)).sum(), rel=near)
