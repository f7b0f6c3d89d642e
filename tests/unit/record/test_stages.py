"""Stages of steps: recorded by every rank, read back in order, and without a trace where nobody marks any."""

import threading

import numpy as np
import pytest
from support.clock import Time
from support.jobs import write_rank

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.events.framing import frame
from stepscope.events.messages import decode_event
from stepscope.events.telemetry import (
    ROWS,
    TIMED,
    Name,
    TelemetryRow,
    as_event,
    encoded,
)
from stepscope.kernels.steps import Stages, Steps
from stepscope.record.clock import Clock
from stepscope.record.problems import Problems
from stepscope.record.roles import Role
from stepscope.record.steps import STEP_TIME, Pause
from stepscope.record.telemetry import Telemetry
from stepscope.serve.ranks import runs_of
from stepscope.store import Log
from stepscope.store.ranks import Ranks


@pytest.fixture
def steps():
    clock = Time(100.0)
    made = Steps(0, clock)
    made.stages = Stages(clock)
    made.stages.keep = True
    return made, clock


def test_stages_sum_to_the_step(steps):
    counter, clock = steps
    number = counter.stages.number("rollout")
    counter.begin(99.0, 1.0)
    clock.now = 102.0
    counter.stages.mark(number)
    clock.now = 105.0
    counter.stages.mark(0)
    counter.end(106.0)
    assert counter.stages.take() == [(0, (3.0, 3.0))]
    assert counter.stages.take() == []


def test_the_rest_is_counted_by_the_stage_before_it(steps):
    counter, clock = steps
    forward, backward = counter.stages.number("forward"), counter.stages.number("backward")
    for _ in range(2):
        counter.begin(clock.now)
        for stage, seconds in ((0, 4.0), (forward, 1.0), (0, 2.0), (backward, 1.0), (0, 3.0)):
            counter.stages.mark(stage)
            clock.now += seconds
        counter.end(clock.now)
    assert counter.stages.rested_s == [8.0, 4.0, 6.0]


def test_between_steps_and_on_other_threads_nothing_is_marked(steps):
    counter, _ = steps
    number = counter.stages.number("rollout")
    counter.stages.mark(number)
    counter.begin(100.0)
    thread = threading.Thread(target=counter.stages.mark, args=(number,))
    thread.start()
    thread.join()
    counter.end(101.0)
    assert counter.stages.take() == [(0, (1.0, 0.0))]
    assert counter.stages.order == []


def test_a_step_that_is_dropped_leaves_no_stages(steps):
    counter, _ = steps
    counter.begin(100.0)
    counter.abandon()
    assert counter.stages.take() == []


def test_a_wait_for_data_within_the_step_is_no_stages_time(steps):
    counter, clock = steps
    counter.begin(100.0)
    clock.now = 103.0
    counter.waited = 2.0
    counter.end(104.0)
    assert counter.stages.take() == [(0, (2.0,))]


def test_more_stages_than_are_told_apart_count_to_the_rest(steps):
    counter, _ = steps
    assert [counter.stages.number(f"stage {at}") for at in range(20)] == [*range(1, 16), 0, 0, 0, 0, 0]


def test_a_stage_of_a_run_is_read_back(tmp_path):
    for rank in range(2):
        with ss.Run(tmp_path, rank=rank, world_size=2) as run:
            for _ in run.steps(range(3)):
                with run.stage("rollout"):
                    sum(range(10_000))
    table = Ranks(str(tmp_path)).stages()
    assert sorted(table.stages) == ["data", "rest", "rollout"]
    assert (table.ranks, table.steps.tolist()) == ([0, 1], [0, 1, 2])
    assert (table.durations_s > 0).all()
    grid = Ranks(str(tmp_path)).grid("stage/rollout")
    rollout = table.durations_s[:, :, table.stages.index("rollout")]
    np.testing.assert_allclose(grid.mean, rollout.T, rtol=1e-6)


@pytest.mark.parametrize("name", ["", "data", "rest", 3, None])
def test_names_that_no_stage_can_have(tmp_path, name):
    with ss.Run(tmp_path) as run:
        for mark in (run.stage, run.pause):
            with pytest.raises(UsageError, match="no stage can be called"):
                mark(name)


def measured(directory, loop, **options):
    """Return the recorded values of a loop of four steps of a second each, of which it makes more."""
    clock = Time(100.0)
    steady = Clock(wall=lambda: 1.7e9 + clock.now, steady=clock, cpu=lambda: 0.0, pause=lambda seconds: None)
    with ss.Run(directory, _clock=steady, **options) as run:
        for step in run.steps(range(4)):
            clock.now += 1.0
            loop(run, step, clock)
    with ss.open(directory, cache=False) as log:
        run = log.run(".")
        series = {tag: run.series(tag) for tag in run.tags() if tag.startswith("speed/")}
    return {
        tag: dict(zip(points.step.tolist(), points.value.tolist(), strict=True))
        for tag, points in series.items()
    }


def test_a_pause_is_no_part_of_the_step(tmp_path):
    def loop(run, step, clock):
        if step == 2:
            with run.pause("evaluation"):
                clock.now += 30.0
                with run.pause("checkpoint"), run.stage("rollout"):
                    clock.now += 4.0
                    thread = threading.Thread(target=elsewhere, args=(run, clock))
                    thread.start()
                    thread.join()

    def elsewhere(run, clock):
        with run.pause("evaluation"):
            clock.now += 1.0

    found = measured(tmp_path, loop)
    assert found["speed/step_time_ms"] == {0: 1000.0, 1: 1000.0, 2: 1000.0, 3: 1000.0}
    assert found["speed/time_in_evaluation_s"][2] in (1.0, 35.0)
    assert found["speed/time_in_checkpoint_s"] == {2: 5.0}


def test_a_pause_takes_nothing_off_a_step_that_began_within_it(steps):
    counter, clock = steps
    told = []
    counter.begin(99.0)
    with Pause(counter, "evaluation", told.append):
        clock.now = 130.0
        counter.abandon()
        counter.next = 0
        counter.begin(128.0, 1.0)
    counter.end(131.0)
    assert counter.last == (0, 3.0, 1.0)
    assert told == [30.0]


def test_other_ranks_see_a_pause_as_a_stage_of_the_step(tmp_path):
    def loop(run, step, clock):
        if step == 2:
            with run.pause("checkpoint"):
                clock.now += 3.0

    measured(tmp_path, loop, rank=0, world_size=2)
    table = Ranks(str(tmp_path)).stages()
    assert table.stages == ["data", "rest", "checkpoint"]
    np.testing.assert_allclose(table.durations_s[2, 0], [0.0, 1.0, 3.0], atol=1e-3)
    np.testing.assert_allclose(Ranks(str(tmp_path)).grid("step_time_s").mean[0], [1, 1, 4, 1], rtol=1e-5)


def test_a_pause_between_steps_is_recorded_and_taken_off_none(tmp_path):
    class Between(ss.Hook):
        def after_step(self, step):
            with self.run.pause("evaluation"):
                self.clock.now += 5.0

        def begin(self, run):
            self.run = run

    hook = Between()

    def loop(run, step, clock):
        hook.clock = clock

    found = measured(tmp_path, loop, hooks=[hook])
    assert set(found["speed/step_time_ms"].values()) == {1000.0}
    assert found["speed/time_in_evaluation_s"] == dict.fromkeys(range(4), 5.0)


def test_a_step_costs_at_most_40_bytes_with_four_stages():
    """As of a step of 10 ms, written once a second."""
    rows = [
        (step, TelemetryRow(1e9 + step, 0.01, 0.001, spent=(0.001, *[0.002] * 4), ended=True))
        for step in range(100)
    ]
    assert len(frame(encoded(ROWS, rows, (1e9, 1e9), 4))) / 100 <= 40


def test_a_step_that_its_device_has_timed_costs_at_most_40_bytes_with_four_stages():
    """As of a step of 10 ms, written once a second."""
    rows = [
        (
            step,
            TelemetryRow(
                1e9 + step, 0.01, 0.001, spent=(0.001, *[0.002] * 4), completed=(0.0, 0.0, *[0.002] * 4),
                ended=True,
            ),
        )
        for step in range(100)
    ]  # fmt: skip
    assert len(frame(encoded(TIMED, rows, (1e9, 1e9), 4))) / 100 <= 40


@pytest.mark.parametrize("ratio", [1e-3, 0.5, 1.0, 3.0, 2000.0])
def test_what_a_device_took_is_read_within_a_thousandth_whatever_the_host_took(tmp_path, ratio):
    device = ratio * np.array([0.001, 0.0005, 0.004, 0.0045])  # data, rest, two stages
    rows = [
        (
            step,
            TelemetryRow(
                1e9 + step, 0.01, 0.002, spent=(0.004, 0.002, 0.002), ended=True,
                completed=tuple(device.tolist()) if step >= 30 else (),
            ),
        )
        for step in range(100)
    ]  # fmt: skip
    facts = {"stages": ["forward", "backward"], "stage_order": [1, 2], "devices": ["a GPU"]}
    for rank in range(2):
        write_rank(tmp_path, rank, 2, rows[:10], (TIMED, rows[10:]), end=None, **facts)
    ranks = Ranks(str(tmp_path))
    table = ranks.stages()
    assert (table.clock, table.devices) == ("device", True)
    assert np.isnan(table.durations_s[:30]).all(), "what no device timed is not recorded"
    np.testing.assert_allclose(table.durations_s[30:, 0], [device[[0, 2, 3, 1]]] * 70, rtol=2e-3)
    early = ranks.stages(end=30)
    assert early.clock == "host"
    np.testing.assert_allclose(early.durations_s[:, 0], [[0.002, 0.002, 0.002, 0.004]] * 30, rtol=1e-3)
    np.testing.assert_allclose(ranks.grid("step_time_s", columns=100).mean, 0.01, rtol=1e-6)


def test_a_damaged_record_of_timed_steps_is_counted_and_the_others_are_read(tmp_path):
    (tmp_path / "ranks").mkdir()
    rows = [(step, TelemetryRow(1e9, 0.01, 0.001, spent=(0.0, 0.01), ended=True)) for step in range(3)]
    good = encoded(ROWS, rows, (1e9, 1e9), 1)
    bad = as_event(TIMED, decode_event(good).values[0].tensor.string_val[0])
    path = tmp_path / "ranks" / str(Name("rank", 0, 1, 1, 0, "node", 1, 0))
    path.write_bytes(frame(bad) + frame(good))
    ranks = Ranks(str(tmp_path))
    assert ranks.steps(0).step.tolist() == [0, 1, 2]
    assert ranks.members()[0].skipped == 1


def test_what_is_written_of_stages_is_read_within_a_thousandth(tmp_path):
    rows = [
        (step, TelemetryRow(1e9 + step, 0.01, 0.001, spent=(0.004, 0.002, 0.003), ended=True))
        for step in range(5)
    ]
    write_rank(tmp_path, 0, 1, rows, end=None, stages=["forward", "backward"], stage_order=[1, 2])
    table = Ranks(str(tmp_path)).stages()
    assert table.stages == ["data", "forward", "backward", "rest"]
    np.testing.assert_allclose(table.durations_s[:, 0], [[0.001, 0.002, 0.003, 0.004]] * 5, rtol=1e-3)


def test_the_only_process_records_its_stages_and_is_no_job(tmp_path):
    with ss.Run(tmp_path / "logs" / "a") as run:
        for _ in run.steps(range(3)):
            with run.stage("rollout"):
                run.scalar("loss", 1.0)
    ranks = Ranks(str(tmp_path / "logs" / "a"))
    table = ranks.stages()
    assert sorted(table.stages) == ["data", "rest", "rollout"]
    assert table.durations_s.shape == (3, 1, 3)
    assert not ranks.several
    assert not runs_of(Log(tmp_path / "logs"))


def test_a_process_without_steps_writes_no_file_of_stages(tmp_path):
    with ss.Run(tmp_path / "a") as run:
        for step in range(3):
            run.scalar("loss", 1.0, step)
    assert not (tmp_path / "a" / "ranks").exists()


@pytest.mark.parametrize("logs", [False, True])
@pytest.mark.parametrize("pause", [False, True])
def test_a_step_that_ends_after_the_numbers_were_taken_keeps_its_stages(steps, tmp_path, logs, pause):
    """The training thread goes on while the other one writes."""
    counter, clock = steps
    telemetry = Telemetry(str(tmp_path), Role(), 1, 1.7e9, counter, Problems())
    work = counter.stages.number("work")
    if pause:
        counter.stages.pauses.add(work)

    def take(tag, step, value):
        telemetry.take(tag, np.array([step]), np.array([value]), np.array([1.7e9 + step]))

    for step in range(3):
        counter.begin(clock.now)
        telemetry.look()
        if logs:
            take("loss", step, 0.5)
        counter.stages.mark(work)
        clock.now += 2.0
        counter.stages.mark(0)
        clock.now += 1.0
        counter.end(clock.now)
        assert telemetry.flush(float(step))
        take(STEP_TIME, step, 1000.0 if pause else 3000.0)
    assert telemetry.end("finished", None, 1.7e9, 9.0)
    telemetry.close()
    table = Ranks(str(tmp_path)).stages()
    assert table.stages == ["work", "rest"]
    assert table.durations_s[:, 0] == pytest.approx(np.array([[2.0, 1.0]] * 3), rel=1e-4)


def test_a_process_that_becomes_a_rank_keeps_no_file_of_the_only_one(tmp_path):
    telemetry = Telemetry(str(tmp_path), Role(), 1, 1.7e9, Steps(), Problems())
    telemetry.take(STEP_TIME, np.array([0]), np.array([5.0]), np.array([1.7e9]))
    assert telemetry.flush(0.0)
    telemetry.discard_file()
    telemetry.become(Role(rank=1, world_size=2, name="worker"))
    telemetry.take(STEP_TIME, np.array([1]), np.array([5.0]), np.array([1.7e9]))
    assert telemetry.flush(2.0)
    telemetry.close()
    assert [name.label for name in Ranks(str(tmp_path)).names().values()] == ["rank 1"]
