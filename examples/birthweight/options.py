"""Shared by the trainings of births in all frameworks: arguments, when to profile, means over 50 steps."""

from __future__ import annotations

import argparse
from typing import Any

import stepscope as ss


def parser(description: str) -> argparse.ArgumentParser:
    """Return the parser of the arguments that every one of them takes."""
    arguments = argparse.ArgumentParser(description=description.splitlines()[0])
    arguments.add_argument("directory", nargs="?", default="runs/births")
    arguments.add_argument("--steps", type=int, default=1200)
    arguments.add_argument("--batch", type=int, default=128)
    arguments.add_argument("--profile", default="steps:400", help="steps:N, seconds:S or range:FIRST-LAST")
    return arguments


def profiler(how: str, home: Any = ss, *, num_steps: int = 3, **where: Any) -> Any:
    """Every so many steps, every so many seconds, or the steps that a predicate names.

    ``home`` has the hooks: Stepscope itself, or its integration for TensorFlow's sessions.
    """
    if how.startswith("range:"):
        first, last = (int(step) for step in how.removeprefix("range:").split("-"))
        return home.LambdaProfilerHook(lambda step: first <= step < last, **where)
    kind, number = how.split(":")
    rhythm = {"save_steps": int(number)} if kind == "steps" else {"save_secs": float(number)}
    return home.ProfilerHook(**rhythm, ranks="all", num_steps=num_steps, **where)


class MeanOfSteps(ss.Hook):
    """Records ``train/loss_mean_of_50``: the mean of ``train/loss`` over 50 steps, at the last of them.

    The values come once they are known, on the thread that writes: the training does not wait for them.
    """

    def __init__(self, every_n_steps: int = 50) -> None:
        self._every, self._values = every_n_steps, list[float]()

    def begin(self, run: ss.Run) -> None:
        self._run = run
        run.listen(self._take, ["train/loss"])

    def _take(self, tag: str, steps: Any, values: Any, walls: Any) -> None:
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            self._values.append(value)
            if step % self._every == self._every - 1:
                mean = sum(self._values) / len(self._values)
                self._run.scalar(f"{tag}_mean_of_{self._every}", mean, step)
                self._values.clear()


def hooks(profile: str) -> list[ss.Hook]:
    """Return the hooks that every one of them has."""
    return [
        ss.StepCounterHook(every_n_steps=50),
        ss.SystemHook(every_secs=5),
        ss.HealthHook(),
        MeanOfSteps(),
        profiler(profile),
    ]
