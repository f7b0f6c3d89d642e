"""All ranks' profiles on one clock, with waits linked; what cannot be aligned is left as it was, and said."""

import json

import numpy as np
import pytest

from stepscope.analyze.ranks.job import job_of
from stepscope.analyze.ranks.together import WAITS_FOR, together
from stepscope.cli import main
from stepscope.serve.profiles.job import answer_of
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.waits import waits
from stepscope.trace.load import load_trace


def ends(trace):
    """When each rank left each collective, shape (collectives, ranks)."""
    rows = trace.collectives.row
    return np.array([np.sort(trace.end_ns[rows[trace.rank[rows] == rank]]) for rank in trace.ranks]).T


def test_collectives_end_together_and_arrows_lead_to_the_last(simulated, tmp_path):
    job = simulated(ranks=4)
    job.compute[:, :, 2] += 500
    job.offset[:] = (0, 3e5, -2e5, 1e4)
    job.drift[:] = (0, 2e-3, -3e-3, 0)
    trace = job.write(tmp_path)
    assert np.ptp(ends(trace), axis=1).max() > 100_000
    found = together(trace)
    assert np.ptp(ends(found), axis=1).max() < 10_000
    assert found.start_ns.min() >= 0
    assert any("aligned to rank 0's within" in note for note in found.notes)
    rows = found.flows.name == found.strings.texts().index(WAITS_FOR)
    source, target = found.flows.source[rows], found.flows.target[rows]
    assert len(source) >= 3 * 8 * 4 * 0.9
    assert (found.rank[source] != found.rank[target]).all()
    assert np.mean(found.rank[target] == 2) > 0.9
    assert (found.start_ns[source] <= found.start_ns[target]).all()


def test_what_lies_within_an_event_still_does(simulated, tmp_path):
    job = simulated(ranks=2)
    job.drift[:] = (0, 5e-5)
    trace = job.write(tmp_path)
    found = together(trace)
    inner = np.flatnonzero(found.parent >= 0)
    outer = found.parent[inner]
    assert len(inner)
    assert (found.start_ns[inner] >= found.start_ns[outer]).all()
    before = trace.end_ns[inner] <= trace.end_ns[outer]
    assert (found.end_ns[inner] <= found.end_ns[outer])[before].all()


def test_ranks_of_one_host_keep_its_clock_and_the_page_says_so(simulated, tmp_path):
    job = simulated(ranks=3, steps=10)
    job.compute[:, :, 1] += 500
    job.host = "node1"
    profile = OpenProfile("job", job.write(tmp_path))
    found = waits(profile, profile.start_ns, profile.end_ns, 300)
    assert found.clocks == "all ranks are on one host and share its clock"
    assert {one.last_rank for one in found.waits} == {1}
    assert answer_of("job", job_of(profile.recorded)).clock.one_host


def test_clocks_that_cannot_be_aligned_leave_times_as_they_were(simulated, tmp_path):
    trace = simulated(ranks=2, steps=1, buckets=2).write(tmp_path)
    found = together(trace)
    assert (found.start_ns == trace.start_ns).all()
    assert len(found.flows) == len(trace.flows)
    assert any(note.startswith("the ranks' clocks are as recorded: ") for note in found.notes)


def test_one_rank_is_as_it_was(simulated, tmp_path):
    job = simulated(ranks=2)
    job.leave_out = (1,)
    trace = job.write(tmp_path)
    assert together(trace) is trace


@pytest.fixture
def written(simulated, tmp_path, capsys):
    def write(job, spoil=None):
        folder = tmp_path / "job"
        folder.mkdir()
        job.write(folder)
        if spoil is not None:
            spoil(folder)
        assert main(["timeline", str(folder), "-o", str(tmp_path / "all.json"), "--json", "--no-cache"]) == 0
        return json.loads(capsys.readouterr().out), json.loads((tmp_path / "all.json").read_text())

    return write


def test_the_merged_timeline_has_the_arrows(written, simulated):
    job = simulated(ranks=3)
    job.offset[:] = (0, 1e5, 0)
    said, file = written(job)
    assert said["ranks"] == [0, 1, 2]
    arrows = [event for event in file["traceEvents"] if event.get("cat") == WAITS_FOR]
    begins = {event["id"]: event for event in arrows if event["ph"] == "s"}
    finishes = {event["id"]: event for event in arrows if event["ph"] == "f"}
    assert begins
    assert begins.keys() == finishes.keys()
    assert all(begins[number]["ts"] <= finishes[number]["ts"] for number in begins)
    assert all(begins[number]["pid"] != finishes[number]["pid"] for number in begins)


def test_missing_and_truncated_ranks_are_said(written, simulated):
    def cut(folder):
        place = folder / "rank1.json"
        place.write_bytes(place.read_bytes()[:2000])
        (folder / "rank3.json").unlink()

    said, file = written(simulated(ranks=4), cut)
    notes = " ".join(said["notes"])
    assert 0 in said["ranks"]
    assert 3 not in said["ranks"]
    assert "missing: " in notes
    assert "rank1.json" in notes or 1 in said["ranks"]
    assert file["otherData"]["notes"] == said["notes"]


def test_the_trace_that_is_read_back_is_on_one_clock(written, simulated, tmp_path):
    job = simulated(ranks=2)
    job.offset[:] = (0, 5e5)
    written(job)
    again = load_trace(tmp_path / "all.json", cache=False)
    assert len(again)
