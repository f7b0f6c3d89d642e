"""What the thread behind a run does, turn by turn: encode what waits, and write it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from stepscope.record.encode import Columns, Encoder
from stepscope.record.held import as_columns
from stepscope.record.roles.watch import Watch
from stepscope.record.sink import Writer
from stepscope.record.words import DEVICE_POINTS, Words

CHUNK = 16_384
"""Points encoded at once: about 1 ms, in which the interpreter is free."""
TURN_SECS = 0.25
POLL_SECS = 0.001


@dataclass
class Request:
    """A wish that everything logged so far reach the file.

    Attributes:
        deadline: Steady time in seconds after which devices are no longer waited for.
        sync: Also wait until it is on the disk.
        last: End the thread afterwards.
        reply: Gets one bool: whether all was written.
    """

    deadline: float
    sync: bool = False
    last: bool = False
    reply: SimpleQueue[bool] = field(default_factory=SimpleQueue)


SOON = Request(float("-inf"))
"""A wish whose answer nobody waits for."""


class Turns(Words):
    """The methods of a recorder that its thread goes through."""

    requests: SimpleQueue[Request | None]
    _encoder: Encoder
    _watch: Watch | None
    _flush_secs: float
    _flushed_at: float
    _max_points: int
    _limit: int

    def _loop(self) -> None:
        self.cost.restart(self.clock.steady(), self.clock.cpu())
        last = False
        while not last:
            requests = self._next_requests()
            last = any(request.last for request in requests)
            try:
                if requests:
                    self.drain(requests)
                else:
                    self.turn(self.clock.steady())
            except Exception as error:  # noqa: BLE001  a defect of ours must not silently end all recording
                self._lost("defect", f"{type(error).__name__}: {error}", points=0, hint="please report this")

    def _next_requests(self) -> list[Request]:
        """Wait for the next turn; return the requests that came meanwhile."""
        found: list[Request] = []
        try:
            request = self.requests.get(timeout=min(TURN_SECS, self._flush_secs / 2))
            while True:
                if request is not None:
                    found.append(request)
                request = self.requests.get_nowait()
        except Empty:
            return found

    def turn(self, now: float) -> None:
        """Do what is due: encode, take what devices have finished, report the cost, write."""
        self._move(now)
        if self.cost.due(now):
            self._report(now)
        if self.changed:
            self._say(now)
        if now - self._flushed_at >= self._flush_secs / 2 and (
            self.sink.buffered_bytes or self.sink.unflushed
        ):
            self._flush(now)
        if self._telemetry is not None:
            self._telemetry.turn(now)
        self._bound()

    def drain(self, requests: list[Request]) -> None:
        """Write everything logged so far, as far as the deadlines allow, and answer."""
        last = any(request.last for request in requests)
        self.sink.retry_now()
        complete = self._empty(max(request.deadline for request in requests))
        now = self.clock.steady()
        if last:
            self._last_words(now)
        elif self.changed:
            self._say(now)
        sync = any(request.sync for request in requests)
        complete = self._flush(now, sync=sync) and complete
        complete = self._flush_telemetry(now, last=last, sync=sync) and complete
        self._bound()
        if last:
            self.background.end()
            self.sink.close()
        for request in requests:
            if request is not SOON:
                request.reply.put(complete)

    def _flush_telemetry(self, now: float, *, last: bool, sync: bool) -> bool:
        telemetry = self._telemetry
        if telemetry is None:
            return True
        telemetry.retry_now()
        if last:
            return telemetry.end(self.info.status, self.info.reason, self.clock.wall(), now)
        return telemetry.flush(now, sync=sync)

    # --- parts of a turn ----------------------------------------------------------------------------

    def _empty(self, deadline: float) -> bool:
        """Encode everything, waiting for devices; True where nothing is left."""
        while True:
            now = self.clock.steady()
            self._move(now)
            waiting = len(self._held) or self.background.pending or self.background.ready
            if not waiting or now >= deadline:
                return not self._rest and not waiting
            self.clock.pause(POLL_SECS)

    def _move(self, now: float) -> None:
        """Encode what waits, as far as devices are done and writing works."""
        if self._watch is not None and (role := self._watch.look()) is not None:
            self._become(role, now)
        writer = self._writer(now)
        if writer is None and self.writes:
            return
        if self._telemetry is not None:
            self._telemetry.look()
        # The queue first: of a tag that changes over to it, the columns taken afterwards hold the earlier
        # points.
        for _ in range(len(self.queue)):
            self._held.add(self.queue.popleft())
        columns = Columns(*self.points.take())
        if columns.size:
            self._rest.append(columns)
        while self._rest and self._write(writer, self._rest, now):
            self._rest.popleft()
        if not self._rest and (ready := self._held.ready()):
            rest = deque([as_columns(ready, self.points.numbers)])
            if not self._write(writer, rest, now):
                self._held.put_back(ready[len(ready) - rest[0].size :])
        self._write_events(writer, now)

    def _write_events(self, writer: Writer | None, now: float) -> None:
        """Write the summaries that are made."""
        ready = self.background.ready
        while ready:
            event, nbytes = ready[0]
            try:
                if writer is not None:
                    writer.event(event)
            except OSError as error:
                self.sink.failed(error, now)
                return
            ready.popleft()
            self.background.written(nbytes)
            if writer is not None:
                self.sink.unflushed += 1
                self._wrote += 1

    def _write(self, writer: Writer | None, rest: deque[Columns], now: float) -> bool:
        """Hand the first columns to the writer; where that fails, keep the rest of them and return False."""
        columns, at = rest[0], 0
        if writer is None:
            self._dropped += columns.size
            self._count_steps(columns, 0, columns.size, 0)
            return True
        try:
            while at < columns.size:
                data, done, changes = self._encoder.encode(columns, at, min(at + CHUNK, columns.size))
                if data:
                    writer.records(data)
                else:  # a number that no float32 holds: the writer knows what to do with it
                    tag = self.points.names[columns.tags[at]]
                    writer.scalar(tag, columns.values[at], columns.steps[at], columns.walls[at])
                    done = 1
                at += done
                self.sink.unflushed += done
                self._wrote += done
                self._count_steps(columns, at - done, at, changes)
        except OSError as error:
            self.sink.failed(error, now)
            rest[0] = columns.after(at)
            return False
        return True

    def _count_steps(self, columns: Columns, begin: int, end: int, changes: int) -> None:
        """Know the step, and how many there were, also where the user numbers them and not ``steps()``."""
        if self._steps.current is None:
            self.cost.steps += changes + (columns.steps[begin] != self._last_step)
        self._last_step = columns.steps[end - 1]
        if self.listeners:
            self.listeners.tell(columns, begin, end)

    def _bound(self) -> None:
        """Set how many points may wait beside those that are stuck; get attention where there is news."""
        stuck = sum(columns.size for columns in self._rest) + DEVICE_POINTS * len(self._held)
        self._limit = max(self._max_points - stuck, 0)
        self.points.mark = self._limit // 2
        if self.problems.waiting:
            self.points.known.clear()

    def _wake(self) -> None:
        self.requests.put(None)

    def _flush(self, now: float, *, sync: bool = False) -> bool:
        self._flushed_at = now
        if not self.writes:
            return True
        done = self.sink.flush(now, sync=sync)
        self._writer(now)  # begins the next file at once where this one was deleted
        return done
