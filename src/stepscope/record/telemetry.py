"""The file that each rank writes for itself: one row per step, see ``events/telemetry.py``.

The only process of a training writes one, too, for the stages of its steps; it begins with the first step
that ends. Rows come from the numbers that the run records anyway, on the thread that writes. Nothing is sent
to another rank, no file is shared, and nothing waits for anybody else.
"""

from __future__ import annotations

import itertools
import math
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stepscope.errors import RecordError
from stepscope.events import telemetry as layout
from stepscope.events.framing import frame
from stepscope.events.processes import own_start_ticks, pid_namespace
from stepscope.events.telemetry import (
    END,
    FACTS,
    KEEPS,
    LATE,
    ROWS,
    TIMED,
    TelemetryRow,
    encoded,
    encoded_facts,
    stretches,
)
from stepscope.events.writer import EventWriter
from stepscope.kernels.steps import Steps
from stepscope.record.memory import device_bytes, device_names, resident_bytes
from stepscope.record.problems import Problems
from stepscope.record.rank_values import RankValues, is_first_to_say
from stepscope.record.roles.role import PS, Role
from stepscope.record.sink import LogWriter, Sink, append
from stepscope.record.spool import SpoolRoom
from stepscope.record.steps import DATA_WAIT, STEP_TIME
from stepscope.text import counted
from stepscope.version import __version__

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stepscope.names.meanings import Meanings
    from stepscope.record.card import Tally

FLUSH_SECS = 1.0
"""Rows reach the operating system this often: fewer, larger records than those of the event file."""
MAX_WAITING = 100_000
"""Steps that wait while the disk refuses them; beyond it the oldest are dropped and counted."""
HELD_SECS = 3.0
"""How long a step waits for a device to finish it; after that it is written by the host's clock."""
ASK_SECS, ASK_RATIO = 10.0, 0.1
"""Facts of hooks are written again after ten seconds, and then each time the training is a tenth longer."""
REMEMBERED = 4096
"""Steps that were written and may still get a late value."""
OWN = ("stepscope/", "speed/", "system/")
_uid = itertools.count()


class Telemetry:
    """Collects the rows of one rank and writes them.

    Everything but the constructor runs on the thread that writes.

    Args:
        log_dir: The run's directory.
        role: Which rank this is.
        attempt: Number of the attempt.
        started: When the run began, seconds since the epoch.
        steps: The step that runs.
        problems: Receives the failures to write.
        values: Those that this rank keeps of its own.

    Attributes:
        names: Tags in the order in which they were logged first.
        loss_tag: The series whose values are taken for the loss; None before one was seen.
        tally: Sums up the steps for the run's card; None for none.
        sources: Give facts of hooks.
        room: Bounds the spool of a run that goes to a store; None if there is none.
    """

    def __init__(
        self,
        log_dir: str,
        role: Role,
        attempt: int,
        started: float,
        steps: Steps,
        problems: Problems,
        values: RankValues | None = None,
    ) -> None:
        self.values = values or RankValues(everything=False, by_user=set(), asked=set())
        self._counted = 0
        self.sources: list[Callable[[], dict[str, Any]]] = []
        self._asked_at = self._ask_again_at = math.inf
        self.role, self.attempt, self.started = role, attempt, started
        self.loss_tag: str | None = None
        self.names: Sequence[str] = ()
        self.room: SpoolRoom | None = None
        self._log_dir = log_dir
        self._meanings: Meanings | None = None
        self.tally: Tally | None = None
        self._steps, self._problems = steps, problems
        self._sink = Sink(folder_of(log_dir), self._open, problems, "the file of this rank")
        self._rows: dict[int, TelemetryRow] = {}
        self._written: dict[int, bool] = {}
        self._kinds: dict[str, str] = {}
        self._noted: deque[tuple[int, float, float]] = deque(maxlen=MAX_WAITING)
        self._horizon: tuple[bool, int | None] = (False, None)
        self._stages = self._rests_after = 0
        self._group: str | None = None
        self._marked: list[tuple[int, tuple[float, ...]]] = []
        self._completed: list[tuple[int, tuple[float, ...]]] = []
        self._flushed_at = -math.inf
        self._news = self._ended = self._begun = False
        if steps.stages is not None:
            steps.stages.keep = True

    def _open(self, directory: str) -> EventWriter:
        name = str(file_name(self.role, self.attempt))
        while os.path.lexists(f"{directory}/{name}"):  # of an earlier process of this number
            name = str(file_name(self.role, self.attempt))
        return EventWriter(directory, name=name)

    # --- what the run records -----------------------------------------------------------------------

    def look(self) -> None:
        """Note which step runs, before the numbers logged so far are taken: later ones may lack some."""
        self._horizon = self._steps.running, self._steps.current

    def take(
        self,
        tag: str,
        steps: NDArray[np.int64],
        values: NDArray[np.float64],
        walls: NDArray[np.float64],
    ) -> None:
        """Take numbers that were recorded under a tag, as ``Run.listen`` gives them."""
        kind = self._kinds.get(tag)
        if kind is None:
            kind = self._kinds[tag] = self._kind(tag)
        if kind == "own":
            return
        if kind != "other":
            rows = map(self._row, steps.tolist(), walls.tolist())
            fill = {"time": _fill_time, "wait": _fill_wait, "loss": _fill_loss}[kind]
            for row, value, wall in zip(rows, values.tolist(), walls.tolist(), strict=True):
                fill(row, value, wall)
        if kind in ("loss", "other"):
            self._count_nonfinite(steps, values, walls)
            self._keep(tag, steps, values, walls)

    def _keep(self, tag: str, *columns: NDArray[Any]) -> None:
        """Keep values of this rank's own; say once in a job that values of ranks are not recorded."""
        before, own = self.values.unrecorded, self.values
        own.take(self.role, tag, *columns)
        if own.unrecorded and not before and is_first_to_say(self.role):
            self._problems.post_warning(
                f"values that {self.role.label} logs are not recorded, {tag!r} first: "
                f"rank {self.role.chief_rank} writes what is logged; {KEEPS}"
            )
        if own.unrecorded >= 2 * self._counted and own.unrecorded:  # often at first, and then less
            self._counted, self._news = own.unrecorded, True

    def note_loss(self, step: int, value: float, wall: float) -> None:
        """Take the loss of a step that is not recorded here; from any thread."""
        self._noted.append((step, value, wall))

    def _take_noted(self) -> None:
        if self._noted and self.loss_tag is None:
            self.loss_tag, self._news = "loss", True
        while self._noted:
            step, value, wall = self._noted.popleft()
            row = self._row(step, wall)
            _fill_loss(row, value, wall)
            row.nonfinite += not math.isfinite(value)

    def _kind(self, tag: str) -> str:
        """Return the role of a series for this rank; the first one named like a training loss is the loss."""
        if tag in (STEP_TIME, DATA_WAIT):
            return "time" if tag == STEP_TIME else "wait"
        if tag.startswith(OWN):
            return "own"
        if self.loss_tag is None:
            if self._meanings is None:
                from stepscope.names.meanings import meanings_at  # takes some milliseconds to import

                self._meanings = meanings_at(self._log_dir)
            is_loss = self._meanings.is_training_loss
            if is_loss(tag):
                # Of several in a batch this need not be the first that was logged.
                self.loss_tag, self._news = next(filter(is_loss, self.names), tag), True
        return "loss" if tag == self.loss_tag else "other"

    def _count_nonfinite(
        self, steps: NDArray[np.int64], values: NDArray[np.float64], walls: NDArray[np.float64]
    ) -> None:
        import numpy as np

        for at in np.flatnonzero(~np.isfinite(values)).tolist():
            self._row(int(steps[at]), float(walls[at])).nonfinite += 1

    def _row(self, step: int, wall: float) -> TelemetryRow:
        row = self._rows.get(step)
        if row is None:
            row = self._rows[step] = TelemetryRow(wall)
        return row

    # --- the file -----------------------------------------------------------------------------------

    def open(self, now: float) -> None:
        """Begin the file, so that one that cannot be written is reported at the line that created the run."""
        self.flush(now)

    def turn(self, now: float) -> None:
        """Write the rows that are due."""
        self._ask(now)
        if now - self._flushed_at >= FLUSH_SECS and (
            self._rows or self._news or self.values.size or self._sink.buffered_bytes
        ):
            self.flush(now)

    def _ask(self, now: float) -> None:
        """Write the facts of hooks again: after some seconds, and then ever more rarely."""
        if not self.sources:
            return
        if self._asked_at == math.inf:
            self._asked_at, self._ask_again_at = now, now + ASK_SECS
        elif now >= self._ask_again_at:
            self._news = True
            self._ask_again_at = now + max(ASK_SECS, ASK_RATIO * (now - self._asked_at))

    def flush(self, now: float, *, sync: bool = False) -> bool:
        """Hand every step that has ended to the operating system; False if that failed."""
        self._flushed_at = now
        if self._waits_for_steps():
            return True
        full = self.room is not None and not self.room.left(now)
        file = None if full and not self._ended else self._sink.writer(now)
        self._take_noted()
        if file is None:
            self._bound()
            return False
        self._take_stages()
        if self._sink.fresh or self._news:
            self._add_facts(file)
            self._news = False
            if self._sink.fresh:
                self.values.renamed()
                self._sink.begun(file)
        self._encode(file, now)
        done = self._sink.flush(now, sync=sync)
        while not done and self._sink.moved and (file := self._sink.writer(now)) is not None:
            self._add_facts(file)
            self.values.renamed()
            self._sink.begun(file)
            done = self._sink.flush(now, sync=sync)
        return done

    def _waits_for_steps(self) -> bool:
        """Return whether there is nothing to write: the only process has ended no step, and has no facts."""
        self._begun = (
            self._begun
            or not self.role.alone
            or any(row.ended for row in self._rows.values())
            or any(source() for source in self.sources)
        )
        if self._begun:
            return False
        running, current = self._horizon
        self._rows = {step: row for step, row in self._rows.items() if running and step == current}
        return True

    def _take_stages(self) -> None:
        """Take how long the stages of the steps that ended have taken."""
        stages = self._steps.stages
        if stages is None:
            return
        ended = stages.take()  # before the stages are counted: each of these has its number by then
        rested = stages.rested_s
        known = len(stages.order), stages.group, rested.index(max(rested))
        if known != (self._stages, self._group, self._rests_after):
            (self._stages, self._group, self._rests_after), self._news = known, True
        if not self._stages:
            return
        timed, self._marked = self._timed([*self._marked, *ended])
        for row, spent in timed:
            row.spent = spent
            # A pause is no part of the step's time, but other ranks may have waited meanwhile.
            row.seconds += sum(spent[stage] for stage in stages.pauses if stage < len(spent))
        if stages.device is not None:
            timed, self._completed = self._timed([*self._completed, *stages.device.take()])
            for row, completed in timed:
                row.completed = completed

    def _timed(
        self, parts: list[tuple[int, tuple[float, ...]]]
    ) -> tuple[list[tuple[TelemetryRow, tuple[float, ...]]], list[tuple[int, tuple[float, ...]]]]:
        """Return the rows of steps with their parts, and the parts of steps whose times are not taken yet.

        A step may end after the numbers were taken, so its parts come first. Times come in the order of the
        steps: what precedes a step that has one was written or dropped, and waits for nothing.
        """
        rows = [self._rows.get(step) for step, _ in parts]
        known = [at for at, row in enumerate(rows) if row is not None and row.ended]
        ahead = parts[known[-1] + 1 :] if known else parts
        timed = [(row, parts[at][1]) for at in known if (row := rows[at]) is not None]
        return timed, [part for part in ahead[-MAX_WAITING:] if part[0] not in self._written]

    def retry_now(self) -> None:
        """Try to write again at once, because the user asked for it."""
        self._sink.retry_now()

    def end(self, status: str, reason: str | None, wall: float, now: float) -> bool:
        """Write everything and how the rank ended; False if that failed."""
        self._horizon, self._ended = (False, None), True
        if self._waits_for_steps():
            return True
        file = self._sink.writer(now)
        self._take_noted()
        self._take_stages()
        if file is not None:
            self._encode(file, now)
            if self.values.unrecorded > self._counted or self.sources:
                self._add_facts(file)
            file.put([frame(encoded_facts(END, status=status, reason=reason, ended=wall))])
        return self.flush(now)

    def amend(self, status: str, reason: str | None, wall: float) -> None:
        """Say again how the rank ended, at the end of its closed file."""
        for path in self._sink.last_paths:
            append(path, frame(encoded_facts(END, status=status, reason=reason, ended=wall)))

    def close(self) -> None:
        """Close the file; rows not in it by now are lost."""
        self._sink.close()

    def discard_file(self) -> None:
        """Delete the file that was begun: it has the name of another rank."""
        self._sink.discard()
        self._begun = False

    def become(self, role: Role) -> None:
        """Note that this is a different rank than was thought; the facts are updated."""
        self.role, self._news = role, True

    def forget(self) -> None:
        """Become inert in a forked child."""
        self._rows.clear()
        self._sink.forget()

    @property
    def unwritten(self) -> int:
        """Steps that are not in the file."""
        return len(self._rows) + self.values.size + self._sink.unflushed

    def _add_facts(self, file: LogWriter) -> None:
        role = self.role
        facts = encoded_facts(
            FACTS,
            version=__version__,
            role=role.name,
            rank=role.rank,
            world_size=role.world_size,
            chief_rank=role.chief_rank,
            source=role.source,
            evidence=list(role.evidence),
            local_rank=role.local_rank,
            node=role.node,
            restarts=role.restarts,
            attempt=self.attempt,
            host=socket.gethostname(),
            pid=os.getpid(),
            pid_namespace=pid_namespace(),
            start_ticks=own_start_ticks(os.getpid()),
            started=self.started,
            loss=self.loss_tag,
            devices=device_names(),
            **self._stage_facts(),
            **self.values.facts(),
            **{name: value for source in self.sources for name, value in source().items()},
        )
        file.put([frame(facts)])

    def _stage_facts(self) -> dict[str, Any]:
        """Name the stages by number, their order, the rest's time by the stage before it, and the group."""
        stages = self._steps.stages
        group = {} if self._group is None else {"group": self._group}
        if stages is None or not self._stages:
            return group
        order = stages.order[: self._stages]
        rest = {"rested_s": stages.rested_s, "stages_s": stages.took_s}
        return {"stages": stages.names[1:], "stage_order": order, **rest, **group}

    def _encode(self, file: LogWriter, now: float) -> None:
        """Make records of the steps that have ended, and of values that came after their step was written."""
        for event, count in self.values.events():
            file.put([frame(event)])
            self._sink.unflushed += count
        rows, late = self._due(now)
        if not rows and not late:
            return
        memory = resident_bytes(), device_bytes()
        stages = len(self._steps.stages.names) - 1 if self._stages and self._steps.stages else 0
        timed = stages and any(row.completed for _, row in rows)
        for kind, some in ((TIMED if timed else ROWS, rows), (LATE, late)):
            for begin, end in stretches(some):
                event = encoded(kind, some[begin:end], memory, 0 if kind == LATE else stages)
                file.put([frame(event)])  # which cannot fail: these rows are held nowhere else
        self._sink.unflushed += len(rows)
        if self.tally is not None:
            self.tally.add_rows(rows, [] if self._steps.stages is None else self._steps.stages.names)
        self._written.update((step, row.ended) for step, row in rows)
        for step in list(self._written)[:-REMEMBERED] if len(self._written) > 2 * REMEMBERED else ():
            del self._written[step]

    def _due(self, now: float) -> tuple[list[tuple[int, TelemetryRow]], list[tuple[int, TelemetryRow]]]:
        """Take away the rows that can be written, and those of steps that were written before.

        The step that runs waits for its end, and one that has ended a while for its device. If the user
        numbers the steps, there is no end to wait for.
        """
        running, current = self._horizon
        rows: list[tuple[int, TelemetryRow]] = []
        late: list[tuple[int, TelemetryRow]] = []
        for step, row in list(self._rows.items()):
            timed = self._written.get(step)
            if timed is not None and not (timed and row.ended):
                late.append((step, row))
            elif self._is_held(step, row, now):
                continue
            elif row.ended or not running or step != current:
                rows.append((step, row))
            else:
                continue
            del self._rows[step]
        rows.sort(key=lambda entry: entry[1].wall)  # a series of few steps may have been taken first
        return rows, late

    def _is_held(self, step: int, row: TelemetryRow, now: float) -> bool:
        """Say whether a step that has ended still waits for its device."""
        device = None if self._steps.stages is None else self._steps.stages.device
        if device is None or self._ended or not row.ended or row.completed or not device.waits(step):
            return False
        row.held = min(row.held, now + HELD_SECS)
        return now < row.held

    def _bound(self) -> None:
        """Drop the oldest steps if too many wait for the disk."""
        surplus = max(len(self._rows) - MAX_WAITING, 0)
        for step in list(itertools.islice(self._rows, surplus)):
            del self._rows[step]
        values = self.values.drop(self.values.size - MAX_WAITING)
        if surplus or values:
            lost = counted(surplus, "step") + (f" and {counted(values, 'value')}" if values else "")
            error = RecordError(
                f"{lost} of this rank's telemetry were dropped: the disk or the spool's bound refuses them",
                hint="free space, make the directory writable, or restore the connection to the store",
                path=self._sink.directory,
            )
            self._problems.post("overflow", error, points=surplus + values)


def _fill_time(row: TelemetryRow, value: float, wall: float) -> None:
    row.wall, row.seconds, row.ended = wall, value / 1e3, True


def _fill_wait(row: TelemetryRow, value: float, wall: float) -> None:
    row.waited = value / 1e3


def _fill_loss(row: TelemetryRow, value: float, wall: float) -> None:
    row.loss, row.has_loss = value, True


def folder_of(log_dir: str) -> str:
    """Return the folder of the ranks' files."""
    return os.path.join(log_dir, layout.FOLDER)  # noqa: PTH118  text, as all of a run's paths here


def file_name(role: Role, attempt: int) -> layout.Name:
    """Return a name for the next file of this process."""
    kind = "ps" if role.name == PS else "rank"
    place = kind, role.rank, role.world_size, attempt, role.restarts
    return layout.Name(*place, socket.gethostname(), os.getpid(), next(_uid))


def attempt_of(log_dir: str, role: Role, elsewhere: Sequence[str] = ()) -> int:
    """Return the number of this attempt, from the names of the files that ranks have left in a run.

    The newest attempt is not ours if it already has our rank or a different number of ranks, or if the
    launcher has restarted the job since. Otherwise it is ours, and the files are those of faster ranks. So
    all ranks arrive at the same number without asking each other.

    Args:
        log_dir: The run's directory.
        role: Which rank this is.
        elsewhere: Names of such files in the store that the run goes to.
    """
    try:
        here = os.listdir(folder_of(log_dir))  # noqa: PTH208  names only
    except OSError:
        here = []
    parsed = [layout.parse_name(name) for name in (*here, *elsewhere)]
    names = [name for name in parsed if name is not None]
    newest = max((name.attempt for name in names), default=0)
    ours = file_name(role, 0)
    peers = [name for name in names if name.attempt == newest]
    earlier = any(
        (name.kind, name.rank) == (ours.kind, ours.rank)
        or (name.size, name.restarts) != (ours.size, ours.restarts)
        for name in peers
    )
    return max(newest + earlier, role.restarts + 1, 1)
