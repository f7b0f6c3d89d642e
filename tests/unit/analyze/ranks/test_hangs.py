"""Who keeps a hanging job waiting, on dumps whose culprit is planted."""

import json

import pytest

from stepscope.analyze.ranks.hangs import find_hang, listed, sentence
from stepscope.errors import EmptyTraceError
from stepscope.trace.load import load_trace


def entry(
    sequence, state="completed", name="nccl:all_reduce", group="0", elements=8, at=0, number=0, pair=False
):
    return {
        "record_id": sequence,
        "pg_id": number,
        "process_group": [group, "default_pg"],
        "collective_seq_id": sequence,
        "p2p_seq_id": sequence,
        "profiling_name": name,
        "time_created_ns": 1_000_000 + 1000 * sequence + at,
        "input_sizes": [[elements]],
        "input_dtypes": ["Float"],
        "output_sizes": [[elements]],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": pair,
    }


def dump(entries, groups, status=None):
    return {
        "version": "2.9",
        "pg_config": {
            name: {"name": name, "desc": "default_pg", "ranks": str(list(ranks))}
            for name, ranks in groups.items()
        },
        "pg_status": {
            str(number): {"last_enqueued_collective": reached[0], "last_completed_collective": reached[1]}
            for number, reached in (status or {}).items()
        },
        "entries": entries,
    }


@pytest.fixture
def hang(tmp_path):
    def find(dumps):
        for rank, content in dumps.items():
            (tmp_path / f"dump_{rank}").write_text(json.dumps(content))
        return find_hang(load_trace(tmp_path, cache=False))

    return find


ALL = {"0": range(4)}


def usual(last=5, ended=4):
    return [entry(number, "completed" if number <= ended else "scheduled") for number in range(1, last + 1)]


def test_a_rank_that_does_not_join(hang):
    found = hang({rank: dump(usual() if rank != 2 else usual(4), ALL) for rank in range(4)})
    (suspect,) = found.suspects
    assert (suspect.rank, suspect.reason, suspect.confidence) == (2, "did not join", 0.875)
    assert (
        "rank 0 waits in all_reduce 5 of group 0 default_pg, which rank 2 has not called" in suspect.evidence
    )
    assert (
        suspect.evidence[-1] == "rank 2 itself has nothing in flight: its host stopped before the next call"
    )
    assert {wait.rank for wait in found.waits} == {0, 1, 3}
    assert not found.missing


def test_the_first_collective_has_number_zero(hang):
    found = hang({rank: dump([entry(0, "scheduled")] if rank != 2 else [], ALL) for rank in range(4)})
    (suspect,) = found.suspects
    assert suspect.rank == 2
    assert (
        "rank 0 waits in all_reduce 0 of group 0 default_pg, which rank 2 has not called" in suspect.evidence
    )


def test_a_device_that_stopped(hang):
    """All ranks have called everything, but one device has not ended what the others have."""
    found = hang({rank: dump(usual(6, 5 if rank != 1 else 2), ALL) for rank in range(4)})
    (suspect,) = found.suspects
    assert (suspect.rank, suspect.reason) == (1, "device stopped")
    assert suspect.evidence[0].endswith("the device of rank 1 is still at 3")


@pytest.mark.parametrize("ended", [2, 4])
def test_a_dump_from_before_the_others_went_on_says_nothing_of_what_they_wait_in(hang, tmp_path, ended):
    """Rank 0's step was slow and its dump shows it; then all went on, and rank 2 hangs."""
    early = dump(usual(ended + 1, ended), ALL)
    hang({0: early, 1: dump(usual(), ALL), 2: dump(usual(4), ALL), 3: dump(usual(), ALL)})
    trace = load_trace(tmp_path, cache=False)
    assert trace.clock == "unix"
    late = 1_000_000 + 1000 * 9
    taken = {0: 1_000_000 + 1000 * ended + 500, 1: late, 2: late, 3: late}
    found = find_hang(trace, taken)
    assert [(each.rank, each.reason) for each in found.suspects] == [(2, "did not join")]
    outrun = "rank 0 was recorded before ranks 1 and 3 made the call that waits: take the dumps again"
    assert (outrun in found.notes) == (ended == 2)
    same = find_hang(trace, dict.fromkeys(range(4), late))
    assert (0 in {each.rank for each in same.suspects}) == (ended == 2)
    assert not same.notes


def test_where_all_dumps_but_one_are_too_early_nobody_is_named(hang, tmp_path):
    hang({rank: dump(usual() if rank == 1 else usual(4), ALL) for rank in range(4)})
    found = find_hang(load_trace(tmp_path, cache=False), dict.fromkeys((0, 2, 3), 1_000_000))
    assert not found.suspects
    assert sentence(found) == "ranks wait, but the dumps do not say for whom"
    assert found.notes[1] == (
        "rank 0 was recorded before rank 1 made the call that waits: take the dumps again"
    )


def test_a_rank_without_a_dump(hang):
    found = hang({rank: dump(usual(), ALL) for rank in (0, 1, 3)})
    assert found.missing == (2,)
    assert [(suspect.rank, suspect.reason) for suspect in found.suspects] == [(2, "left no dump")]


def test_a_rank_that_runs_without_a_dump_is_not_said_to_keep_others_waiting(hang, tmp_path):
    """Its flight recorder was off: it may have called everything."""
    hang({0: dump(usual(), ALL), 1: dump(usual(4), ALL), 3: dump(usual(), ALL)})
    trace = load_trace(tmp_path, cache=False)
    assert {each.rank for each in find_hang(trace).suspects} == {1, 2}
    found = find_hang(trace, silent=[0, 1, 2, 3])
    assert [(each.rank, each.reason) for each in found.suspects] == [(1, "did not join")]
    assert not found.missing
    assert found.notes[0].startswith(
        "nothing is known of the calls of rank 2: the flight recorder is off there"
    )


@pytest.mark.parametrize("kind", ["collective", "receive"])
def test_where_the_only_rank_that_may_be_waited_for_has_no_dump_that_is_said(hang, tmp_path, kind):
    entries = usual() if kind == "collective" else [entry(1, "scheduled", "nccl:recv 0<-2", pair=True)]
    hang({rank: dump(entries, ALL) for rank in (0, 1, 3)})
    trace = load_trace(tmp_path, cache=False)
    assert [each.rank for each in find_hang(trace).suspects] == [2]
    found = find_hang(trace, silent=[2])
    assert not found.suspects
    assert sentence(found).startswith("nothing is known of the calls of rank 2")


def test_a_rank_that_waits_in_another_group_is_not_to_blame(hang):
    """Rank 1 has not joined all ranks because it waits for rank 3 in a group of two."""
    groups = {"0": range(4), "1": (1, 3)}
    waiting = [*usual(), entry(1, "scheduled", group="1", number=1)]
    dumps = {rank: dump(usual(), groups if rank in (1, 3) else ALL) for rank in (0, 2)}
    dumps[1] = dump([*usual(4), waiting[-1]], groups)
    dumps[3] = dump(usual(4), groups)
    found = hang(dumps)
    assert [suspect.rank for suspect in found.suspects] == [3]


def test_different_collectives_under_one_number(hang):
    odd = [*usual(4), entry(5, "scheduled", "nccl:all_gather")]
    found = hang({rank: dump(usual() if rank != 3 else odd, ALL) for rank in range(4)})
    (mismatch,) = found.mismatches
    assert (mismatch.sequence, mismatch.odd) == (5, (3,))
    (suspect,) = found.suspects
    assert (suspect.rank, suspect.reason) == (3, "called another collective")
    assert suspect.evidence[0].endswith(
        "ranks 0 to 2 called all_reduce of 8 Float; rank 3 called all_gather of 8 Float"
    )


def test_different_sizes_and_no_majority(hang):
    def sized(elements):
        return dump([*usual(4), entry(5, "scheduled", elements=elements)], {"0": range(2)})

    found = hang({0: sized(8), 1: sized(16)})
    assert found.mismatches[0].odd == ()
    assert [(suspect.rank, suspect.confidence) for suspect in found.suspects] == [(0, 0.5), (1, 0.5)]


def test_sizes_may_differ_where_each_rank_sends_its_own(hang):
    def routed(elements):
        last = entry(5, "scheduled", "nccl:all_to_all", elements=elements)
        return dump([*usual(4), last], {"0": range(2)})

    found = hang({0: routed(8), 1: routed(16)})
    assert (found.mismatches, found.suspects) == ((), ())


def test_two_groups_called_in_different_orders(hang):
    """Rank 0 waits in one group for rank 1, which waits in another group for rank 0."""
    groups = {"0": range(2), "1": range(2)}
    first = dump([entry(1, "scheduled", group="0")], groups, {0: (1, 0), 1: (0, 0)})
    second = dump([entry(1, "scheduled", group="1", number=1)], groups, {0: (0, 0), 1: (1, 0)})
    found = hang({0: first, 1: second})
    assert [(suspect.rank, suspect.reason, suspect.confidence) for suspect in found.suspects] == [
        (0, "deadlock", 0.5),
        (1, "deadlock", 0.5),
    ]
    assert found.suspects[0].evidence == ("rank 0 waits for rank 1, while rank 1 waits for rank 0",)


def test_a_receive_without_a_send(hang):
    """Peers are numbered within their group."""
    groups = {"7": (4, 9)}
    pending = entry(3, "scheduled", "nccl:recv 0<-1", group="7", pair=True)
    found = hang({4: dump([pending], groups), 9: dump([], groups)})
    (suspect,) = found.suspects
    assert (suspect.rank, suspect.reason) == (9, "did not join")
    assert suspect.evidence[0] == "rank 4 waits for rank 9 in nccl:recv 0<-1 of group 7 default_pg"


def test_nothing_is_said_of_a_job_that_goes_on(hang):
    found = hang({rank: dump(usual(5, 5), ALL, {0: (5, 5)}) for rank in range(4)})
    assert (found.waits, found.suspects) == ((), ())
    assert "no rank waits for another" in found.notes[0]


def test_nothing_is_said_of_a_collective_that_all_have_called(hang):
    found = hang({rank: dump(usual(), ALL) for rank in range(4)})
    assert found.suspects == ()


@pytest.mark.parametrize("value", [None, "7", [], True])
def test_a_status_that_is_no_number(hang, value):
    content = dump(usual(), ALL)
    content["pg_status"] = {"0": {"last_enqueued_collective": value}}
    assert hang(dict.fromkeys(range(4), content)).suspects == ()


def test_what_is_no_dump(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text('{"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}')
    with pytest.raises(
        EmptyTraceError, match=r"expected flight-recorder dumps, found none\nhint: set TORCH_FR_"
    ):
        find_hang(load_trace(path, cache=False))


def test_ranks_in_a_sentence():
    assert listed([3]) == "rank 3"
    assert listed([0, 1]) == "ranks 0 and 1"
    assert listed([0, 1, 2, 7, 9, 10]) == "ranks 0 to 2, 7, 9 and 10"
