import math
import threading

import msgspec
import pytest
from support.clock import Time
from support.errors import raises

from stepscope import store
from stepscope.errors import LogDirectoryError
from stepscope.reading import Progress
from stepscope.serve import follow
from stepscope.serve.follow import LogFollower, check_log_dir, least_pause, pause
from stepscope.serve.types import Changes


@pytest.fixture
def clock():
    return Time(1000.0)


@pytest.fixture
def lines():
    return []


@pytest.fixture
def follower(tmp_path, clock, lines):
    return LogFollower(tmp_path / "runs", cache=False, clock=clock, report=lines.append)


@pytest.fixture
def log(writer_in):
    def log(directory, *values, tag="loss"):
        writer = writer_in(directory)
        for step, value in enumerate(values):
            writer.scalar(tag, value, step, 100.0 + step)
        writer.flush()
        return writer

    return log


def known(follower, cursor=None) -> Changes:
    return msgspec.json.decode(follower.feed.since(cursor, now=0.0), type=Changes)


def read_all(follower):
    while follower.turn() == 0:
        pass


def test_runs_points_and_charts_are_published(follower, log):
    log(follower.log_dir / "a", 1.0, 2.0)
    read_all(follower)
    answer = known(follower)
    assert [(run.name, run.points, run.step) for run in answer.runs] == [("a", 2, 1)]
    assert [chart.id for chart in answer.charts] == ["loss"]
    assert answer.loading is None


def test_only_what_is_new_is_published(follower, log):
    writer = log(follower.log_dir / "a", 1.0)
    log(follower.log_dir / "b", 1.0)
    read_all(follower)
    cursor = known(follower).cursor
    read_all(follower)
    assert known(follower, cursor).cursor == cursor
    writer.scalar("loss", 2.0, 1, 101.0)
    writer.flush()
    read_all(follower)
    answer = known(follower, cursor)
    assert [run.name for run in answer.runs] == ["a"]
    assert answer.dirty == {"a": ["loss"]}
    assert answer.charts is None
    writer.scalar("accuracy", 2.0, 1, 101.0)
    writer.flush()
    read_all(follower)
    assert [chart.id for chart in known(follower, cursor).charts] == ["accuracy", "loss"]


def test_a_deleted_run_is_taken_back(follower, log):
    log(follower.log_dir / "a", 1.0)
    path = log(follower.log_dir / "b", 1.0, tag="only").path
    read_all(follower)
    cursor = known(follower).cursor
    path.unlink()
    path.parent.rmdir()
    read_all(follower)
    answer = known(follower, cursor)
    assert answer.removed == ["b"]
    assert [chart.id for chart in answer.charts] == ["loss"]


def test_a_run_that_becomes_part_of_another_is_published_again(follower, log):
    log(follower.log_dir / "a" / "eval", 1.0)
    read_all(follower)
    assert known(follower).runs[0].base == "a/eval"
    log(follower.log_dir / "a", 1.0)
    read_all(follower)
    assert {(run.name, run.base, run.split) for run in known(follower).runs} == {
        ("a", "a", None), ("a/eval", "a", "eval")
    }  # fmt: skip


def test_a_running_run_ends_with_time_alone(tmp_path, clock, log):
    written = log(tmp_path / "a", 1.0).path.stat().st_mtime
    follower = LogFollower(tmp_path, cache=False, clock=clock, wall=lambda: written + clock.now - 1000.0)
    read_all(follower)
    first = known(follower)
    clock.now += 3600
    read_all(follower)
    assert [run.state for run in first.runs + known(follower, first.cursor).runs] == ["running", "ended"]


def test_a_directory_that_is_not_there_yet_is_waited_for(follower, log):
    assert follower.turn() > 0
    answer = known(follower)
    assert (answer.log.exists, answer.log.problems, answer.loading, answer.runs) == (False, [], None, [])
    log(follower.log_dir / "a", 1.0)
    read_all(follower)
    answer = known(follower, answer.cursor)
    assert answer.log.exists
    assert [run.name for run in answer.runs] == ["a"]


def test_an_empty_directory_has_no_runs_and_no_problem(follower):
    follower.log_dir.mkdir()
    read_all(follower)
    answer = known(follower)
    assert (answer.log.exists, answer.log.problems, answer.loading, answer.runs) == (True, [], None, [])


def test_a_directory_that_vanishes_is_reported_once_and_recovers(follower, lines, log):
    path = log(follower.log_dir / "a", 1.0).path
    read_all(follower)
    path.unlink()
    path.parent.rmdir()
    follower.log_dir.rmdir()
    for _ in range(3):
        assert follower.turn() > 0
    assert len(lines) == 1
    assert str(follower.log_dir) in lines[0]
    [problem] = known(follower).log.problems
    assert problem.text == lines[0]
    log(follower.log_dir / "a", 1.0, 2.0)
    read_all(follower)
    assert lines[1:] == ["reading works again"]
    assert known(follower).log.problems == []
    assert [run.points for run in known(follower).runs] == [2]


class FakeLog:
    """A log of which each look gives the next of some results; an exception is raised."""

    def __init__(self, path, *results):
        self.path, self.results, self.problems = path, list(results), []
        self.progress = Progress(1, 4, 10, 40)

    def runs(self):
        return []

    def refresh(self, max_seconds):
        assert max_seconds == follow.SHOW_EVERY_S
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


def fake(follower, *results):
    follower.log_dir.mkdir()
    follower.log = FakeLog(follower.log_dir, *results)


def test_how_far_the_first_reading_is(follower):
    assert known(follower).loading == Progress(0, 0, 0, 0)
    fake(follower, store.Changes(complete=False), store.Changes(complete=True))
    assert follower.turn() == 0
    assert known(follower).loading == Progress(1, 4, 10, 40)
    assert follower.turn() > 0
    assert known(follower).loading is None


def test_a_defect_does_not_end_following(follower, lines, capfd):
    fake(follower, RuntimeError("boom"), store.Changes())
    assert follower.turn() > 0
    assert "RuntimeError: boom" in known(follower).log.problems[0].text
    assert "Traceback" in capfd.readouterr().err
    assert follower.turn() > 0
    assert lines[-1] == "reading works again"


@pytest.mark.parametrize(
    ("client_age_s", "cost_s", "expected"),
    [
        (0.5, 0.001, follow.WATCHED_S),
        (60.0, 0.001, follow.UNWATCHED_S),
        (math.inf, 0.001, follow.ASLEEP_S),
        (0.5, 3.0, 12.0),
        (math.inf, 3.0, follow.ASLEEP_S),
    ],
)
def test_pause(client_age_s, cost_s, expected):
    assert pause(client_age_s=client_age_s, cost_s=cost_s) == pytest.approx(expected)


def test_reading_takes_at_most_a_fifth_of_the_time():
    for cost_s in (0.01, 0.1, 1.0, 10.0):
        assert cost_s / (cost_s + least_pause(cost_s)) <= follow.MAX_SHARE + 1e-9


def test_a_poll_gets_what_has_been_written_by_then(tmp_path, log):
    writer = log(tmp_path / "a", 1.0)
    clock = Time(1000.0)
    follower = LogFollower(tmp_path, cache=False, clock=clock)
    read_all(follower)
    follower.start()
    try:
        for step in range(1, 20):
            writer.scalar("loss", 2.0, step, 101.0)
            writer.flush()
            clock.now += 1000.0  # long enough for another reading to be due, whatever the last one took
            follower.poll(timeout_s=20)
            assert known(follower).runs[0].step == step
    finally:
        follower.stop()


def test_a_poll_does_not_wait_during_the_first_reading(follower, monkeypatch):
    follower._thread, follower.rounds = threading.current_thread(), 1
    monkeypatch.setattr(follower._turn, "wait_for", lambda *_: pytest.fail("waited"), raising=False)
    follower.poll()
    assert follower.asked == follower.clock()


def test_a_poll_before_anything_is_read_waits_for_the_beginning_and_not_for_ever(tmp_path, log):
    log(tmp_path / "a", 1.0)
    follower = LogFollower(tmp_path, cache=False)
    hung, go_on = LogFollower(tmp_path, cache=False), threading.Event()
    hung.read = lambda: go_on.wait(60)
    follower.start()
    hung.start()
    try:
        follower.poll(timeout_s=0, first_s=60)
        assert [run.name for run in known(follower).runs] == ["a"]
        hung.poll(timeout_s=60, first_s=0.01)
        assert hung.rounds == 0
    finally:
        go_on.set()
        follower.stop()
        hung.stop()


def test_many_polls_at_once_cause_no_more_readings(tmp_path, clock, log):
    log(tmp_path / "a", 1.0)
    follower = LogFollower(tmp_path, cache=False, clock=clock)
    read_all(follower)
    rounds = follower.rounds
    follower.start()
    try:
        for _ in range(100):
            follower.poll(timeout_s=20)
        assert follower.rounds <= rounds + 1
    finally:
        follower.stop()


def test_stop_ends_the_thread(tmp_path):
    follower = LogFollower(tmp_path, cache=False)
    follower.start()
    follower.stop(timeout_s=20)
    assert not [thread for thread in threading.enumerate() if thread.name == "stepscope-follow"]


def test_stop_leaves_a_hanging_file_system_behind(follower):
    class Hanging(FakeLog):
        released = threading.Event()

        def close(self):
            self.released.wait(20)

    follower.log = Hanging(follower.log_dir)
    follower.stop(timeout_s=0.01)
    assert follower.stuck
    follower.log.released.set()
    follower.stop(timeout_s=20)
    assert not follower.stuck


def test_what_can_never_be_served(tmp_path):
    check_log_dir(tmp_path)
    check_log_dir(tmp_path / "soon")
    (tmp_path / "file").write_text("x")
    with raises(LogDirectoryError, match="not a directory", hint_has=f"stepscope serve {tmp_path}"):
        check_log_dir(tmp_path / "file")
    with pytest.raises(LogDirectoryError, match="no such directory"):
        check_log_dir(tmp_path / "a" / "b")
