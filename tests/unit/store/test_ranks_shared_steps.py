"""Workers that count their steps together, as with parameter servers: each one's own steps are compared."""

import heapq
import re

import numpy as np
import pytest

from stepscope.analyze.ranks.account import accounts_of, notes_of
from stepscope.health import Verdict
from stepscope.integrations.stepper import Stepper
from stepscope.job import load_ranks
from stepscope.record import Run
from stepscope.record.clock import Clock
from stepscope.serve.health import with_ranks
from stepscope.serve.job_report import verdict
from stepscope.serve.rank_frontier import frontier_answer
from stepscope.store import Log
from stepscope.store.ranks import Ranks, count_together

TOGETHER = "the ranks count their steps together"


def job(directory, seconds, steps, *, shared, seed=0, slower=None, pauses=None):
    """Record a worker for each duration of a step, which vary by 5 % either way.

    Args:
        directory: Of the run.
        seconds: Usual step of each worker.
        steps: Of all workers together.
        shared: Whether the workers count them together.
        seed: Of the variation.
        slower: A worker, the number of its own step from which it is slower, and its step then.
        pauses: A worker, every how many of its steps it pauses, and for how long.
    """
    now = [100.0] * len(seconds)
    random = np.random.default_rng(seed)
    clocks = [
        Clock(wall=lambda at=at: 1.7e9 + now[at], steady=lambda at=at: now[at], cpu=lambda: 0.0, pause=print)
        for at in range(len(seconds))
    ]
    runs = [Run(directory, rank=at, world_size=len(seconds), _clock=clock) for at, clock in enumerate(clocks)]
    steppers = [Stepper(run) for run in runs]
    queue = [(now[at] + each, at) for at, each in enumerate(seconds)]
    heapq.heapify(queue)
    count = [0] * len(seconds)
    for stepper in steppers:
        stepper.begin(0)
    for step in range(steps):
        end, at = heapq.heappop(queue)
        now[at], number = end, step if shared else count[at]
        count[at] += 1
        steppers[at].renumber(number)
        steppers[at].end()
        steppers[at].begin(number + 1)
        usual = seconds[at]
        if slower is not None and at == slower[0] and count[at] >= slower[1]:
            usual = slower[2]
        took = usual * random.uniform(0.95, 1.05)
        if pauses is not None and at == pauses[0] and count[at] % pauses[1] == 0:
            took += pauses[2]
        heapq.heappush(queue, (end + took, at))
    for stepper, run in zip(steppers, runs, strict=True):
        stepper.abandon()
        run.close()


def told(directory):
    table = Ranks(str(directory)).stages()
    return table, notes_of(accounts_of(table), table)


def test_a_worker_is_compared_by_its_own_steps(tmp_path):
    job(tmp_path, [0.054, 0.056, 0.055, 0.126], 1200, shared=True)
    table, notes = told(tmp_path)
    assert table.own_steps
    took = np.nanmedian(table.durations_s.sum(2), axis=0)
    np.testing.assert_allclose(took, [0.054, 0.056, 0.055, 0.126], rtol=0.02)
    assert any(note.startswith(TOGETHER) for note in notes)
    assert not any("left out" in note for note in notes)


SLOW = [0.054, 0.056, 0.055, 0.126]


def judged(directory):
    log = Log(directory.parent)
    log.refresh()
    (run,) = log.runs()
    return with_ranks(Verdict(), run, 1)


def test_the_slow_worker_is_named_first_with_its_figures_and_remedies_for_servers(tmp_path):
    job(tmp_path / "run", SLOW, 1200, shared=True)
    said = verdict(load_ranks(tmp_path / "run"))
    assert re.match(
        r"rank 3( on .+)? is slower than the other 3: 126\S* ms for a step of its own, where the others take "
        r"5\d\.\d+ ms, so the job makes 14 % fewer steps$",
        said,
    )
    (finding,) = judged(tmp_path / "run").findings
    assert (finding.rule, finding.rank, finding.severity) == ("slow-rank", 3, "medium")
    assert finding.summary == said
    assert "parameter servers" in finding.action
    assert "buckets" not in finding.action
    assert finding.values["step_ms"] == pytest.approx(126, rel=0.02)
    assert finding.values["others_ms"] == pytest.approx(55, rel=0.02)
    (group,) = frontier_answer(
        "run", Ranks(str(tmp_path / "run")), columns=20, attempt=None, begin=None, end=None
    ).groups
    assert (group.own_steps, group.slower.rank, group.slower.summary) == (True, 3, said)
    assert group.slower.action == finding.action
    assert group.onset is None
    assert group.blame == [], "no worker waits for another"
    data = load_ranks(tmp_path / "run").data()
    assert (data["blame"], data["what_if"], data["wait"]["total_ns"]) == ([], [], None)


def test_a_worker_is_named_from_where_it_became_slow(tmp_path):
    job(tmp_path, [0.05] * 4, 2400, shared=True, slower=(2, 300, 0.09))
    said = verdict(load_ranks(tmp_path))
    found = re.match(r"rank 2.* since step (\d+) of its own: \S+ ms", said)
    assert found, said
    assert int(found[1]) == pytest.approx(300, abs=5)


def test_two_slow_workers_are_named_together(tmp_path):
    job(tmp_path, [0.05, 0.05, 0.05, 0.1, 0.1], 1500, shared=True)
    said = verdict(load_ranks(tmp_path))
    assert re.match(r"ranks 3 and 4 are slower than the other 3: (99|10\d)\S* ms", said), said
    assert "for a step of their own" in said


@pytest.mark.parametrize("seed", range(3))
def test_workers_that_agree_are_said_to(tmp_path, seed):
    job(tmp_path / "run", [0.055] * 4, 800, shared=True, seed=seed)
    said = verdict(load_ranks(tmp_path / "run"))
    assert re.fullmatch(
        r"no rank is slower than the others by itself: each takes 5\S+ ms to 5\S+ ms for a step of its own",
        said,
    )
    found = judged(tmp_path / "run")
    assert found.findings == []
    assert found.passed == ["slow-rank"]
    assert {each.missing for each in found.abstained} == {
        "not judged: the ranks do not wait for each other in each step"
    }


def test_pauses_of_one_worker_do_not_make_its_steps_slow(tmp_path):
    """As a chief that saves every 50 steps: its usual step is as short as the others'."""
    job(tmp_path, [0.055] * 4, 1600, shared=True, pauses=(0, 50, 0.3))
    assert verdict(load_ranks(tmp_path)).startswith("no rank is slower than the others by itself")


def test_ranks_that_count_for_themselves_are_compared_step_by_step(tmp_path):
    job(tmp_path, [0.05, 0.1], 300, shared=False)
    table, notes = told(tmp_path)
    assert not table.own_steps
    assert not any(note.startswith(TOGETHER) for note in notes)


@pytest.mark.parametrize(
    ("parts", "together"),
    [
        ([range(100), range(100)], False),
        ([range(0, 100, 2), range(1, 100, 2)], True),
        ([range(0, 100, 2), [*range(1, 100, 2), *range(0, 20, 2)]], True),
        ([range(100), range(100, 200)], False),
        ([range(100)], False),
        ([range(0, 30, 2), range(1, 30, 2)], False),
        ([range(100), range(0, 100, 3)], False),
    ],
)
def test_when_steps_are_counted_together(parts, together):
    assert count_together([np.array(part) for part in parts]) == together
