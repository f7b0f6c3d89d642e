"""Samples the stack of the training thread while steps are captured, so that a profile names lines of code.

Recording every call makes a program with many calls several times slower. Looking a hundred to a thousand
times a second costs a few percent, whatever the program does, and only in the steps that are captured. Each
sample holds the thread's stack, line by line, and how long it could run since the previous sample, on a
processor or in the queue for one: so waiting can be told from working, even on a busy machine.

The samples lie beside the profile, as ``PROFILE.stacks``: JSON, gzipped. They have their own clock and the
times at which the steps began on it, by which the reader joins them with the profile.
"""

from __future__ import annotations

import ast
import contextlib
import dis
import itertools
import json
import linecache
import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

from stepscope.capture.lines import looks_at
from stepscope.capture.made import made
from stepscope.capture.places import installed, places
from stepscope.capture.processes import frame_text, function_text, processes
from stepscope.capture.settings import setters, settings
from stepscope.files import replacing
from stepscope.kernels.frames import Call, line_of, outward, stacks

MAX_COMPILATIONS = 1000
"""Compilations that are noted in one capture."""
MOST_ARGUMENTS = 2000
_LOGGER = "jax._src.interpreters.pxla"
_MESSAGE = "Compiling %s with global shapes and types %s"


class CompileLog:
    """Notes compilations between ``begin`` and ``end``.

    Args:
        clock: Returns ns; steady.
    """

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock = clock
        self.found: list[tuple[int, str, list[str]]] = []
        """Time, function, and of each argument type and shape."""

    def begin(self) -> None:
        """Listen; if JAX was not imported, there is nothing to listen to."""
        if "jax" in sys.modules:
            _LISTENER.add(self)

    def end(self) -> None:
        """Listen no more."""
        _LISTENER.remove(self)

    def note(self, name: object, shapes: list[object] | tuple[object, ...]) -> None:
        """Note that a function is compiled for arguments of these types and shapes."""
        if len(self.found) < MAX_COMPILATIONS:
            texts = [str(getattr(one, "str_short", one.__str__)()) for one in shapes[:MOST_ARGUMENTS]]
            self.found.append((self._clock(), str(name), texts))


class _Listener(logging.Filter):
    """Passes JAX's messages about compiling to all captures that run, and shows no more than before.

    There is one in a process: a second filter would not see the messages that the first one holds back, and
    would give the logger the level that the first one had set.
    """

    def __init__(self) -> None:
        super().__init__()
        self._logs: list[CompileLog] = []
        self._lock = threading.Lock()
        self._level = self._seen = logging.NOTSET

    def add(self, log: CompileLog) -> None:
        """Pass messages to a log; the first one makes JAX write them."""
        logger = logging.getLogger(_LOGGER)
        with self._lock:
            if not self._logs:
                self._level, self._seen = logger.level, logger.getEffectiveLevel()
                logger.addFilter(self)
                logger.setLevel(min(self._seen, logging.DEBUG))
            self._logs.append(log)

    def remove(self, log: CompileLog) -> None:
        """Pass no more messages to a log, if it had any; after the last one the logger is as it was."""
        logger = logging.getLogger(_LOGGER)
        with self._lock:
            if log in self._logs:
                self._logs.remove(log)
                if not self._logs:
                    logger.removeFilter(self)
                    logger.setLevel(self._level)

    def filter(self, record: logging.LogRecord) -> bool:
        """Note a record about compiling; return whether it would have been shown anyway."""
        given = record.args
        if isinstance(given, tuple) and len(given) > 1 and str(record.msg).startswith(_MESSAGE):
            name, shapes = given[:2]
            if isinstance(shapes, (list, tuple)):
                for log in tuple(self._logs):
                    log.note(name, shapes)
        return record.levelno >= self._seen


_LISTENER = _Listener()

_CACHE = dis.opmap.get("CACHE", -1)
_CALLS = frozenset(number for name, number in dis.opmap.items() if name.startswith(("CALL", "PRECALL")))


def called_text(code: CodeType, instruction: int) -> str:
    """Return ``<call of pickle.dump>`` if a line of the program calls something at an instruction.

    Empty for code of installed packages, if nothing is called, or if Python does not tell columns
    (before 3.11) or the source is not there.

    Args:
        code: Of the frame.
        instruction: Offset in bytes of the instruction that the frame is at.
    """
    if code.co_filename.startswith(installed()) or not hasattr(code, "co_positions"):
        return ""
    # A frame that called a function in Python stands in the caches after its call.
    while 0 < instruction < len(code.co_code) and code.co_code[instruction] == _CACHE:
        instruction -= 2
    if not 0 <= instruction < len(code.co_code) or code.co_code[instruction] not in _CALLS:
        return ""
    line, last, begin, end = next(itertools.islice(code.co_positions(), instruction // 2, None))
    if line is None or last is None or begin is None or end is None:
        return ""
    lines = [text.encode() for text in linecache.getlines(code.co_filename)[line - 1 : last]]
    if not lines:
        return ""
    lines[-1] = lines[-1][:end]
    lines[0] = lines[0][begin:]
    with contextlib.suppress(SyntaxError, ValueError, RecursionError):  # the file is another one by now
        call = ast.parse(b"(" + b"".join(lines) + b")", mode="eval").body
        name = _dotted(call.func) if isinstance(call, ast.Call) else ""
        return f"<call of {name}>" if name else ""
    return ""


def _dotted(node: ast.expr) -> str:
    """Return ``pickle.dump`` for a name and its attributes, ``.write`` for an attribute of anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{_dotted(node.value)}.{node.attr}" if isinstance(node, ast.Attribute) else ""


INTERVAL_SECS, LONGEST_INTERVAL_SECS = 0.001, 0.01
ENOUGH = 150
"""Number of samples that is enough for a capture: with long steps they are further apart and cost less."""
SWITCH_SECS = 0.000_01
"""Switch interval while sampling; Python's own 5 ms would hide whatever is shorter."""
MIN_AGE_SECS = 1.0
"""A thread that is younger counts as this old: each has some work when it begins."""
OTHERS_WORK = 0.25
"""If other threads run for this share of the time, the program keeps its own switch interval: how long they
keep the training thread from running depends on it."""
HALF = 0.5
"""The sampler waited if it is late by this share of a switch interval, and it waited for the threads that ran
for this share of the wait."""
MIN_LOOKS = 3
"""Looks after which it can be told whether other threads run."""
MOST_SAMPLES = 50_000
"""Most samples of one capture; beyond it every second one is dropped, and the interval doubles."""
END_SECS = 5.0
"""How long saving waits for the last sample: a thread that starves must not hold up the profile."""
ENDING = ".stacks"
SCHEMA = 1

Key = tuple[int, ...]
"""Codes and instructions of a stack, innermost first."""


class StackSampler:
    """Samples the thread that starts it, until it is stopped.

    Args:
        expected_s: How long it will run; None if that is not known.
        clock: Returns ns; steady.
    """

    def __init__(
        self, expected_s: float | None = None, clock: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._clock = clock
        self._interval_s = min(max((expected_s or 0.0) / ENOUGH, INTERVAL_SECS), LONGEST_INTERVAL_SECS)
        self._stacks: dict[Key, int] = {}
        self._codes: dict[int, CodeType] = {}
        """Objects behind the numbers in the keys, held so that no number is used again."""
        self._times: list[int] = []
        self._numbers: list[int] = []
        self._runnable: list[int] = []
        self._queued: list[int] = []
        self._steps: list[tuple[int, int, int]] = []
        self._spent: ThreadTime | None = None
        self._workers = 0
        """Number of this capture among those that want stacks of loader workers; 0: none has."""
        self._shift_ns = 0
        self._compiles = CompileLog(clock)
        self.settings = settings()
        self.values: dict[str, object] = {}
        """Calls whose work was needless, as a backend that follows values tells."""
        self._called: dict[int, tuple[list[int], list[int]]] = {}
        """Times and stacks of threads that run Python for another runtime, by thread."""
        self._others = OtherThreads()
        self._held: dict[int, HeldBy] = {}
        """The times at which the sampler waited for each thread that Python started."""
        self._halt = threading.Lock()
        self._target = 0
        self._thread: threading.Thread | None = None
        self._switch_s = sys.getswitchinterval()
        self._own_switch_s = self._switch_s

    def start(self) -> None:
        """Begin to sample the calling thread.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._target = threading.get_ident()
        self._spent = ThreadTime()
        self._workers = processes.want_stacks()
        self._compiles.begin()
        self._halt.acquire()
        self._note(self._clock(), [])
        if self._switch_s > SWITCH_SECS and self._others.busiest({self._target}) < OTHERS_WORK:
            sys.setswitchinterval(SWITCH_SECS)
            self._own_switch_s = sys.getswitchinterval()
        self._thread = threading.Thread(target=self._loop, name="stepscope-sampler", daemon=True)
        self._thread.start()

    def begin_step(self, number: int) -> None:
        """Note that a step begins, and the frames around all steps."""
        key = self._key(outward(sys._getframe()))
        self._steps.append((number, self._clock(), self._stacks.setdefault(key, len(self._stacks))))

    def stop(self) -> None:
        """Take no more samples; does not wait for the thread."""
        processes.want_no_stacks()
        self._compiles.end()
        # Workers tell Unix time; this clock begins elsewhere.
        self._shift_ns = self._clock() - time.time_ns()
        if self._thread is not None and self._halt.locked():
            self._halt.release()
            self._set_back()

    def _loop(self) -> None:
        spent, begun = ThreadTime(), self._times[-1]
        while not self._halt.acquire(timeout=self._interval_s):
            started = threading._active.keys()  # type: ignore[attr-defined]
            since = self._times[-1]
            ran = self._others.ran({self._target, threading.get_ident()})
            holders = self._holders(ran, self._clock() - since, spent)
            taken, threads = stacks(self._clock, without=started - {self._target, *holders})
            if self._target not in threads:  # it has ended
                break
            self._note(taken, threads[self._target])
            self._note_called(threads)
            self._note_held(threads, holders, ran)
            if self._others.total_ns >= OTHERS_WORK * (taken - begun) and len(self._times) > MIN_LOOKS:
                self._set_back()
            if len(self._times) >= MOST_SAMPLES:
                self._thin()
        else:
            # The kernel counts a wait for a processor when it is over: without this, the last one is missing.
            self._note(self._clock(), [])
        spent.close()
        self._others.close()

    def _holders(self, ran: dict[int, int], length_ns: int, spent: ThreadTime) -> list[int]:
        """Return the threads that had the interpreter while the sampler waited for it.

        Python lets one thread run at a time. The sampler wakes when its interval is over, and is late by as
        long as it then waits for a processor, which the kernel counts, and for the interpreter.
        """
        before = max(spent.queued_ns, 0)
        spent.runnable_ns()
        late_ns = length_ns - 1e9 * self._interval_s - (max(spent.queued_ns, 0) - before)
        if late_ns < 1e9 * max(HALF * sys.getswitchinterval(), INTERVAL_SECS):
            return []
        return [ident for ident, time_ns in ran.items() if time_ns >= HALF * late_ns]

    def _note_held(self, threads: dict[int, list[Call]], holders: list[int], ran: dict[int, int]) -> None:
        for ident in holders:
            held = self._held.setdefault(ident, HeldBy(self._others.name(ident)))
            if len(held.times) < MOST_SAMPLES and ident in threads:
                held.times.append(self._times[-1])
                held.ran.append(ran[ident])
                held.samples.append(self._stacks.setdefault(self._key(threads[ident]), len(self._stacks)))

    def _set_back(self) -> None:
        """Give the program its own switch interval, unless it has set another one meanwhile."""
        if sys.getswitchinterval() == self._own_switch_s:
            sys.setswitchinterval(self._switch_s)
            self._own_switch_s = self._switch_s

    def _note(self, taken_ns: int, calls: list[Call]) -> None:
        key = self._key(calls)
        self._times.append(taken_ns)
        self._runnable.append(-1 if self._spent is None else self._spent.runnable_ns())
        self._queued.append(-1 if self._spent is None else self._spent.queued_ns)
        self._numbers.append(self._stacks.setdefault(key, len(self._stacks)))

    def _note_called(self, threads: dict[int, list[Call]]) -> None:
        """Note the threads that Python did not start: their work was called by XLA or autograd."""
        for ident in threads.keys() - threading._active.keys():  # type: ignore[attr-defined]
            times, numbers = self._called.setdefault(ident, ([], []))
            if len(times) < MOST_SAMPLES:
                key = self._key(threads[ident])
                times.append(self._times[-1])
                numbers.append(self._stacks.setdefault(key, len(self._stacks)))

    def _key(self, calls: list[Call]) -> Key:
        key: list[int] = []
        codes = self._codes
        for code, instruction in calls:
            number = id(code)
            if number not in codes:
                codes[number] = code
            key.append(number)
            key.append(instruction)
        return tuple(key)

    def _thin(self) -> None:
        """Keep every second sample; the last one stays."""
        for column in (self._times, self._numbers, self._runnable, self._queued):
            del column[-2::-2]
        self._interval_s *= 2

    def save(self, path: Path) -> None:
        """Write the samples; call it after ``stop``, off the training thread.

        Raises:
            OSError: It cannot be written.
        """
        if self._thread is not None:
            self._thread.join(END_SECS)
        document = self.document()
        if self._spent is not None:
            self._spent.close()
        with replacing(path, gzipped=True) as file:
            file.write(json.dumps(document).encode())

    @property
    def interval_s(self) -> float:
        """How far apart the samples are meant to be, in seconds."""
        return self._interval_s

    def functions(self) -> Iterator[tuple[int, list[str]]]:
        """Return when each stack was taken and its functions, outermost first, after ``stop``.

        A function has the line at which it begins, so that it has one name while it runs.
        """
        if self._thread is not None:
            self._thread.join()
        shown = {key: self._functions_of(key) for key in self._stacks}
        keys = list(self._stacks)
        for taken, number in zip(self._times, self._numbers, strict=True):
            yield taken, shown[keys[number]]

    def _functions_of(self, key: Key) -> list[str]:
        from stepscope.capture.sampler import called_text

        codes = [self._codes[number] for number in key[-2::-2]]
        called = called_text(codes[-1], key[1]) if codes else ""
        return [*map(function_text, codes), *([called] if called else [])]

    def _own_lines(self) -> Iterator[tuple[str, int]]:
        """Yield the lines of the program's own in which a stack stood."""
        calls = {call for key in self._stacks for call in zip(key[::2], key[1::2], strict=True)}
        for number, instruction in calls:
            code = self._codes[number]
            if not code.co_filename.startswith(installed()):
                yield code.co_filename, line_of(code, instruction)

    def document(self) -> dict[str, object]:
        """Return the samples as JSON types, after ``stop``; each stands for the time since the one before."""
        from stepscope.capture.sampler import called_text

        if self._thread is not None:
            self._thread.join()
        frames: dict[str, int] = {}
        known: dict[tuple[int, int], tuple[int, str]] = {}
        """The frame of each call, and the callee if known."""
        stacks: list[list[int]] = []
        for key in self._stacks:
            calls = list(zip(key[-2::-2], key[-1::-2], strict=True))
            stack: list[int] = []
            for call, inner in itertools.zip_longest(calls, calls[1:]):
                if call not in known:
                    code, instruction = self._codes[call[0]], call[1]
                    frame = frames.setdefault(frame_text(code, instruction), len(frames))
                    known[call] = frame, called_text(code, instruction)
                frame, called = known[call]
                stack.append(frame)
                # The frame of a function in Python tells as much.
                if called and not (inner and called.endswith(_last_of(self._codes[inner[0]].co_name))):
                    stack.append(frames.setdefault(called, len(frames)))
            stacks.append(stack)
        where = places()
        return {
            "schema": SCHEMA, "interval_ns": round(1e9 * self._interval_s), "cwd": os.getcwd(),  # noqa: PTH109
            "steps": self._steps, "frames": list(frames), "stacks": stacks,
            "times_ns": self._times, "runnable_ns": self._runnable, "queued_ns": self._queued,
            "samples": self._numbers,
            "called": [{"times_ns": times, "samples": numbers} for times, numbers in self._called.values()],
            "held": [
                {"thread": one.thread, "times_ns": one.times, "samples": one.samples, "ran_ns": one.ran}
                for one in self._held.values()
            ],
            "compiled": self._compiles.found, "settings": self.settings, "places": where,
            "setters": setters(self.settings, where["own"]), "made": made(self._own_lines()),
            "looked": looks_at(self._target), "values": self.values,
            "workers": processes.stacks(self._workers, self._shift_ns),
        }  # fmt: skip


def _last_of(function: str) -> tuple[str, str]:
    return f".{function}>", f" {function}>"


class ThreadTime:
    """How long a thread has run or waited for a processor; another thread may ask.

    Its clock of processor time is exact while it runs; the kernel's count in ``schedstat`` grows only when
    the thread is taken off its processor, so that is used only for the time in the queue.

    Args:
        thread: Its number for the kernel; by default the calling one's.
    """

    def __init__(self, thread: int | None = None) -> None:
        thread = threading.get_native_id() if thread is None else thread
        self._clock, self._file = clock_of(thread), -1
        self.queued_ns = -1
        """The part of the last answer in which it waited for a processor; -1 if not known."""
        with contextlib.suppress(OSError):
            self._file = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY)

    def runnable_ns(self) -> int:
        """Return the time so far, -1 if it is not known."""
        self.queued_ns = -1
        if self._file < 0:
            return -1
        try:
            _, queued, *_ = os.pread(self._file, 128, 0).split()
            ran = time.clock_gettime_ns(self._clock)
            self.queued_ns = int(queued)
            return ran + self.queued_ns
        except (OSError, ValueError):
            return -1

    def close(self) -> None:
        """Give the file back."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def clock_of(thread: int) -> int:
    """Return Linux' clock of a thread's processor time (``clock_getcpuclockid(3)``), by its number.

    Unlike ``pthread_getcpuclockid``, asking for the time of a thread that has ended is an ``OSError``.
    """
    return (~thread << 3) | 6


class OtherThreads:
    """How long the threads that Python started have run or waited for a processor, between two looks."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[ThreadTime, int]] = {}
        """The time of each thread at the last look, by the kernel's number of it."""
        self.total_ns = 0
        """How long all of them together have run or waited since the first look."""

    def ran(self, without: Collection[int]) -> dict[int, int]:
        """Return how long each has run or waited since the last look, by its identity, without new ones."""
        known, ran = {}, {}
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            number = thread.native_id
            if ident in without or number is None:
                continue
            seen = self._known.pop(number, None)
            time_of, before = (ThreadTime(number), -1) if seen is None else seen
            now = time_of.runnable_ns()
            known[number] = time_of, now
            if 0 <= before < now:
                ran[ident] = now - before
        self.close()
        self._known = known
        self.total_ns += sum(ran.values())
        return ran

    def close(self) -> None:
        """Give all files back."""
        for time_of, _ in self._known.values():
            time_of.close()

    @staticmethod
    def busiest(without: Collection[int]) -> float:
        """Return the largest share of its life in which one of them ran or waited for a processor."""
        shares = [0.0]
        for ident, thread in list(threading._active.items()):  # type: ignore[attr-defined]
            with contextlib.suppress(OSError, ValueError, IndexError, AttributeError):
                if ident not in without:
                    # proc_pid_stat(5): field 22 counts from the one behind the name, which may hold anything.
                    text = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
                    began_s = int(text.rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
                    age_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began_s
                    with contextlib.closing(ThreadTime(thread.native_id)) as time_of:
                        shares.append(time_of.runnable_ns() / 1e9 / max(age_s, MIN_AGE_SECS))
        return max(shares)

    @staticmethod
    def name(ident: int) -> str:
        """Return the name of a thread, empty if it has ended."""
        thread = threading._active.get(ident)  # type: ignore[attr-defined]
        return "" if thread is None else str(thread.name)


@dataclass
class HeldBy:
    """The samples that a thread made late: their times, how long it had run by each, and its stacks."""

    thread: str
    times: list[int] = field(default_factory=list)
    ran: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
