"""The part of a run that takes what is logged."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from stepscope.errors import RecordError
from stepscope.record.background import Made, Task
from stepscope.record.listeners import Take, Wanted
from stepscope.record.pending import Pending
from stepscope.record.points import Delayed, as_step, as_tag
from stepscope.record.problems import RefusalError, user_site
from stepscope.record.recorder import Recorder
from stepscope.record.roles import Role
from stepscope.record.steps import Steps
from stepscope.record.values import read, reader_now


class Numbers:
    """The methods of a run that record numbers, and events of any kind."""

    log_dir: str
    _recorder: Recorder
    _steps: Steps
    _put: Callable[..., bool]
    _steady: Callable[[], float]
    _wall: Callable[[], float]
    _counters: dict[str, Iterator[int]]

    @property
    def role(self) -> Role:
        """Which process of its job this is. A runtime that is initialised later may still change it."""
        return self._recorder.info.role

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
        recorder, begun = self._recorder, self._steady()
        cost, spent = recorder.cost, recorder.spent
        try:
            items = numbers.items()
        except AttributeError:
            found = f"scalars() takes a mapping of tags to numbers, got {type(numbers).__name__}"
            self._refuse("tag", found, "run.scalars({'train/loss': loss})")
            return
        for tag, value in items:
            if not self._put(tag, value, step, wall):
                self._record(tag, value, step, wall)
        cost.seconds += self._steady() - begun - (recorder.spent - spent)

    def _shorten(self) -> None:
        """Let ``scalar`` go straight to where points wait; a subclass may have its own."""
        if type(self).scalar is Numbers.scalar:
            points = self._recorder.points
            points.slow = weakref.WeakMethod(self._slow)
            self.__dict__["scalar"] = points.log

    def _slow(self, tag: Any, value: Any, step: Any, wall: float = -1.0) -> None:
        """Record what ``put`` refused: a new tag, a value on a device, a bad one."""
        recorder, begun = self._recorder, self._steady()
        self._record(tag, value, step, wall)
        recorder.cost.seconds += self._steady() - begun

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
            self._learn(type(value))
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

    def _learn(self, kind: type) -> None:
        """Have the next value of a type take the shortest way, if its type allows that."""
        readers = self._recorder.points.readers
        if kind not in readers and (reader := reader_now(kind)) is not None:
            readers[kind] = reader

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
        else:
            self._refuse(
                "thread", "the run has no thread to write with", "see the earlier warning of this run"
            )

    def event(
        self,
        make: Callable[[], Made],
        step: int | None = None,
        *,
        nbytes: int = 0,
        tag: str = "",
        wall: float | None = None,
    ) -> None:
        """Record what a function makes later, on a thread of its own: any summary, a graph, run metadata.

        Args:
            make: Returns an event, or the values of one, or None for nothing. It runs once, in order, not on
                the training thread; what it needs must not change after this call.
            step: As for ``scalar``; where no steps are counted, events of a tag are numbered from 0.
            nbytes: Memory that ``make`` holds, counted against ``max_queue_bytes``.
            tag: What to call it in a message.
            wall: Its time in seconds since the epoch; by default now.
        """
        recorder, begun = self._recorder, self._steady()
        if not self.role.writes:
            return
        recorder.problems.deliver()
        if not recorder.taking:
            self._refuse_ended()
            return
        try:
            number = self._event_step(step, tag)
        except RefusalError as refusal:
            self._refuse(refusal.reason, refusal.found, refusal.hint)
            return
        name, wall = repr(tag) if tag else "an event", self._wall() if wall is None else wall
        if not recorder.accept_task(Task(make, number, wall, nbytes, name, user_site())):
            found = f"{tag!r}: more is logged than can be written, and max_queue_bytes are waiting"
            self._refuse("overflow", found, "log less often, or raise max_queue_bytes")
        recorder.cost.seconds += self._steady() - begun

    def _event_step(self, step: Any, tag: str) -> int | Pending:
        if step is not None:
            return as_step(step)
        current = self._steps.current
        return next(self._counters.setdefault(tag, count())) if current is None else current

    def listen(self, take: Take, tags: Wanted = None) -> None:
        """Hear of every number that is recorded, values on devices included, once they are there.

        Args:
            take: Called as ``take(tag, steps, values, walls)`` with numpy arrays (int64, float64, float64 in
                seconds), in the order of recording, on the thread that writes: what takes long there delays
                the log, not the training.
            tags: Names, or a function that says of a name whether it is wanted; None for all.
        """
        self._recorder.listeners.add(take, tags)
