"""The critical path across ranks, sums of waiting, and links, on simulated jobs whose truth is planted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from support.recordings import recorded

from stepscope.analyze.peaks import link_of
from stepscope.analyze.ranks.clocks import align_clocks
from stepscope.analyze.ranks.job import job_of
from stepscope.analyze.ranks.joint import joint_collectives
from stepscope.analyze.ranks.path import LATER, TRANSFER
from stepscope.job import load_ranks
from stepscope.trace.load import load_trace


def on_path(job, rank, cause):
    return sum(piece.time_ns for piece in job.path.pieces if (piece.rank, piece.cause) == (rank, cause))


def test_a_slow_rank_is_on_the_path_for_its_computing_and_waiting_is_not(simulated, tmp_path):
    planted = simulated(noise=0.0)
    planted.compute[:, :, 2] += 500
    job = job_of(planted.write(tmp_path))
    assert job.path.steps == planted.steps
    assert job.path.total_ns == pytest.approx(1e3 * planted.step_us * planted.steps, rel=1e-3)
    assert sum(piece.time_ns for piece in job.path.pieces) == job.path.total_ns
    computed = 1500e3 * planted.buckets * planted.steps
    assert on_path(job, 2, "computing") == pytest.approx(computed, rel=0.01)
    assert sum(on_path(job, rank, "computing") for rank in (0, 1, 3)) < 0.01 * computed
    transfers = sum(piece.time_ns for piece in job.path.pieces if piece.cause == TRANSFER)
    assert transfers == pytest.approx(100e3 * planted.buckets * planted.steps, rel=0.05)
    assert next(iter(job.path.ranks)) == 2


def test_the_path_goes_over_to_whichever_rank_the_others_wait_for(simulated, tmp_path):
    planted = simulated(noise=0.0)
    planted.compute[:, 0, 1] += 400
    planted.compute[:, 2, 3] += 700
    job = job_of(planted.write(tmp_path))
    assert on_path(job, 1, "computing") >= 1400e3 * planted.steps * 0.99
    assert on_path(job, 3, "computing") >= 1700e3 * planted.steps * 0.99
    assert job.path.switches >= planted.steps


def test_a_slow_loader_is_on_the_path_as_loading(simulated, tmp_path):
    planted = simulated(noise=0.0)
    planted.load[:, 1] += 2000
    job = job_of(planted.write(tmp_path))
    assert on_path(job, 1, "data loading") == pytest.approx(2050e3 * planted.steps, rel=0.02)


def test_what_a_rank_does_at_the_end_of_its_steps_delays_the_next(simulated, tmp_path):
    """Others wait in the first collective of the next step for what it did after the last of this one."""
    planted = simulated(noise=0.0, steps=10)
    planted.finish[:, 1] = 1500
    job = job_of(planted.write(tmp_path))
    (straggler,) = job.stragglers
    assert straggler.rank == 1
    worst = job.blame[0]
    assert (worst.rank, worst.cause, worst.name) == (1, "host code", "Optimizer.step#SGD.step")
    assert worst.share > 0.95
    # The last step's delays nobody that was recorded, but the job ends later by it.
    assert on_path(job, 1, "host code") == pytest.approx(1500e3 * planted.steps, rel=0.02)
    assert sum(piece.time_ns for piece in job.path.pieces) == job.path.total_ns
    like = next(change for change in job.replay.changes if change.rank == 1)
    assert like.gain_ns == pytest.approx(1500e3, rel=0.05)
    assert like.recorded_ns == pytest.approx(1e3 * planted.step_us, rel=0.02)


def test_steps_with_a_gap_between_them_are_ways_of_their_own(simulated, tmp_path):
    planted = simulated(noise=0.0, steps=10)
    planted.compute[:, :, 2] += 500
    planted.write(tmp_path)
    for rank in range(4):
        path = tmp_path / f"rank{rank}.json"
        document = json.loads(path.read_text())
        kept = [each for each in document["traceEvents"] if each["name"] != "ProfilerStep#4"]
        path.write_text(json.dumps({**document, "traceEvents": kept}))
    job = job_of(load_trace(tmp_path, cache=False))
    assert job.path.steps == 9
    assert job.path.total_ns == pytest.approx(9e3 * planted.step_us, rel=0.01)
    assert sum(piece.time_ns for piece in job.path.pieces) == job.path.total_ns


def test_a_rank_that_begins_later_is_said_to(simulated, tmp_path):
    planted = simulated(noise=0.0, steps=6)
    planted.compute[:, :, 0] -= 900
    folder = tmp_path
    planted.write(folder)
    path = folder / "rank1.json"
    document = json.loads(path.read_text())
    for event in document["traceEvents"]:
        if event["name"].startswith("ProfilerStep"):
            event["ts"] += 30.0
            event["dur"] -= 30.0
    path.write_text(json.dumps(document))
    job = job_of(load_trace(folder, cache=False))
    assert sum(piece.time_ns for piece in job.path.pieces) == job.path.total_ns
    assert all(piece.time_ns >= 0 for piece in job.path.pieces)
    later = sum(piece.time_ns for piece in job.path.pieces if piece.cause == LATER)
    assert later <= 31e3 * planted.steps


@pytest.mark.parametrize("skew", [0.0, 800_000.0])
def test_clocks_that_differ_change_nothing(simulated, tmp_path, skew):
    planted = simulated(noise=0.01, steps=30)
    planted.compute[:, :, 2] += 500
    planted.offset = np.array([0, -skew, skew / 2, skew])
    job = job_of(planted.write(tmp_path))
    computed = planted.compute[:, :, 2].sum() * 1e3
    assert on_path(job, 2, "computing") == pytest.approx(computed, rel=0.03)


def test_where_ranks_are_missing_there_is_no_path_and_it_is_said(simulated, tmp_path):
    planted = simulated(ranks=4)
    planted.leave_out = (3,)
    job = job_of(planted.write(tmp_path))
    assert job.path.refused == "not all ranks of the process groups were recorded"
    assert (job.path.steps, job.path.total_ns, job.path.pieces) == (0, 0, ())
    assert any(note.startswith("no critical path: ") for note in job.notes)
    assert job.data()["critical_path"]["step_ns"] is None


def test_file_by_file_the_path_and_the_sums_are_the_same(simulated, tmp_path):
    planted = simulated(noise=0.01)
    planted.compute[:, :, 2] += 500
    planted.offset = np.array([0, -10_000, 5_000, 800_000])
    planted.write(tmp_path)
    whole, by_file = (load_ranks(tmp_path, cache=False, processes=count) for count in (None, 2))
    assert by_file.path == whole.path
    assert by_file.costs == whole.costs


def test_sums_by_anything_are_all_of_the_waiting(simulated, tmp_path):
    planted = simulated(noise=0.02)
    planted.compute[:, :, 2] += 300
    planted.load[:, 1] += 900
    job = job_of(planted.write(tmp_path))
    assert set(job.costs) >= {"cause"}
    for rows in job.costs.values():
        assert sum(row.wait_caused_ns for row in rows) == job.waits.total_ns
    by_cause = {row.what: row for row in job.costs["cause"]}
    assert 2 in by_cause["computing"].ranks
    assert 1 in by_cause["data loading"].ranks
    assert sum(row.wait_caused_ns for row in job.blame if row.cause == "computing") == pytest.approx(
        by_cause["computing"].wait_caused_ns, abs=len(job.blame)
    )


def test_waiting_by_host(simulated, tmp_path):
    planted = simulated(noise=0.0)
    planted.compute[:, :, 2] += 500
    planted.write(tmp_path)
    for rank in range(4):
        path = tmp_path / f"rank{rank}.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"host_name": f"node{rank // 2}"}))
    job = job_of(load_trace(tmp_path, cache=False))
    worst = job.costs["host"][0]
    assert worst.what == "node1"
    assert worst.share > 0.98


def test_waiting_by_module(simulated, tmp_path):
    """The module of the kernel that the late rank ran is read from the scope around its launch."""
    planted = simulated(noise=0.0)
    planted.compute[:, :, 2] += 500
    planted.write(tmp_path)
    for rank in range(4):
        path = tmp_path / f"rank{rank}.json"
        document = json.loads(path.read_text())
        launches = [each for each in document["traceEvents"] if each["name"] == "cudaLaunchKernel"]
        document["traceEvents"] += [
            {**each, "cat": "python_function", "name": "nn.Module: Encoder_0", "ts": each["ts"] - 0.5,
             "dur": 2.0, "args": {"Python id": 1, "Python parent id": None, "Python module id": 0}}
            for each in launches
        ]  # fmt: skip
        path.write_text(json.dumps(document))
    job = job_of(load_trace(tmp_path, cache=False))
    named = {row.what: row.share for row in job.costs.get("scope", ())}
    assert any("Encoder" in name and share > 0.9 for name, share in named.items()), named


@pytest.mark.parametrize(
    ("device", "link", "rate"),
    [
        ("Tesla V100-SXM2-32GB", "NVLink 2", 150e9),
        ("Tesla V100-PCIE-16GB", "PCIe 3.0 x16", 16e9),
        ("NVIDIA A100-SXM4-80GB", "NVLink 3", 300e9),
        ("NVIDIA A100-PCIE-40GB", "PCIe 4.0 x16", 32e9),
        ("NVIDIA H100 80GB HBM3", "NVLink 4", 450e9),
        ("NVIDIA H100 PCIe", "PCIe 5.0 x16", 64e9),
        ("NVIDIA H200", "NVLink 4", 450e9),
    ],
)
def test_links_of_devices(device, link, rate):
    found = link_of(device)
    assert (found.name, found.bytes_per_second) == (link, rate)


def test_a_device_that_is_not_known_has_no_link():
    assert link_of("simulated") is None


def named_devices(folder, device, hosts):
    """Say in each file of which kind the device is, and on which host."""
    for rank, host in enumerate(hosts):
        path = folder / f"rank{rank}.json"
        document = json.loads(path.read_text())
        document["deviceProperties"] = [{"id": 0, "name": device}]
        if host:
            document["host_name"] = host
        path.write_text(json.dumps(document))
    return load_trace(folder, cache=False)


def test_bus_bandwidth_beside_the_links_own_on_one_machine(simulated, tmp_path):
    simulated(noise=0.0).write(tmp_path)
    (row,) = job_of(named_devices(tmp_path, "NVIDIA A100-SXM4-80GB", ["node0"] * 4)).bandwidths
    assert (row.link, row.link_bytes_per_s) == ("NVLink 3", 300e9)
    assert row.link_ratio == pytest.approx(row.bus_bytes_per_s / 300e9)


def test_between_machines_the_network_is_what_was_given_or_not_known(simulated, tmp_path):
    simulated(noise=0.0).write(tmp_path)
    trace = named_devices(tmp_path, "NVIDIA A100-SXM4-80GB", ["node0", "node0", "node1", "node1"])
    (row,) = job_of(trace).bandwidths
    assert (row.link, row.link_bytes_per_s, row.link_ratio) == ("", None, None)
    (row,) = job_of(trace, network_bytes_per_s=50e9).bandwidths
    assert (row.link, row.link_ratio) == ("network", pytest.approx(row.bus_bytes_per_s / 50e9))


def test_where_hosts_are_not_recorded_nothing_is_said_of_links(simulated, tmp_path):
    """Each rank saw one device, and so did ranks of other machines."""
    simulated(noise=0.0).write(tmp_path)
    (row,) = job_of(named_devices(tmp_path, "NVIDIA A100-SXM4-80GB", [""] * 4)).bandwidths
    assert (row.link, row.link_ratio) == ("", None)


def test_eight_devices_of_one_machine_are_told_by_what_each_rank_saw():
    job = load_ranks(recorded("traces/dlrm_8xv100"))
    rows = [row for row in job.bandwidths if row.bus_bytes_per_s is not None]
    assert {row.link for row in rows} == {"NVLink 2"}
    assert all(0 < row.link_ratio < 1 for row in rows)
    assert sum(piece.time_ns for piece in job.path.pieces) == job.path.total_ns
    assert next(iter(job.path.ranks)) == 7


def test_clocks_of_a_recorded_job_that_are_skewed_are_put_right_within_microseconds():
    """Offsets of -10 ms to 0.8 s and drifts of up to 50 ppm."""
    trace = load_trace(recorded("traces/dlrm_8xv100"), cache=False)
    before = align_clocks(trace, joint_collectives(trace))
    expected = before.aligned(trace.start_ns, trace.rank)
    offset = np.array([0, -10e6, 0.8e9, 3e6, -2e6, 4e8, 1e5, -9e6])
    drift = np.array([0, 50e-6, -50e-6, 20e-6, -10e-6, 3e-6, 40e-6, -40e-6])

    def skewed(times):
        shift = offset[trace.rank] + drift[trace.rank] * (times - before.middle_ns)
        return np.rint(times + shift).astype(np.int64)

    start, end = skewed(trace.start_ns), skewed(trace.start_ns + trace.duration_ns)
    trace = replace(trace, start_ns=start, duration_ns=end - start)
    clocks = align_clocks(trace, joint_collectives(trace))
    assert clocks.refused is None
    assert np.abs(clocks.aligned(trace.start_ns, trace.rank) - expected).max() < 5_000
