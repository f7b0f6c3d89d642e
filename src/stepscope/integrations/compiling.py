"""The time of compilations within the steps of runs: a stage of the step, and ``speed/compile_ms``.

JAX tells of each compilation once it is over, TorchDynamo when one begins and when it ends. A compilation
that is part of another counts once. Only those on the thread of the running step count.
"""

from __future__ import annotations

import sys
import weakref
from time import perf_counter
from types import ModuleType
from typing import Any

from stepscope.record import Run
from stepscope.record.steps import spend

COMPILE = "compile"
TAG = "speed/compile_ms"
OF_JAX = "/jax/core/compile/"
"""Beginning of the names of JAX's events: tracing, lowering, and compiling for the device."""


class Compilations:
    """Gives their time to the step that runs.

    Attributes:
        runs: Those whose steps are meant.
    """

    def __init__(self) -> None:
        self.runs: weakref.WeakSet[Run] = weakref.WeakSet()
        self._begun: float | None = None
        self._inner: list[tuple[float, float]] = []
        """When recent compilations began, and their seconds: they may be parts of the next one."""
        self._outside_s = 0.0
        self._sources: set[str] = set()

    def begins(self, about: Any = None) -> None:
        """Note that a compilation begins."""
        self._begun = perf_counter()

    def ends(self, about: Any = None) -> None:
        """Note that it is over."""
        if self._begun is not None:
            self.took(perf_counter() - self._begun)
            self._begun = None

    def of_jax(self, event: str, seconds: float, **about: Any) -> None:
        """Take an event of ``jax.monitoring``, which lasted until now."""
        if not event.startswith(OF_JAX):
            return
        begun, own = perf_counter() - seconds, seconds
        while self._inner and self._inner[-1][0] >= begun:
            own -= self._inner.pop()[1]
        self._inner = [*self._inner[-1:], (begun, seconds)]
        self.took(max(own, 0.0))

    def took(self, seconds: float) -> None:
        """Give the last seconds to the compilation."""
        # Of several runs, one may have been left within a step: the one whose step began last is at work.
        for run in sorted(self.runs, key=lambda run: run.step_counter.asked, reverse=True):
            stages = run.step_counter.stages
            if stages is not None and stages.mine:
                spend(stages, stages.number(COMPILE), min(seconds, run.step_counter.now() - stages.since))
                run.scalar(TAG, 1e3 * seconds)
                return
        self._outside_s += seconds

    def take(self) -> float:
        """Return the seconds since the last call while no step ran: for a step that is known afterwards."""
        seconds, self._outside_s = self._outside_s, 0.0
        return seconds

    def listen(self, module: ModuleType) -> bool:
        """Take the compilations of a framework; return whether its version tells of them.

        Args:
            module: ``jax`` or ``torch._dynamo.callback``.
        """
        name = module.__name__
        if name in self._sources:
            return True
        if name == "jax":
            takers: dict[str, Any] = {"register_event_duration_secs_listener": self.of_jax}
            source = getattr(module, "monitoring", None)
        else:
            takers = {"register_start_callback": self.begins, "register_end_callback": self.ends}
            source = getattr(module, "callback_handler", None)
        if not all(hasattr(source, register) for register in takers):
            return False
        for register, taker in takers.items():
            getattr(source, register)(taker)
        self._sources.add(name)
        return True


compilations = Compilations()
"""Those of this process."""


def follow(run: Run) -> None:
    """Record the compilations of the frameworks that are loaded as time of a run's steps."""
    compilations.runs.add(run)
    for name in ("jax", "torch._dynamo.callback"):
        if (module := sys.modules.get(name)) is not None:
            compilations.listen(module)
