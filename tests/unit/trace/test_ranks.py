"""Directories of profiles: ranks, roles, steps, what is missing and what does not fit."""

import json
import os
import pickle
from dataclasses import replace

import numpy as np
import pytest
from support.errors import raises

import stepscope as ss
from stepscope.analyze.advise import Facts, advise
from stepscope.analyze.critical_path import critical_paths
from stepscope.errors import TraceError
from stepscope.trace.merge import merge
from stepscope.trace.model import Kind


def kineto(path, *, rank=None, world=4, start=0.0, names=("a", "b")):
    path.parent.mkdir(parents=True, exist_ok=True)
    info = {} if rank is None else {"distributedInfo": {"rank": rank, "world_size": world}}
    events = [
        {"ph": "X", "cat": "cpu_op", "name": name, "pid": 50, "tid": 50, "ts": start + 10 * i, "dur": 5,
         "args": {"Input Dims": [[rank or 0]]}}
        for i, name in enumerate(names)
    ]  # fmt: skip
    top = {"schemaVersion": 1, "deviceProperties": [], "baseTimeNanoseconds": 1_700_000_000_000_000_000}
    path.write_text(json.dumps({**top, **info, "traceEvents": events}))
    return path


def timeline(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    event = {"ph": "X", "cat": "Op", "name": "MatMul", "pid": 1, "tid": 0, "ts": 5, "dur": 2,
             "args": {"name": "net/MatMul", "op": "MatMul"}}  # fmt: skip
    path.write_text(json.dumps({"traceEvents": [event]}))


def load(path):
    return ss.load_trace(path, cache=False)


def test_ranks_beside_each_other_on_one_clock(tmp_path):
    for rank in (10, 2, 0, 1):
        kineto(
            tmp_path / f"x{rank}.json", rank=rank, world=11, start=100.0 * rank, names=("a", f"only {rank}")
        )
    trace = load(tmp_path)
    assert trace.ranks == (0, 1, 2, 10)
    assert trace.rank.tolist() == [0, 0, 1, 1, 2, 2, 10, 10]
    assert trace.start_ns.tolist() == [0, 10_000, 100_000, 110_000, 200_000, 210_000, 1_000_000, 1_010_000]
    assert [trace.name_of(r) for r in (0, 1, 6, 7)] == ["a", "only 0", "a", "only 10"]
    assert [lane.rank for lane in trace.lanes] == [0, 1, 2, 10]
    assert trace.lane.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    assert [trace.strings[int(n)] for n in trace.operators.shapes[[0, 7]]] == ["[[0]]", "[[10]]"]
    assert trace.operators.row.tolist() == list(range(8))
    assert "7 of 11 ranks are missing: 3, 4, 5, 6, 7, 8, 9" in trace.notes


def test_ranks_from_names(tmp_path):
    for rank in (0, 3):
        kineto(tmp_path / f"trace_rank-{rank}.json")
    trace = load(tmp_path)
    assert trace.ranks == (0, 3)
    assert "taken from names: rank-0 = 0, rank-3 = 3" in trace.notes[-1]
    assert load(tmp_path / "trace_rank-3.json").ranks == (3,)


def test_a_note_on_ranks_says_how_many_it_does_not_name(tmp_path):
    for rank in range(10):
        kineto(tmp_path / f"trace_rank-{rank}.json")
    assert load(tmp_path).notes[-1].endswith("rank-6 = 6, rank-7 = 7 and 2 more")


def test_roles_of_a_cluster(tmp_path):
    for role in ("worker_1", "chief_0", "worker_0", "ps_0"):
        for step in (100, 20):
            timeline(tmp_path / role / f"timeline-{step}.json")
    trace = load(tmp_path)
    assert "chief_0 = 0, worker_0 = 1, worker_1 = 2, ps_0 = 3" in trace.notes[-1]
    assert trace.ranks == (0, 1, 2, 3)
    assert sorted(trace.steps.number[trace.steps.rank == 2].tolist()) == [20, 100]


def test_several_steps_of_one_rank_share_lanes(tmp_path):
    kineto(tmp_path / "step1.json", rank=0, world=1, start=0, names=("a", "b"))
    kineto(tmp_path / "step2.json", rank=0, world=1, start=500, names=("c",))
    trace = load(tmp_path)
    assert (len(trace.lanes), trace.start_ns.tolist()) == (1, [0, 10_000, 500_000])
    assert trace.notes == ()


def test_rows_follow_when_recordings_of_one_rank_interleave(tmp_path):
    kineto(tmp_path / "one.json", rank=0, world=1, start=0, names=("a", "b"))
    kineto(tmp_path / "two.json", rank=0, world=1, start=5, names=("c", "d"))
    trace = load(tmp_path)
    assert [trace.name_of(row) for row in range(4)] == ["a", "c", "b", "d"]
    assert [trace.strings[int(n)] for n in trace.operators.shapes] == ["[[0]]"] * 4
    assert trace.operators.row.tolist() == [0, 1, 2, 3]
    assert "2 files of rank 0 overlap in time" in trace.notes[0]


def test_recordings_of_one_rank_that_overlap_have_threads_of_their_own(tmp_path):
    """Events of two recordings that lie across each other nest in none: advice abstains, nothing breaks."""
    kineto(tmp_path / "one.json", rank=0, world=1, start=0, names=("a", "b"))
    kineto(tmp_path / "two.json", rank=0, world=1, start=3, names=("c", "d"))
    trace = load(tmp_path)
    assert [lane.thread for lane in trace.lanes] == ["thread 50", "thread 50 (2)"]
    assert [trace.name_of(row) for row in np.flatnonzero(trace.lane == 0)] == ["a", "b"]
    said = advise(Facts(trace))
    assert not said.findings
    assert said.verdict == (
        "not judged: 2 files of rank 0 overlap in time: they may be of different runs; name one of them"
    )
    assert critical_paths(trace)


@pytest.mark.parametrize("own", ["a", "b"])
def test_the_thread_that_runs_the_steps_is_one_lane_in_all_captures(make, own):
    """A namesake of it in one capture, which lies before it or after it, gets another name."""
    other = {"a": "b", "b": "a"}[own]
    parts = [
        make.build(
            [
                make.event("step", Kind.STEP, 10_000 * at, 1000, lane=own, step=at),
                *([make.event("help", Kind.HOST_OP, 0, 1000, lane=other)] if at == 0 else []),
            ]
        )
        for at in (0, 1)
    ]
    namesakes = [
        replace(one, lanes=tuple(replace(lane, thread="python") for lane in one.lanes)) for one in parts
    ]
    whole = merge([replace(one, clock="unix") for one in namesakes])
    assert sorted(lane.thread for lane in whole.lanes) == ["python", "python (2)"]
    assert {whole.lanes[int(whole.lane[row])].thread for row in whole.steps.row} == {"python"}


def test_a_run_without_a_profile_says_how_to_record_one(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        run.scalar("loss", 1.0)
    with raises(TraceError, match="none of them holds one", hint_has="stepscope capture"):
        load(tmp_path / "run")


def test_files_of_different_runs(tmp_path):
    kineto(tmp_path / "a.json", rank=0, world=2)
    kineto(tmp_path / "b.json", rank=1, world=8)
    assert any("runs of different sizes: 2, 8 ranks" in note for note in load(tmp_path).notes)


def test_one_bad_file_does_not_hide_the_others(tmp_path):
    kineto(tmp_path / "a.json", rank=0, world=2)
    (tmp_path / "b.json").write_text('{"schemaVersion": 1, "traceEvents": [')
    trace = load(tmp_path)
    assert trace.ranks == (0,)
    assert any(note.startswith("b.json could not be read") for note in trace.notes)
    assert any("1 of 2 ranks are missing: 1" in note for note in trace.notes)


def test_a_note_on_one_of_several_files_names_it_also_where_all_have_one_name(tmp_path):
    for rank in (0, 1):
        kineto(tmp_path / f"rank{rank}" / "trace.json", rank=rank, world=2)
    cut = tmp_path / "rank1" / "trace.json"
    cut.write_text(cut.read_text()[:-2])
    notes = load(tmp_path).notes
    assert notes == ("rank1/trace.json: the document ends too early; all events before the cut were read",)
    cut = tmp_path / "rank0" / "trace.json"
    cut.write_text(cut.read_text()[:-2])
    assert load(tmp_path).notes == ("the document ends too early; all events before the cut were read",)


def test_what_is_no_file_does_not_hide_the_others(tmp_path):
    kineto(tmp_path / "a.json", rank=0, world=1)
    os.mkfifo(tmp_path / "b.json")
    (tmp_path / "c.json").symlink_to(tmp_path / "gone.json")
    trace = load(tmp_path)
    assert len(trace) == 2
    assert trace.notes == (
        "b.json could not be read: not a regular file",
        "c.json could not be read: cannot open the profile: No such file or directory",
    )
    (tmp_path / "a.json").unlink()
    with pytest.raises(TraceError, match=r"can be read: b\.json could .*; c\.json could not be read"):
        load(tmp_path)


def test_other_formats_are_left_out_and_said(tmp_path):
    kineto(tmp_path / "a.json", rank=0, world=1)
    (tmp_path / "snapshot.pickle").write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "data.bin").write_bytes(bytes(100))
    trace = load(tmp_path)
    assert trace.format == "kineto"
    assert "1 pickle files were left out" in trace.notes


def test_what_was_rendered_from_an_xplane_is_not_read_twice(tmp_path):
    from stepscope.trace.set import profile_files

    folder = tmp_path / "plugins" / "profile" / "2026_01_01"
    kineto(folder / "vm.trace.json")
    assert load(tmp_path).ranks == (0,)  # the folder's number is not a rank
    assert [path.name for path in profile_files(tmp_path)] == ["vm.trace.json"]


def test_nothing_to_read(tmp_path):
    with pytest.raises(TraceError, match="no profile in the directory"):
        load(tmp_path)
    (tmp_path / "a.json").write_text('{"traceEvents": []}')
    with pytest.raises(TraceError, match=r"a\.json could not be read: the trace holds no events"):
        load(tmp_path)


def test_clocks_that_do_not_fit_are_relative(tmp_path):
    kineto(tmp_path / "a.json", rank=0, world=2)
    path = kineto(tmp_path / "b.json", rank=1, world=2, start=50)
    path.write_text(path.read_text().replace("1700000000000000000", "0"))
    trace = load(tmp_path)
    assert (trace.clock, trace.start_ns.tolist()) == ("relative", [0, 10_000, 0, 10_000])


def test_a_merged_trace_is_one_that_could_have_been_recorded(tmp_path):
    for rank in range(3):
        kineto(tmp_path / f"r{rank}.json", rank=rank, world=3)
    trace = load(tmp_path)
    order = np.lexsort((-trace.duration_ns, trace.start_ns, trace.lane, trace.rank))
    assert order.tolist() == list(range(len(trace)))
    assert trace.frame().height == len(trace)
    assert {frame.height for name, frame in trace.tables().items() if name == "operators"} == {6}
