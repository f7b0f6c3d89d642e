"""Several jobs that record into one directory at the same time are told."""

from types import SimpleNamespace

import pytest

from stepscope.store.info import RunInfo
from stepscope.store.problems import MOST_WRITERS, SAID, overlap, unrecorded


def writer(pid, begin, end, *, tags=("loss", "stepscope/queued_bytes"), host="node", **facts):
    """A process whose run began half a minute before its first point."""
    facts = {"recorded": True, "role": "chief", "rank": 0, **facts}
    info = RunInfo(host=host, pid=pid, started=begin - 30.0, **facts)
    part = SimpleNamespace(tags=dict.fromkeys(tags))
    source = SimpleNamespace(said=info, first_wall=begin, last_wall=end, parts=[part])
    return SimpleNamespace(sources=[source])


def test_two_jobs_in_one_directory_are_named():
    [problem] = overlap([writer(7, 0.0, 100.0), writer(8, 50.0, 200.0), writer(9, 300.0, 400.0)])
    assert (problem.kind, problem.count, problem.file) == ("overlap", 2, None)
    assert "2 processes recorded the same series at the same time" in problem.text
    assert "(process 7 on node, process 8 on node)" in problem.text


def test_jobs_of_a_few_seconds_are_named():
    [problem] = overlap([writer(7, 0.0, 5.0), writer(8, 0.3, 5.2)])
    assert "(process 7 on node, process 8 on node)" in problem.text
    assert overlap([writer(7, 0.0, 50.0), writer(8, 20.0, 60.0, host="other")])[0].count == 2


def test_of_many_processes_some_are_named():
    [problem] = overlap([writer(pid, 0.0, 100.0) for pid in range(1, MOST_WRITERS + 9)])
    assert problem.count == MOST_WRITERS
    assert "process 4 on node" not in problem.text
    assert ", …)" in problem.text


@pytest.mark.parametrize(
    "other",
    [
        writer(8, 100.0, 200.0),  # after the first had ended
        writer(8, 99.5, 200.0),  # a little before: started again
        writer(8, 95.0, 200.0, host="other"),  # the clocks of two machines may differ by that
        writer(8, 50.0, 200.0, rank=1),
        writer(8, 50.0, 200.0, role="evaluator"),
        writer(8, 50.0, 200.0, tags=("accuracy", "stepscope/queued_bytes")),
        writer(7, 50.0, 200.0),  # two writers of one process
        writer(8, 50.0, 200.0, recorded=False),
        writer(8, 50.0, float("nan")),
    ],
)
def test_what_may_be_side_by_side_is_no_problem(other):
    assert overlap([writer(7, 0.0, 100.0), other]) == []


def test_the_parts_of_one_process_are_one():
    halves = [writer(7, 0.0, 20.0), writer(7, 0.0, 100.0)]
    assert overlap([*halves, writer(8, 100.0, 200.0)]) == []
    assert overlap([*halves, writer(8, 60.0, 200.0)])[0].count == 2


def test_a_writer_that_says_nothing_of_its_start_is_left_out():
    silent = writer(8, 50.0, 200.0)
    silent.sources[0].said = None
    assert overlap([writer(7, 0.0, 100.0), silent]) == []


@pytest.mark.parametrize(
    ("reason", "count", "text"),
    [
        ("device", 3, "3 points were not recorded: device"),
        ("file_deleted", 1, "1 point was not recorded: file deleted"),
        ("hook", 1, "a hook failed once"),
        ("callback", 2000, "a callback failed 2,000 times"),
        ("role", 1, "its rank or role was in doubt"),
    ],
)
def test_what_a_run_says_it_did_not_do(reason, count, text):
    [problem] = unrecorded(RunInfo(problems={reason: count}))
    assert (problem.count, problem.text) == (count, text)
    assert problem.kind == ("failed" if reason in ("hook", "callback") else "unrecorded")


@pytest.mark.parametrize(
    ("count", "end"), [(1, "a0 at step 1,000"), (SAID, "step 1,003"), (SAID + 2, ", and 2 more")]
)
def test_series_that_ended_are_named(count, end):
    [problem] = unrecorded(RunInfo(ended_series={f"a{at}": 1000 + at for at in range(count)}))
    assert problem.text.startswith("series ended while the training went on: a0 at step 1,000")
    assert problem.text.endswith(end)
