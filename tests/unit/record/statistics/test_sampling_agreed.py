"""Budgets of several processes: one store, one decision, whatever comes when."""

from __future__ import annotations

import threading

import pytest

import stepscope as ss
from stepscope.record.statistics.sampling import SharedBudget, stretch_for


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
