"""What a rank writes of its own: rows per step, late values, attempts."""

import math

import numpy as np
import pytest

import stepscope as ss
from stepscope.events import telemetry as layout
from stepscope.events.rank_file import RankFile
from stepscope.events.telemetry import Name
from stepscope.kernels.steps import Stages, Steps
from stepscope.names.meanings import NAMED
from stepscope.record.info import attempt_number
from stepscope.record.problems import Problems
from stepscope.record.roles import Role
from stepscope.record.steps import DATA_WAIT, STEP_TIME
from stepscope.record.telemetry import (
    HELD_SECS,
    MAX_WAITING,
    Telemetry,
    attempt_of,
    file_name,
    folder_of,
)
from stepscope.store.ranks import Ranks

ROLE = Role(rank=1, world_size=4, name="worker", source="test")


@pytest.fixture
def steps():
    return Steps()


@pytest.fixture
def telemetry(tmp_path, steps):
    made = Telemetry(str(tmp_path), ROLE, 1, 1.7e9, steps, Problems())
    made.open(0.0)
    yield made
    made.forget()


@pytest.fixture
def rows(tmp_path, telemetry):
    """A function that flushes and reads the file again from its beginning."""

    def read():
        telemetry.look()
        assert telemetry.flush(1.0)
        return Ranks(str(tmp_path)).steps(1)

    return read


def tell(telemetry, tag, step, value, wall=1.7e9):
    telemetry.take(tag, np.array([step]), np.array([float(value)]), np.array([wall]))


def a_step(telemetry, step, loss=None, *, ms=10.0, wait=1.0):
    if loss is not None:
        tell(telemetry, "loss", step, loss)
    tell(telemetry, DATA_WAIT, step, wait, 1.7e9 + step)
    tell(telemetry, STEP_TIME, step, ms, 1.7e9 + step)


def test_a_loss_that_another_writer_records_is_in_the_row_of_its_step(telemetry, rows):
    for step, loss in enumerate([0.5, math.nan, 0.25]):
        telemetry.note_loss(step, loss, 1.7e9 + step)
        a_step(telemetry, step)
    found = rows()
    assert found.step.tolist() == [0, 1, 2]
    assert found.loss.tolist() == pytest.approx([0.5, math.nan, 0.25], nan_ok=True)
    assert found.nonfinite_count.tolist() == [0, 1, 0]
    assert found.step_time_s.tolist() == pytest.approx([0.01] * 3)
    assert telemetry.loss_tag == "loss"


def test_a_run_passes_it_on_and_writes_nothing(tmp_path):
    with ss.Run(tmp_path, rank=0, world_size=2) as run:
        for step in run.steps(range(3)):
            run.note_loss(1.0 / (1 + step), step)
    with ss.open(tmp_path, cache=False) as log:
        assert "loss" not in log.run(".").tags()
        assert log.run(".").ranks.steps(0).loss.tolist() == pytest.approx([1, 1 / 2, 1 / 3])


@pytest.mark.parametrize("facts", [{}, {"lines": 1}])
def test_a_run_alone_without_steps_has_a_file_only_for_facts(tmp_path, facts):
    with ss.Run(tmp_path) as run:
        run.rank_facts(lambda: facts)
        run.note_loss(1.0, 0)
    assert (tmp_path / "ranks").exists() is bool(facts)
    with ss.open(tmp_path, cache=False) as log:
        assert [member.facts["lines"] for member in log.run(".").ranks.members()] == list(facts.values())


def columns(found):
    return {
        name: getattr(found, name).tolist() for name in ("step", "step_time_s", "loss", "nonfinite_count")
    }


def test_a_row_per_step(telemetry, rows):
    for step in range(3):
        a_step(telemetry, step, step / 4, ms=8.0 * step, wait=4.0)
    found = rows()
    assert found.step.tolist() == [0, 1, 2]
    assert found.wall.tolist() == [1.7e9, 1.7e9 + 1, 1.7e9 + 2]
    assert found.step_time_s.tolist() == pytest.approx([0, 0.008, 0.016])
    assert found.data_wait_s.tolist() == pytest.approx([0.004] * 3)
    assert found.loss.tolist() == [0, 0.25, 0.5]
    assert found.nonfinite_count.tolist() == [0, 0, 0]
    assert found.resident_bytes[0] > 1e6


def test_rows_are_in_the_order_in_which_their_steps_ended(telemetry, rows):
    """A series with values of some steps is taken before their times, and a run may go back to a step."""
    for step in (20, 30):
        tell(telemetry, "loss", step, 1.0, 1.7e9 + step)
    for at, step in enumerate([10, 20, 30, 5]):
        tell(telemetry, STEP_TIME, step, 1.0, 1.7e9 + 10 + 10 * at)
    assert rows().step.tolist() == [10, 20, 30, 5]


def test_what_is_not_recorded_is_nan_and_what_was_nan_is_counted(telemetry, rows):
    tell(telemetry, STEP_TIME, 0, 10.0)
    a_step(telemetry, 1, math.nan)
    tell(telemetry, "grad/norm", 1, math.inf)
    found = rows()
    assert np.isnan(found.data_wait_s).tolist() == [True, False]
    assert np.isnan(found.loss).all()
    assert np.isnan(found.device_bytes).all()
    assert found.nonfinite_count.tolist() == [0, 2]
    path = telemetry._sink.writer(1.0).path
    file = RankFile(str(path), layout.parse_name(path.name))
    file.follow()
    assert math.isnan(file.digest().loss)  # the second step's was recorded


def test_a_step_that_runs_waits_for_its_end(telemetry, steps, rows):
    steps.begin(0.0)
    tell(telemetry, "loss", 0, 1.0)
    assert rows_or_none(telemetry, rows) == []
    steps.end(0.01)
    a_step(telemetry, 0)
    assert columns(rows())["loss"] == [1.0]


def rows_or_none(telemetry, rows):
    return rows().step.tolist()


def test_a_value_that_comes_after_its_step_was_written_is_put_into_it(telemetry, rows):
    for step in range(4):
        a_step(telemetry, step)
    assert np.isnan(rows().loss).all()
    tell(telemetry, "loss", 2, 0.5)
    tell(telemetry, "other", 3, math.nan)
    found = columns(rows())
    assert found["step"] == [0, 1, 2, 3]
    assert found["loss"][2] == 0.5
    assert found["nonfinite_count"] == [0, 0, 0, 1]
    assert found["step_time_s"] == pytest.approx([0.01] * 4)


def test_a_time_that_comes_after_its_step_was_written_belongs_to_that_step(telemetry, rows):
    tell(telemetry, "loss", 0, 1.0)
    assert columns(rows())["loss"] == [1.0]
    tell(telemetry, STEP_TIME, 0, 20.0)
    found = columns(rows())
    assert (found["step"], found["loss"], found["step_time_s"]) == ([0], [1.0], pytest.approx([0.02]))


def test_a_step_number_that_comes_again_is_another_row(telemetry, rows):
    a_step(telemetry, 0, 1.0)
    rows()
    a_step(telemetry, 0, 2.0)
    assert columns(rows())["loss"] == [1.0, 2.0]


def test_steps_that_the_user_numbers_need_no_time(telemetry, rows):
    for step in (0, 100, 200):
        tell(telemetry, "loss", step, step)
    found = columns(rows())
    assert found["step"] == [0, 100, 200]
    assert np.isnan(found["step_time_s"]).all()


def test_steps_and_walls_far_apart(telemetry, rows):
    far = [0, 1 << 40, -5, (1 << 40) + 1]
    for at, step in enumerate(far):
        tell(telemetry, "loss", step, 1e39 if step == -5 else 1.0, 1.7e9 + 1000 * at)
    found = columns(rows())
    assert found["step"] == far
    assert found["loss"][2] == pytest.approx(3.4028234663852886e38)


def test_many_steps_take_about_32_bytes_each(telemetry, rows, tmp_path):
    for begin in range(0, 5000, 10):
        for step in range(begin, begin + 10):
            a_step(telemetry, step, 1.0)
        assert telemetry.flush(1.0)
    (path,) = (tmp_path / "ranks").iterdir()
    assert path.stat().st_size / 5000 <= 32


@pytest.mark.parametrize(
    ("tag", "expected"),
    [
        ("loss", True), ("train/loss", True), ("train_loss", True), ("Loss/train", True),
        ("loss.total", True),
        ("eval/loss", False), ("val_loss", False), ("Loss/test", False), ("validation-loss", False),
        ("closs", False), ("lossless", False), ("train/accuracy", False), ("evaluate/loss", False),
        ("trainLoss", True), ("Training Loss", True), ("validLoss", False), ("holdout/loss", False),
        ("amp/loss_scale", False), ("gradients/loss_scale", False), ("loss_weight", False),
        ("lossScale", False),
    ],
)  # fmt: skip
def test_what_is_called_a_training_loss(tag, expected):
    assert NAMED.is_training_loss(tag) == expected


def test_the_first_training_loss_is_the_loss(telemetry, rows, tmp_path):
    telemetry.names = ["lr", "val_loss", "train/loss", "aux/loss"]
    tell(telemetry, "aux/loss", 0, 9.0)  # told first, logged later
    tell(telemetry, "train/loss", 0, 1.0)
    tell(telemetry, "val_loss", 0, 5.0)
    assert columns(rows())["loss"] == [1.0]
    (member,) = Ranks(str(tmp_path)).members()
    assert member.facts["loss"] == "train/loss"


def test_what_the_run_records_of_itself_is_not_counted(telemetry, rows):
    a_step(telemetry, 0)
    for tag in ("stepscope/overhead_ratio", "speed/steps_per_second", "system/x"):
        tell(telemetry, tag, 0, math.nan)
    assert columns(rows())["nonfinite_count"] == [0]


def test_the_end_says_how(telemetry, tmp_path):
    a_step(telemetry, 0, 1.0)
    tell(telemetry, "loss", 1, 2.0)
    assert telemetry.end("failed", "ValueError: x", 1.7e9, 2.0)
    (member,) = Ranks(str(tmp_path)).members()
    assert (member.state, member.reason, member.digest.steps) == ("failed", "ValueError: x", 2)
    assert telemetry.unwritten == 0


def test_another_role_is_said(telemetry, rows, tmp_path):
    telemetry.become(Role(rank=2, world_size=4, name="worker", source="later"))
    rows()
    (member,) = Ranks(str(tmp_path)).members()
    assert member.facts["source"] == "later"


@pytest.mark.slow
def test_a_disk_that_refuses_keeps_a_bounded_number_of_steps(tmp_path, steps):
    (tmp_path / "ranks").write_text("a file")
    problems = Problems()
    telemetry = Telemetry(str(tmp_path), ROLE, 1, 1.7e9, steps, problems)
    many = np.arange(MAX_WAITING + 10)
    telemetry.take(STEP_TIME, many, np.ones(len(many)), np.ones(len(many)))
    assert not telemetry.flush(0.0)
    assert telemetry.unwritten == MAX_WAITING
    assert problems.counts == {"overflow": 10}
    (tmp_path / "ranks").unlink()
    telemetry.retry_now()
    assert telemetry.flush(1.0)
    assert Ranks(str(tmp_path)).steps(1).step[[0, -1]].tolist() == [10, MAX_WAITING + 9]
    telemetry.forget()


# --- attempts -----------------------------------------------------------------------------------------


def leave(folder, *names):
    (folder / "ranks").mkdir(exist_ok=True)
    for name in names:
        (folder / "ranks" / str(name)).touch()


def left(rank, attempt, *, size=4, restarts=0, kind="rank"):
    return Name(kind, rank, size, attempt, restarts, "node", 1, 0)


@pytest.mark.parametrize(
    ("before", "role", "expected"),
    [
        ([], {}, 1),
        ([left(0, 1)], {}, 1),  # a quicker rank of the same attempt
        ([left(0, 1), left(1, 1)], {}, 2),  # our own file of an earlier one
        ([left(0, 1), left(1, 1), left(0, 2)], {}, 2),
        ([left(0, 1), left(1, 1), left(0, 2), left(1, 2)], {}, 3),
        ([left(0, 1, size=2), left(1, 1, size=2)], {"rank": 3}, 2),  # the job has grown
        ([left(0, 1)], {"restarts": 1}, 2),  # rank 1 had not come to its Run before the restart
        ([left(0, 2, restarts=1)], {"restarts": 1}, 2),
        ([], {"restarts": 2}, 3),
        ([left(1, 1, kind="ps")], {}, 1),
        ([left(1, 1)], {"name": "ps"}, 1),
    ],
)
def test_all_ranks_come_to_the_same_attempt_without_asking(tmp_path, before, role, expected):
    leave(tmp_path, *before)
    (tmp_path / "ranks").mkdir(exist_ok=True)
    (tmp_path / "ranks" / "notes.txt").touch()
    mine = Role(**{"rank": 1, "world_size": 4, "name": "worker", **role})
    assert attempt_of(str(tmp_path), mine) == expected


def test_the_attempt_of_a_run_without_ranks_counts_its_own_event_files(tmp_path):
    (tmp_path / "events.out.tfevents.1.other.tool").write_bytes(b"x" * 5000)
    (tmp_path / "events.out.tfevents.2.empty").touch()
    assert attempt_number(str(tmp_path)) == 1
    with ss.Run(tmp_path):
        pass
    assert attempt_number(str(tmp_path)) == 2
    assert attempt_number(str(tmp_path / "nowhere")) == 1


def test_names_of_files():
    name = file_name(ROLE, 2)
    assert layout.parse_name(str(name)) == name
    assert folder_of("/runs/a") == "/runs/a/ranks"
    assert str(Name("rank", 3, 8, 1, 0, "a.tfevents/b", 5, 6)) == (
        "rank-00003-of-00008.attempt-1.restart-0.a.__b.5.6.steps"
    )
    assert layout.parse_name("events.out.tfevents.1.h") is None


def test_facts_are_json(telemetry):
    path = telemetry._sink.writer(1.0).path
    file = RankFile(str(path), layout.parse_name(path.name))
    file.follow()
    facts = file.facts
    assert (facts["rank"], facts["world_size"], facts["source"], facts["attempt"]) == (1, 4, "test", 1)


class Waiting:
    """Stands in for what times stages on a device that comes by when it is told to."""

    def __init__(self):
        self.done: list[tuple[int, tuple[float, ...]]] = []
        self.gone_by = -1

    def begin(self, step, first, waited):
        pass

    def mark(self, number):
        pass

    def end(self, now, waited):
        pass

    def drop(self):
        pass

    def take(self):
        found, self.done = self.done, []
        return found

    def waits(self, step):
        return step > self.gone_by


def test_a_step_waits_for_its_device_but_not_for_ever(telemetry, steps, tmp_path):
    stages = steps.stages = Stages(lambda: 0.0)
    device = stages.device = Waiting()
    number = stages.number("forward")
    stages.keep = True
    for step in range(3):
        steps.begin(0.0)
        stages.mark(number)
        steps.end(0.01)
        a_step(telemetry, step)
    telemetry.look()
    telemetry.flush(1.0)

    def written():
        return Ranks(str(tmp_path)).steps(1).step.tolist()

    assert written() == []
    device.done, device.gone_by = [(0, (0.0, 0.0, 0.05))], 0
    telemetry.flush(2.0)
    assert written() == [0]
    telemetry.flush(2.0 + HELD_SECS)
    assert written() == [0, 1, 2]


def test_a_step_whose_device_never_came_by_is_written_when_the_run_ends(telemetry, steps, tmp_path):
    steps.stages = Stages(lambda: 0.0)
    steps.stages.device = Waiting()
    a_step(telemetry, 0)
    telemetry.look()
    telemetry.end("finished", None, 1.7e9, 1.0)
    assert Ranks(str(tmp_path)).steps(1).step.tolist() == [0]
