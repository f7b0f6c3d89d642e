"""Programs without a framework: what they print of a training is recorded, at the step that they print.

Most programs that print numbers train nothing, so a run is made only once one metric has come several times,
each time farther on: ``epoch 1 loss 0.5``, ``epoch 2 loss 0.4``, ``epoch 3 loss 0.3``. What came before is
recorded, too. Nothing else of such a training is known.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.launch.lines import JUDGED, Table, place_of, role_of, values_of
from stepscope.launch.sources import PRINTED
from stepscope.names.splits import split_tag
from stepscope.text import CONTROLS

if TYPE_CHECKING:
    from stepscope.record import Run

TIMES = 3
"""How often a metric must have come, each time farther on, until its program counts as a training."""
FIRST = (0, 1)
"""Numbers that a program gives to the beginning of a training."""
MAX_WAITING = 10_000
"""Values that are kept until then, the newest ones."""
CHILD_SECS = 5.0
"""A program with children shows what they print, perhaps. Those that train have made their run by then."""
UNKNOWN = "the steps and their times: no framework counts them; run.steps(batches) tells"


class Steps:
    """Numbers the values of a training by the epochs and steps that are printed beside them.

    The finest count that is printed numbers them. Where it begins anew, as in each epoch or in a second
    training, the numbers go on.

    Attributes:
        now: The number of what is printed now; None before the first.
    """

    def __init__(self) -> None:
        self.now: int | None = None
        self.named = False
        self._last: dict[str, int] = {}
        self._base: dict[str, int] = {}

    def at(self, coarse: int | None, fine: int | None) -> None:
        """Take a place.

        Args:
            coarse: Of the epoch, if it is known ...
            fine: ... and of the step.
        """
        kind, count = ("coarse", coarse) if fine is None else ("fine", fine)
        if count is None or (kind == "coarse" and "fine" in self._last):
            return
        last = self._last.get(kind)
        if last is not None and count < last:
            self._base[kind] = self._base.get(kind, 0) + last
        self._last[kind] = count
        self.now = self._base.get(kind, 0) + count


class Told:
    """The training of which a program tells in lines.

    Args:
        environ: The variables that the command gave the program.
        skipped: Returns how many lines were not looked at so far.
    """

    def __init__(self, environ: Mapping[str, str], skipped: Callable[[], int] = int) -> None:
        self._environ, self._skipped = environ, skipped
        self._steps, self.table = Steps(), Table()
        self._counts: dict[str, tuple[int, int]] = {}
        self._waiting: list[tuple[dict[str, float], int | None, float]] = []
        self._run: Run | None = None
        self._numbered: set[str] = set()
        self._since: float | None = None
        self._before = 0
        self.over = False
        """Whether nothing is recorded here: another part records, or the process is none that trains."""

    def line(self, line: str) -> None:
        """Take a line.

        Args:
            line: Without its end.
        """
        line = CONTROLS.sub("", line)
        values = values_of(line)
        place = place_of(line)
        if not values:
            values = self.table.values_of(line)
            if values:
                place = self.table.place_of(line)
        if place is not None and (values or place.alone or self._run is not None):
            self._steps.named |= place.named
            self._steps.at(place.coarse, place.fine)
        if not values or self.over:
            return
        if self._run is None and _tracked():
            self._open()
        if self._run is None:
            self._wait(values, self._steps.now)
        elif self._counted_elsewhere():
            self.over = True
        else:
            self._numbered |= values.keys()
            self._record(values)

    def rest_of(self, line: str, values: dict[str, float]) -> dict[str, float]:
        """Record those values of a line whose series began by printed numbers; return the others.

        Args:
            line: The line ...
            values: ... and the values in it, while steps are counted.
        """
        own = {name: value for name, value in values.items() if name in self._numbered}
        if own and self._run is not None:
            if (place := place_of(line)) is not None:
                self._steps.at(place.coarse, place.fine)
            self._record(own)
        return {name: value for name, value in values.items() if name not in own}

    def _record(self, values: dict[str, float]) -> None:
        from stepscope.launch.process import process

        process.record(PRINTED, values, self._steps.now)

    def _counted_elsewhere(self) -> bool:
        from stepscope.launch.process import process

        run = self._run
        return run is None or not run.recording or process.led or process.step_of_values != self.step

    def step(self) -> int | None:
        """Return the step to which a value belongs that the program gives now."""
        return self._steps.now

    def _wait(self, values: dict[str, float], step: int | None) -> None:
        """Keep values until it is clear whether this is a training."""
        self._waiting.append((values, step, time.time()))
        if len(self._waiting) > MAX_WAITING:
            del self._waiting[: MAX_WAITING // 2]
        if step is None:
            return
        trains = False
        for tag in values:
            role = role_of(tag)
            if role is None or role not in JUDGED:
                continue
            if not self._steps.named and "loss" not in role and split_tag(tag).split is None:
                continue  # such as ``[3] score 0.8``, in a list
            last, times = self._counts.get(tag, (-1, 0))
            if step > last:
                self._counts[tag] = step, times + 1
                trains |= times + 1 >= TIMES
        if trains and self._may_open():
            self._open()

    def _may_open(self) -> bool:
        """Return whether this process trains, and shows nothing that another one prints."""
        multiprocessing = sys.modules.get("multiprocessing.process")
        if multiprocessing is not None and multiprocessing.parent_process() is not None:
            self.over = True  # a worker
            return False
        others = [path for path in Path(self._session).glob("python-*") if path.name[7:] != str(os.getpid())]
        if any(_below(int(path.name[7:])) for path in others if path.name[7:].isdigit()):
            self._since = time.monotonic() if self._since is None else self._since
            if time.monotonic() - self._since < CHILD_SECS:
                return False
            mine = f"run-{os.getpid()}-"
            self.over = any(not path.name.startswith(mine) for path in Path(self._session).glob("run-*.json"))
        return not self.over

    @property
    def leads(self) -> bool:
        """Whether the run was made here, and nothing else counts its steps since."""
        return self._run is not None and not self._counted_elsewhere()

    @property
    def _session(self) -> str:
        return self._environ.get("STEPSCOPE_RUN_SESSION", "")

    def _open(self) -> None:
        """Make the run, and record what has waited."""
        from stepscope.launch.process import process
        from stepscope.record.hooks.functions import LambdaHook

        if process.led:
            return
        process.given(self._environ)
        run = process.run()
        if run is None:
            self.over = True
            return
        self._run = run
        process.step_of_values = self.step
        run.add_hook(LambdaHook(end=lambda *_: self._end()))
        for values, step, wall in self._waiting:
            if step is not None:
                self._numbered |= values.keys()
                run.record(process.sources.news(PRINTED, values, step), step, wall=wall)
        self._waiting, self._before = [], self._skipped()

    def of_first_step(self, since: float = math.inf) -> dict[str, float]:
        """Return the newest values that wait and belong to the first step, if something else counts steps.

        A program may evaluate its model before it trains, and prints so beside number 0 or 1. Larger numbers
        are settings, such as ``epochs: 10, lr: 0.1``.

        Args:
            since: When the step began, in seconds since the epoch; all later values are the step's.
        """
        newest: dict[str, float] = {}
        for values, step, at in self._waiting:
            newest |= {
                tag: value
                for tag, value in values.items()
                if at >= since or (step in FIRST and role_of(tag) in JUDGED)
            }
        return newest

    def _end(self) -> None:
        """Say at the end of the run what is not known, unless a framework has counted its steps since."""
        from stepscope.launch.process import process

        if self.leads:
            process.say(process.uncounted() or UNKNOWN)
            skipped = self._skipped() - self._before
            if skipped > 0:
                process.say(f"the values in {skipped:,} lines: they were printed faster than they are read")


def _tracked() -> bool:
    """Return whether there is a run because the program gives values to a tracker, and no steps are seen."""
    module = sys.modules.get("stepscope.launch.process")
    return module is not None and module.process.opened is not None and not module.process.counted


def _below(pid: int) -> bool:
    """Return whether a process was started by this one, or by one that it started."""
    mine, number = os.getpid(), pid
    for _ in range(50):
        try:
            facts = Path(f"/proc/{number}/stat").read_text("utf-8")
            number = int(facts.rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return False
        if number == mine:
            return True
        if number <= 1:
            return False
    return False
