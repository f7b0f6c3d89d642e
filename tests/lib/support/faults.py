"""Faults, played for real on programs that record: ``make faults`` prints one table.

Each row is a fault, what may be lost by it (the promise), what was lost, and what the user sees. The program
says each step that it logs through a pipe, so that a process that is killed tells it, too. Ends with 1 where
a promise is broken or a value was read that nobody had logged.
"""

import argparse
import contextlib
import io
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import stepscope as ss
from stepscope.events.pieces import records_end
from support import programs
from support.stores import Proxy, store, user_environment
from support.waiting import until

PATIENCE_SECS = 180
FLUSH_SECS = 1.0
"""What ``Run(flush_secs=)`` is unless somebody says otherwise."""
SLACK_SECS = 2.0
"""How much later a busy machine may give the writing thread its turn."""
PRELUDE = """
import json, os, resource, shutil, signal, sys, threading, time, warnings
import stepscope as ss
from stepscope.record import sink, uploader

uploader.FIRST_SECS = uploader.SEND_SECS = 0.2
sink.FIRST_RETRY_SECS, sink.LONGEST_RETRY_SECS = 0.01, 0.05
place, folder, told = sys.argv[1], sys.argv[2], open(1, "w", buffering=1)

def log(run, steps, pause=0.0):
    for step in steps:
        run.scalar("loss", step / 2, step)
        told.write(f"{step} {time.time()}\\n")
        if pause and step % 10 == 0:
            time.sleep(pause)

def counted(run):
    told.write("counted " + json.dumps(run.problems) + "\\n")

def forever():
    while True:
        time.sleep(0.05)  # a signal that comes right before signal.pause() wakes nobody
"""


class Program:
    """A training program of a few lines, at work.

    Attributes:
        place: Where it records.
        process: It.
    """

    def __init__(self, folder: Path, text: str, place: str = "", **variables: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.place = folder, place or str(folder / "run")
        self._err = folder / "stderr.txt"
        self._lines: list[str] = []
        self.ended_at = math.inf
        with self._err.open("w") as err:
            self.process = programs.Program(
                ["-c", PRELUDE + textwrap.dedent(text), self.place, str(folder)],
                modules=programs.RECORDING,
                env={**os.environ, "STEPSCOPE_STRICT": "", **variables},
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self._lines.extend(self.process.stdout)  # one by one, as they come
        self.process.stdout.close()

    def lines(self) -> list[list[str]]:
        """What it has said so far, but for half a line."""
        return [line.split(" ", 1) for line in self._lines if line.endswith("\n")]

    def logged(self) -> dict[int, float]:
        """When each step was logged."""
        return {int(words[0]): float(words[1]) for words in self.lines() if words[0].isdigit()}

    def counted(self) -> dict[str, int] | None:
        """What the run says is lost, by reason; None where it could not say."""
        found = [json.loads(words[1]) for words in self.lines() if words[0] == "counted"]
        return found[-1] if found else None

    def wait(self, done: Callable[[], bool], what: str) -> None:
        """Wait for a moment of the program.

        Raises:
            RuntimeError: It ended before.
        """
        until(lambda: done() or self.process.poll() is not None, what, PATIENCE_SECS)
        if not done():
            raise RuntimeError(f"ended before {what}: {self.said()}")

    def wait_steps(self, count: int) -> None:
        """Wait until so many steps were logged."""
        self.wait(lambda: len(self.logged()) >= count, f"{count} steps")

    def send(self, number: int) -> None:
        """Send it a signal, and wait for its end."""
        self.ended_at = time.time()
        self.process.send_signal(number)
        self.finish()

    def finish(self) -> None:
        """Wait for its end."""
        self.process.wait(PATIENCE_SECS)
        self._reader.join()

    def said(self) -> str:
        """What it printed."""
        return self._err.read_text()

    def end(self) -> None:
        """Leave nothing behind."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()


@dataclass
class Outcome:
    """What came of a fault.

    Attributes:
        logged: Points that the program passed to the run.
        lost: How many of them are not read back.
        wrong: Points that are read and were never logged so.
        age_s: How long before the end the oldest lost point was logged; 0 where none is lost.
        counted: How many lost points the run itself told of; None where it could not.
        seen: What the user sees: what was printed, and the run's state.
    """

    logged: int
    lost: int
    wrong: int
    age_s: float
    counted: int | None
    seen: str

    @property
    def words(self) -> str:
        """What was lost, for the table."""
        if not self.lost:
            return f"0 of {self.logged:,}"
        told = "" if self.counted is None else f", {self.counted:,} counted"
        age = f", the last {self.age_s:.2f} s" if math.isfinite(self.age_s) else ""
        return f"{self.lost:,} of {self.logged:,}{age}{told}"


def outcome(program: Program, place: str | Path = "", extra: str = "") -> Outcome:
    """Compare what was logged with what is read back."""
    found, state, problems = read(str(place or program.place))
    logged = program.logged()
    lost = sorted(step for step in logged if step not in found)
    wrong = sum(1 for step, value in found.items() if value != step / 2)
    age = program.ended_at - min((logged[step] for step in lost), default=program.ended_at)
    counted = program.counted()
    seen = "; ".join(each for each in (first_words(program.said()), extra or state, *problems[:1]) if each)
    total = None if counted is None else sum(counted.values())
    return Outcome(len(logged), len(lost), wrong, age if lost else 0.0, total, seen)


def read(place: str) -> tuple[dict[int, float], str, list[str]]:
    """Return the points of ``loss``, the run's state and what is wrong with its files; of all attempts."""
    found: dict[int, float] = {}
    if not Path(place).is_dir():
        return found, "no run", []
    with ss.open(place, cache=False) as opened:
        if not opened.runs():
            return {}, "no run", []
        run = opened.runs()[0]
        for part in run.columns("loss") if "loss" in run.tags() else ():
            found.update(zip(part.step.tolist(), part.value.tolist(), strict=True))
        return found, run.state, [f"“{each.text}”" for each in run.problems]


def first_words(text: str) -> str:
    """Return the first sentence of Stepscope in what a program printed."""
    for line in text.splitlines():
        for mark in ("RuntimeWarning: ", "UserWarning: ", "stepscope: "):
            if mark in line:
                said = line.split(mark, 1)[1].removeprefix("stepscope: ")
                return f"“{textwrap.shorten(said, 130, placeholder=' …')}”"
    return ""


# --- promises -------------------------------------------------------------------------------------------


def nothing(found: Outcome) -> bool:
    return found.lost == 0


def last_second(found: Outcome) -> bool:
    return found.age_s <= FLUSH_SECS + SLACK_SECS


def all_counted(found: Outcome) -> bool:
    return found.counted is not None and found.lost == found.counted


def at_most(count: int) -> Callable[[Outcome], bool]:
    return lambda found: found.lost <= count


# --- faults ---------------------------------------------------------------------------------------------


@dataclass
class Fault:
    """A fault that can be played.

    Attributes:
        name: What is asked for on the command line.
        what: What happens.
        promise: What may be lost by it.
        kept: Whether an outcome keeps the promise.
        play: Does it in a folder.
        store: Whether it needs a store.
        times: How often it is played; the worst is shown.
    """

    name: str
    what: str
    promise: str
    kept: Callable[[Outcome], bool]
    play: Callable[[Path, random.Random], Outcome]
    store: bool = False
    times: int = 1


FAULTS: list[Fault] = []


def fault(
    what: str, promise: str, kept: Callable[[Outcome], bool], *, store: bool = False, times: int = 1
) -> Callable[[Callable[[Path, random.Random], Outcome]], Callable[[Path, random.Random], Outcome]]:
    """Put a fault into the table."""

    def add(play: Callable[[Path, random.Random], Outcome]) -> Callable[[Path, random.Random], Outcome]:
        FAULTS.append(
            Fault(play.__name__.replace("_", "-"), what, promise, kept, play, store=store, times=times)
        )
        return play

    return add


@contextmanager
def running(folder: Path, text: str, place: str = "", **variables: str) -> Iterator[Program]:
    program = Program(folder, text, place, **variables)
    try:
        yield program
    finally:
        program.end()


LOGS = """
with ss.Run(place) as run:
    log(run, range(10**9), pause=0.005)
"""


def signalled(folder: Path, dice: random.Random, number: int, text: str = LOGS) -> Outcome:
    with running(folder, text) as program:
        program.wait_steps(dice.randint(200, 4_000))
        program.send(number)
        return outcome(program)


@fault("kill -9, at a random moment", "the last second (flush_secs)", last_second, times=5)
def killed(folder: Path, dice: random.Random) -> Outcome:
    return signalled(folder, dice, signal.SIGKILL)


@fault("SIGTERM, as from Slurm or Kubernetes", "nothing", nothing, times=2)
def terminated(folder: Path, dice: random.Random) -> Outcome:
    return signalled(folder, dice, signal.SIGTERM)


@fault("SIGHUP, the terminal is gone", "nothing", nothing)
def hung_up(folder: Path, dice: random.Random) -> Outcome:
    return signalled(
        folder, dice, signal.SIGHUP, "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n" + LOGS.strip()
    )


@fault("Ctrl-C", "nothing", nothing)
def interrupted(folder: Path, dice: random.Random) -> Outcome:
    return signalled(folder, dice, signal.SIGINT)


def finished(folder: Path, text: str, **variables: str) -> Outcome:
    with running(folder, text, **variables) as program:
        program.finish()
        return outcome(program)


def ends(
    name: str, what: str, promise: str, kept: Callable[[Outcome], bool], text: str, **variables: str
) -> None:
    """Put a fault into the table that a program has by itself, until it ends."""
    FAULTS.append(Fault(name, what, promise, kept, lambda folder, _: finished(folder, text, **variables)))


@fault("the process is stopped for a while (SIGSTOP), and goes on", "nothing", nothing)
def stopped(folder: Path, dice: random.Random) -> Outcome:
    with running(folder, "with ss.Run(place) as run:\n    log(run, range(4_000), pause=0.005)") as program:
        program.wait_steps(dice.randint(200, 2_000))
        program.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        until(lambda: time.monotonic() > begun + 2 * FLUSH_SECS, "it has stood for a while")
        program.process.send_signal(signal.SIGCONT)
        program.finish()
        return outcome(program)


@fault("os._exit, which runs nothing at the end", "the last second (flush_secs)", last_second)
def exited_at_once(folder: Path, dice: random.Random) -> Outcome:
    return ended_by(folder, dice, "os._exit(0)")


@fault("another program takes the place of the process (os.execv)", "the last second", last_second)
def replaced(folder: Path, dice: random.Random) -> Outcome:
    return ended_by(folder, dice, "os.execv(sys.executable, [sys.executable, '-c', ''])")


def ended_by(folder: Path, dice: random.Random, end: str) -> Outcome:
    """Play an end that the run does not hear of."""
    text = f"run = ss.Run(place)\nlog(run, range({dice.randint(500, 4_000)}), pause=0.005)\n{end}"
    with running(folder, text) as program:
        program.finish()
        program.ended_at = max(program.logged().values())
        return outcome(program)


ends(
    "raised", "an exception, and nobody closes the run", "nothing", nothing,
    "run = ss.Run(place)\nlog(run, range(5_000))\nraise ValueError('diverged')",
)  # fmt: skip


ends(
    "exited", "sys.exit(3), and nobody closes the run", "nothing", nothing,
    "run = ss.Run(place)\nlog(run, range(5_000))\nsys.exit(3)",
)  # fmt: skip


ends(
    "taken-away", "a function that trains raises, and its caller leaves with sys.exit(1)", "nothing", nothing,
    """
    def main():
        run = ss.Run(place)
        log(run, run.steps(range(5_000)))
        raise RuntimeError("CUDA error: device-side assert")
    try:
        main()
    except Exception as error:
        sys.exit(1)
""",
)  # fmt: skip


ends("returned", "a child of multiprocessing (fork) returns with its run open", "nothing", nothing, """
    warnings.simplefilter("ignore", DeprecationWarning)
    import multiprocessing
    def child():
        global run
        run = ss.Run(place)
        log(run, range(5_000))
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
""")  # fmt: skip


ends("interrupted-at-first", "Ctrl-C while a run is made", "nothing: the run is stopped", nothing, """
    class Interrupts(ss.Hook):
        def begin(self, run):
            log(run, range(1_000))
            signal.raise_signal(signal.SIGINT)
    try:
        ss.Run(place, hooks=[Interrupts()])
    except KeyboardInterrupt:
        pass
""")  # fmt: skip


ends("callback-leaves", "a callback on the thread that writes calls sys.exit", "nothing", nothing, """
    run = ss.Run(place, flush_secs=0.05)
    run.listen(lambda *columns: sys.exit("enough"))
    log(run, range(5_000), pause=0.005)
    run.close()
""")  # fmt: skip


ends(
    "callback-hangs", "a callback on the thread that writes does not return for seven seconds", "nothing",
    nothing,
    """
    run = ss.Run(place, flush_secs=0.05)
    until = time.monotonic() + 7.0
    def plot(tag, steps, values, walls):
        time.sleep(max(until - time.monotonic(), 0))
    run.listen(plot)
    log(run, range(5_000), pause=0.02)
    run.close()
""",
)  # fmt: skip


ends("hook-hangs", "a hook's end never returns", "nothing", nothing, """
    class Uploads(ss.Hook):
        def end(self, run, status):
            forever_waits.wait()
    forever_waits = threading.Event()
    run = ss.Run(place, hooks=[Uploads()])
    log(run, range(5_000))
    run.close(timeout=2)
""")  # fmt: skip


ends(
    "nobody-reads", "standard error is a full pipe that nobody reads", "nothing, and training goes on",
    nothing,
    """
    import fcntl
    end, start = os.pipe()
    fcntl.fcntl(start, fcntl.F_SETFL, os.O_NONBLOCK)
    try:
        while True:
            os.write(start, b"x" * 4096)
    except BlockingIOError:
        fcntl.fcntl(start, fcntl.F_SETFL, 0)
    os.dup2(start, 2)
    run = ss.Run(place, hooks=[ss.LoggingHook(every_n_steps=10)])
    run.scalar("bad", "text", 0)
    log(run, run.steps(range(5_000)))
    run.scalar("bad", "text", 0)
    run.close()
""",
)  # fmt: skip


ends("forked", "a child is forked and logs, too", "nothing of the parent's", nothing, """
    warnings.simplefilter("ignore", DeprecationWarning)
    run = ss.Run(place)
    log(run, range(2_000))
    if os.fork() == 0:
        for step in range(2_000):
            run.scalar("loss", -1.0, step)
        os._exit(0)
    os.wait()
    log(run, range(2_000, 4_000))
    run.close()
""")  # fmt: skip


ends("clock-back", "the clock goes back by a day", "nothing", nothing, """
    run = ss.Run(place)
    log(run, range(2_000))
    run.flush()
    now, time.time = time.time, lambda: now() - 86_400
    log(run, range(2_000, 4_000))
    run.close()
    second = ss.Run(place)  # its files' names have an earlier time
    log(second, range(4_000, 5_000))
    second.close()
""")  # fmt: skip


ROOM = """
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
def room(size=hard):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
run = ss.Run(place, flush_secs=0.01)
"""


@fault("no file may grow further (EFBIG)", "nothing", nothing)
def file_limit(folder: Path, _: random.Random) -> Outcome:
    return finished(folder, ROOM + "room(50_001)\nlog(run, range(6_000), 0.001)\nroom()\nrun.close()")


REFUSED = """
import errno
from stepscope.events import EventWriter
run = ss.Run(place, flush_secs=0.01)
log(run, range(2_000))
run.flush()
def refused(self, sync=False):
    raise OSError(errno.{number}, os.strerror(errno.{number}))
write, EventWriter.flush = EventWriter.flush, refused
"""
UNTIL_LATER = """
log(run, range(2_000, 20_000))
assert not run.flush()
EventWriter.flush = write
log(run, range(20_000, 21_000))
run.close()
"""
LASTS = "nothing, while the queue lasts"
for _name, _what, _number in (
    ("full-for-a-while", "the disk is full for a while", "ENOSPC"),
    ("quota", "the quota is used up for a while (EDQUOT)", "EDQUOT"),
    ("read-only-for-a-while", "the disk is read-only for a while (EROFS)", "EROFS"),
):
    ends(_name, _what, LASTS, nothing, REFUSED.format(number=_number) + UNTIL_LATER)


ends(
    "no-file-handle", "no further file can be opened (EMFILE), for a while", LASTS, nothing,
    """
    with ss.Run(place + "-before") as before:  # what is needed is imported
        log(before, [])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(0) + 1, hard))
    run = ss.Run(place, flush_secs=0.01)
    log(run, range(2_000))
    assert not run.flush()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    log(run, range(2_000, 3_000))
    run.close()
""",
)  # fmt: skip


ends(
    "full", "the disk stays full", "what found no room, and it is counted", all_counted,
    REFUSED.format(number="ENOSPC")
    + "log(run, range(2_000, 5_000))\nrun.close()\ncounted(run)\nos._exit(0)",
)  # fmt: skip


ends(
    "full-in-the-middle", "the disk takes a part of what is written and is full",
    "what found no room, and it is counted", all_counted,
    """
    from stepscope.events import EventWriter
    run = ss.Run(place, flush_secs=0.01)
    log(run, range(2_000))
    run.flush()
    class Full:
        def __init__(self, file):
            self.file, self.room = file, 100_001
        def write(self, data):
            part = bytes(data)[: self.room]
            self.room -= len(part)
            if not part:
                raise OSError(28, "No space left on device")
            return self.file.write(part)
        def __getattr__(self, name):
            return getattr(self.file, name)
    flush = EventWriter.flush
    def flush_into_full(self, sync=False):
        if not isinstance(self._file, Full):
            self._file = Full(self._file)
        flush(self, sync)
    EventWriter.flush = flush_into_full
    log(run, range(2_000, 20_000), pause=0.001)
    run.close()
    counted(run)
    os._exit(0)
""",
)  # fmt: skip


ends("no-memory", "no memory is left for a while", "what found no memory, and it is counted", all_counted, """
    run = ss.Run(place, flush_secs=3600.0, max_queue_bytes=1 << 30)
    log(run, range(100))
    run.flush()
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used, hard))
    for step in range(100, 600_000):
        run.scalar("loss", step / 2, step)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
    now = time.time()
    told.writelines(f"{step} {now}\\n" for step in range(100, 600_000))
    run.scalar("after", 1.0, 0)
    run.close()
    counted(run)
""", MALLOC_ARENA_MAX="1")  # fmt: skip


@fault("the directory may not be written", "all of it, and it is counted", all_counted)
def read_only(folder: Path, _: random.Random) -> Outcome:
    found = finished(
        folder,
        """
        os.chmod(folder, 0o555)
        from stepscope.record import Run
        if os.getuid() == 0:
            os.setgroups([]); os.setgid(65534); os.setuid(65534)
        run = ss.Run(place, flush_secs=0.01)
        log(run, range(1_000))
        run.close()
        counted(run)
        """,
    )
    folder.chmod(0o755)
    return found


ends("deleted", "the directory is deleted, the run goes on", "what was in it", at_most(1_001), """
    run = ss.Run(place, flush_secs=0.01)
    log(run, range(1_000))
    run.flush()
    shutil.rmtree(place)
    log(run, [1_000])
    run.flush()
    log(run, range(1_001, 3_000))
    run.close()
""")  # fmt: skip


FAILS = """
import errno
run = ss.Run(place, flush_secs=0.01)
log(run, range(2_000))
run.flush()
from stepscope.events import EventWriter
write = EventWriter.flush
def fail(self, sync=False):
    EventWriter.flush = write
    raise OSError(errno.{number}, os.strerror(errno.{number}))
EventWriter.flush = fail
log(run, range(2_000, 4_000))
run.close()
"""
ends("input-output-error", "a write fails (EIO)", "nothing", nothing, FAILS.format(number="EIO"))
ends(
    "stale-handle",
    "the file handle is stale (ESTALE, NFS)",
    "nothing",
    nothing,
    FAILS.format(number="ESTALE"),
)


ends("hung-disk", "the disk hangs for five seconds", "nothing", nothing, """
    from stepscope.events import EventWriter
    run = ss.Run(place, flush_secs=0.01)
    flush, until = EventWriter.flush, time.monotonic() + 5
    def hang(self, sync=False):
        time.sleep(max(until - time.monotonic(), 0))
        return flush(self, sync)
    EventWriter.flush = hang
    begun = time.monotonic()
    log(run, range(20_000))
    assert time.monotonic() < until, "the loop waited for the disk"
    run.close()
""")  # fmt: skip


def damaged(folder: Path, change: Callable[[bytearray], bytes | bytearray], *, age_s: float = 0.0) -> Outcome:
    """Damage the event file of a run that has ended, so long ago."""
    with running(folder, "with ss.Run(place) as run:\n    log(run, range(5_000))") as program:
        program.finish()
        for path in Path(program.place).glob("events.out.tfevents.*"):
            path.write_bytes(change(bytearray(path.read_bytes())))
            os.utime(path, (time.time() - age_s,) * 2)
        return outcome(program)


@fault("three bytes of an event file flip", "the records that they lie in", at_most(6_000))
def flipped(folder: Path, dice: random.Random) -> Outcome:
    def change(data: bytearray) -> bytearray:
        for _ in range(3):
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        return data

    return damaged(folder, change)


@fault(
    "a block of 4 KiB becomes zeros, as after a power failure",
    "the records in it, and that is said",
    lambda found: found.lost <= 200 and "zero" in found.seen,
)
def zeroed(folder: Path, dice: random.Random) -> Outcome:
    def change(data: bytearray) -> bytearray:
        at = 4_096 * dice.randrange(1, len(data) // 4_096)
        data[at : at + 4_096] = bytes(4_096)
        return data

    return damaged(folder, change, age_s=3_600.0)


def whole_records(data: bytearray) -> bytearray:
    """Return two thirds of an event file, to exactly the end of a record."""
    return data[: records_end(io.BytesIO(data), 0, len(data) * 2 // 3)]


@fault(
    "an event file is cut at exactly the end of a record",
    "what was behind it, and that is said",
    lambda found: found.lost <= 0.4 * found.logged and "missing at its end" in found.seen,
)
def cut(folder: Path, _: random.Random) -> Outcome:
    return damaged(folder, whole_records)


@fault("an event file loses its last third", "the last third", lambda found: found.lost <= 0.4 * found.logged)
def truncated(folder: Path, _: random.Random) -> Outcome:
    return damaged(folder, lambda data: data[: len(data) * 2 // 3])


# --- stores ---------------------------------------------------------------------------------------------

_proxy: list[Proxy] = []
STORED = """
with ss.Run(place, flush_secs=0.05) as run:
    log(run, range({count}), pause=0.005)
"""


def stored(folder: Path, behave: Callable[[Program], str], text: str = "") -> Outcome:
    """Record into the store, do something to it, and read back what is there in the end."""
    url, facts = f"s3://bucket/{folder.name}", user_environment(_proxy[0], "s3", folder)
    with running(folder, text or STORED.format(count=3_000), url, **facts) as program:
        extra = behave(program)
        _proxy[0].fault = lambda request: ""
        copy = folder / "copy"
        fetch = (
            "import fsspec, sys\nfs, root = fsspec.core.url_to_fs(sys.argv[1])\n"
            "fs.get(root, sys.argv[2], recursive=True) if fs.exists(root) else None"
        )
        subprocess.run(
            [sys.executable, "-c", fetch, url, str(copy)], env=facts, check=True, capture_output=True
        )
        copy.mkdir(exist_ok=True)
        return outcome(program, copy, extra)


def until_its_end(folder: Path, kind: str) -> Callable[[Program], str]:
    """Return what has the store fail from some steps on until the run is over, and then sends the rest."""

    def behave(program: Program) -> str:
        program.wait_steps(500)
        _proxy[0].fault = lambda request: kind
        program.finish()
        _proxy[0].fault = lambda request: ""
        return sync(folder)

    return behave


def failing_store(kind: str, share: int) -> Callable[[Path, random.Random], Outcome]:
    def play(folder: Path, _: random.Random) -> Outcome:
        def behave(program: Program) -> str:
            _proxy[0].fault = lambda request: kind if request.number % share == 1 else ""
            program.finish()
            return ""

        return stored(folder, behave)

    play.__name__ = f"store_{kind}"
    return play


for _kind, _what in (
    ("throttle", "the store throttles every third request"),
    ("error", "the store answers 500 to every third request"),
    ("cut", "every third answer of the store is cut off"),
):
    fault(_what, "nothing", nothing, store=True)(failing_store(_kind, 3))


@fault("each request to the store takes two seconds longer", "nothing", nothing, store=True)
def store_slow(folder: Path, _: random.Random) -> Outcome:
    def behave(program: Program) -> str:
        _proxy[0].latency_s = 2.0
        try:
            program.finish()
        finally:
            _proxy[0].latency_s = 0.0
        return ""

    return stored(folder, behave)


@fault("credentials expire for a while", "nothing", nothing, store=True)
def store_expired_for_a_while(folder: Path, _: random.Random) -> Outcome:
    return away(folder, "expired")


@fault("the store cannot be reached for a while", "nothing", nothing, store=True)
def store_away(folder: Path, _: random.Random) -> Outcome:
    return away(folder, "error")


def away(folder: Path, kind: str) -> Outcome:
    """Have the store answer in one way for a while."""

    def behave(program: Program) -> str:
        program.wait_steps(500)
        _proxy[0].fault = lambda request: kind
        program.wait_steps(2_000)
        _proxy[0].fault = lambda request: ""
        program.finish()
        return ""

    return stored(folder, behave)


def sync(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "sync", "--all"],
        env=user_environment(_proxy[0], "s3", folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECS,
        check=False,
    )
    said = (done.stdout or done.stderr).splitlines()[0].partition(" ")[2]
    return f"stepscope sync: “{said}”"


@fault(
    "the store is out of reach until the spool has reached its bound",
    "what found no room, and it is counted",
    all_counted,
    store=True,
)
def spool_full(folder: Path, _: random.Random) -> Outcome:
    text = """
    os.environ["STEPSCOPE_SPOOL_BYTES"] = "400000"
    from stepscope.record import spool
    spool.MEASURE_SECS = 0.0
    run = ss.Run(place, flush_secs=0.05)
    log(run, range(12_000), pause=0.005)
    run.close(timeout=2)
    counted(run)
    os._exit(0)
    """
    return stored(folder, until_its_end(folder, "error"), text)


@fault("credentials expire and stay so to the end", "nothing: stepscope sync sends it", nothing, store=True)
def store_expired(folder: Path, _: random.Random) -> Outcome:
    text = "run = ss.Run(place, flush_secs=0.05)\nlog(run, range(3_000), pause=0.005)\nrun.close(timeout=2)"
    return stored(folder, until_its_end(folder, "expired"), text)


@fault(
    "kill -9 while it records into a store",
    "the last second; stepscope sync sends the rest",
    last_second,
    store=True,
)
def store_killed(folder: Path, dice: random.Random) -> Outcome:
    def behave(program: Program) -> str:
        program.wait_steps(dice.randint(500, 3_000))
        program.send(signal.SIGKILL)
        return sync(folder)

    return stored(folder, behave, STORED.format(count=10**9))


@fault("SIGTERM while it records into a store", "nothing", nothing, store=True)
def store_terminated(folder: Path, dice: random.Random) -> Outcome:
    def behave(program: Program) -> str:
        program.wait_steps(dice.randint(500, 3_000))
        program.send(signal.SIGTERM)
        return ""

    return stored(folder, behave, STORED.format(count=10**9))


@fault("kill -9 while the store does not answer yet", "the last second", last_second)
def store_silent(folder: Path, dice: random.Random) -> Outcome:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        facts = {
            "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "STEPSCOPE_SPOOL": str(folder / "spool"),
        }  # fmt: skip
        with running(folder, LOGS, "s3://bucket/runs/silent", **facts) as program:
            program.wait_steps(dice.randint(500, 2_000))
            program.send(signal.SIGKILL)
            [spooled] = [path.parent for path in (folder / "spool").rglob("*tfevents*")]
            return outcome(program, spooled)


# --- the table ------------------------------------------------------------------------------------------


@dataclass
class Row:
    """A line of the table."""

    fault: Fault
    found: list[Outcome] = field(default_factory=list)

    @property
    def worst(self) -> Outcome:
        return max(
            self.found, key=lambda each: (not self.fault.kept(each), each.wrong, each.age_s, each.lost)
        )

    @property
    def broken(self) -> bool:
        return any(not self.fault.kept(each) or each.wrong or not each.logged for each in self.found)

    @property
    def words(self) -> str:
        worst = self.worst
        cells = [self.fault.what, self.fault.promise, worst.words, worst.seen.replace("|", "/")]
        if self.fault.times > 1:
            cells[2] += f" (worst of {len(self.found)})"
        if worst.wrong:
            cells[2] += f", **{worst.wrong:,} wrong**"
        return "| " + " | ".join(cells) + " |" + ("  BROKEN" if self.broken else "")


HEAD = "| fault | what may be lost | what was lost | what the user sees |\n|---|---|---|---|"


def play(names: list[str], seed: int, folder: Path) -> Iterator[Row]:
    """Play faults, all without names, and yield the lines of the table.

    Raises:
        SystemExit: A name is none.
    """
    known = [each.name for each in FAULTS]
    if wrong := [name for name in names if name not in known]:
        raise SystemExit(f"no fault {wrong[0]!r}; there are: {', '.join(known)}")
    chosen = [each for each in FAULTS if not names or each.name in names]
    with contextlib.ExitStack() as stack:
        if any(each.store for each in chosen):
            _proxy[:] = [stack.enter_context(store("s3"))]
        for each in chosen:
            row = Row(each)
            for turn in range(each.times):
                row.found.append(
                    each.play(folder / f"{each.name}-{turn}", random.Random(f"{seed} {each.name} {turn}"))
                )
            yield row


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return 1 where a promise is broken."""
    parser = argparse.ArgumentParser(prog="make faults", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="FAULT", help="which; all without")
    parser.add_argument("--seed", type=int, default=0, help="of the random moments")
    given = parser.parse_args(arguments)
    print(HEAD)
    broken = 0
    with tempfile.TemporaryDirectory(prefix="stepscope-faults-") as folder:
        Path(folder).chmod(0o755)
        for row in play(given.names, given.seed, Path(folder)):
            print(row.words, flush=True)
            broken += row.broken
    print(f"\n{broken} promises broken" if broken else "\nevery promise is kept")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
