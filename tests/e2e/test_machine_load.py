"""Other work on the machine lengthens steps, and no rule takes that for the training's own work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

import stepscope as ss
from stepscope.record import waits

STEPS = 150
LATER = 90
TIMES = ("slower-steps", "step-outliers", "data-wait", "stalled-training")


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep processes busy that do nothing useful."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def compute() -> None:
    sum(range(300_000))


def train(path, *, loaded: int, before: Callable[[], None], after: Callable[[], None]) -> ss.HealthHook:
    """Train, from some step on with other processes beside it or with other steps."""
    hook = ss.HealthHook({"slower-steps": {"lost_s": 0.5}}, stall=False)
    with ExitStack() as stack, ss.Run(path, hooks=[hook]) as run:
        for step in run.steps(range(STEPS)):
            if step == LATER:
                stack.enter_context(load(loaded))
            (before if step < LATER else after)()
    return hook


@pytest.mark.parametrize(
    ("loaded", "before", "after", "found"),
    [
        (5 * (os.cpu_count() or 1), compute, compute, False),
        (0, partial(time.sleep, 0.01), partial(time.sleep, 0.05), True),
    ],
    ids=["other work", "own work"],
)
def test_steps_that_other_work_lengthens_are_not_the_trainings_own(
    tmp_path, monkeypatch, loaded, before, after, found
):
    monkeypatch.setattr(waits, "REPORT_SECS", 0.25)
    verdict = train(tmp_path, loaded=loaded, before=before, after=after).verdict
    assert [each.rule for each in verdict.findings if each.rule in TIMES] == ["slower-steps"] * found
    reasons = [each.missing for each in verdict.abstained if each.rule == "slower-steps"]
    assert ["waited for a processor" in reason for reason in reasons] == [True] * (not found)
