"""A run says how long its event files are, so one that was cut is noticed wherever it was cut."""

import io

import pytest

import stepscope as ss
from stepscope import store
from stepscope.events.pieces import records_end


@pytest.fixture
def recorded(tmp_path):
    with ss.Run(tmp_path / "x", config={"lr": 0.1}) as run:
        for step in range(100):
            run.scalar("loss", 1.0, step)
    [path] = (tmp_path / "x").glob("*tfevents*")
    return path


def said(path):
    with store.open(path.parents[1], cache=False) as log:
        return [(each.kind, each.count) for each in log.run("x").problems]


def test_a_whole_file_has_no_problem(recorded):
    assert said(recorded) == []


def test_a_file_cut_between_two_records_is_noticed(recorded):
    data = recorded.read_bytes()
    end = records_end(io.BytesIO(data), 0, len(data) - 1)
    recorded.write_bytes(data[:end])
    assert said(recorded) == [("cut", len(data) - end)]


def test_a_hole_in_a_run_that_has_ended_is_said_at_once(recorded):
    data = recorded.read_bytes()
    end = records_end(io.BytesIO(data), 0, len(data) // 2)
    recorded.write_bytes(data[:end] + bytes(1000) + data[end:])
    assert said(recorded) == [("hole", 1000)]


def test_a_torn_record_of_a_run_that_has_ended_is_said_at_once(recorded):
    recorded.write_bytes(recorded.read_bytes()[:-5])
    assert "torn" in dict(said(recorded))


def test_a_file_that_grew_behind_the_look_is_no_cut_one(recorded):
    data = recorded.read_bytes()
    recorded.write_bytes(data[: records_end(io.BytesIO(data), 0, len(data) // 2)])
    with store.open(recorded.parents[1], cache=False) as log:
        recorded.write_bytes(data)  # the end of the run was read, and its file was not yet
        assert log.run("x").problems == []


def test_a_file_that_goes_on_after_the_end_is_no_cut_one(recorded):
    with recorded.open("ab") as file:
        file.write(recorded.read_bytes())
    assert ("cut", 0) not in said(recorded)
    assert "cut" not in dict(said(recorded))


def test_a_run_that_was_killed_says_nothing_of_its_length(tmp_path):
    run = ss.Run(tmp_path / "x")
    run.scalar("loss", 1.0, 0)
    run.flush()
    assert lengths(tmp_path) == {}
    run.close()
    assert lengths(tmp_path) == {
        path.name: path.stat().st_size for path in (tmp_path / "x").glob("*tfevents*")
    }


def lengths(directory):
    with store.open(directory, cache=False) as log:
        return log.run("x").info.log_bytes
