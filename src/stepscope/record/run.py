"""Run: what a training script logs with."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Any, TypeVar

from stepscope.errors import RecordError, UsageError
from stepscope.events.writer import EventWriter
from stepscope.record import exits
from stepscope.record.arguments import directory, integer, labels, positive, seconds
from stepscope.record.clock import SYSTEM, Clock
from stepscope.record.config import plain
from stepscope.record.cost import EVERY
from stepscope.record.info import RunInfo, Status, attempt_number
from stepscope.record.pending import Pending
from stepscope.record.points import Delayed, as_step, as_tag
from stepscope.record.problems import Problems, RefusalError, user_site
from stepscope.record.recorder import END_SECS, Recorder
from stepscope.record.role import detect
from stepscope.record.sink import Sink, Writer
from stepscope.record.steps import DATA_WAIT, STEP_TIME, Steps
from stepscope.record.values import read

T = TypeVar("T")


class Run:
    """One attempt to train, recorded in a directory.

    Logging puts a point into a queue and returns: it never waits for a device, a disk or a lock, and never
    raises. What cannot be recorded is one warning at your line, then a count in ``problems``, in the run
    itself and on the page. With ``STEPSCOPE_STRICT=1`` in the environment it is raised instead.

    A thread encodes and writes. A point reaches the operating system, and so every reader, within
    ``flush_secs`` of being logged, whether or not anything is logged after it; sooner with
    ``flush_every_n_steps`` or ``flush()``.

    The run ends with ``close()``, the end of its ``with`` block or of the process. It is then *finished*;
    *failed* where an exception left the block or ended the program; *stopped* after SIGTERM or Ctrl-C.

    Of a distributed job only rank 0 writes; on the other ranks every method does nothing and says so in
    ``repr``.
    A process that opens a directory again is a new attempt beside the earlier ones: nothing is overwritten.

    Args:
        log_dir: The run's own directory; made where it is missing.
        config: What the run is made of: a mapping, dataclass or namespace. Secrets are taken out.
        tags: Labels.
        total_steps: How many steps it is meant to take; by default known from ``len()`` of what ``steps``
            loops over.
        start_step: Number of the first step, for a run that resumes: the number of steps done so far.
        flush_secs: The longest that a point waits, in seconds.
        flush_every_n_steps: Also write out after so many steps.
        max_queue_bytes: Bound of the memory of waiting points. Beyond it points are dropped and counted;
            training never waits.
        rank: This process's number, from 0; by default torchrun's ``RANK``, else 0.
        world_size: Number of processes.
        role: What to call this process; by default rank 0 is the "chief".
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
        total_steps: int | None = None,
        start_step: int = 0,
        flush_secs: float = 1.0,
        flush_every_n_steps: int | None = None,
        max_queue_bytes: int = 64 << 20,
        rank: int | None = None,
        world_size: int | None = None,
        role: str | None = None,
        handle_sigterm: bool = True,
        _clock: Clock = SYSTEM,
        _open_writer: Callable[[str], Writer] = EventWriter,
    ) -> None:
        self.log_dir = directory(log_dir)
        self.role = detect(rank, world_size, role, os.environ)
        self._every = positive("flush_every_n_steps", flush_every_n_steps)
        self._total_given = positive("total_steps", total_steps) is not None
        self._steps = Steps(next=integer("start_step", start_step))
        info = RunInfo(
            role=self.role,
            config=plain({} if config is None else config),
            tags=labels(tags),
            attempt=attempt_number(self.log_dir) if self.role.writes else 1,
            total_steps=total_steps,
            started=_clock.wall(),
        )
        problems = Problems(user_site())
        self._recorder = Recorder(
            Sink(self.log_dir, _open_writer, problems),
            info,
            self._steps,
            problems,
            _clock,
            flush_secs=seconds("flush_secs", flush_secs),
            max_queue_bytes=integer("max_queue_bytes", max_queue_bytes),
        )
        self._wall, self._steady = _clock.wall, _clock.steady
        self._put = self._recorder.points.put
        for tag in (STEP_TIME, DATA_WAIT):
            self._recorder.points.admit(tag)
        self._counters: dict[str, Iterator[int]] = {}
        if self.role.writes:
            self._start(handle_sigterm)
        else:
            self.__dict__.update(scalar=_ignore, scalars=_ignore)

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

    # --- logging ------------------------------------------------------------------------------------

    def scalar(self, tag: str, value: Any, step: int | None = None) -> None:
        """Record one number.

        Args:
            tag: Its series, as ``train/loss``: what stands before the slash groups, a unit may end it
                (``_ms``, ``_bytes``, ``_ratio``, ``_per_second``).
            value: A Python number, or a numpy, torch, JAX or TensorFlow array of one element. One on a device
                is snapshotted without waiting for the device: later in-place changes do not reach it, and no
                autograd graph is kept. NaN and infinities are recorded as such.
            step: By default the current step of ``steps()`` or ``step()``; where neither is used, the points
                of a tag are numbered from 0.
        """
        if not self._put(tag, value, step):
            self._slow(tag, value, step)

    def scalars(self, numbers: Mapping[str, Any], step: int | None = None) -> None:
        """Record several numbers of one step, each as by ``scalar``.

        Args:
            numbers: Values by tag.
            step: As for ``scalar``.
        """
        wall = self._wall()  # one reading, by which the encoder knows that they belong together
        try:
            items = numbers.items()
        except AttributeError:
            found = f"scalars() takes a mapping of tags to numbers, got {type(numbers).__name__}"
            self._refuse("tag", found, "run.scalars({'train/loss': loss})")
            return
        for tag, value in items:
            if not self._put(tag, value, step, wall):
                self._slow(tag, value, step, wall)

    def _slow(self, tag: Any, value: Any, step: Any, wall: float = -1.0) -> None:
        """Record what ``put`` refused: a new tag, a value on a device, a bad one; or time ``put`` itself."""
        recorder, begun, times = self._recorder, self._steady(), 1
        if recorder.points.sampled:
            recorder.points.sampled = False
            if self._put(tag, value, step, wall):
                times = EVERY
        if times == 1:
            self._record(tag, value, step, wall)
        recorder.cost.seconds += times * (self._steady() - begun)

    def _record(self, tag: Any, value: Any, step: Any, wall: float) -> None:
        """Record one number, whatever is the matter with it."""
        recorder = self._recorder
        recorder.problems.deliver()
        if not recorder.taking:
            self._refuse_ended()
            return
        try:
            if not isinstance(tag, str) or not (tag in recorder.points.known or tag in recorder.careful):
                recorder.points.admit(as_tag(tag))
            number = read(value)
            if step is None:
                step = self._steps.current
                step = next(self._counters.setdefault(tag, count())) if step is None else step
            else:
                step = as_step(step)
                if not isinstance(step, int):
                    number, step = Delayed(number, step), 0
        except RefusalError as refusal:
            what = f"{tag!r} must be one number, got " if refusal.reason == "value" else ""
            self._refuse(refusal.reason, what + refusal.found, refusal.hint)
        except Exception as error:  # noqa: BLE001  code of a framework or of the user's own type
            found = f"reading the value of {tag!r} raised {type(error).__name__}: {error}"
            self._refuse("value", found, "pass float(value) to see where that comes from")
        else:
            self._accept(str(tag), number, step, self._wall() if wall < 0 else wall)

    def _accept(self, tag: str, value: float | Pending, step: int, wall: float) -> None:
        if not self._recorder.accept(tag, value, step, wall):
            found = f"{tag!r}: more is logged than can be written, and max_queue_bytes are waiting"
            self._refuse("overflow", found, "log less often, or raise max_queue_bytes")

    def _refuse(self, reason: str, found: str, hint: str) -> None:
        error = RecordError(f"not recorded: {found}", hint=hint, path=self.log_dir)
        self._recorder.problems.tell(reason, error)

    def _refuse_ended(self) -> None:
        if self._recorder.forked:
            self._refuse(
                "forked", "this is a forked child, and the run is its parent's", "make a Run in the child"
            )
        elif self._recorder.info.ended:
            self._refuse("closed", "the run is closed", "log before close() or inside the with block")
        elif self.role.writes:
            self._refuse(
                "thread", "the run has no thread to write with", "see the earlier warning of this run"
            )

    # --- steps --------------------------------------------------------------------------------------

    def steps(self, iterable: Iterable[T], *, start: int | None = None) -> Iterator[T]:
        """Loop over data, each item being one step; measure the step and how long it waited for its data.

        ``len()`` of the iterable, where it has one, gives ``total_steps``. Numbers count on over several
        loops. A step that ``break`` or an exception cuts short is counted, but its time is not recorded.

        Args:
            iterable: A data loader, say.
            start: Number of this loop's first step; by default the one after the last.
        """
        if start is not None:
            self._steps.next = integer("start", start)
        self._expect(iterable)
        return self._loop(iter(iterable))

    def _loop(self, items: Iterator[T]) -> Iterator[T]:
        steps, now, number = self._steps, self._steady, -1
        asked = now()
        try:
            for item in items:
                arrived = now()
                number = self._begin_step(asked, arrived - asked)
                yield item
                asked = now()
                if steps.current == number:
                    self._end_step(asked)
        finally:
            if steps.current == number:
                steps.abandon()

    def step(self) -> Step:
        """Begin a step by hand, where ``steps`` does not fit. There are two ways.

        As a call at the head of a loop, where a step lasts until the next call::

            while training:
                run.step()

        As a context, where what lies between two steps, an evaluation say, belongs to none::

            with run.step() as number:

        Returns:
            The context, which gives the step's number.
        """
        now = self._steady()
        if self._steps.running:
            self._end_step(now)
        self._begin_step(now)
        return Step(self)

    def _begin_step(self, now: float, waited: float | None = None) -> int:
        points = self._recorder.points
        points.step = number = self._steps.begin(now, waited)
        points.stepping = True
        return number

    def _end_step(self, now: float) -> None:
        """End the running step and record its times."""
        recorder, steps = self._recorder, self._steps
        measured = steps.end(now)
        if not recorder.taking:
            return
        wall = self._wall()
        for tag, milliseconds in measured:
            self._accept(tag, milliseconds, steps.current or 0, wall)
        if self._every is not None and steps.done % self._every == 0:
            recorder.flush_soon()
        recorder.cost.steps += 1
        recorder.cost.seconds += self._steady() - now

    def _expect(self, iterable: object) -> None:
        """Know the number of steps from the length of the data."""
        if self._total_given:
            return
        try:
            length = len(iterable)  # type: ignore[arg-type]
        except Exception:  # noqa: BLE001  iterable data sets raise what they like where they have no length
            return
        self._recorder.expect(self._steps.next + length)

    @property
    def current_step(self) -> int | None:
        """Number of the step that runs or ran last; None before the first."""
        return self._steps.current

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
            return not self.role.writes
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
        recorder = self._recorder
        if status not in ("finished", "failed", "stopped"):
            raise UsageError(
                f"a run ends finished, failed or stopped, not {status!r:.60}", hint="run.close('failed')"
            )
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

    def __repr__(self) -> str:
        return f"Run({self.log_dir!r}, {self.state})"

    @property
    def state(self) -> str:
        """What the run does, in words: "recording", "not recording: …" or how it ended."""
        recorder = self._recorder
        if not self.role.writes:
            return f"not recording: {self.role}; only rank 0 writes"
        if recorder.forked:
            return "not recording: forked child"
        if recorder.taking:
            return "recording"
        return recorder.info.status if recorder.info.ended else "not recording: no thread"

    @property
    def problems(self) -> dict[str, int]:
        """Points that were not recorded, counted by reason."""
        return dict(self._recorder.problems.counts)


class Step:
    """One step as a context: it ends with the block, and is not measured where the block raises."""

    __slots__ = ("_run",)

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> int:
        return self._run._steps.current or 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._run._end_step(self._run._steady())
        else:
            self._run._steps.abandon()


def _ignore(*arguments: object, **options: object) -> None:
    """Stand in for ``scalar`` and ``scalars`` on a rank that does not write."""
