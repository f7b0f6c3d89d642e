import threading
from itertools import pairwise

import pytest

import stepscope as ss
from stepscope.record.statistics.sampling import Sampling, SharedBudget, early, stretch_for


def due(sampling, steps):
    return [step for step in steps if sampling.due(step)]


def test_dense_early_then_sparse():
    found = due(Sampling(50), range(301))
    assert found[:10] == list(range(10))
    gaps = [b - a for a, b in pairwise(found[9:])]
    assert max(gaps) <= 50
    assert gaps[:6] == [1, 3, 3, 5, 7, 9]
    assert found[-3:] == [200, 250, 300]
    assert due(Sampling(50, dense_steps=0), range(151)) == [0, 50, 100, 150]
    assert due(Sampling(1), range(5)) == [0, 1, 2, 3, 4]
    assert early(1, 10) == [0]


def test_a_rank_that_missed_a_point_makes_its_sample_later_and_is_back_in_line():
    missed = [step for step in range(301) if step not in (100, 101)]
    assert due(Sampling(50, dense_steps=0), missed) == [0, 50, 102, 150, 200, 250, 300]


def test_numbers_that_begin_anew():
    sampling = Sampling(10, dense_steps=0)
    assert due(sampling, range(25)) == [0, 10, 20]
    assert due(sampling, range(12)) == [0, 10]


def test_a_probability_chooses_the_same_points_everywhere():
    points = due(Sampling(10, dense_steps=0, probability=0.3), range(10_000))
    assert points == due(Sampling(10, dense_steps=0, probability=0.3), range(10_000))
    assert 230 < len(points) < 370
    assert all(point % 10 == 0 for point in points)


def test_wanted_steps_come_beside():
    assert due(Sampling(10, dense_steps=0, wanted=lambda step: step in (3, 4)), range(11)) == [0, 3, 4, 10]


def test_stretching_begins_where_it_is_said():
    sampling = Sampling(10, dense_steps=0)
    sampling.stretch_from(31, 4)
    assert due(sampling, range(130)) == [0, 10, 20, 30, 40, 80, 120]
    sampling.stretch_from(131, 1)
    assert due(sampling, range(130, 160)) == [131, 140, 150]


def test_histograms_are_rarer_and_asking_ahead_marks_nothing():
    sampling = Sampling(5, histograms_every=20, dense_steps=0)
    assert sampling.ahead(5)
    assert [step for step in range(45) if sampling.due(step) and sampling.histogram_due(step)] == [0, 20, 40]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_turns_go_round(turns):
    sampling = Sampling(10)
    found = [sampling.turn(step, turns) for step in due(Sampling(10), range(100))]
    assert found[:13] == [number % turns for number in range(13)], "the dense points"
    assert found[-7:] == [(found[-7] + number) % turns for number in range(7)]


def test_the_stretch_keeps_the_share_of_the_time():
    assert stretch_for(0.05, 0.1, 50, 0.01) == 1
    assert stretch_for(0.2, 0.1, 50, 0.01) == 4
    assert stretch_for(0.0, 0.1, 50, 0.01) == stretch_for(1.0, 0.0, 50, 0.01) == 1
    for cost in (0.01, 0.3, 7.0):
        assert cost / (0.1 * 50 * stretch_for(cost, 0.1, 50, 0.01)) <= 0.01


@pytest.mark.parametrize("options", [{}, {"dense_steps": 0}, {"dense_steps": 3}])
def test_the_next_grid_point_is_the_first_step_with_a_point_of_its_own(options):
    sampling = Sampling(20, **options)
    sampling.stretch_from(200, 4)
    for step in (*range(180), *range(200, 400)):  # a change of the distance is known at its own step
        first = next(later for later in range(step + 1, 1000) if sampling.point(later) == later)
        assert sampling.next(step) == first, step


# Budgets of several processes: one store, one decision, whatever comes when.


class Words:
    """A store in memory."""

    def __init__(self):
        self.words = {}
        self.changed = threading.Condition()

    def of(self, rank):
        return Side(self, rank)


class Side:
    def __init__(self, all_words, rank):
        self.all, self.rank, self.works = all_words, rank, True

    def put(self, key, word):
        self.answer()
        with self.all.changed:
            self.all.words.setdefault(key, word)
            self.all.changed.notify_all()

    def get(self, key, timeout):
        self.answer()
        with self.all.changed:
            self.all.changed.wait_for(lambda: key in self.all.words, timeout)
            return self.all.words.get(key)

    def below(self, key):
        with self.all.changed:
            return [word for name, word in self.all.words.items() if name.startswith(key + "/")]

    def drop(self, key):
        with self.all.changed:
            self.all.words.pop(key, None)
            self.all.changed.notify_all()

    def answer(self):
        if not self.works:
            raise ConnectionError("gone")


@pytest.fixture
def made():
    budgets = []

    def make(store, **options):
        hook = ss.GradientHook(
            **{"every_n_steps": 2, "dense_steps": 0, "histograms_every": 0, "max_overhead": 0.1, **options}
        )
        sampling, told = hook.sampling(), []
        budget = SharedBudget(hook, sampling, store=store, failed=lambda *words: told.append(words))
        budgets.append(budget)
        return budget, sampling, told

    yield make
    for budget in budgets:
        budget.close()


def decided(words, number):
    """Wait until a decision is in the store."""
    with words.changed:
        assert words.changed.wait_for(lambda: f"factor/{number}" in words.words, 10)


def posted(words, number, ranks):
    with words.changed:
        keys = [f"cost/{number}/{rank}" for rank in range(ranks)]
        assert words.changed.wait_for(lambda: all(key in words.words for key in keys), 10)


def test_the_largest_cost_of_all_decides(made):
    words = Words()
    ranks = [made(words.of(rank)) for rank in range(3)]
    for rank, (budget, _, _) in enumerate(ranks):
        budget.spent(0, 0.05 * (rank == 1), 0.01)
    for step in range(100, 132):  # whatever the numbers
        for budget, _, _ in ranks:
            budget.asked(step)
        if step == 100 + 15:
            posted(words, 0, 3)
        if step == 100 + 23:
            decided(words, 0)
    expected = stretch_for(0.05, 0.01, 2, 0.1)
    assert expected > 1
    assert [sampling.stretch(131) for _, sampling, _ in ranks] == [expected] * 3
    assert [sampling.stretch(130) for _, sampling, _ in ranks] == [1] * 3
    assert {sampling._stretches[-1] for _, sampling, _ in ranks} == {(131, expected)}
    assert not any(told for _, _, told in ranks)


def test_who_comes_first_where_nothing_is_decided_has_nothing_changed_for_all(made):
    words = Words()
    late, fast = made(words.of(0)), made(words.of(1))
    late[0].spent(0, 1.0, 0.01)
    for step in range(32):
        fast[0].asked(step)  # the other has asked for no step yet
    assert words.words["factor/0"] == "1"
    for step in range(32):
        late[0].asked(step)
        if step == 15:
            posted(words, 0, 1)
    assert fast[1]._stretches == late[1]._stretches == [(-1, 1)]
    assert not late[2]
    assert not fast[2]


def test_costs_are_forgotten_and_decisions_go_on(made):
    words = Words()
    budget, sampling, _ = made(words.of(0))
    budget.spent(0, 0.05, 0.01)
    for step in range(160):
        budget.asked(step)
        if step == 23:
            decided(words, 0)
        if step == 30:
            budget.spent(0, 0.0, 0.01)
        if step == 127:  # the second holds 4 * 32 steps after the first, and is proposed a quarter before
            decided(words, 1)
    assert sampling._stretches == [(-1, 1), (31, 32), (159, 1)]
    with words.changed:
        assert words.changed.wait_for(lambda: "cost/0/0" not in words.words, 10)


def test_a_store_that_is_gone_ends_it_and_says_so(made, monkeypatch):
    monkeypatch.setattr("stepscope.record.statistics.sampling.WAIT_SECS", 0.2)
    monkeypatch.setattr("stepscope.record.statistics.sampling.LOOK_SECS", 0.02)
    store = Words().of(1)
    store.works = False
    budget, sampling, told = made(store)
    for step in range(100):
        budget.asked(step)
    assert sampling._stretches == [(-1, 1)]
    [(reason, words, hint, over)] = told
    assert (reason, over) == ("ranks", False)
    assert "no answer from the job's store" in words
    assert "coordinates the job" in hint


def test_a_store_that_answers_again_in_time_is_heard(made, monkeypatch):
    monkeypatch.setattr("stepscope.record.statistics.sampling.LOOK_SECS", 0.02)
    words = Words()
    words.words["factor/0"] = "8"
    store = words.of(1)
    store.works = False
    budget, sampling, told = made(store)
    for step in range(31):
        budget.asked(step)
    threading.Timer(0.1, setattr, (store, "works", True)).start()
    budget.asked(31)
    assert sampling.stretch(31) == 8
    assert not told


def test_without_a_bound_nothing_is_asked(made):
    words = Words()
    budget, _, _ = made(words.of(1), max_overhead=None)
    for step in range(100):
        budget.asked(step)
    assert words.words == {}
    assert not budget._threads
