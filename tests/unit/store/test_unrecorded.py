import pytest

from stepscope.store.info import RunInfo
from stepscope.store.problems import unrecorded


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
