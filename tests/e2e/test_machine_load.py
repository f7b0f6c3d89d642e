"""Other work on the machine lengthens steps, and no rule takes that for the training's own work."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext

import pytest

import stepscope as ss
from stepscope.record import waits

STEPS = 150
LATER = 90
TIMES = ("slower-steps", "step-outliers", "data-wait", "stalled-training")


HOG = """
import os, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
print(flush=True)
for _ in range(700):  # a minute, if nobody ends it
    end = time.monotonic() + 0.08
    while time.monotonic() < end: pass
    time.sleep(0.008)
"""


@contextmanager
def hog() -> Iterator[None]:
    """Leave a tenth of this thread's processor to all that is no real-time work."""
    with subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline(), "it may take a processor"
        try:
            yield
        finally:
            running.kill()


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Keep this thread, and what it starts, on one processor."""
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(processors)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, processors)


def work(seconds: float) -> None:
    """Mostly sleep: who does so soon has a processor again, however many others want one."""
    time.sleep(seconds)
    sum(range(30_000))


def train(path, *, beside: Callable[[], AbstractContextManager[None]], step_s: float) -> ss.HealthHook:
    """Train, from some step on with something beside it or with longer steps."""
    hook = ss.HealthHook({"slower-steps": {"lost_s": 0.5}}, stall=False)
    with ExitStack() as stack, on_one_processor(), ss.Run(path, hooks=[hook]) as run:
        for step in run.steps(range(STEPS)):
            if step == LATER:
                stack.enter_context(beside())
            work(0.01 if step < LATER else step_s)
    return hook


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may keep others from a processor")
@pytest.mark.parametrize(
    ("beside", "step_s", "found"),
    [(hog, 0.01, False), (nullcontext, 0.08, True)],
    ids=["other work", "own work"],
)
def test_steps_that_other_work_lengthens_are_not_the_trainings_own(
    tmp_path, monkeypatch, beside, step_s, found
):
    monkeypatch.setattr(waits, "REPORT_SECS", 0.25)
    verdict = train(tmp_path, beside=beside, step_s=step_s).verdict
    assert [each.rule for each in verdict.findings if each.rule in TIMES] == ["slower-steps"] * found
    reasons = [each.missing for each in verdict.abstained if each.rule == "slower-steps"]
    assert ["waited for a processor" in reason for reason in reasons] == [True] * (not found)
