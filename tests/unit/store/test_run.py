"""Series of a run: attempts, superseded points, states, what a run says about itself."""

import math
import os
import shutil
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import stepscope as ss
from stepscope import store
from stepscope.cli.ls import as_tree
from stepscope.errors import UnknownTagError, UsageError
from stepscope.events import Event, Metadata, Summary, Value
from stepscope.events.hparams import start_value
from stepscope.store.run import StoredRun, adopt, steps_per_second, time_left


def superseded(run, tag="loss"):
    return [(each.attempt, each.superseded_from) for each in run.columns(tag)]


def test_every_point_of_every_tag_is_there(make):
    file = make.line("a", "loss", range(5))
    make.points(file, "accuracy", [(3, 4, 0.5), (3, 4, 0.25), (1, 5, math.nan)])
    run = make.open().run("a")
    assert run.tags() == ["accuracy", "loss"]
    assert run.num_points() == 8
    frame = run.series("accuracy")
    assert {name: column.dtype for name, column in dict(frame).items()} == {
        "step": np.int64,
        "wall_time": np.float64,
        "value": np.float64,
        "writer": object,
        "attempt": np.int64,
    }
    assert [*zip(frame.step, frame.wall_time, frame.writer, frame.attempt, strict=True)] == [
        (3, make.START + 4, "host.1", 1),
        (3, make.START + 4, "host.1", 1),
        (1, make.START + 5, "host.1", 1),
    ]
    assert repr(frame["value"].tolist()) == "[0.5, 0.25, nan]"


def test_restarts_are_segments_and_nothing_is_erased(make):
    make.line("a", "loss", range(10))
    make.line("a", "loss", range(6, 12), wall=100)
    run = make.open().run("a")
    assert superseded(run) == [(1, 6), (2, None)]
    frame = run.series("loss")
    assert frame["step"].tolist() == [*range(10), *range(6, 12)]
    assert frame["attempt"].tolist() == [1] * 10 + [2] * 6


def test_the_earliest_later_attempt_counts(make):
    make.line("a", "loss", range(20))
    make.line("a", "loss", range(10, 20), wall=100)
    make.line("a", "loss", range(5, 8), wall=200)
    make.line("a", "loss", range(30, 40), wall=300)
    assert superseded(make.open().run("a")) == [(1, 5), (2, 5), (3, None), (4, None)]


def test_a_tag_that_was_not_recorded_again_is_not_superseded(make):
    first = make.line("a", "loss", range(10))
    make.points(first, "epoch_loss", [(0, 3, 1), (1, 6, 1)])  # steps of another unit
    make.line("a", "loss", range(6, 12), wall=100)
    assert superseded(make.open().run("a"), "epoch_loss") == [(1, None)]


def test_a_session_start_says_for_all_tags_where_it_goes_on(make):
    make.points(make.line("a", "loss", range(10)), "eval", [(4, 11, 1), (8, 12, 1)])
    second = make.file("a/events.out.tfevents.1700000100.host.2.0", wall=make.START + 100)
    make.session_start(second, 6, 101)
    make.points(second, "loss", [(7, 102, 1)])
    run = make.open().run("a")
    assert superseded(run) == [(1, 6), (2, None)]
    assert superseded(run, "eval") == [(1, 6)]


def test_an_attempt_that_took_several_files_is_recorded_again_from_one_step(make):
    for first, wall in ((0, 0), (10, 20)):
        file = make.line("a", "loss", range(first, first + 10), wall=wall)
        make.info(file, wall=wall, host="h", pid=1, started=5.0, attempt=1)
    make.line("a", "loss", range(15, 20), wall=100)
    run = make.open().run("a")
    assert superseded(run) == [(1, 15), (2, None)]
    assert run.columns("loss")[0].step.tolist() == [*range(20)]


def test_two_writers_of_a_tag_are_two_series(make):
    make.line("a", "loss", range(10), name="events.out.tfevents.1700000000.host.1.0")
    make.line("a", "loss", range(10), wall=0.5, name="events.out.tfevents.1700000000.host.2.0")
    run = make.open().run("a")
    assert [(each.writer, len(each), each.superseded_from) for each in run.columns("loss")] == [
        ("host.1", 10, None),
        ("host.2", 10, None),
    ]
    assert run.num_points() == 20


def test_a_tag_with_the_name_of_a_run_of_the_family_is_found_there(make):
    make.line("X", "accuracy", range(3))
    make.line("X/eval", "loss", range(4))
    make.line("X/test", "loss", range(5))
    run = make.open().run("X")
    assert [len(series) for series in run.find("eval/loss")] == [4]
    assert [len(series) for series in run.find("test/loss")] == [5]
    with pytest.raises(UnknownTagError, match="run 'X' has no tag 'other/loss'"):
        run.find("other/loss")


def test_a_search_for_a_tag_that_is_missing_looks_for_no_names_like_it(make, monkeypatch):
    make.line("X", "accuracy", range(3))
    make.line("X/eval", "loss", range(4))
    monkeypatch.setattr("stepscope.store.run.hint_nearest", lambda *_: pytest.fail("names were compared"))
    run = make.open().run("X")
    assert [len(series) for series in run.search("eval/loss")] == [4]
    assert [len(series) for series in run.own_columns("accuracy")] == [3]
    assert run.search("other/loss") == run.search("eval/los") == run.own_columns("loss") == []


def test_an_unknown_tag_names_its_neighbours(make):
    make.line("a", "train/loss", range(3))
    with pytest.raises(
        UnknownTagError, match=r"(?s)run 'a' has no tag 'train/los'.*hint: did you mean 'train/loss'"
    ):
        make.open().run("a").series("train/los")


def test_a_run_without_tags_says_so(make):
    make.file("a/events.out.tfevents.1.h")
    run = make.open().run("a")
    assert (run.tags(), run.num_points(), run.last_step, run.steps_per_second) == ([], 0, None, None)
    with pytest.raises(UnknownTagError, match="there is none yet"):
        run.columns("loss")


def test_relative_time_counts_from_the_run_it_belongs_to(make):
    make.line("a", "loss", range(3), wall=10)
    make.line("a/eval", "loss", range(3), wall=50)
    make.line("b", "loss", range(3), wall=70)
    log = make.open()
    starts = {run.name: run.columns("loss")[0].start_wall - make.START for run in log.runs()}
    assert starts == {"a": 10, "a/eval": 10, "b": 70}
    assert [(run.base, run.split) for run in log.runs()] == [("a", None), ("a", "eval"), ("b", None)]
    assert log.run("a/eval").columns("loss")[0].split == "eval"


def test_what_a_run_says_about_itself(make):
    file = make.line("a", "loss", range(3))
    make.info(file, status="running", config={"lr": 0.1}, tags=["good"], total_steps=100, version="9", rank=0)
    make.info(file, status="finished", config={"lr": 0.2}, tags=["good", 1], ended=5, problems={"device": 3})
    run = make.open().run("a")
    info = run.info
    assert (info.recorded, info.status, info.config, info.labels) == (
        True,
        "finished",
        {"lr": 0.2},
        ("good", "1"),
    )
    assert (info.total_steps, info.ended, info.rank) == (None, 5, None)
    assert run.condition() == ("finished", None)
    assert [(each.kind, each.count, each.text) for each in run.problems] == [
        ("unrecorded", 3, "3 points were not recorded: device")
    ]


def test_the_newest_attempt_of_the_lowest_rank_speaks(make):
    for attempt, wall in ((1, 0), (2, 100)):
        for rank in (1, 0):
            name = f"events.out.tfevents.{1_700_000_000 + wall}.host.{rank}.0"
            file = make.line("a", "loss", range(3), wall=wall + rank / 4, name=name)
            make.info(
                file, wall=wall + 1, rank=rank, attempt=attempt, status="failed", reason=f"{rank} {attempt}"
            )
    assert make.open().run("a").condition() == ("failed", "0 2")


@pytest.mark.parametrize("text", [b"no json", b"[1]", b"\xff"])
def test_a_record_that_is_none_is_left_aside(make, text):
    file = make.line("a", "loss", range(3))
    from stepscope.events import Tensor

    value = Value("stepscope/run", tensor=Tensor(7, string_val=[text]), metadata=Metadata.of("stepscope"))
    make.append(file, Event(make.START, 0, summary=Summary([value])))
    assert not make.open().run("a").info.recorded


def test_hyper_parameters_of_other_tools_are_the_config(make):
    file = make.line("a", "loss", range(3))
    value = start_value({"lr": 0.1, "name": "x", "deep": True}, start_time_secs=1.0)
    make.append(file, Event(make.START, 0, summary=Summary([value])))
    info = make.open().run("a").info
    assert (info.recorded, info.config) == (False, {"lr": 0.1, "name": "x", "deep": True})
    assert info.started == make.START


def with_hyper_parameters(make, path, **hparams):
    file = make.line(path, "hparam/accuracy", range(1))
    make.append(file, Event(make.START, 0, summary=Summary([start_value(hparams, start_time_secs=1.0)])))


def test_hyper_parameters_in_a_directory_named_by_the_time_speak_of_the_run_above(make):
    make.line("a", "loss", range(3))
    with_hyper_parameters(make, "a/1700000000.1234567", lr=0.1)
    assert {run.name: run.base for run in make.open().runs()} == {"a": "a", "a/1700000000.1234567": "a"}


def test_several_such_directories_are_trials_of_their_own(make):
    make.line("a", "loss", range(3))
    for stamp, rate in (("1700000000.1", 0.1), ("1700000009.2", 0.2)):
        with_hyper_parameters(make, f"a/{stamp}", lr=rate)
    log = make.open()
    assert all(run.base == run.name for run in log.runs())
    assert log.run("a/1700000009.2").info.config == {"lr": 0.2}


@pytest.mark.parametrize("last", ["trial", "1700000000", "b/trial"])
def test_settings_without_a_curve_are_those_of_the_run_above_whatever_their_name(make, last):
    make.line("a", "loss", range(3))
    with_hyper_parameters(make, f"a/{last}", lr=0.1)
    log = make.open()
    assert log.run(f"a/{last}").base == "a"
    assert log.run("a").info.config == {"lr": 0.1}


def test_a_curve_with_settings_is_a_run_of_its_own(make):
    make.line("a", "loss", range(3))
    file = make.line("a/trial", "loss", range(3))
    value = start_value({"lr": 0.1}, start_time_secs=1.0)
    make.append(file, Event(make.START, 0, summary=Summary([value])))
    log = make.open()
    assert log.run("a/trial").base == "a/trial"
    assert log.run("a").info.config == {}


def test_a_trial_of_torch_is_one_run_with_its_curves_and_settings(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    for trial, rate in enumerate((0.1, 0.01)):
        with tensorboard.SummaryWriter(tmp_path / f"t{trial}") as writer:
            for step in range(3):
                writer.add_scalar("loss", 1.0, step)
            for result in (0.5, 0.4):  # called twice, as after each evaluation
                writer.add_hparams({"lr": rate}, {"hparam/loss": result})
            writer.add_hparams({"lr": rate}, {"hparam/best": 0.3}, run_name="best")
    log = store.open(tmp_path, cache=False)
    assert {run.base for run in log.runs()} == {"t0", "t1"}
    assert [log.run(name).info.config for name in ("t0", "t1")] == [{"lr": 0.1}, {"lr": 0.01}]
    assert log.run("t0").find("hparam/best")[0].value.tolist() == [pytest.approx(0.3)]


def test_settings_that_arrive_later_join_the_run_above(make):
    make.line("a", "loss", range(3))
    file = make.line("a/trial", "hparam/accuracy", range(1))
    log = make.open()
    assert log.run("a/trial").base == "a/trial"
    value = start_value({"lr": 0.1}, start_time_secs=1.0)
    make.append(file, Event(make.START, 0, summary=Summary([value])))
    log.refresh()
    assert (log.run("a/trial").base, log.run("a").info.config) == ("a", {"lr": 0.1})


def test_the_placeholder_of_lightning_is_not_a_metric(make):
    file = make.line("a", "loss", range(3))
    make.points(file, "hp_metric", [(0, 0.0, -1.0)])
    log = make.open()
    assert (log.run("a").tags(), log.run("a").num_points()) == (["loss"], 3)
    make.points(file, "hp_metric", [(0, 5.0, 0.7), (9, 6.0, -1.0)])
    log.refresh()
    [series] = log.run("a").columns("hp_metric")
    assert series.value.tolist() == [pytest.approx(0.7), -1.0]


@pytest.mark.parametrize(
    ("tag", "step", "value"), [("hp_metric", 3, -1.0), ("hp_metric", 0, -2.0), ("x", 0, -1.0)]
)
def test_other_first_values_are_metrics(make, tag, step, value):
    make.points(make.line("a", "loss", range(3)), tag, [(step, 0.0, value)])
    assert make.open().run("a").columns(tag)[0].value.tolist() == [value]


def test_a_run_that_has_a_config_is_not_spoken_of_by_another(make):
    with_hyper_parameters(make, "a", lr=0.3)
    with_hyper_parameters(make, "a/1700000000.1", lr=0.1)
    assert make.open().run("a/1700000000.1").base == "a/1700000000.1"


def test_keras_writes_hyper_parameters_above_its_train_and_validation(make):
    file = make.file("a/events.out.tfevents.1.h")
    value = start_value({"units": 8}, start_time_secs=1.0)
    make.append(file, Event(make.START, 0, summary=Summary([value])))
    make.line("a/train", "epoch_loss", range(3))
    make.line("a/validation", "epoch_loss", range(3))
    log = make.open()
    assert {run.name: (run.base, run.split) for run in log.runs()} == {
        "a": ("a", None),
        "a/train": ("a", "train"),
        "a/validation": ("a", "eval"),
    }
    assert log.run("a").info.config == {"units": 8}


def test_other_tools_runs_end_when_they_fall_silent(make):
    now = make.dated(make.line("a", "loss", range(3)), 3)
    log = make.open()
    assert log.run("a").condition(now=now + 59) == ("running", None)
    assert log.run("a").condition(now=now + 61) == ("ended", None)


def test_a_run_whose_process_is_gone_has_stalled(make):
    file = make.line("a", "loss", range(3))
    make.info(file, status="running", host=socket.gethostname(), pid=2**22 - 1, started=make.START)
    now = make.dated(file, 3)
    run = make.open().run("a")
    assert run.condition(now=now + 2) == ("running", None)
    assert run.condition(now=now + 5) == ("stalled", "its process is gone, last write 5 s ago")
    assert run.condition(now=now + 600) == ("stalled", "its process is gone, last write 10 min ago")


def test_a_run_that_writes_on_is_running_though_its_process_is_not_seen(make):
    """As of a container that shares the name of the host."""
    file = make.line("a", "loss", range(3))
    make.info(file, status="running", host=socket.gethostname(), pid=2**22 - 1, started=make.START)
    written = make.dated(file, 3)
    log = make.open()
    assert log.run("a").condition(now=written + 5)[0] == "stalled"
    make.points(file, "loss", [(3, 4.0, 1)])
    make.dated(file, 11)
    log.refresh()
    assert log.run("a").condition(now=written + 20) == ("running", None)
    assert log.run("a").condition(now=written + 69)[0] == "stalled"


def test_a_run_on_another_host_that_fell_silent_has_stalled(make):
    file = make.line("a", "loss", range(3))
    make.info(file, status="running", host="elsewhere.example", pid=os.getpid())
    now = make.dated(file, 3)
    assert make.open().run("a").condition(now=now + 61) == ("stalled", "last write 61 s ago")


@pytest.mark.parametrize(
    ("facts", "state"),
    [({}, "ended"), ({"status": "running", "host": "elsewhere.example"}, "stalled")],
    ids=["another tool", "stepscope"],
)
def test_a_log_of_an_earlier_year_that_was_copied_now_is_not_running(make, facts, state):
    """As git clone, docker cp and downloads do: the copy has the date of copying."""
    file = make.line("a", "loss", range(3))
    if facts:
        make.info(file, **facts)
    now = make.dated(file, 365 * 86_400.0) + 5
    run = make.open().run("a")
    assert run.condition(now=now)[0] == state
    assert run.written == make.START + 3
    make.dated(file, 3 + 120)  # as TensorBoard's writer holds records back
    assert make.open().run("a").condition(now=make.START + 130)[0] == "running"


def test_a_file_without_a_record_is_as_old_as_its_date(make):
    file = make.root / "a" / "events.out.tfevents.1.h"
    file.parent.mkdir(parents=True)
    file.touch()
    now = make.dated(file, 0)
    assert make.open().run("a").condition(now=now + 59)[0] == "running"
    assert make.open().run("a").condition(now=now + 61)[0] == "ended"


def test_a_quiet_run_whose_process_lives_is_running(make):
    file = make.line("a", "loss", range(3))
    make.info(file, status="running", host=socket.gethostname(), pid=os.getpid(), started=time.time())
    now = file.stat().st_mtime
    assert make.open().run("a").condition(now=now + 600) == ("running", None)


def test_a_younger_process_with_the_same_number_is_another(make):
    file = make.line("a", "loss", range(3))
    make.info(file, status="running", host=socket.gethostname(), pid=os.getpid(), started=make.START)
    now = file.stat().st_mtime
    if store.info.process_began(os.getpid()) is None:
        pytest.skip("this system does not tell when a process began")
    assert make.open().run("a").condition(now=now + 600)[0] == "stalled"


def test_pace_and_time_left(make):
    file = make.file("a/events.out.tfevents.1700000000.host.1.0")
    make.points(file, "loss", [(10 * n, 5 * n + (100 if n > 50 else 0), 1) for n in range(100)])
    make.points(file, "rare", [(990, 600, 1)])
    make.info(
        file,
        status="running",
        total_steps=2001,
        host=socket.gethostname(),
        pid=os.getpid(),
        started=time.time(),
    )
    run = make.open().run("a")
    assert run.last_step == 990
    assert run.steps_per_second == 2.0  # the pause at step 510 is forgotten
    assert run.time_left.seconds > (2000 - 990) / 2  # but more will come


def test_a_finished_run_has_no_time_left(make):
    make.info(make.line("a", "loss", range(30)), status="finished", total_steps=100)
    assert make.open().run("a").time_left is None


def test_the_step_is_that_of_the_newest_attempt(make):
    make.line("a", "loss", range(100))
    make.line("a", "loss", range(10, 20), wall=200)
    assert make.open().run("a").last_step == 19


def test_a_recorded_rate_of_steps_counts_before_the_arrival_of_points(make):
    file = make.line("a", "loss", range(100))
    assert make.open().run("a").steps_per_second == 1.0
    make.points(
        file, "speed/steps_per_second", [(at, 100 + at, rate) for at, rate in enumerate((90, 100, 110))]
    )
    assert make.open().run("a").steps_per_second == 100.0


def test_the_training_part_stands_for_a_family_without_a_run_above(make):
    """As Keras writes it."""
    make.line("a/train", "epoch_loss", range(3))
    make.line("a/validation", "epoch_loss", range(3))
    make.line("b", "loss", range(3))
    make.line("b/eval", "loss", range(3))
    log = make.open()
    assert {run.name: run.whole.name for run in log.runs()} == {
        "a/train": "a/train", "a/validation": "a/train", "b": "b", "b/eval": "b",
    }  # fmt: skip
    assert [run.name for run in log.run("a/train").parts] == ["a/validation"]
    assert log.run("a/validation").parts == []


def test_curves_of_add_scalars_are_parts_of_one_run(tmp_path):
    with pytest.importorskip("torch.utils.tensorboard").SummaryWriter(tmp_path / "a") as writer:
        for step in range(3):
            writer.add_scalars("task/loss", {"train": 1.0, "val": 2.0, "other": 3.0}, step)
    log = store.open(tmp_path, cache=False)
    assert {run.name: (run.base, run.split) for run in log.runs() if run.tags()} == {
        "a/task_loss_train": ("a", "train"),
        "a/task_loss_val": ("a", "eval"),
        "a/task_loss_other": ("a/task_loss_other", None),
    }
    assert log.run("a/task_loss_train").whole.base == "a"


@pytest.mark.parametrize(
    ("step", "wall", "expected"),
    [
        ([0, 10, 20, 30], [0, 5, 10, 15], 2.0),
        ([0, 1, 2, 3, 4, 5, 6], [0, 1, 2, 5, 6, 7, 8], 1.0),
        ([0, 1, 2, 3, 4], [0, 1, 2, 103, 104], None),  # a pause, or two bursts
        ([0, 0, 1, 1, 2, 2], [0, 0.1, 1, 1.1, 2, 2.1], 1 / 0.9),
        ([5, 6, 2, 3], [0, 1, 2, 3], 1.0),
        ([0, 1, 2], [5, 5, 5], None),
        ([3, 3, 3], [0, 1, 2], None),
        ([3], [0], None),
        ([0, 1, 2], [0, np.nan, 2], 1.0),
    ],
)
def test_the_median_of_recent_steps(step, wall, expected):
    assert steps_per_second(np.array(step), np.array(wall, float)) == (expected and pytest.approx(expected))


@pytest.mark.parametrize("period_s", [5.0, 60.0, 0.5])
@pytest.mark.parametrize("bursts", [3, 20])
def test_points_that_are_logged_in_bursts_tell_the_rate_from_burst_to_burst(bursts, period_s):
    """500 steps at the end of each epoch, 0.24 microseconds apart: not 4,194,304 steps per second."""
    at = np.arange(500 * bursts)
    wall = 1e9 + (at // 500 + 1) * period_s + (at % 500) * 2.4e-7
    assert steps_per_second(at, wall) == pytest.approx(500 / period_s, rel=1e-3)


@pytest.mark.parametrize("bursts", [1, 2])
def test_too_few_bursts_tell_none(bursts):
    at = np.arange(500 * bursts)
    assert steps_per_second(at, 1e9 + (at // 500) * 5.0 + (at % 500) * 2.4e-7) is None


def test_a_fast_training_is_not_taken_for_a_burst():
    at = np.arange(5000)
    assert steps_per_second(at, 1e9 + at / 1000) == pytest.approx(1000, rel=1e-3)
    assert steps_per_second(at[:500], 1e9 + at[:500] / 1000) is None  # half a second


def test_only_recent_points_count():
    wall = np.concatenate([np.arange(1000) * 9.0, 9000 + np.arange(100) / 2])
    assert steps_per_second(np.arange(1100), wall) == 2


@pytest.mark.parametrize(
    ("step", "wall", "left", "expected"),
    [
        ([0, 10, 20, 30], [0, 5, 10, 15], 20, 10),
        ([0, 10, 20, 30], [0, 5, 10, 15], 0, 0),
        ([0, 1, 2, 3, 4], [0, 1, 2, 103, 104], 10, 510),  # the pause is half of what is known
        ([5, 6, 2, 3, 7], [0, 1, 2, 3, 4], 10, 30),  # an epoch's counter that starts over is left out
        ([3, 3, 3], [0, 1, 2], 10, None),
        ([], [], 10, None),
    ],
)
def test_time_left_by_the_newer_half(step, wall, left, expected):
    found = time_left(left, np.array(step), np.array(wall, float))
    assert (found and found.seconds) == (expected and pytest.approx(expected))


PAUSES = {
    "none": lambda step: np.zeros(len(step)),
    "evaluations": lambda step: np.where(step % 100 == 99, 3.0, 0.0),
    "evaluations and checkpoints": lambda step: np.where(step % 50 == 49, 1.0, 0) + (step % 200 == 199) * 4.0,
    "a slow beginning": lambda step: np.where(step < 20, 1.0, 0.0),
}


@pytest.mark.parametrize("every", [1, 10])
@pytest.mark.parametrize("name", PAUSES)
def test_time_left_holds_what_comes(name, every):
    step = np.arange(2000)
    end = np.cumsum(np.random.default_rng(1).gamma(4.0, 0.0025, len(step)) + PAUSES[name](step))
    right = []
    for now in range(400, 2000, 37):
        found = time_left(1999 - now, step[:now:every], end[:now:every])
        truth = end[-1] - end[now]
        assert found.seconds == pytest.approx(truth, rel=0.5, abs=6.0)
        right.append(found.between[0] <= truth + 0.1 and truth - 0.1 <= found.between[1])
    assert np.mean(right) >= 0.9


# Which run is the parent of which: as recorded, by path or by name, without circles.


def parents(recorded):
    """Return the parents of runs, given by name and recorded parent, that are found."""
    runs = {name: StoredRun(name) for name in recorded}
    for name, run in runs.items():
        if name.endswith("/eval"):
            run.base = name.removesuffix("/eval")
        source = SimpleNamespace(info=SimpleNamespace(parent=recorded[name]))
        run.files = SimpleNamespace(writers=[SimpleNamespace(every_source=[source])])
    adopt(runs)
    return {name: run.parent for name, run in runs.items() if run.parent is not None}


@pytest.mark.parametrize(
    ("recorded", "expected"),
    [
        ({"sweep": None, "sweep/1": "..", "t": "../sweep"}, {"sweep/1": "sweep", "t": "sweep"}),
        ({"a/job": None, "b/job": None, "b/child": "job"}, {"b/child": "b/job"}),
        ({"a/job": None, "b/job": None, "c/child": "job"}, {}),  # two fit as well
        ({"a/job": None, "c/child": "job"}, {"c/child": "a/job"}),
        ({"job": None, "c/child": "job", "c/child/eval": None}, {"c/child": "job", "c/child/eval": "job"}),
        ({"x/eval": None, "y": "x"}, {"y": "x"}),  # x has parts only
        ({"a": "../gone", "b": "gone", "c": "../../outside"}, {}),
        ({"a": "../a", "b": "b"}, {}),
        ({"a": "b", "b": "a", "c": "a"}, {"c": "a"}),  # a circle has no parent, what hangs on it has
        ({"a": "b", "b": "c", "c": "b"}, {"a": "b"}),
        ({"x/eval": "y", "y": "x"}, {}),
        ({".": None, "a": ".."}, {"a": "."}),
    ],
)
def test_whose_child_a_run_is(recorded, expected):
    assert parents(recorded) == expected


def test_a_run_a_path_or_a_name_is_recorded_and_listed_as_a_tree(tmp_path):
    logs = tmp_path / "logs"
    with ss.Run(logs / "sweep") as sweep:
        sweep.scalar("loss", 1.0, 0)
        for name, parent in (("b-run", sweep), ("c-path", str(logs / "sweep")), ("a-name", "b-run")):
            with ss.Run(logs / name, parent=parent) as run:
                run.scalar("loss", 1.0, 0)
    with pytest.raises(UsageError, match="its own parent"):
        ss.Run(logs / "sweep", parent=sweep)
    for wrong in ("", 3):
        with pytest.raises(UsageError, match="parent must be"):
            ss.Run(logs / "other", parent=wrong)
    shutil.move(logs, tmp_path / "moved")
    log = store.open(tmp_path / "moved")
    tree = [(depth, run.name) for depth, run in as_tree(log.runs())]
    assert tree == [(0, "sweep"), (1, "b-run"), (2, "a-name"), (1, "c-path")]
    shutil.rmtree(Path(tmp_path / "moved" / "b-run"))
    log.refresh()
    assert [(depth, run.name) for depth, run in as_tree(log.runs())] == [
        (0, "a-name"), (0, "sweep"), (1, "c-path"),
    ]  # fmt: skip


def test_three_thousand_runs_take_no_time():
    recorded = {f"sweep/{number}": f"r{number % 7}/job" for number in range(3000)}
    began = time.process_time()
    parents(recorded | {f"{number}/r{number}/job": None for number in range(7)})
    assert time.process_time() - began < 2
