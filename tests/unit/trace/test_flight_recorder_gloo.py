"""Dumps of the recorder that Gloo has: states that are never brought up to date, a group without a name."""

import pickle

import pytest

from stepscope.analyze.ranks.hangs import find_hang
from stepscope.trace.load import load_trace


def entry(number, *, retired, state="scheduled"):
    return {
        "record_id": number,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "p2p_seq_id": 0,
        "op_id": number,
        "profiling_name": "gloo:all_reduce",
        "time_created_ns": 1_700_000_000_000_000_000 + number,
        "input_sizes": [[4]],
        "input_dtypes": ["Float"],
        "output_sizes": [[4]],
        "output_dtypes": ["Float"],
        "state": state,
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": None,
        "retired": retired,
        "is_p2p": False,
        "frames": [],
    }


@pytest.fixture
def job(tmp_path):
    """Write dumps of ranks: how many collectives each called, which it ended, and what its status says."""

    def write(called, *, completed=3, size=3, ended=None, backend="gloo"):
        for rank, count in enumerate(called):
            status = completed if isinstance(completed, int) else completed[rank]
            done = range(1, status + 1) if ended is None else ended[rank]
            entries = [entry(number, retired=number in done) for number in range(1, count + 1)]
            content = {
                "version": "2.10",
                "pg_config": {"": {"name": "", "desc": "", "ranks": str(list(range(size)))}},
                "pg_status": {
                    "0": {
                        "last_enqueued_collective": count,
                        "last_started_collective": -1,
                        "last_completed_collective": status,
                    }
                },
                "entries": [{**each, "profiling_name": f"{backend}:all_reduce"} for each in entries],
            }
            (tmp_path / f"dump_rank_{rank}").write_bytes(pickle.dumps(content))
        return find_hang(load_trace(tmp_path, cache=False))

    return write


def test_the_rank_that_did_not_call_is_waited_for(job):
    found = job([4, 4, 3])
    assert [(each.rank, each.reason) for each in found.suspects] == [(2, "did not join")]
    assert [(wait.rank, wait.sequence, wait.blockers) for wait in found.waits] == [(0, 4, (2,)), (1, 4, (2,))]
    assert found.waits[0].group == "0 default_pg"


def test_a_job_that_goes_on_accuses_nobody(job):
    found = job([3, 3, 3])
    assert (found.waits, found.suspects) == ((), ())


def test_a_rank_that_left_no_dump_is_missing(job):
    found = job([4, 4], size=3)
    assert found.missing == (2,)
    assert [(each.rank, each.reason) for each in found.suspects] == [(2, "left no dump")]


def upto(*numbers):
    return [range(1, number + 1) for number in numbers]


def test_a_rank_whose_status_names_an_older_end_is_not_accused(job):
    """A slow thread of rank 1 wrote the end of collective 3 after another thread wrote that of 5."""
    found = job([6, 6, 5, 6], completed=[5, 3, 5, 5], size=4, ended=upto(5, 5, 5, 5))
    assert [(each.rank, each.reason, each.confidence) for each in found.suspects] == [
        (2, "did not join", 0.875)
    ]
    assert {wait.rank: wait.sequence for wait in found.waits} == {0: 6, 1: 6, 3: 6}


def test_a_collective_that_a_newer_one_overtook_has_not_ended(job):
    """Two threads work: 4 waits for rank 2 while 5 has ended."""
    overtaken = {1, 2, 3, 5}
    found = job([5, 5, 3], completed=[5, 5, 3], ended=[overtaken, overtaken, range(1, 4)])
    assert [(each.rank, each.reason) for each in found.suspects] == [(2, "did not join")]
    assert {wait.sequence for wait in found.waits} == {4}


def test_a_late_rank_is_waited_for_until_it_joins(job):
    """At the first look rank 1 is still in collective 5; at the second it waits with the others."""
    first = job([6, 5, 5, 6], completed=[5, 4, 5, 5], size=4, ended=upto(5, 4, 5, 5))
    assert {each.rank for each in first.suspects} == {1, 2}
    second = job([6, 6, 5, 6], completed=[5, 5, 5, 5], size=4, ended=upto(5, 5, 5, 5))
    assert [(each.rank, each.reason) for each in second.suspects] == [(2, "did not join")]


def test_two_ranks_that_do_not_come_are_both_named(job):
    found = job([6, 5, 5, 6], completed=[5, 3, 5, 4], size=4, ended=upto(5, 5, 5, 5))
    assert [(each.rank, each.reason) for each in found.suspects] == [(1, "did not join"), (2, "did not join")]


def test_what_another_backend_retires_beyond_the_last_completed_one_has_not_ended(job):
    found = job([4, 4, 2], completed=2, ended=upto(4, 4, 2), backend="xccl")
    assert [(each.rank, each.reason) for each in found.suspects] == [(2, "did not join")]
