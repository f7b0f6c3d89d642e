import pytest

from stepscope.store.info import RunInfo
from stepscope.store.problems import SAID, unrecorded


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
