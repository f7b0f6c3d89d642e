"""Clocks, waits, blame and replay, on simulated jobs whose truth is planted."""

import json
from dataclasses import replace

import numpy as np
import pytest

from stepscope.analyze.ranks.blame import answers_of, blame_of
from stepscope.analyze.ranks.clocks import align_clocks
from stepscope.analyze.ranks.joint import joint_collectives
from stepscope.analyze.ranks.own_work import Excess
from stepscope.analyze.ranks.stragglers import find_stragglers
from stepscope.analyze.ranks.waits import bandwidths, measure_waits, slow_groups
from stepscope.analyze.ranks.what_if import what_if
from stepscope.errors import EmptyTraceError
from stepscope.job import load_ranks
from stepscope.serve.job_report import verdict
from stepscope.trace.load import load_trace


def answers(trace):
    joint = joint_collectives(trace)
    clocks = align_clocks(trace, joint)
    return joint, clocks, measure_waits(trace, joint, clocks)


def blame(trace, waits):
    """Return the blame without a comparison of the last rank's work with the others'."""
    unknown = np.full(len(waits.joint), np.nan)
    return blame_of(waits, answers_of(trace, waits, Excess(unknown, unknown, unknown), {})[0])


@pytest.mark.parametrize("sequences", [True, False])
def test_offsets_and_drifts_are_found(simulated, tmp_path, sequences):
    job = simulated(ranks=4, steps=40)
    job.sequences = sequences
    job.offset = np.array([0, -10_000, 800_000, 37.5])  # us
    job.drift = np.array([0, 50e-6, -50e-6, 3e-6])
    trace = job.write(tmp_path)
    joint, clocks, _ = answers(trace)
    assert len(joint) == 160
    assert clocks.refused is None
    aligned = clocks.aligned(trace.end_ns[joint.row], np.broadcast_to(np.array(joint.ranks), joint.row.shape))
    assert np.ptp(aligned, axis=1).max() < 5_000
    for rank, clock in clocks.clocks.items():
        assert clock.drift == pytest.approx(job.drift[rank], abs=5e-6)
        assert clock.error_ns < 5_000


def test_processes_of_one_host_share_its_clock_and_nothing_is_fitted(simulated, tmp_path):
    job = simulated(ranks=3, steps=10)
    job.host, job.exit = "node1", 80.0  # ranks do not leave together, as in a ring of Gloo
    clocks = answers(job.write(tmp_path))[1]
    assert clocks.one_host
    assert clocks.refused is None
    assert {clock.offset_ns for clock in clocks.clocks.values()} == {0.0}


def test_machines_that_are_called_alike_do_not_share_a_clock(simulated, tmp_path):
    job = simulated(ranks=3, steps=10)
    job.host, job.offset = "localhost", np.array([0, -10_000, 800_000])  # us
    clocks = answers(job.write(tmp_path))[1]
    assert not clocks.one_host
    assert clocks.clocks[2].offset_ns == pytest.approx(8e8, abs=5_000)


def captured_a_step_apart(simulated, folder, keep):
    """Return the trace of two ranks without sequence numbers, of steps 0 to 10 and of 1 to 11.

    Args:
        simulated: Makes the job.
        folder: Where its profiles are written.
        keep: Gives the events of a rank that are kept, from those of its steps.
    """
    job = simulated(ranks=2, steps=12, buckets=1)
    job.sequences = False
    job.write(folder)
    for rank, cut in ((0, "ProfilerStep#11"), (1, "ProfilerStep#0")):
        path = folder / f"rank{rank}.json"
        document = json.loads(path.read_text())
        (step,) = [each for each in document["traceEvents"] if each["name"] == cut]
        begin, end = step["ts"], step["ts"] + step["dur"] + 1
        kept = [each for each in document["traceEvents"] if not begin <= each["ts"] < end]
        path.write_text(json.dumps({**document, "traceEvents": keep(kept)}))
    return load_trace(folder, cache=False)


def with_one_before(kept):
    """Add a collective that lies before the first step."""
    first = min(each["ts"] for each in kept)
    early = next(each for each in kept if "AllReduce" in each["name"])
    return [*kept, {**early, "ts": first - 500, "dur": 90, "args": {**early["args"], "correlation": 0}}]


@pytest.mark.parametrize(("keep", "outside"), [(list, 0), (with_one_before, 2)])
def test_ranks_that_were_captured_a_step_apart_are_matched_in_the_steps_of_both(
    simulated, tmp_path, keep, outside
):
    """Also where each runs one before its first step: the n-th of one rank is a step off the other's."""
    trace = captured_a_step_apart(simulated, tmp_path, keep)
    assert (trace.step[trace.collectives.row] == -1).sum() == outside
    joint = joint_collectives(trace)
    steps = trace.step[joint.row]
    assert (steps[:, 0] == steps[:, 1]).all()
    assert steps[:, 0].tolist() == list(range(1, 11))
    said = f"all_reduce in group 0: {2 + outside} in steps that not all ranks recorded are left out"
    assert joint.notes == (said,)


def test_as_many_in_all_but_not_in_each_step_are_not_matched(simulated, tmp_path):
    job = simulated(ranks=2)
    job.sequences = False
    trace = job.write(tmp_path)
    joint = joint_collectives(trace)
    trace.duration_ns.setflags(write=True)
    for column, step in ((0, 2), (1, 5)):
        row = next(row for row in joint.row[:, column].tolist() if trace.step[row] == step)
        trace.duration_ns[row] = 0
    with pytest.raises(EmptyTraceError, match="31 a rank in other steps and no sequence numbers"):
        joint_collectives(trace)


def test_a_clock_that_was_set_is_refused(simulated, tmp_path):
    trace = simulated(steps=10).write(tmp_path)
    joint = joint_collectives(trace)
    late = (trace.rank == 2) & (trace.start_ns > np.median(trace.start_ns))
    trace.start_ns.setflags(write=True)
    trace.start_ns[late] += 250_000_000
    assert "the clock of rank 2 was set by about 250.0 ms" in align_clocks(trace, joint).refused


def test_too_few_collectives_are_refused(simulated, tmp_path):
    trace = simulated(steps=1, buckets=3).write(tmp_path)
    assert answers(trace)[1].refused == "fewer than 5 joint collectives on rank 0"


def test_waiting_is_measured_from_arrivals(simulated, tmp_path):
    job = simulated(noise=0.0)
    job.compute[:, :, 3] += 500
    _, _, waits = answers(job.write(tmp_path))
    assert set(waits.last.tolist()) == {3}
    assert waits.wait_ns[:, :3] == pytest.approx(500_000, abs=5_000)
    assert waits.wait_ns[:, 3].max() < 5_000
    assert waits.transfer_ns == pytest.approx(100_000, abs=5_000)
    assert waits.total_ns == waits.wait_ns.sum()


@pytest.mark.parametrize("culprit", range(4))
def test_a_slow_device_is_blamed_for_computing(simulated, tmp_path, culprit):
    job = simulated(seed=culprit)
    job.compute[:, :, culprit] *= 1.4
    trace = job.write(tmp_path)
    _, _, waits = answers(trace)
    found = blame(trace, waits)
    assert (found[0].rank, found[0].cause, found[0].name) == (culprit, "computing", "gemm")
    assert found[0].share > 0.9
    assert sum(row.wait_caused_ns for row in found) == waits.total_ns
    (straggler,) = find_stragglers(trace, waits)
    assert (straggler.rank, straggler.since) == (culprit, 0)


def test_a_slow_loader_is_blamed_for_loading(simulated, tmp_path):
    job = simulated(steps=12)
    job.load[:, 1] += 3000
    trace = job.write(tmp_path)
    found = blame(trace, answers(trace)[2])
    assert (found[0].rank, found[0].cause) == (1, "data loading")


def test_a_loader_whose_delay_is_shorter_than_what_follows_is_blamed_all_the_same(simulated, tmp_path):
    """While the others wait the rank computes, as late as it has loaded: it does not compute longer."""
    job = simulated(steps=12)
    job.load[:, 1] += 500
    job.write(tmp_path)
    found = load_ranks(tmp_path, cache=False).blame
    assert (found[0].rank, found[0].cause) == (1, "data loading")
    assert found[0].share > 0.7


def test_ranks_that_a_collective_of_their_own_has_held_up_are_not_blamed(simulated, tmp_path):
    """Three of five ranks come together and late: what kept them counts from the other two's arrival."""
    job = simulated(ranks=5, noise=0.0)
    job.compute[:, :, 2:] += 400
    waits = answers(job.write(tmp_path))[2]
    assert waits.margin_ns.max() < 5_000
    assert waits.kept_ns == pytest.approx(400_000, abs=5_000)


def test_what_holds_up_changing_ranks_is_told_where_it_is_no_computing(simulated, tmp_path):
    told = {}
    for name, late in (("loading", 3000), ("usual", 0)):
        job = simulated(ranks=4, steps=24)
        job.load[np.arange(24), np.arange(24) % 4] += late
        (tmp_path / name).mkdir()
        job.write(tmp_path / name)
        found = load_ranks(tmp_path / name, cache=False)
        assert not found.stragglers
        told[name] = (found.shared, verdict(found))
    shared, said = told["loading"]
    assert (shared.cause, shared.ranks) == ("data loading", 4)
    assert said.endswith("% of it is for data loading, on 4 ranks in turn")
    assert told["usual"][0] is None
    assert told["usual"][1].endswith("no rank comes last more often than by chance")


@pytest.mark.parametrize(("slower", "groups", "named"), [(3.0, 3, True), (1.3, 3, False), (3.0, 2, False)])
def test_a_group_whose_transfers_are_slower_than_its_likes(simulated, tmp_path, slower, groups, named):
    trace = simulated(steps=9, buckets=4).write(tmp_path)
    waits = answers(trace)[2]
    names = [f"g{number % groups}" for number in range(len(waits.joint))]
    transfer = waits.transfer_ns.copy()
    transfer[np.array(names) == "g1"] = transfer[np.array(names) == "g1"] * slower
    waits = replace(waits, joint=replace(waits.joint, group=tuple(names)), transfer_ns=transfer)
    found = slow_groups(trace, waits)
    assert [row.group for row in found] == (["g1"] if named else [])
    if named:
        assert (found[0].others, found[0].ranks) == (2, (0, 1, 2, 3))
        assert found[0].transfer_ns == pytest.approx(3 * found[0].usual_ns, rel=0.1)


@pytest.mark.slow
def test_a_healthy_job_accuses_nobody(simulated, tmp_path):
    wrong = []
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        trace = simulated(seed=seed, noise=0.05).write(folder)
        wrong += find_stragglers(trace, answers(trace)[2])
    assert wrong == []


def test_what_a_rank_costs_is_predicted(simulated, tmp_path):
    usual, slow = simulated(noise=0.0), simulated(noise=0.0)
    slow.compute[:, :, 2] += 400
    folders = [tmp_path / "usual", tmp_path / "slow"]
    for folder in folders:
        folder.mkdir()
    usual.write(folders[0])
    trace = slow.write(folders[1])
    _, clocks, waits = answers(trace)
    replay = what_if(trace, waits, clocks, {})
    assert replay.refused is None
    assert replay.replayed_ns == pytest.approx(replay.recorded_ns, rel=0.02)
    by_rank = {change.rank: change for change in replay.changes}
    assert by_rank[2].predicted_ns == pytest.approx(1000 * usual.step_us, rel=0.01)
    for rank in (0, 1, 3):
        assert by_rank[rank].gain_ns < 0.01 * replay.recorded_ns


def test_ranks_that_were_not_recorded(simulated, tmp_path):
    job = simulated()
    job.leave_out = (1,)
    trace = job.write(tmp_path)
    joint, clocks, waits = answers(trace)
    assert not joint.whole.any()
    assert what_if(trace, waits, clocks, {}).refused == "not all ranks of the process groups were recorded"


def without_some(trace, ranks):
    """Leave out the first collective of some ranks: what was not recorded whole does not count."""
    joint = joint_collectives(trace)
    trace.duration_ns.setflags(write=True)
    for rank in ranks:
        trace.duration_ns[joint.row[0, joint.ranks.index(rank)]] = 0
    return trace


@pytest.mark.parametrize(("ranks", "lacking"), [(2, (1,)), (4, (0, 1))])
def test_counts_that_differ_cannot_be_matched(simulated, tmp_path, ranks, lacking):
    job = simulated(ranks=ranks)
    job.sequences = False
    trace = without_some(job.write(tmp_path), lacking)
    with pytest.raises(EmptyTraceError, match="31 to 32 a rank and no sequence numbers"):
        joint_collectives(trace)


def test_a_rank_whose_count_differs_from_most_is_left_out_and_the_others_go_on(simulated, tmp_path):
    job = simulated()
    job.sequences = False
    job.compute[:, :, 1] *= 1.5
    trace = without_some(job.write(tmp_path), (3,))
    joint, clocks, waits = answers(trace)
    assert (joint.ranks, joint.row.shape) == ((0, 1, 2), (32, 3))
    assert not joint.whole.any()
    assert any("rank 3 recorded a different number than the rest" in note for note in joint.notes)
    assert any(note.startswith("rank 3: left out, as no collective matches") for note in joint.notes)
    assert (clocks.refused, set(clocks.clocks)) == (None, {0, 1, 2})
    assert [straggler.rank for straggler in find_stragglers(trace, waits)] == [1]
    times = clocks.aligned(trace.start_ns, trace.rank)
    of_3 = trace.rank == 3
    assert (times[of_3] == trace.start_ns[of_3]).all()


def test_one_rank_alone(simulated, tmp_path):
    job = simulated(ranks=2)
    job.leave_out = (1,)
    with pytest.raises(EmptyTraceError, match="expected profiles of several ranks, found rank 0 alone"):
        joint_collectives(job.write(tmp_path))


def test_bus_bandwidth(simulated, tmp_path):
    """4 MB in 100 us on 4 ranks: 40 GB/s, and 1.5 times that on each link of a ring."""
    trace = simulated(noise=0.0).write(tmp_path)
    (row,) = bandwidths(trace, answers(trace)[2])
    assert (row.operation, row.ranks, row.count, row.bytes) == ("all_reduce", 4, 32, 4_000_000)
    assert row.algorithm_bytes_per_s == pytest.approx(40e9, rel=0.05)
    assert row.bus_bytes_per_s == pytest.approx(1.5 * row.algorithm_bytes_per_s)
