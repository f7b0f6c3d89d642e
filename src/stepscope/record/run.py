"""Run: what a training script logs with."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any

from stepscope.errors import HaltError, RecordError, StepscopeError, UsageError
from stepscope.events.writer import EventWriter
from stepscope.record import exits
from stepscope.record.arguments import directory, integer, labels, positive, seconds
from stepscope.record.clock import SYSTEM, Clock
from stepscope.record.config import plain
from stepscope.record.hooks.dispatch import Hooks
from stepscope.record.hooks.hook import Hook
from stepscope.record.info import RunInfo, Status, attempt_number
from stepscope.record.loop import Loop
from stepscope.record.problems import Problems, user_site
from stepscope.record.recorder import END_SECS, SUMMARY_BYTES, Recorder
from stepscope.record.roles import Chief, detect
from stepscope.record.roles.policy import check_chief, evaluator_directory
from stepscope.record.roles.role import EVALUATOR
from stepscope.record.roles.watch import Watch
from stepscope.record.sink import Sink, Writer
from stepscope.record.steps import Steps
from stepscope.record.stopping import Stop
from stepscope.record.summaries import Summaries
from stepscope.record.telemetry import Telemetry, attempt_of


class Run(Loop, Summaries):
    """One attempt to train, recorded in a directory.

    Logging puts a point into a queue and returns: it never waits for a device, a disk or a lock, and never
    raises. What cannot be recorded is one warning at your line, then a count in ``problems``, in the run
    itself and on the page. With ``STEPSCOPE_STRICT=1`` in the environment it is raised instead.

    A thread encodes and writes. A point reaches the operating system, and so every reader, within
    ``flush_secs`` of being logged, whether or not anything is logged after it; sooner with
    ``flush_every_n_steps`` or ``flush()``.

    The run ends with ``close()``, the end of its ``with`` block or of the process. It is then *finished*;
    *failed* where an exception left the block or ended the program; *stopped* after SIGTERM or Ctrl-C.

    Of a distributed job only the chief writes what is logged; each rank, the chief too, writes a small
    telemetry file of its own: step times, memory, loss. An evaluator writes event files below the run.
    A process that opens a directory again is a new attempt beside the earlier ones: nothing is overwritten.

    Args:
        log_dir: The run's own directory; made where it is missing.
        config: What the run is made of: a mapping, dataclass or namespace. Secrets are taken out.
        tags: Labels.
        hooks: What takes part in the run's steps, called in this order.
        total_steps: How many steps it is meant to take; by default known from ``len()`` of what ``steps``
            loops over.
        start_step: Number of the first step, for a run that resumes: the number of steps done so far.
        flush_secs: The longest that a point waits, in seconds.
        flush_every_n_steps: Also write out after so many steps.
        max_queue_bytes: Bound of the memory of waiting points. Beyond it points are dropped and counted;
            training never waits.
        max_summary_bytes: Likewise of images, histograms and all else that waits to be encoded.
        rank: This process's number, from 0; by default what an initialised runtime or the launcher says, see
            ``stepscope whoami``.
        world_size: Number of processes that train.
        role: "evaluator", "ps", or what to call this process; by default "chief" or "worker".
        chief: Which rank writes: "first", "last", a rank, or a function of the world size that returns one.
            Every rank must be given the same.
        eval_name: An evaluator's own name; it writes into ``eval_<name>`` instead of ``eval``.
        handle_sigterm: Whether to write everything out when the process is told to end. An earlier handler
            runs next.

    Raises:
        UsageError: An argument cannot be right.
        LogDirectoryError: In strict mode, the directory cannot be written.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        *,
        config: object = None,
        tags: Sequence[str] = (),
        hooks: Iterable[Hook] = (),
        total_steps: int | None = None,
        start_step: int = 0,
        flush_secs: float = 1.0,
        flush_every_n_steps: int | None = None,
        max_queue_bytes: int = 64 << 20,
        max_summary_bytes: int = SUMMARY_BYTES,
        rank: int | None = None,
        world_size: int | None = None,
        role: str | None = None,
        chief: Chief = "first",
        eval_name: str | None = None,
        handle_sigterm: bool = True,
        _clock: Clock = SYSTEM,
        _open_writer: Callable[[str], Writer] = EventWriter,
    ) -> None:
        self.log_dir = directory(log_dir)
        find = partial(detect, rank=rank, world_size=world_size, name=role, chief=check_chief(chief))
        place = find(environ=os.environ, modules=sys.modules)
        if place.name == EVALUATOR:
            self.log_dir = evaluator_directory(self.log_dir, eval_name)
        every = positive("flush_every_n_steps", flush_every_n_steps)
        self._total_given = positive("total_steps", total_steps) is not None
        self._steps = Steps(integer("start_step", start_step), _clock.own_steady)
        info = RunInfo(
            role=place,
            config=plain({} if config is None else config),
            tags=labels(tags),
            attempt=attempt_of(self.log_dir, place) if place.telemetry else attempt_number(self.log_dir),
            total_steps=total_steps,
            started=_clock.wall(),
        )
        problems = Problems(user_site())
        for problem in place.problems:
            problems.tell("role", problem)
        telemetry = None
        if place.telemetry:
            telemetry = Telemetry(self.log_dir, place, info.attempt, info.started, self._steps, problems)
        self._recorder = Recorder(
            Sink(self.log_dir, _open_writer, problems),
            info,
            self._steps,
            problems,
            _clock,
            flush_secs=seconds("flush_secs", flush_secs),
            max_queue_bytes=integer("max_queue_bytes", max_queue_bytes),
            max_summary_bytes=integer("max_summary_bytes", max_summary_bytes),
            telemetry=telemetry,
            watch=Watch(place, partial(find, environ=os.environ, modules=sys.modules)),
        )
        self._wall, self._steady = _clock.wall, _clock.steady
        self._put = self._recorder.points.put
        self._shorten()
        self._attach(every)
        self._counters: dict[str, Iterator[int]] = {}
        self._hooks = Hooks(problems, self._steps)
        self._stop: Stop | None = None
        self.examples = self.tokens = 0
        self._start(handle_sigterm)
        self._recorder.farewell = _farewell(weakref.ref(self))
        try:
            for hook in hooks:
                self.add_hook(hook)
        except BaseException as error:  # no caller will ever hold this run
            self.close(*exits.outcome(error))
            raise

    def _start(self, handle_sigterm: bool) -> None:
        recorder = self._recorder
        recorder.open()
        recorder.problems.deliver()
        try:
            recorder.start()
        except RuntimeError as error:
            # The interpreter is shutting down, or no thread can be had.
            recorder.sink.close()
            recorder.problems.tell("thread", RecordError(f"nothing will be recorded: {error}"), points=0)
            return
        exits.register(recorder, signals=handle_sigterm)

    # --- hooks --------------------------------------------------------------------------------------

    def add_hook(self, hook: Hook) -> None:
        """Have a hook take part from now on; on ranks it is not meant for, nothing happens.

        Args:
            hook: Its ``begin`` is called at once.

        Raises:
            UsageError: It is no ``Hook``.
        """
        given: object = hook
        if not isinstance(given, Hook):
            hint = "subclass stepscope.Hook; an instance is needed, not the class"
            raise UsageError(f"a hook must be a Hook, got {given!r:.60}", hint=hint)
        if self.role.writes or hook.ranks == "all":
            self._hooks.add(hook, self)

    @property
    def hooks(self) -> list[Hook]:
        """The hooks that take part, in the order of their calls."""
        return list(self._hooks)

    @property
    def config(self) -> dict[str, Any]:
        """What the run is made of, without secrets."""
        return self._recorder.info.config

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to what the run is made of: facts that are known only once the model is there, say.

        Args:
            facts: Merged into ``config``, a key that is there already is replaced. Secrets are taken out.
        """
        if facts:
            self._recorder.describe(plain(dict(facts)))

    # --- the end ------------------------------------------------------------------------------------

    def flush(self, *, timeout: float = 30.0, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system, values on devices included.

        Args:
            timeout: Seconds after which it gives up waiting.
            sync: Also wait until it is on the disk.

        Returns:
            Whether it is.
        """
        recorder = self._recorder
        if not recorder.taking:
            return False
        done = recorder.flush(timeout, sync=sync)
        recorder.problems.deliver()
        return done

    def close(
        self, status: Status = "finished", reason: str | None = None, *, timeout: float = END_SECS
    ) -> None:
        """Write everything and end the run. Closing twice does nothing.

        Args:
            status: "finished", "failed" or "stopped".
            reason: Why, for the page.
            timeout: Seconds after which it gives up waiting for devices and disk.
        """
        if status not in ("finished", "failed", "stopped"):
            raise UsageError(
                f"a run ends finished, failed or stopped, not {status!r:.60}", hint="run.close('failed')"
            )
        self._hooks.end(self, status)
        failure = self._failure()
        if status != "finished" or not self._recorder.taking:
            failure = None
        if failure is not None:
            status, reason = "failed", f"{type(failure).__name__}: {failure.message}"
        self._end(status, self.stop_reason if reason is None else reason, timeout)
        if failure is not None:
            raise failure

    def _failure(self) -> HaltError | None:
        """Take the error that a request to stop carries and no boundary of a step has raised."""
        stop = self._stop
        if stop is None:
            return None
        failure, stop.error = stop.error, None
        return failure

    def _end(self, status: Status, reason: str | None, timeout: float) -> None:
        recorder = self._recorder
        if not recorder.taking:
            return
        missing = recorder.end(status, reason, timeout)
        exits.release(recorder)
        recorder.problems.deliver()
        if missing:
            what = f"the run was closed before {missing} points could be written"
            error = RecordError(
                what, hint="see the earlier warning of this run for the cause", path=self.log_dir
            )
            recorder.problems.tell("unwritten", error, points=missing)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(*exits.outcome(error))

    def __del__(self) -> None:
        recorder = getattr(self, "_recorder", None)
        if recorder is not None:
            recorder.ask_to_end("finished", None)

    def __reduce__(self) -> str:
        raise UsageError(
            "a Run cannot be pickled or copied: it belongs to the process that made it",
            hint="make a Run in each process that logs; worker processes of a data loader need none",
            path=self.log_dir,
        )

    def report(self, reason: str, error: StepscopeError, *, points: int = 1, later: bool = False) -> None:
        """Count what went wrong in a hook or an integration, and warn once, at the user's line.

        Args:
            reason: A word under which it is counted in ``problems``.
            error: What to say, in strict mode to raise.
            points: Points lost to it.
            later: At the next call that the user makes: from any thread but theirs.
        """
        problems = self._recorder.problems
        (problems.post if later else problems.tell)(reason, error, points=points)

    def __repr__(self) -> str:
        return f"Run({self.log_dir!r}, {self.state})"

    @property
    def state(self) -> str:
        """What the run does, in words: "recording", "not recording: …" or how it ended."""
        recorder = self._recorder
        if recorder.forked:
            return "not recording: forked child"
        if recorder.taking:
            role = self.role
            chief = f"; rank {role.chief_rank} writes what is logged"
            return "recording" if role.writes else f"recording telemetry only: {role}{chief}"
        return recorder.info.status if recorder.info.ended else "not recording: no thread"

    @property
    def problems(self) -> dict[str, int]:
        """Points that were not recorded, counted by reason."""
        return dict(self._recorder.problems.counts)


def _farewell(reference: weakref.ref[Run]) -> Callable[[Status | None], None]:
    """Return what ends the hooks of a run that is still there, or in a forked child lets go of them."""

    def farewell(status: Status | None) -> None:
        run = reference()
        if run is None:
            return
        if status is None:
            run._hooks.forget()
        else:
            run._hooks.end(run, status)

    return farewell
