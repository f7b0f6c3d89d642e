"""A watch over steps that do not end."""

import json
import os
import time

import pytest
from support.waiting import until

import stepscope as ss
from stepscope.analyze.ranks.stuck import stuck_ranks
from stepscope.errors import UsageError
from stepscope.store.ranks import Ranks


def test_stacks_are_written_while_a_step_does_not_end_and_taken_away_when_it_does(tmp_path):
    def files():
        return list(tmp_path.glob("ranks/hang-*.json"))

    with ss.Run(tmp_path, rank=1, world_size=2, hooks=[ss.HangHook(timeout_s=0.05)]) as run:
        run.step()
        run.step()
        with run.stage("rollout"):
            until(files)
            facts = json.loads(files()[0].read_bytes())
        run.step()
        until(lambda: not files() or json.loads(files()[0].read_bytes())["step"] == 2)
    assert (facts["rank"], facts["step"], facts["stage"], facts["in_step"]) == (1, 1, "rollout", True)
    assert facts["threads"][0]["trains"]
    assert "until" in {frame["function"] for frame in facts["threads"][0]["frames"]}


def test_a_step_that_still_does_not_end_is_written_again(tmp_path):
    def read():
        return [json.loads(path.read_bytes()) for path in tmp_path.glob("ranks/hang-*.json")]

    with ss.Run(tmp_path, rank=1, world_size=2, hooks=[ss.HangHook(timeout_s=0.05)]) as run:
        run.step()
        run.step()
        [first] = until(read)
        until(lambda: read()[0]["stalled_s"] > first["stalled_s"])
        [newest] = Ranks(str(tmp_path)).stalled()
    assert newest["step"] == first["step"]
    assert newest["wall"] > first["wall"]


def test_what_an_earlier_attempt_left_is_not_said_of_this_one(tmp_path):
    with ss.Run(tmp_path, rank=1, world_size=2) as run:
        run.step()
    whole = {**told(1, 9), "pid": os.getpid()}
    for name, facts in {
        "own": whole,
        "earlier": {**whole, "pid": os.getpid() + 1},
        "odd": {"rank": []},
    }.items():
        (tmp_path / "ranks" / f"hang-{name}.json").write_text(json.dumps(facts))
    assert Ranks(str(tmp_path)).stalled() == [whole]


def test_before_the_first_step_has_ended_nothing_is_written(tmp_path):
    with ss.Run(tmp_path, rank=1, world_size=2, hooks=[ss.HangHook(timeout_s=0.02)]) as run:
        run.step()
        before = time.monotonic()
        until(lambda: time.monotonic() - before > 0.2)
        assert not list(tmp_path.glob("ranks/hang-*"))


@pytest.mark.parametrize("timeout", [0, -1, "long"])
def test_a_time_that_cannot_be_waited_for(timeout):
    with pytest.raises(UsageError):
        ss.HangHook(timeout_s=timeout)


def told(rank, line):
    frame = {"file": "train.py", "line": line, "function": "main"}
    return {"rank": rank, "threads": [{"trains": True, "frames": [frame]}]}


def test_who_is_elsewhere_than_most():
    assert [each.elsewhere for each in stuck_ranks([told(0, 9), told(2, 9), told(1, 4)])] == [
        False, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("lines", [(9, 9, 9), (9, 4), (1, 2, 3, 4), (1, 1, 2, 2)])
def test_where_no_place_is_most_ranks_nobody_is_named(lines):
    assert not any(each.elsewhere for each in stuck_ranks([told(*pair) for pair in enumerate(lines)]))


@pytest.mark.parametrize(
    "facts", [{}, {"rank": "a"}, {"rank": 1, "threads": []}, {"rank": 1, "threads": [3]}]
)
def test_files_that_are_no_such_thing_are_left_out(facts):
    assert stuck_ranks([facts]) == ()
