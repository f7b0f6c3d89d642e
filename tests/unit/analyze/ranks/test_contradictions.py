"""Ranks whose recordings do not fit together: each is told, and nothing is guessed over."""

import gzip
import json
import pickle
import shutil

import numpy as np
import pytest
from support.recordings import recorded

from stepscope.errors import EmptyTraceError, TraceError
from stepscope.job import load_ranks


def changed(path, change):
    """Write a profile anew, with a change to its document."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def loaded(folder):
    """Return what is told at once and file by file, which must be the same."""
    found = load_ranks(folder, cache=False)
    assert load_ranks(folder, cache=False, processes=1).data() == found.data()
    return found


def renumbered(by):
    def change(document):
        for each in document["traceEvents"]:
            if each["name"].startswith("ProfilerStep#"):
                each["name"] = f"ProfilerStep#{int(each['name'].partition('#')[2]) + by}"

    return change


def test_a_rank_that_was_captured_in_other_steps_is_left_out_however_many_it_recorded(simulated, tmp_path):
    job = simulated()
    job.sequences = False
    job.compute[:, :, 1] *= 1.4
    job.write(tmp_path)
    changed(tmp_path / "rank2.json", renumbered(100))
    found = loaded(tmp_path)
    said = "all_reduce in group 0: rank 2 recorded none of the steps of the rest, and no sequence numbers: "
    assert any(note.startswith(said) for note in found.notes)
    assert found.waits.joint.ranks == (0, 1, 3)
    assert [each.rank for each in found.stragglers] == [1]


def test_two_ranks_of_different_steps_are_not_matched_by_their_number(simulated, tmp_path):
    job = simulated(ranks=2)
    job.sequences = False
    job.write(tmp_path)
    changed(tmp_path / "rank1.json", renumbered(100))
    with pytest.raises(EmptyTraceError, match="no collective was recorded on two ranks") as told:
        load_ranks(tmp_path, cache=False)
    assert "in steps that not all ranks recorded are left out" in told.value.hint


def test_windows_that_only_overlap_are_compared_where_they_do(simulated, tmp_path):
    job = simulated(steps=12)
    job.sequences = False
    job.write(tmp_path)

    def late(document):
        begin = next(each["ts"] for each in document["traceEvents"] if each["name"] == "ProfilerStep#4")
        document["traceEvents"] = [each for each in document["traceEvents"] if each["ts"] >= begin]

    changed(tmp_path / "rank3.json", late)
    found = loaded(tmp_path)
    assert len(found.waits.joint) == 8 * 4
    assert "all_reduce in group 0: 48 in steps that not all ranks recorded are left out" in found.notes


def test_files_of_jobs_of_different_sizes_are_told(simulated, tmp_path):
    """As after an elastic job has shrunk, and its folder was kept."""
    simulated(ranks=3).write(tmp_path)
    changed(tmp_path / "rank2.json", lambda document: document["distributedInfo"].update(world_size=8))
    found = loaded(tmp_path)
    assert "the files are of runs of different sizes: 3, 8 ranks" in found.notes
    assert found.missing == (3, 4, 5, 6, 7)


def test_two_files_that_say_the_same_rank_are_refused(simulated, tmp_path):
    job = simulated(ranks=3)
    job.host = "node1"
    job.write(tmp_path)
    changed(tmp_path / "rank2.json", lambda document: document["distributedInfo"].update(rank=1))
    for how in ({}, {"processes": 1}):
        with pytest.raises(EmptyTraceError, match="2 files of rank 1 overlap in time"):
            load_ranks(tmp_path, cache=False, **how)


def test_a_missing_rank_is_told_and_waits_are_lower_bounds(simulated, tmp_path):
    job = simulated()
    job.leave_out = (2,)
    job.write(tmp_path)
    found = loaded(tmp_path)
    assert found.missing == (2,)
    assert "not all members of the groups were recorded: waits are lower bounds" in found.notes
    assert "no what-if: not all ranks of the process groups were recorded" in found.notes


def test_a_truncated_file_is_told(simulated, tmp_path):
    simulated(ranks=3).write(tmp_path)
    path = tmp_path / "rank1.json"
    text = path.read_bytes()
    path.unlink()
    (tmp_path / "rank1.json.gz").write_bytes(gzip.compress(text)[: len(gzip.compress(text)) // 2])
    found = loaded(tmp_path)
    assert any("rank1.json.gz" in note for note in found.notes)


def test_profiles_of_several_vendors_are_not_compared_with_each_other(simulated, tmp_path):
    """What only TensorFlow's timelines hold is left out beside PyTorch's, and said."""
    simulated(ranks=2).write(tmp_path)
    shutil.copytree(recorded("traces/flight_recorder/gpu_error_1st"), tmp_path / "dumps")
    found = loaded(tmp_path)
    assert found.source == "profiles"
    assert any("files were left out" in note for note in found.notes)


def test_kernels_of_two_vendors_are_matched_by_what_they_do(simulated, tmp_path):
    """RCCL's kernels are called like NCCL's, and one rank's may be named by its operation alone."""
    simulated(ranks=2).write(tmp_path)

    def amd(document):
        for each in document["traceEvents"]:
            if each["name"].startswith("ncclDevKernel"):
                each["name"] = "ncclDevKernel_Generic(ncclDevComm*, unsigned long)"

    changed(tmp_path / "rank1.json", amd)
    assert len(loaded(tmp_path).waits.joint) == 32


class Hostile:
    def __reduce__(self):
        return (exec, ("open('/tmp/stepscope-hostile-pickle', 'w')",))


def test_a_hostile_pickle_runs_nothing(tmp_path):
    """Dumps of a hang are pickles."""
    for rank in range(2):
        (tmp_path / f"dump_{rank}").write_bytes(pickle.dumps({"entries": [Hostile()]}, protocol=4))
    for how in ({}, {"processes": 1}):
        with pytest.raises(TraceError):
            load_ranks(tmp_path, cache=False, **how)
    from pathlib import Path

    assert not Path("/tmp/stepscope-hostile-pickle").exists()


def test_a_clock_that_steps_back_is_refused_and_nobody_is_blamed(simulated, tmp_path):
    simulated(steps=12).write(tmp_path)

    def back(document):
        starts = [each["ts"] for each in document["traceEvents"]]
        middle = float(np.median(starts))
        for each in document["traceEvents"]:
            if each["ts"] > middle:
                each["ts"] -= 3_000.0  # us

    changed(tmp_path / "rank1.json", back)
    found = loaded(tmp_path)
    assert found.clocks.refused is not None
    assert (found.blame, found.stragglers) == ((), ())
    assert any(
        note.startswith("waits are not attributed to ranks: the clocks cannot be aligned")
        for note in found.notes
    )
