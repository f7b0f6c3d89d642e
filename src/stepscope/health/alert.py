"""Rules that users define: a condition over tags, or a function of the last values of some tags."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepscope.errors import UsageError
from stepscope.expression import Node, parse_condition, tags_of
from stepscope.health.batch import StreamBatch
from stepscope.health.conditions import ConditionFollower
from stepscope.health.finding import SEVERITIES, Severity
from stepscope.health.gate import AlarmGate
from stepscope.health.ring import Ring
from stepscope.health.rule import At, Rule, thresholds
from stepscope.health.series import Stream
from stepscope.text import number

Values = Mapping[str, NDArray[np.float64]]
"""The last values of each tag, oldest first."""
Told = bool | str | None


@dataclass(frozen=True)
class Alert:
    """A health rule of your own.

    Args:
        when: A condition over tags, ``"ema(train/loss, 50) > 2 * min(train/loss)"``; or a function that is
            called with the last values of each tag, oldest first, and returns whether it holds, or a text.
        name: The name of the rule in findings; by default the condition, or the function's name.
        severity: The severity of its findings.
        tags: The tags that a function looks at. It is called at each of their points, once all have one.
        keep: The number of values of each tag that a function is given.
        calm: The number of points without the condition after which the finding is over.
        action: The remedy, for the reader of the finding.

    Raises:
        ExpressionError: The text is not a condition.
        UsageError: A function without tags, or an argument that cannot be right.
    """

    when: str | Callable[[Values], Told]
    name: str = ""
    severity: Severity = "medium"
    tags: Sequence[str] = ()
    keep: int = 100
    calm: int = 10
    action: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES:
            raise UsageError(f"no severity {self.severity!r}", hint=", ".join(SEVERITIES))
        if self.keep < 1 or self.calm < 1:
            raise UsageError(
                f"keep={self.keep}, calm={self.calm}: at least 1", hint="Alert(…, keep=100, calm=10)"
            )
        if isinstance(self.when, str):
            parse_condition(self.when)
            if self.tags:
                raise UsageError("a condition names its own tags", hint="leave out tags=")
        elif not callable(self.when) or isinstance(self.tags, str) or not self.tags:
            raise UsageError(
                "an alert is a condition as text, or a function with its tags",
                hint='Alert("train/loss > 10"), Alert(function, tags=["train/loss"])',
            )

    @property
    def title(self) -> str:
        """The name of the alert."""
        return self.name or (
            self.when if isinstance(self.when, str) else getattr(self.when, "__name__", "alert")
        )


class Own(Rule):
    """Follows the tags of one alert and opens if its condition holds, separately for each run and rank."""

    id = "alert"
    title = "Alert"
    action = "this is a rule of your own"
    roles = ()
    defaults = thresholds()

    def __init__(self, alert: Alert) -> None:
        super().__init__()
        self._alert = alert
        self.id = self.title = alert.title  # type: ignore[misc]
        self.severity = alert.severity  # type: ignore[misc]
        self.action = alert.action or Own.action  # type: ignore[misc]
        self._tree = parse_condition(alert.when) if isinstance(alert.when, str) else None
        tags = alert.tags if self._tree is None else [tag.name for tag in tags_of(self._tree)]
        self.tags = frozenset(tags)
        self._places: dict[tuple[str, int | None], _Place] = {}
        self.failure = ""
        """The error that the user's function raised; it is not called again."""

    def look(self, batch: StreamBatch) -> None:
        """Follow the alert's tags in the order of time; a step is judged once all of it is there."""
        own = StreamBatch([chunk for chunk in batch.chunks if chunk.stream.tag in self.tags])
        for stream, step, value, wall in own.points({chunk.stream.role for chunk in own.chunks}):
            key = stream.run, stream.rank
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = _Place(self._alert, self._tree, self.tags)
            if place.at is not None and place.at.step != step:
                self._judge(place)
            # Series are scaled to seconds and bytes for the built-in rules; the user's is as it was logged.
            place.see(At(stream, step, wall, step), value / stream.scale)
            if len(self.tags) == 1:
                self._judge(place)

    def finish(self) -> None:
        """Judge the last step."""
        for place in self._places.values():
            self._judge(place)

    def _judge(self, place: _Place) -> None:
        at, place.at = place.at, None
        if at is None or self.failure:
            return
        try:
            result = place.told()
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.failure = f"{self.id} raised {type(error).__name__}: {error}"
            return
        if result is None:
            return
        self.judged()
        change = place.gate.see(bool(result))
        if change == "open":
            place.home = at.stream
            self.open(at, result if isinstance(result, str) else self.id, place.values)
        elif change == "close" and place.home is not None:
            self.close(At(place.home, at.step, at.wall, at.step))

    @property
    def missing(self) -> str | None:
        """Its tags, if they are not recorded."""
        if self.failure or self._judged:
            return self.failure or None
        return f"not recorded, or too few points: {', '.join(sorted(self.tags))}"


class _Place:
    """One run or rank: the values that an alert reads from it, and whether the condition holds.

    Attributes:
        at: The newest point that is not judged yet.
        home: The series under which it was reported.
    """

    def __init__(self, alert: Alert, tree: Node | None, tags: frozenset[str]) -> None:
        self._alert = alert
        self._condition = None if tree is None else ConditionFollower(tree)
        self._rings = {tag: Ring(alert.keep) for tag in tags} if tree is None else {}
        self.gate = AlarmGate(closes=alert.calm)
        self.at: At | None = None
        self.home: Stream | None = None

    def see(self, at: At, value: float) -> None:
        """Take a point."""
        self.at = at
        if self._condition is not None:
            self._condition.see(at.stream.tag, at.step, at.wall, value)
        ring = self._rings.get(at.stream.tag)
        if ring is not None:
            ring.push(np.array([value]))

    def told(self) -> Told:
        """Return whether it holds; None if that is not known yet."""
        if self._condition is None:
            known = {tag: ring.values.copy() for tag, ring in self._rings.items()}
            assert callable(self._alert.when)
            return self._alert.when(known) or False if all(map(len, known.values())) else None
        holds = self._condition.settle()
        if holds != holds:
            return None
        return self._sentence if holds else False

    @property
    def _sentence(self) -> str:
        values = "; ".join(f"{name} is {number(value)}" for name, value in self.values.items())
        return f"{self._alert.when}: {values}"

    @property
    def values(self) -> dict[str, float]:
        """The readings, by their text."""
        if self._condition is None:
            return {tag: float(ring.values[-1]) for tag, ring in self._rings.items()}
        return self._condition.readings


def alert_of(given: str | Alert) -> Alert:
    """Return an alert.

    Raises:
        ExpressionError: The text is not a condition.
        UsageError: It is neither an alert nor a text.
    """
    if isinstance(given, Alert):
        return given
    if isinstance(given, str):
        return Alert(given)
    raise UsageError(f"an alert must be text or an Alert, got {given!r:.60}", hint='"train/loss > 10"')
