"""Traces in which nothing says which thread runs the steps, such as Horovod's, against a reference."""

import json
import random
from collections import defaultdict
from pathlib import Path

import pytest

import stepscope as ss
from stepscope import cli
from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.views import view
from stepscope.trace.model import Trace

OVERLAP = "nothing says which thread runs the steps"


def load(tmp_path: Path, slices: list[tuple[str, int, int, int, int]], **event: str) -> Trace:
    """Read a trace of slices: name, process, thread, start and duration in microseconds."""
    path = tmp_path / "t.json"
    keys = ("name", "pid", "tid", "ts", "dur")
    path.write_text(json.dumps([{"ph": "X", **dict(zip(keys, one, strict=True)), **event} for one in slices]))
    return ss.load_trace(path, cache=False)


def union(spans: list[tuple[int, int]]) -> int:
    """Return what intervals cover, one after the other."""
    covered, latest = 0, -1
    for start, end in sorted(spans):
        covered += max(0, end - max(start, latest))
        latest = max(latest, end)
    return covered


@pytest.mark.parametrize("seed", range(6))
def test_times_are_how_long_a_name_was_open_on_any_thread(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    slices, open_at = [], defaultdict(list)
    for process in range(4):
        for thread in range(3):
            at = chance.randrange(100)
            for _ in range(chance.randrange(1, 15)):
                at += chance.choice((0, 0, chance.randrange(200)))
                length = chance.randrange(1, 100)
                slices.append((chance.choice("abcd"), process, thread, at, length))
                open_at[slices[-1][0]].append((at, at + length))
                at += length
    answer = view("op", load(tmp_path, slices))
    rows = {row["name"]: row for row in answer.as_dict()["rows"]}
    every = [span for spans in open_at.values() for span in spans]
    wall = max(end for _, end in every) - min(start for start, _ in every)
    assert rows["(all)"]["step_ns"] == 1000 * wall
    assert {name: row["step_ns"] for name, row in rows.items() if name in open_at} == {
        name: 1000 * union(spans) for name, spans in open_at.items()
    }
    nothing = rows["(nothing recorded)"]["step_ns"] if "(nothing recorded)" in rows else 0
    assert nothing == 1000 * (wall - union(every))
    assert any(OVERLAP in note for note in answer.notes)


def test_slices_within_others_are_in_their_time_and_not_their_own(tmp_path: Path) -> None:
    slices = [("a", 1, 1, 0, 100), ("b", 1, 1, 10, 30), ("a", 2, 1, 50, 100), ("b", 2, 1, 60, 90)]
    rows = {row["name"]: row for row in view("graph", load(tmp_path, slices)).as_dict()["rows"]}
    assert {name: (row["step_total_ns"], row["step_self_ns"]) for name, row in rows.items()} == {
        "(all)": (150_000, 0), "a": (150_000, 70_000), "b": (120_000, 120_000),
    }  # fmt: skip


@pytest.mark.parametrize("lanes", [[(1, 0), (2, 0), (3, 0)], [(1, 1), (1, 2), (1, 3)]])
def test_lanes_that_cover_the_time_leave_nothing_unrecorded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lanes: list[tuple[int, int]]
) -> None:
    spans = (("a", 0, 40), ("b", 40, 30), ("c", 70, 30))
    trace = load(
        tmp_path, [(name, *lane, at, dur) for (name, at, dur), lane in zip(spans, lanes, strict=True)]
    )
    assert {row["name"]: row["step_ns"] for row in view("op", trace).as_dict()["rows"]} == {
        "(all)": 100_000, "a": 40_000, "b": 30_000, "c": 30_000,
    }  # fmt: skip
    [step] = breakdown(trace).steps
    assert set(step.parts_ns.values()) == {None}  # no part is a default for what is not known
    assert cli.main(["glance", "--no-cache", str(tmp_path / "t.json")]) == 0
    shown = capsys.readouterr().out
    assert "not known: forward, backward, optimizer" in shown
    assert "nothing in the profile says which part of a step any event belongs to" in shown
    assert "other  " not in shown


def test_a_profile_that_names_the_thread_keeps_one_event_for_each_instant(tmp_path: Path) -> None:
    slices = [("a", 1, 1, 0, 100), ("b", 1, 2, 50, 100)]
    answer = view("op", load(tmp_path, slices, cat="cpu_op"))
    rows = {row["name"]: row["step_ns"] for row in answer.as_dict()["rows"]}
    assert (rows["(all)"], rows["a"] + rows["b"]) == (150_000, 150_000)
    assert not any(OVERLAP in note for note in answer.notes)
