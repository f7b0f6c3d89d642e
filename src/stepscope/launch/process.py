"""The run of a process that ``stepscope run`` has started: made at its first step, and never a second one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stepscope.record import Run, exits, problems
from stepscope.record.card import SESSION
from stepscope.record.hooks import Hook
from stepscope.record.roles import detect

DIRECTORY, PROFILE = "STEPSCOPE_RUN_DIR", "STEPSCOPE_RUN_PROFILE"
"""Variables by which the command gives the run's directory, and whether to take profiles."""
SAID = "said"
"""File in the session's folder with sentences for the card."""
EXIT_SECS = 1.0
"""How long the end of the process by ``os._exit`` may wait for what was recorded."""


class Process:
    """The training of this process; forked children know nothing of it."""

    def __init__(self) -> None:
        self._folder = os.environ.get(SESSION, "")
        self._run: Run | None = None
        self._pid = os.getpid()
        self._leaders = 0
        self._said: set[str] = set()
        self._refused = False
        self.step_of_values: Callable[[], int | None] = lambda: None
        """Returns the step to which values belong that the program gives now; None for the running one."""

    @property
    def off(self) -> bool:
        """True if nothing is recorded here: the program records by itself, or this is a forked child."""
        return self._refused or os.getpid() != self._pid

    @property
    def led(self) -> bool:
        """True while the callback of a framework counts the steps."""
        return self._leaders > 0

    @property
    def opened(self) -> Run | None:
        """The run, None before the first step."""
        return self._run

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Leave the steps to the callback of a framework."""
        self._leaders += 1
        try:
            yield
        finally:
            self._leaders -= 1

    def run(self) -> Run | None:
        """Return the run of the process, made if there is none; None if the program records by itself."""
        if self.off:
            return None
        if self._run is not None and not self._run.recording:
            self._run, self._refused = None, True  # it was ended, as by a signal
            return None
        if self._run is None:
            if exits.any_open():
                self._refused = True
                return None
            self._run = self._made()
        return self._run

    def _made(self) -> Run:
        from stepscope.record.hooks.health import HealthHook

        problems.elsewhere = self.say
        role = detect(environ=os.environ, modules=sys.modules)
        directory = self._claimed(alone=role.alone)
        hooks: list[Hook] = [HealthHook()]
        if os.environ.get(PROFILE):
            from stepscope.capture import ProfilerHook

            hooks.append(ProfilerHook())
        run = Run(directory, hooks=hooks, card=False)
        leave = os._exit

        def _exit(status: int) -> None:
            if os.getpid() == self._pid and run.recording:
                with suppress(Exception):
                    run.flush(timeout=EXIT_SECS)
            leave(status)

        os._exit = _exit  # type: ignore[assignment]
        return run

    def _claimed(self, *, alone: bool) -> str:
        """Return the run's directory; a second process that trains by itself gets one of its own."""
        directory = os.environ[DIRECTORY]
        if not alone:
            return directory
        for number in range(1, 1000):
            with suppress(FileExistsError):
                (Path(self._folder) / f"claim-{number}").touch(exist_ok=False)
                break
        return directory if number == 1 else f"{directory}-{number}"

    def say(self, text: str) -> None:
        """Leave a sentence for the card; each once.

        Args:
            text: On a fact that cannot be known, and what would tell.
        """
        if text in self._said or self.off:
            return
        self._said.add(text)
        with suppress(OSError), open(Path(self._folder) / SAID, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.write(text.replace("\n", " ") + "\n")

    def measured(self) -> Run | None:
        """Return the run as ``run`` does, with the hook that measures the gradients of models of PyTorch."""
        run = self.run()
        if run is not None:
            from stepscope.record.statistics import GradientHook

            if not any(isinstance(hook, GradientHook) for hook in run.hooks):
                run.add_hook(GradientHook())
        return run

    def record(self, numbers: Mapping[str, Any]) -> None:
        """Record values that the program logs or prints, at the step to which they belong."""
        run = self._run
        if run is not None and not self.off and numbers:
            run.scalars(numbers, self.step_of_values())


process = Process()
"""The one of this process."""
