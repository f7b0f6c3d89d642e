"""``GET profile/ranks``: profiles and dumps of all ranks of a job, over HTTP as on the command line."""

import json
import shutil
from dataclasses import replace

import msgspec
import numpy as np
import pytest
from support.addresses import Addresses
from support.recordings import recorded

from stepscope.analyze.idle import REASONS
from stepscope.job import load_ranks
from stepscope.serve.profiles.outline import working_lanes
from stepscope.serve.reply import Refusal
from stepscope.trace import load_trace


def asked(folder, path):
    return Addresses(folder).ask("profile/ranks", path=path)


def test_profiles_say_what_the_command_says(tmp_path):
    shutil.copytree(recorded("traces/dlrm_8xv100"), tmp_path / "dlrm")
    found, told = asked(tmp_path, "dlrm"), load_ranks(tmp_path / "dlrm", cache=False)
    assert (found.source, found.ranks, found.missing) == ("profiles", list(range(8)), [])
    assert found.wait.share_of_communication == pytest.approx(0.965, abs=0.005)
    assert found.wait.total_ns == sum(row.wait_caused_ns for row in found.blame) == told.waits.total_ns
    assert sum(row.share for row in found.blame if row.rank == 7) == pytest.approx(0.76, abs=0.02)
    assert set(found.clock.clocks) == set(range(8))
    assert (found.clock.refused, found.clock.one_host, found.wait.needed) == (None, False, None)
    assert json.loads(msgspec.json.encode(found))["suspects"] == []


def test_dumps_say_who_is_waited_for(tmp_path):
    shutil.copytree(recorded("traces/flight_recorder") / "gpu_error_1st", tmp_path / "hang")
    found = asked(tmp_path, "hang")
    assert found.source == "dumps"
    assert {suspect.rank for suspect in found.suspects} == {12, 14}
    assert all(suspect.evidence for suspect in found.suspects)
    assert (found.clock, found.wait, found.blame) == (None, None, ())


def test_one_rank_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "one").mkdir()
    shutil.copy(recorded("traces/dlrm_8xv100") / "rank0.json.gz", tmp_path / "one" / "rank0.json.gz")
    with pytest.raises(Refusal) as refused:
        asked(tmp_path, "one")
    assert refused.value.status == 422
    assert refused.value.hint


def test_waits_lead_to_the_rank_that_came_last_on_one_clock(tmp_path):
    shutil.copytree(recorded("traces/dlrm_8xv100"), tmp_path / "dlrm")
    addresses = Addresses(tmp_path)

    def waits(query):
        return addresses.ask("profile/waits", f"path=dlrm&{query}")

    found = waits("most=5000")
    told = asked(tmp_path, "dlrm")
    assert found.clocks.startswith("clocks are aligned to rank 0's within ")
    assert found.total == len(found.waits)
    # What is below the clocks' error is not told.
    assert 0.99 * told.wait.total_ns < found.total_ns <= 1.01 * told.wait.total_ns
    assert all(one.start_ns < one.end_ns and one.rank != one.last_rank for one in found.waits)
    assert all(one.end_ns <= one.last_start_ns for one in found.waits)
    first = waits("most=1")
    assert (first.total, first.total_ns) == (found.total, found.total_ns)
    longest = max(one.end_ns - one.start_ns for one in found.waits)
    assert [one.end_ns - one.start_ns for one in first.waits] == [longest]
    assert waits(f"start=0&end={found.waits[0].start_ns}").waits == []
    with pytest.raises(Refusal):
        waits("most=5001")


def test_one_rank_waits_for_none(tmp_path):
    shutil.copy(recorded("traces/dlrm_8xv100") / "rank0.json.gz", tmp_path / "rank0.json.gz")
    found = Addresses(tmp_path).ask("profile/waits", path="rank0.json.gz")
    assert (found.waits, found.total, found.total_ns, found.clocks) == ([], 0, 0, "")


def test_gaps_of_devices_have_a_reason(tmp_path):
    shutil.copytree(recorded("traces/dlrm_8xv100"), tmp_path / "dlrm")
    addresses = Addresses(tmp_path)
    found = addresses.ask("profile/gaps", "path=dlrm&most=5000")
    assert {gap.rank for gap in found.gaps} == set(range(8))
    assert found.total == len(found.gaps) > 100
    assert {gap.reason for gap in found.gaps} <= set(REASONS)
    assert found.gaps == sorted(found.gaps, key=lambda gap: gap.start_ns)
    [longest] = addresses.ask("profile/gaps", "path=dlrm&most=1").gaps
    assert longest.duration_ns == max(gap.duration_ns for gap in found.gaps)
    with pytest.raises(Refusal):
        addresses.ask("profile/gaps", "path=dlrm&most=5001")


def test_threads_beside_the_training_are_told_apart(tmp_path):
    shutil.copytree(recorded("traces/dlrm_8xv100"), tmp_path / "dlrm")
    lanes = Addresses(tmp_path).ask("outline", path="dlrm").lanes
    assert all(lane.working for lane in lanes if lane.device >= 0 or lane.stepping)
    trace = load_trace(tmp_path / "dlrm", cache=False)
    alone = replace(trace, launch=np.full_like(trace.launch, -1), forward=np.full_like(trace.forward, -1))
    working = working_lanes(alone)
    hosts = {number for number, lane in enumerate(trace.lanes) if lane.device < 0 and lanes[number].events}
    assert working & hosts < hosts, "threads that only run operators of their own are apart"
