"""How the end of a program and those of its runs make the state on the card."""

from types import SimpleNamespace

import pytest

from stepscope.cli.card import _Ends

KILLED = "process 8 did not exit, as after kill -9; the program ended with code 3"
FINISHED, RUNNING = ("finished", None), ("running", None)


@pytest.mark.parametrize(
    ("last_wall", "condition", "state"),
    [
        (150.0, FINISHED, FINISHED),
        (250.0, FINISHED, ("failed", "exit code 3")),
        (150.0, ("failed", "ValueError"), ("failed", "ValueError")),
        (
            150.0,
            RUNNING,
            ("ended", "process 8 did not exit, as after kill -9; the program ended with code 3"),
        ),
    ],
    ids=["before the last began", "the last", "failed before", "killed before"],
)
def test_a_failure_of_the_program_is_none_of_a_run_that_had_finished_before(
    tmp_path, last_wall, condition, state
):
    """As of a shell script that trains twice, of which the second training fails."""
    run = SimpleNamespace(condition=lambda: condition, last_wall=last_wall, info=SimpleNamespace(pid=8))
    assert _Ends(tmp_path, 7, 3, 200.0).of(run, None) == state
