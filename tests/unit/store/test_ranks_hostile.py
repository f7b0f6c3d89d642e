"""Files of ranks that somebody else wrote: names, numbers and JSON are bounded, and cost milliseconds."""

import itertools
import json
import tracemalloc

import numpy as np
import pytest

from stepscope.cli import main
from stepscope.events.framing import frame
from stepscope.events.rank_file import MAX_STEP, MOST_FACTS_BYTES
from stepscope.events.telemetry import FACTS, HEAD, MAX_RANKS, ROW, ROWS, as_event, parse_name
from stepscope.files import MAX_VALUES, bounded_object
from stepscope.store.ranks import Ranks, cut
from stepscope.trace.ranks import absent_ranks

NAME = "rank-{rank:05d}-of-{size:05d}.attempt-1.restart-0.host.{rank}.0.steps"


def write(run, *, size=2, facts=b"{}", steps=(0,), name=NAME):
    folder = run / "ranks"
    folder.mkdir(parents=True)
    rows = HEAD.pack(0, 1e6, 1e6) + b"".join(ROW.pack(at, 0, at, 0.1, 0.01, 1.0) for at in range(3))
    events = [as_event(FACTS, facts), *(as_event(ROWS, rows, step, 5.0) for step in steps)]
    content = b"".join(map(frame, events))
    for rank in range(2):
        (folder / name.format(rank=rank, size=size)).write_bytes(content)
    return Ranks(str(run))


@pytest.mark.parametrize("size", [999_999_999, 10**12, MAX_RANKS + 1])
def test_a_name_of_more_ranks_than_a_job_has_is_left_out_and_said(tmp_path, size, capsys):
    ranks = write(tmp_path / "run", size=size)
    tracemalloc.start()
    assert ranks.size() is None
    [note] = ranks.notes()
    assert f"of-{size}" in note
    assert "and 1 more" in note
    assert main(["ranks", "--no-cache", str(tmp_path / "run")]) == 1
    assert main(["ls", "--ranks", str(tmp_path)]) in (0, 1)
    assert tracemalloc.get_traced_memory()[1] < 100e6
    tracemalloc.stop()
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "name",
    [
        NAME.replace("{rank:05d}-of", "9{rank:024d}-of"),
        NAME.replace("attempt-1", "attempt-" + "9" * 30),
        NAME.replace("host.{rank}", "host." + "9" * 30 + "{rank}"),
        NAME.replace("restart-0", "restart-\u0663"),
    ],
)
def test_numbers_of_names_that_fit_into_no_column_are_left_out(name):
    assert parse_name(NAME.format(rank=1, size=2)) is not None
    assert parse_name(name.format(rank=1, size=2)) is None


def test_a_job_as_large_as_they_come_is_listed(tmp_path):
    ranks = write(tmp_path / "run", size=MAX_RANKS)
    assert ranks.size() == MAX_RANKS
    assert ranks.notes() == []
    assert absent_ranks(MAX_RANKS, [0, 1]) == list(range(2, MAX_RANKS))
    assert absent_ranks(10**15, [0]) == []


@pytest.mark.parametrize("first", [-(2**63), 2**63 - 2, 2**63 - 1, MAX_STEP + 2, -MAX_STEP - 2])
def test_steps_that_no_training_reaches_are_skipped_and_counted(tmp_path, first):
    ranks = write(tmp_path / "run", steps=(0, first))
    assert [rank.skipped for rank in ranks.members()] == [1, 1]
    assert ranks.grid("step_time_s", columns=100).steps.tolist() == [0, 1, 2]
    assert ranks.stages().steps.tolist() == [0, 1, 2]


@pytest.mark.parametrize("steps", [(0, 2**40), (-(2**60), 2**60), (-MAX_STEP, MAX_STEP - 5)])
@pytest.mark.parametrize("columns", [None, 1, 7, 4096])
def test_steps_far_apart_are_a_grid_of_few_columns(tmp_path, steps, columns):
    grid = write(tmp_path / "run", steps=steps).grid("step_time_s", columns=columns)
    assert grid.count.sum() == 12
    assert (np.diff(grid.steps) > 0).all()
    assert len(grid.steps) <= 4096 + 12


@pytest.mark.parametrize(("first", "span", "parts"), [(0, 10, 4), (-(2**61), 2**62, 4096), (5, 2**62 - 5, 3)])
def test_a_range_is_cut_into_parts_of_about_one_length(first, span, parts):
    edges = cut(first, span, parts).tolist()
    assert (edges[0], edges[-1], len(edges)) == (first, first + span, parts + 1)
    widths = [after - before for before, after in itertools.pairwise(edges)]
    assert max(widths) - min(widths) <= 1


@pytest.mark.parametrize(
    "facts",
    [
        b'{"a": [' + b"[]," * (MOST_FACTS_BYTES // 3) + b"[]]}",
        b'{"a": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
        b'{"a": "' + b"x" * MOST_FACTS_BYTES + b'"}',
        b"[]",
        b"\xff",
    ],
)
def test_what_a_rank_says_of_itself_is_bounded(tmp_path, facts):
    ranks = write(tmp_path / "run", facts=facts)
    assert [(rank.facts, rank.skipped) for rank in ranks.members()] == [({}, 1)] * 2


def test_objects_of_others_are_bounded_and_their_numbers_fit():
    assert bounded_object(b'{"a": [' + b"[]," * MAX_VALUES + b"[]]}") is None
    numbers = b'{"a": 1' + b"0" * 30 + b', "b": -9223372036854775808, "c": 9223372036854775808}'
    assert bounded_object(numbers) == {
        "a": 1e30, "b": -(2**63), "c": 2.0**63,
    }  # fmt: skip


def test_a_stalled_rank_that_says_too_much_is_left_out(tmp_path):
    ranks = write(tmp_path / "run")
    path = tmp_path / "run" / "ranks" / "hang-0.json"
    path.write_bytes(b'{"rank": 0, "pid": 0, "a": [' + b"[]," * 10_000_000 + b"[]]}")
    assert ranks.stalled() == []
    path.write_text(json.dumps({"rank": 0, "pid": 0, "stacks": ["a"]}))
    assert [each["stacks"] for each in ranks.stalled()] == [["a"]]
