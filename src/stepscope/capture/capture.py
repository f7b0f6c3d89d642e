"""One capture, from its start to the pointer that remains of it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from stepscope.capture import backend as backends
from stepscope.capture.backend import Backend, CaptureOptions, Export
from stepscope.capture.budget import CaptureAccount
from stepscope.capture.sampler import StackSampler

Steady = Callable[[], float]


@dataclass
class Order:
    """The cause and the content of a capture.

    Attributes:
        cause: As in :class:`~stepscope.capture.files.CaptureRecord`.
        num_steps: Steps to record; for a predicate the most.
        at_step: The step that it begins with; None for the next one.
        with_stack: Whether Python stacks are recorded; None to do as the hook does.
        ahead: Whether the ring of earlier steps is also written.
    """

    cause: str
    num_steps: int
    reason: str = ""
    request: str | None = None
    at_step: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    memory_snapshot: bool = False
    with_stack: bool | None = None

    @property
    def scheduled(self) -> bool:
        """True if it comes from the schedule and not from a request."""
        return self.cause in ("schedule", "predicate")


class RunningCapture:
    """A running capture.

    Args:
        order: The order.
        backend: Records.
        before: The steps before it.
        steady: Clock in seconds.

    Attributes:
        steps: Numbers of the steps recorded so far.
        account: The cost.
        memory: Memory in use after each step, if the backend knows.
        measured: Steps that other hooks of the run measure, as far as was known at the start.
    """

    def __init__(self, order: Order, backend: Backend, before: list[Past], steady: Steady) -> None:
        self.order, self.backend, self.before, self._steady = order, backend, before, steady
        self.steps: list[int] = []
        self.account = CaptureAccount()
        self.memory: list[dict[str, int]] = []
        self.warmup_left = self.looks_left = 0
        self.entered = False
        """A step has begun since it started: its data came."""
        self.ended = ""
        """The status with which the run ended during it; empty if it did not."""
        self.wall = time.time()
        self.notes: list[str] = []
        self.measured: list[int] = []
        self._mark: AbstractContextManager[Any] | None = None
        self._marked: int | None = None
        self._loading: AbstractContextManager[Any] | None = None
        self._sampled = False
        self.sampler: StackSampler | None = None
        """Sampler of the training thread's stack during the capture."""

    def start(self, wanted: CaptureOptions, *, between: bool = False, usual_s: float | None = None) -> None:
        """Begin to record.

        Args:
            wanted: What.
            usual_s: How long a step takes; None if that is not known.
            between: No step runs.

        Raises:
            CaptureError: The backend cannot.
        """
        begun = self._steady()
        self.warmup_left = wanted.warmup_steps
        self.looks_left = backends.LOOKS if wanted.values and hasattr(self.backend, "look") else 0
        steps = self.order.num_steps + wanted.warmup_steps
        # It reads the program's settings, which a recorder of calls changes.
        sampler = StackSampler(None if usual_s is None else usual_s * steps)
        self.backend.start(wanted)
        use = getattr(self.backend, "use", None)  # of a backend whose events are the samples
        if wanted.sample_stacks or use is not None:
            self.sampler = sampler
            if use is not None:
                use(sampler)
            with suppress(RuntimeError):  # no thread to be had: a profile without lines is still one
                sampler.start()
        self.account.start_s = self._steady() - begun
        if between:
            self.account.calls_s += self.account.start_s

    def open_step(self, step: int, *, loading: bool = False) -> None:
        """Mark that a step begins; repeating it for the same step does nothing.

        Args:
            step: Its number.
            loading: It begins with a wait for its data, until ``loaded``.
        """
        if self.warmup_left > 0 or self._marked == step:
            return
        self.close_step()
        if len(self.steps) >= self.order.num_steps:
            look = backends.look(self.backend)
            if look is not None:
                self._mark, self._marked = look, step
                self._mark.__enter__()
            return
        self._mark, self._marked = backends.mark(self.backend, step), step
        if self.sampler is not None:
            self.sampler.begin_step(step)
        self._mark.__enter__()
        if loading:
            self._loading = backends.loading(self.backend)
            self._loading.__enter__()

    def loaded(self) -> None:
        """Mark that the step's data has come."""
        opened, self._loading = self._loading, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def close_step(self) -> None:
        """Mark that the step ends."""
        self.loaded()
        opened, self._mark, self._marked = self._mark, None, None
        if opened is not None:
            opened.__exit__(None, None, None)

    def ended_step(self, step: int, seconds: float) -> None:
        """Note a step that came to its end while recording."""
        self.account.steps.append(seconds)
        if self.warmup_left > 0:
            self.warmup_left -= 1
            return
        self.close_step()
        if len(self.steps) >= self.order.num_steps:
            self.looks_left -= 1
            return
        self.steps.append(step)
        if len(self.steps) >= self.order.num_steps:
            self._stop_sampler()
        if facts := backends.memory_facts(self.backend):
            self.memory.append({"step": step, **facts})

    @property
    def complete(self) -> bool:
        """True if it has all the steps it was made for, and those in which values are followed."""
        return len(self.steps) >= self.order.num_steps and not self.looks_left

    def _stop_sampler(self) -> None:
        """Take no more samples; repeating it does nothing."""
        if self.sampler is not None and not self._sampled:
            self._sampled = True
            self.sampler.stop()

    def stop(self) -> Export:
        """End recording.

        Raises:
            Exception: Whatever the profiler raises.
        """
        begun = self._steady()
        self._stop_sampler()
        if self.sampler is not None:
            self.sampler.settings |= backends.settings(self.backend)
        try:
            self.close_step()
            if self.sampler is not None:
                self.sampler.values = backends.values(self.backend)
        finally:
            export = self.backend.stop()
        self.account.stop_s = self._steady() - begun
        self.account.calls_s += self.account.stop_s  # no step runs
        return export


STEPS = 128

Past = tuple[int, float, float | None]
"""One step: its number, its duration and its wait for data in seconds, None if that was not measured."""


def new_ring() -> deque[Past]:
    """Return an empty ring."""
    return deque(maxlen=STEPS)
