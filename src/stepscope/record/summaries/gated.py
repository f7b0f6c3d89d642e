"""The way of all summaries: whether they are recorded, taken where they are logged, handed on to be made."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from stepscope.record.numbers import Numbers
from stepscope.record.points import as_tag
from stepscope.record.problems import RefusalError
from stepscope.record.summaries.prepared import Prepared
from stepscope.record.summaries.sampling import Condition, Gate, Gates, decision, innermost


class Gated(Numbers):
    """The method of a run that says which summaries are recorded, and what all others go through."""

    _gates: Gates | None = None

    # --- which are recorded -------------------------------------------------------------------------

    def record_if(
        self,
        condition: Condition | None = None,
        *,
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        probability: float | None = None,
    ) -> Gate:
        """Record only some of what is logged, as a context: ``with run.record_if(every_secs=60):``.

        As a condition, ``if run.record_if(every_n_steps=100):``, it also spares computing what is logged. It
        decides once per step, so that the summaries of a step go together. Of contexts within each other the
        innermost counts, as with ``tf.summary.record_if``; each holds for its own thread. What the line that
        calls this knows, as the time of the last summary, it keeps for the next round of a loop.

        Args:
            condition: A truth value, or a function that gives one: of nothing, or of the step.
            every_n_steps: At steps that are multiples of it.
            every_secs: When so many seconds have passed since the last time.
            probability: By chance, from 0 to 1; seeds of the program are left alone.

        Raises:
            UsageError: Not exactly one is given.
        """
        decide = partial(decision, condition, every_n_steps, every_secs, probability, self._steady)
        if condition is not None:
            return Gate(self, decide(), self._current)
        frame = sys._getframe(1)
        key = (frame.f_code, frame.f_lineno, every_n_steps, every_secs, probability)
        if self._gates is None:
            self._gates = Gates()
        return self._gates.get(key, lambda: Gate(self, decide(), self._current))

    def _current(self) -> int | None:
        return self._steps.current

    def _close_gate(self, change: int) -> None:
        """Have ``scalar`` and ``scalars`` ask, while any thread is within a context; else they do not."""
        if self._gates is None:
            self._gates = Gates()
        if not self.role.writes:
            return
        gates = self._gates
        with gates.lock:
            before, gates.closed = gates.closed, gates.closed + change
            if not before:
                gates.usual = {name: self.__dict__.get(name) for name in ("scalar", "scalars")}
                self.__dict__.update(scalar=self._gated_scalar, scalars=self._gated_scalars)
            elif not gates.closed:
                for name, function in gates.usual.items():
                    self.__dict__.pop(name, None)
                    if function is not None:
                        self.__dict__[name] = function
                self._shorten()

    def _gated_scalar(self, tag: str, value: Any, step: int | None = None) -> None:
        if self._wanted(step):
            Numbers.scalar(self, tag, value, step)

    def _gated_scalars(self, numbers: Mapping[str, Any], step: int | None = None) -> None:
        if self._wanted(step):
            Numbers.scalars(self, numbers, step)

    def _wanted(self, step: Any) -> bool:
        """Whether a summary is recorded; a condition that fails is told, and records."""
        gate = innermost(self)
        if gate is None:
            return True
        try:
            return gate.allows(step if isinstance(step, int) else None)
        except Exception as error:  # noqa: BLE001  the user's own condition
            found = f"the condition of record_if raised {type(error).__name__}: {error}"
            self._refuse("record_if", found, "it decides with True or False")
            return True

    # --- the way of all -----------------------------------------------------------------------------

    def _summary(
        self, tag: Any, step: Any, prepare: Callable[[], Prepared], wall: float | None = None
    ) -> None:
        """Take what was logged and have it made into a summary."""
        recorder, begun = self._recorder, self._steady()
        spent = recorder.spent
        if not self.role.writes or (
            self._gates is not None and self._gates.closed and not self._wanted(step)
        ):
            return
        if not recorder.taking:
            self._refuse_ended()
            return
        recorder.problems.deliver()
        try:
            name = as_tag(tag)
            prepared = prepare()
        except RefusalError as refusal:
            what = "" if refusal.reason == "tag" else f"{tag!r}: got "
            self._refuse(refusal.reason, what + refusal.found, refusal.hint)
        except Exception as error:  # noqa: BLE001  code of a framework or of the user's own type
            found = f"taking the value of {tag!r} raised {type(error).__name__}: {error}"
            self._refuse("value", found, "pass a numpy array of it to see where that comes from")
        else:
            make = partial(prepared.make, name)
            self.event(make, step, nbytes=prepared.nbytes, tag=name, wall=wall)
        recorder.cost.seconds += self._steady() - begun - (recorder.spent - spent)
