"""A value that is not finite on one of three real ranks: told while they train, with step and rank."""

import os
from pathlib import Path

import pytest
from support.jobs import run_ranks

JOB = Path(__file__).with_name("nan_on_a_rank.py")
RANKS = 3
pytestmark = pytest.mark.slow


def told(out: Path, how: str) -> tuple[list[str], list[str]]:
    """Train on three ranks; return what the chief was told before the last step ended, and what it knows."""
    run_ranks([JOB, out, how], RANKS, timeout=120, STEPSCOPE_STRICT=os.environ.get("STEPSCOPE_STRICT", ""))
    live, known = (
        [one for one in (out / name).read_text().splitlines() if "nonfinite" in one]
        for name in ("told.txt", "known.txt")
    )
    return live, known


GRADIENT = "nonfinite-gradient: 321 values of the gradient are not finite at step 37"
"""Of the gradients every rank has the sum: which rank's it was they do not tell."""


def test_a_bad_batch_of_rank_1(tmp_path: Path) -> None:
    live, known = told(tmp_path, "input")
    loss = "nonfinite-loss: the loss is NaN at step 37, first on rank 1"
    assert sorted(known) == [GRADIENT, loss]
    assert GRADIENT in live
    # On a busy machine other ranks' losses come sooner than that one's; none is called the first then.
    assert all(one in (GRADIENT, loss) or "first on" not in one for one in live)


def test_a_bad_gradient_of_rank_1_whose_loss_is_finite(tmp_path: Path) -> None:
    """Its sum spoils all ranks' weights in step 37, so that all losses are NaN in the next one."""
    live, known = told(tmp_path, "gradient")
    assert sorted(known) == [
        GRADIENT, "nonfinite-loss: the loss is NaN at step 38, on the ranks 0, 1, 2 at once"
    ]  # fmt: skip
    assert GRADIENT in live
    assert not any("first on" in one for one in live)


def test_ranks_of_which_none_is_bad_are_not_accused(tmp_path: Path) -> None:
    assert told(tmp_path, "nothing") == ([], [])
