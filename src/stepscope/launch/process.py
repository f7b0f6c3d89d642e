"""The run of a process that ``stepscope run`` has started: made at its first step, and never a second one."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from stepscope.kernels.marks import Switches
from stepscope.launch.sources import Sources
from stepscope.record import Run, card, exits, problems
from stepscope.record.card import LEFT, SAID, SESSION
from stepscope.record.hooks import Hook
from stepscope.record.roles import detect

DIRECTORY, PROFILE = "STEPSCOPE_RUN_DIR", "STEPSCOPE_RUN_PROFILE"
"""Variables by which the command gives the run's directory, and whether to take profiles."""
PROFILE_SECS, PROFILE_SHARE = 60.0, 0.01
"""How often steps are profiled after the first ones, and the largest share of the time that this may take."""
GRADIENT_SHARE = 0.003
"""Share of the time for gradients: a third of the percent that a run may take; marks of steps take more."""
SETTINGS = {
    "argparse": "Namespace",
    "omegaconf": "DictConfig",
    "ml_collections": "ConfigDict",
}
"""By module: the class of its objects that hold a program's settings."""
LEAVES = ("_exit", "abort", "execv", "execve")
"""Functions of ``os`` that end a program without the end of its interpreter; others call these."""
EXIT_SECS = 1.0
"""How long they may wait for what was recorded."""


class Process(Switches):
    """The training of this process; forked children know nothing of it."""

    def __init__(self) -> None:
        super().__init__()
        self.environ: Mapping[str, str] = os.environ
        """The variables that the command gave the program."""
        self._folder = os.environ.get(SESSION, "")
        self._directory = os.environ.get(DIRECTORY, "")
        self._profiles = bool(os.environ.get(PROFILE))
        self._run: Run | None = None
        self._pid = os.getpid()
        self._said: set[str] = set()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)
        self._facts: dict[str, Any] = {}
        self.begins: list[Callable[[], None]] = []
        """Called when the run begins."""
        self.before: list[Callable[[], None]] = []
        """Called before that: a run watches the streams, too, and finds them as the program has them."""
        self.step_of_values: Callable[[], int | None] = lambda: None
        """Returns the step to which values belong that the program gives now; None for the running one."""
        self.fetched: Callable[[float], None] = lambda seconds: None
        """Takes the wait for a batch while the callback of a framework counts the steps."""
        self.reasons: list[Callable[[], str]] = []
        """Each returns why no steps of a framework were counted that computed gradients, or nothing."""
        self.sources = Sources()
        """Decides which values are new."""
        self.end_step: Callable[[], None] = lambda: None
        """Ends the last step, if it was updated; called before the process leaves by ``os._exit``."""

    def given(self, environ: Mapping[str, str]) -> None:
        """Take what the command said when the process began: the program may have changed it since.

        Args:
            environ: The environment of that moment.
        """
        self.environ = environ
        self._folder, self._directory = environ.get(SESSION, ""), environ.get(DIRECTORY, "")
        card.session_folder = self._folder
        self._profiles = bool(environ.get(PROFILE))

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Record nothing more if the block raises, and say why: the program goes on.

        A framework of another version may lack the attributes that the block reads.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  the program must not end by what is wrong here
            self.say(f"nothing more is recorded: {type(error).__name__}: {error}")
            self.off = True

    def _in_child(self) -> None:
        self.off = True

    @property
    def opened(self) -> Run | None:
        """The run, None before the first step."""
        return self._run

    @property
    def counted(self) -> bool:
        """Whether steps of the run are seen, rather than only values that the program prints or tracks."""
        run = self._run
        return run is not None and (run.step_counter.running or run.step_counter.last is not None)

    def uncounted(self) -> str:
        """Return why no steps were counted, which is said at the end; empty if nobody knows."""
        return next(filter(None, (reason() for reason in self.reasons)), "")

    @contextmanager
    def leading(self) -> Iterator[None]:
        """Leave the steps to the callback of a framework."""
        before, self.led = self.led, True
        try:
            yield
        finally:
            self.led = before

    def lead(self, owner: Any, name: str, begin: Callable[[Any], None] = lambda trainer: None) -> None:
        """Make a method of a framework's class leave the steps to a callback, which ``begin`` adds first."""
        original = getattr(owner, name)

        @wraps(original)
        def call(trainer: Any, *arguments: Any, **options: Any) -> Any:
            if not self.off:
                with self.apart():
                    begin(trainer)
            with self.leading():
                return original(trainer, *arguments, **options)

        setattr(owner, name, call)

    def run(self) -> Run | None:
        """Return the run of the process, made if there is none; None if the program records by itself."""
        if self.off:
            return None
        if self._run is not None and not self._run.recording:
            self._run, self.off = None, True  # it was ended, as by a signal
            return None
        if self._run is None:
            if exits.any_open():
                self.off = True
                return None
            with self.apart():
                self._run = self._made()
                self._run.describe({**settings(), **self._facts})
        return self._run

    def _made(self) -> Run:
        from stepscope.capture import LineHook
        from stepscope.integrations.compiling import follow
        from stepscope.record.hooks.health import HealthHook

        problems.elsewhere = self.say
        role = detect(environ=os.environ, modules=sys.modules)
        directory = self._claimed(alone=role.alone)
        hooks: list[Hook] = [HealthHook(), LineHook()]
        if self._profiles:
            from stepscope.capture import ProfilerHook

            hooks.append(ProfilerHook(save_secs=PROFILE_SECS, max_overhead=PROFILE_SHARE))
        for prepare in self.before:
            prepare()
        run = Run(directory, hooks=hooks, card=False)
        follow(run)
        for begin in self.begins:
            begin()
        for name in LEAVES:
            setattr(os, name, self._leaving(run, getattr(os, name)))
        return run

    def _leaving(self, run: Run, leave: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that ends the process, with all steps recorded."""

        @wraps(leave)
        def left(*arguments: Any, **options: Any) -> Any:
            if os.getpid() == self._pid and run.recording:
                with suppress(Exception):
                    self.end_step()
                    run.flush(timeout=EXIT_SECS)
                    status = [*arguments, *options.values()][0] if leave.__name__ == "_exit" else 0
                    name = f"{LEFT}{self._pid}-{Path(run.log_dir).name}"
                    (Path(self._folder) / name).write_text(str(status), "utf-8")
            return leave(*arguments, **options)

        return left

    def _claimed(self, *, alone: bool) -> str:
        """Return the run's directory; a second process that trains by itself gets one of its own."""
        directory = self._directory
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
        if text in self._said or self.off or not self._folder:
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
                # Of weights and updates copies would be needed, and nobody asked for that memory.
                run.add_hook(
                    GradientHook(
                        of=("gradients",), norm_every_step=None, dense_steps=0, max_overhead=GRADIENT_SHARE
                    )
                )
        return run

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add settings that the program gives to a tracker, perhaps before the run begins.

        Args:
            facts: By name.
        """
        self._facts.update(facts)
        if self._run is not None and not self.off:
            self._run.describe(facts)

    def record(self, source: str, numbers: Mapping[str, Any], step: int | None = None) -> None:
        """Record values that the program gives to a tracker or prints, if no other source gives them.

        Args:
            source: ``PRINTED`` or the package of the tracker.
            numbers: By the name of the series.
            step: To which they belong; None for the one of ``step_of_values``.
        """
        run = self._run
        if run is None or self.off or not run.recording:
            return
        step = self.step_of_values() if step is None else step
        if numbers := self.sources.news(source, numbers, step):
            run.scalars(numbers, step)


def settings() -> dict[str, Any]:
    """Return what the program got as its settings: of argparse, OmegaConf or ml_collections, where it trains.

    Looked for among the variables of the functions that run now, and of the script.
    """
    kinds = tuple(
        getattr(sys.modules[name], kind)
        for name, kind in SETTINGS.items()
        if hasattr(sys.modules.get(name), kind)
    )
    merged: dict[str, Any] = {}
    frame: FrameType | None = sys._getframe(1)
    spaces = [vars(sys.modules["__main__"])]
    while frame is not None:
        spaces.append(frame.f_locals)
        frame = frame.f_back
    for space in spaces:
        for value in list(space.values()):
            if isinstance(value, kinds):
                given = value if hasattr(type(value), "keys") else vars(value)
                with suppress(Exception):  # a value that refers to what is not there
                    merged.update({str(name): given[name] for name in given})
    return merged


process = Process()
"""The one of this process."""
