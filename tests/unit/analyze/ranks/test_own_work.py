"""A loader twice as fast, an operator free: what is predicted is what a job that is so takes."""

import json

import numpy as np
import pytest

from stepscope.analyze.ranks.own_work import LOADER, own_work
from stepscope.job import load_ranks
from stepscope.trace.load import load_trace


def step_and_changes(job, folder):
    folder.mkdir()
    job.write(folder)
    found = load_ranks(folder, cache=False)
    assert found.replay.refused is None
    return found.replay.recorded_ns, {change.change: change.predicted_ns for change in found.replay.changes}


def test_a_loader_twice_as_fast_is_predicted(simulated, tmp_path):
    slow, fast = simulated(noise=0.0), simulated(noise=0.0)
    slow.load[:, 1] += 3000
    fast.load = slow.load / 2
    recorded, changes = step_and_changes(slow, tmp_path / "slow")
    truth, _ = step_and_changes(fast, tmp_path / "fast")
    assert recorded > 1.2 * truth
    assert changes[LOADER] == pytest.approx(truth, rel=0.02)


def test_a_loader_that_nobody_waits_for_gains_nothing(simulated, tmp_path):
    """The second rank loads as long as ever, and the first computes longer."""
    job = simulated(ranks=2, noise=0.0)
    job.load[:, 1] += 800
    job.compute[:, 0, 0] += 2000
    recorded, changes = step_and_changes(job, tmp_path / "job")
    assert changes[LOADER] == pytest.approx(recorded - 25_000, rel=0.005)  # half of the other's 50 us


def test_an_operator_that_is_free_is_predicted(simulated, tmp_path):
    usual, free = simulated(noise=0.0), simulated(noise=0.0)
    free.compute[:] = 3  # the host has launched the collective 3 us after the step's kernel
    _, changes = step_and_changes(usual, tmp_path / "usual")
    truth, _ = step_and_changes(free, tmp_path / "free")
    assert changes["gemm free"] == pytest.approx(truth, rel=0.02)


def test_no_change_is_told_where_the_replay_is_off(simulated, tmp_path):
    job = simulated(ranks=2)
    job.write(tmp_path)
    path = tmp_path / "rank1.json"
    document = json.loads(path.read_text())
    for each in document["traceEvents"]:
        if each["name"].startswith("ProfilerStep#"):
            each["dur"] *= 1.5  # steps that end long after what was recorded in them
    path.write_text(json.dumps(document))
    found = load_ranks(tmp_path, cache=False)
    assert found.replay.changes == () or abs(found.replay.replayed_ns / found.replay.recorded_ns - 1) <= 0.02


def test_half_of_the_loading_is_saved_and_no_more_than_the_device_had_nothing_to_do(simulated, tmp_path):
    """10 ms of loading, during 7 of which the device computes: a loader twice as fast saves the other 3."""
    simulated(ranks=2, steps=1, buckets=1, noise=0.0).write(tmp_path)
    path = tmp_path / "rank0.json"
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    step = next(each for each in events if each["name"] == "ProfilerStep#0")
    begin, kernel = step["ts"], next(each for each in events if each["name"] == "gemm")
    collective = next(each for each in events if "AllReduce" in each["name"])
    loading = next(each for each in events if "DataLoader" in each["name"])
    loading |= {"ts": begin, "dur": 10_000}
    kernel |= {"ts": begin, "dur": 7_000}
    collective |= {"ts": begin + 11_000, "dur": 100}
    step["dur"] = 12_000
    path.write_text(json.dumps(document))
    own = own_work(load_trace(tmp_path, cache=False), 0)
    saved = own.before_ns[:, own.changes.index(LOADER)]
    assert np.array_equal(saved, [3_000_000])
    loading["dur"] = 7_500
    path.write_text(json.dumps(document))
    own = own_work(load_trace(tmp_path, cache=False), 0)
    assert own.before_ns[0, own.changes.index(LOADER)] == 500_000
