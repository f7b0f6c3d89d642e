"""A recorder without a thread, on a clock that only tests move, writing into lists."""

import functools
import itertools
import re
import signal
import threading
from pathlib import Path

import pytest
from support.records import decoded, infos_of

from stepscope.events import Event, Summary, Value, encode_event, frame
from stepscope.record import exits
from stepscope.record.clock import Clock
from stepscope.record.run import Run
from stepscope.record.writer_loop import FlushRequest, WriterLoop


class FakeTime:
    """Every reading stands still until ``pass_`` moves it."""

    def __init__(self) -> None:
        self.steady = 100.0
        self.pauses: list[float] = []

    def pass_(self, seconds: float) -> None:
        self.steady += seconds

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.pass_(seconds)

    @property
    def clock(self) -> Clock:
        return Clock(
            wall=lambda: 1.7e9 + self.steady,
            steady=lambda: self.steady,
            cpu=lambda: self.steady / 100,
            pause=self.pause,
        )


class FakeWriter:
    """Keeps records as an EventWriter does; ``error`` is what its calls raise."""

    def __init__(self, directory: str) -> None:
        self.path = Path(directory) / f"events.out.tfevents.{next(itertools.count())}"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        self.buffer: list[bytes] = []
        self.written: list[bytes] = []
        self.error: OSError | None = None
        self.flushes = 0
        self.syncs = 0
        self.closed = False

    @property
    def buffered_bytes(self) -> int:
        return sum(map(len, self.buffer))

    def _take(self, data: bytes) -> None:
        if self.error and self.buffered_bytes > 2_000:
            raise self.error
        self.buffer.append(data)

    def records(self, data: bytes) -> None:
        self._take(data)

    def event(self, event) -> None:
        self._take(frame(encode_event(event)))

    def scalar(self, tag, value, step, wall_time) -> None:
        self.scalars([(tag, value)], step, wall_time)

    def scalars(self, values, step, wall_time) -> None:
        self.event(Event(wall_time, step, summary=Summary([Value(tag, simple_value=v) for tag, v in values])))

    def flush(self, sync: bool = False) -> None:
        self.flushes += 1
        self.syncs += sync
        if self.error:
            raise self.error
        self.written += self.buffer
        self.buffer = []

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self.closed = True

    def abandon(self) -> None:
        self.closed = True

    def fileno(self) -> int:
        raise ValueError("no file")

    def take_back(self) -> list[bytes]:
        rest, self.buffer = b"".join(self.buffer), []
        return [rest]

    def put(self, rest) -> None:
        self.buffer += rest

    @property
    def whole_bytes(self) -> int:
        return sum(map(len, self.written))

    @property
    def events(self):
        """What reached the file."""
        return list(decoded(b"".join(self.written)))

    def series(self, tag: str) -> list[tuple[int, float]]:
        return [
            (event.step, value.simple_value)
            for event in self.events
            for value in event.values
            if value.tag == tag
        ]


@pytest.fixture
def time():
    return FakeTime()


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """Tests run strict, but for those that ask for ``lenient``."""
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")


@pytest.fixture
def lenient(strict, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT")


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Every test closes what it opened: no thread, no handler, no run."""
    before, running, open_before = (
        signal.getsignal(signal.SIGTERM),
        set(threading.enumerate()),
        exits._open.copy(),
    )
    yield
    new = [each for each in set(threading.enumerate()) - running if each.name.startswith("stepscope")]
    for thread in new:
        thread.join(10)  # one that was told to end may be reading or importing
    assert not [thread for thread in new if thread.is_alive()]
    assert not [recorder for recorder in exits._open if recorder not in open_before]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.fixture
def fake(tmp_path, time, monkeypatch):
    """A function that makes a run whose thread the test plays: ``turn`` and ``close``."""
    made = []

    def make(**options):
        writers = []

        def open_writer(directory):
            writers.append(FakeWriter(directory))
            return writers[-1]

        def start(writer):
            writer.open()
            writer._intake.taking = True

        monkeypatch.setattr(WriterLoop, "start", start)
        monkeypatch.setattr(exits, "register", lambda *arguments, **options: None)
        options = {"_clock": time.clock, "_open_writer": open_writer, **options}
        run = options.pop("of", Run)(tmp_path / "run", **options)
        run.writers = writers
        run.turn = lambda: run._writer.writer.turn(run.clock.steady())
        run.drain = functools.partial(drain, run)
        made.append(run)
        return run

    yield make
    for run in made:
        run._summaries.end()
        run._summaries.join(10)
        run._writer.forget()


def drain(run, *, timeout: float = 10.0, last: bool = False, sync: bool = False) -> bool:
    request = FlushRequest(run.clock.steady() + timeout, sync=sync, last=last)
    run._writer.writer.drain([request])
    return request.reply.get_nowait()


@pytest.fixture
def real(tmp_path):
    """A function that makes a real run and closes it at the end."""
    made = []

    def make(name: str = "run", **options):
        made.append(Run(tmp_path / name, **options))
        return made[-1]

    yield make
    for run in made:
        run.close()


@pytest.fixture
def read():
    return scalars_in


@pytest.fixture
def infos():
    return infos_in


def event_files(run) -> list[Path]:
    """The event files of a run, oldest first: the last number of their names counts, and is not text."""
    numbered = re.compile(r"(\d+)")
    names = Path(run.log_dir).glob("events.out.*")
    return sorted(
        names, key=lambda path: [int(part) if part.isdigit() else part for part in numbered.split(path.name)]
    )


def scalars_in(run) -> dict[str, list[tuple[int, float]]]:
    """Every scalar in the directory of a run, by tag."""
    found: dict[str, list[tuple[int, float]]] = {}
    for path in event_files(run):
        for event in decoded(path.read_bytes()):
            for value in event.values:
                if value.simple_value is not None:
                    found.setdefault(value.tag, []).append((event.step, value.simple_value))
    return found


def infos_in(run) -> list[dict]:
    """What a run said about itself, oldest first."""
    return infos_of(event for path in event_files(run) for event in decoded(path.read_bytes()))
