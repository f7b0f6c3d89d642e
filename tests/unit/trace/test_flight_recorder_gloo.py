"""Dumps of the recorder that Gloo has: states that are never brought up to date, a group without a name."""

from __future__ import annotations

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
    def write(called, *, completed=3, size=3, retired=None):
        for rank, count in enumerate(called):
            content = {
                "version": "2.10",
                "pg_config": {"": {"name": "", "desc": "", "ranks": str(list(range(size)))}},
                "pg_status": {
                    "0": {
                        "last_enqueued_collective": count,
                        "last_started_collective": -1,
                        "last_completed_collective": completed,
                    }
                },
                "entries": [
                    entry(number, retired=number <= (retired or completed)) for number in range(1, count + 1)
                ],
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


def test_what_is_retired_beyond_the_last_completed_one_has_not_ended(job):
    found = job([4, 4, 2], completed=2, retired=4)
    assert [(each.rank, each.reason) for each in found.suspects] == [(2, "did not join")]
