"""A capture after its last step: it is written, announced in the run, analysed, settled.

The profiler's own result is turned into a file on a thread, which then starts the analysing process; a second
thread waits for that. Meanwhile the hook reports every step as disturbed. Once all is done, the next step
settles the account, and the pointer with its cost goes into the run. A requested capture does not wait for
the analysis of an earlier profile: the account is then settled as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope import child
from stepscope.capture.backend import Export, Exported
from stepscope.capture.budget import CaptureAccount, CaptureBudget
from stepscope.capture.capture import Order, RunningCapture
from stepscope.capture.files import (
    ENDING,
    SUMMARY,
    TAG,
    CaptureRecord,
    bound,
    claim,
    relative,
    remove,
    signal_name,
    size_of,
    stem,
    value_of,
)
from stepscope.capture.sampler import ENDING as STACKS
from stepscope.errors import CaptureError
from stepscope.files import write_whole
from stepscope.record.problems import pass_on
from stepscope.record.worker import Worker

if TYPE_CHECKING:
    from stepscope.events.messages import Value
    from stepscope.record.clock import Deadline
    from stepscope.record.run import Run

LIMIT_SECS = 600.0
NICE = 19
CHAIN = "import json, subprocess, sys; [subprocess.call(each) for each in json.loads(sys.argv[1])]"
"""A program that runs commands one after the other."""


def command(profile: Path, summary: Path) -> list[str]:
    """Return the words that start the analysis."""
    return [sys.executable, "-m", "stepscope", "glance", str(profile), "--output", str(summary), "--no-cache"]


def start(profile: Path, summary: Path) -> subprocess.Popen[bytes] | None:
    """Begin to analyse a profile; None if no process could be started.

    Args:
        profile: Path of the captured profile.
        summary: Path at which the summary is written.
    """
    return started(command(profile, summary), subprocess.PIPE)


def started(words: list[str], stderr: int) -> subprocess.Popen[bytes] | None:
    """Start a process of lowest priority that Ctrl-C does not reach; None if that failed."""
    try:
        process = child.start(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            environment=environment(),
        )
    except OSError:
        return None
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, process.pid, NICE)
    return process


def wait(process: subprocess.Popen[bytes], *, limit_secs: float = LIMIT_SECS) -> str | None:
    """Wait for the analysis; return an error, or None.

    Args:
        process: From ``start``.
        limit_secs: After this it is given up.
    """
    try:
        _, output = process.communicate(timeout=limit_secs)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return f"it took longer than {limit_secs:g} s"
    if process.returncode == 0:
        return None
    if process.returncode < 0:
        return f"{signal_name(-process.returncode)} ended it; the system sends SIGKILL when memory runs out"
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else f"exit code {process.returncode}"


def reap(process: subprocess.Popen[bytes]) -> None:
    """Wait for a process, no matter how long it takes."""
    process.wait()


def environment() -> dict[str, str]:
    """Return the environment for the side process: one thread, and none of the job's rank variables."""
    variables = {
        name: text for name, text in os.environ.items() if name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    }
    return {**variables, "OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "STEPSCOPE_STRICT": "0"}


@dataclass
class AnalysisJob:
    """A profile to analyse.

    Attributes:
        profile: Path of the captured profile.
        summary: Path at which the summary is written.
        done: Called on a thread once that is over, with an error, or None.
    """

    profile: Path
    summary: Path
    done: Callable[[str | None], None]


def jobs() -> Worker[Callable[[], object]]:
    """Return a thread for jobs, which must not raise."""
    return Worker("stepscope-capture", lambda job: job())


class Analyses:
    """Has profiles analysed, one after the other; processes continue after the run has ended."""

    def __init__(self) -> None:
        self._worker, self._lock = jobs(), threading.Lock()
        self._waiting: deque[AnalysisJob] = deque()
        self._going = False

    def put(self, job: AnalysisJob) -> None:
        """Have a profile analysed; its process has started on return, unless another one is running."""
        with self._lock:
            if self._going:
                self._waiting.append(job)
                return
            self._going = True
        self._begin(job)

    def close(self) -> None:
        """Hand everything that still waits to one process, because nobody will be there later."""
        with self._lock:
            waiting, self._waiting = list(self._waiting), deque()
        if waiting:
            commands = [command(job.profile, job.summary) for job in waiting]
            process = started([sys.executable, "-c", CHAIN, json.dumps(commands)], subprocess.DEVNULL)
            if process is not None:
                with contextlib.suppress(RuntimeError):
                    self._worker.put(lambda: reap(process))
        self._worker.end()

    def _begin(self, job: AnalysisJob) -> None:
        process = start(job.profile, job.summary)
        try:
            self._worker.put(lambda: self._end(job, process))
        except RuntimeError:  # the interpreter ends: nobody is left to wait for it
            job.done(None)

    def _end(self, job: AnalysisJob, process: subprocess.Popen[bytes] | None) -> None:
        try:
            job.done("no process could be started" if process is None else wait(process))
        finally:
            with self._lock:
                after = self._waiting.popleft() if self._waiting else None
                self._going = after is not None
            if after is not None:
                self._begin(after)


PROBLEM = "profile"
"""The reason under which a run counts failed captures."""
FACTS_SECS = 2.0
"""The longest that the end of a run waits for the files beside its profiles."""
MAX_WAITING_STEPS = 32
"""Steps of captures that may wait to be written if captures overlap: each holds about a megabyte."""
SETTLING = 4
"""Steps after the last work on a profile that are still slower: memory was given back, caches are cold."""


@dataclass
class Written:
    """A capture on its way.

    Attributes:
        done: It no longer disturbs training.
        exported: The profiler has released it.
        let_go: The profiler had released it when the running step began.
        settling: Steps that are still counted as disturbed once it is done.
    """

    capture: RunningCapture
    account: CaptureAccount
    record: CaptureRecord
    done: bool = False
    exported: bool = False
    let_go: bool = False
    settling: int = SETTLING


class Writing:
    """Writes the profiles of one run and rank, one after the other.

    Args:
        run: To point from.
        folder: Directory of the profiles.
        budget: The account of the cost.
        held: Whether the budget limits a capture of this order.
        max_profiles: As for the hook.
        analyse: Whether a side process looks at each profile.

    Attributes:
        current: The capture that is being written or analysed, or not settled yet.
        full: Something refers to so many profiles that there is no room; schedule and alerts make no more.
    """

    def __init__(
        self,
        run: Run,
        folder: Path,
        budget: CaptureBudget,
        held: Callable[[Order], bool],
        max_profiles: int,
        *,
        analyse: bool,
    ) -> None:
        self._run, self._folder, self._budget, self._held = run, folder, budget, held
        self._max, self._analyse = max_profiles, analyse
        self._writer, self._analyses = jobs(), Analyses()
        self.current: Written | None = None
        self._earlier: list[Written] = []
        """Captures before the current one that are not settled yet; only if captures overlap."""
        self.full = False

    @property
    def busy(self) -> bool:
        """True if a capture is being written or analysed, or not settled yet."""
        return self.current is not None

    @property
    def recording(self) -> bool:
        """True if the profiler still holds the data that is being written."""
        return self.current is not None and not self.current.exported

    def has_room(self, steps: int) -> bool:
        """Return whether a capture of so many steps may begin while others wait to be written."""
        waiting = [writing for writing in (*self._earlier, self.current) if writing and not writing.exported]
        return (
            not waiting or sum(len(writing.record.steps) for writing in waiting) + steps <= MAX_WAITING_STEPS
        )

    def take(self, capture: RunningCapture, export: Export) -> None:
        """Have a capture written."""
        if self.current is not None:
            self._earlier.append(self.current)
        order, role, backend = capture.order, self._run.role, capture.backend
        first = capture.steps[0] if capture.steps else 0
        record = CaptureRecord(
            name=stem(role.name, role.rank, first, role.world_size),
            rank=role.rank, world_size=role.world_size, role=role.name,
            backend=backend.name, format=backend.format, steps=capture.steps,
            cause=order.cause, reason=order.reason, request=order.request, wall=capture.wall,
            memory=capture.memory, before=list(capture.before), facts=order.facts,
            notes=capture.notes,
        )  # fmt: skip
        written = self.current = Written(capture, capture.account, record)
        held = [export]  # which the thread takes out: nothing else keeps what the profiler gave
        try:
            self._writer.put(lambda: self._write(written, held))
        except RuntimeError as error:
            written.done = written.exported = True
            record.failure = f"it could not be written: {error}"

    def disturbed(self, seconds: float) -> None:
        """Note a step that ran while something was being written; settle finished captures."""
        self._settle_earlier()
        current = self.current
        if current is None:
            return
        if current.let_go:
            current.account.after.append(seconds)
        else:
            current.account.writing.append(seconds)
            current.let_go = current.exported
        if current.done:
            if not current.settling:
                self._settle(current)
            current.settling -= 1

    def tidy(self) -> None:
        """Settle the captures that the profiler has released, analysed or not."""
        self._settle_earlier()
        if self.current is not None and self.current.exported:
            self._settle(self.current)

    def failed(self, order: Order, step: int, why: str, hint: str, backend: str = "") -> None:
        """Record in the run that a capture failed."""
        self.skipped(order, step, f"{why}; {hint}" if hint else why, backend)
        error = CaptureError(f"no profile of step {step}: {why}; training goes on", hint=hint)
        self._run.report(PROBLEM, error)

    def skipped(self, order: Order, step: int, why: str, backend: str = "") -> None:
        """Leave a mark in the run for a skipped capture."""
        role = self._run.role
        record = CaptureRecord(
            name=stem(role.name, role.rank, max(step, 0), role.world_size), rank=role.rank,
            world_size=role.world_size, role=role.name, backend=backend, format="",
            steps=[step] if step >= 0 else [], cause=order.cause, reason=order.reason, request=order.request,
            wall=time.time(), failure=why,
        )  # fmt: skip
        self._point(record)

    def snapshot_path(self) -> Path:
        """Return the path of the next snapshot of an allocator that ran out of memory.

        Raises:
            OSError: It cannot be written.
        """
        role, step = self._run.role, self._run.current_step or 0
        return claim(self._folder, stem(role.name, role.rank, step, role.world_size), ".oom.memory.pickle")

    def snapshot_written(self, path: Path) -> None:
        """Point to a snapshot of an allocator that ran out of memory."""
        role, step = self._run.role, self._run.current_step or 0
        self._point(
            CaptureRecord(
                name=path.name.removesuffix(".memory.pickle"), rank=role.rank, world_size=role.world_size,
                role=role.name, backend="torch", format="memory_snapshot", steps=[step],
                cause="out of memory", wall=time.time(),
                path=relative(path, self._run.log_dir), bytes=size_of(path),
            )
        )  # fmt: skip

    def close(self, deadline: Deadline) -> None:
        """Wait for the profile that is being written, not for its analysis."""
        left_s = deadline.left()
        waiting = [writing for writing in (*self._earlier, self.current) if writing is not None]
        if waiting:
            self._writer.wait(left_s)
        for writing in waiting:
            if not writing.exported:
                self._late(writing, left_s)
            self._settle(writing)
        self._writer.wait(deadline.left(FACTS_SECS))
        self._writer.end()
        self._analyses.close()

    def _late(self, current: Written, seconds: float) -> None:
        """Record in the run that a profile was not written in time."""
        record = current.record
        record.failure = why = f"it was not written within {seconds:.3g} s of the run's end"
        if current.capture.entered:
            hint = "capture fewer steps at once, end them earlier, or give the end more time: "
            self._tell_lost(record, why, f"{hint}run.close(timeout=120)")

    def _tell_lost(self, record: CaptureRecord, why: str, hint: str) -> None:
        """Report a missing profile, at the user's next call."""
        which = f" of step {record.steps[0]}" if record.steps else ""
        lost = CaptureError(f"no profile{which}: {why}", hint=hint, path=self._folder)
        self._run.report(PROBLEM, lost, later=True)

    # --- on the threads -------------------------------------------------------------------------------

    def _write(self, written: Written, held: list[Export]) -> None:
        try:
            job = self._export(written, held.pop())
            if job is not None:
                self._analyses.put(job)
        except BaseException as error:  # noqa: BLE001  a profiler's own code, a disk
            pass_on(error)
            job = None
            self._lost(written, error)
        written.exported = True
        if job is None:
            written.done = True

    def _export(self, written: Written, export: Export) -> AnalysisJob | None:
        """Write a profile; return the remaining work."""
        record, log_dir = written.record, self._run.log_dir
        backend = written.capture.backend
        first = record.steps[0] if record.steps else 0
        folder_of = getattr(backend, "folder_of", None)
        place = self._folder / (folder_of(first) if folder_of else "")
        path = claim(place, record.name, backend.ending)
        record.name = path.name.removesuffix(backend.ending)
        if not record.steps:
            export(path)  # the profiler must let go of what it holds
            remove(path)
            if written.capture.entered:
                cut = written.capture.ended not in ("", "finished")
                raise CaptureError(
                    "no step ended while it was recording" + ", as the run ended before" * cut,
                    hint="" if cut else "capture more steps, or end steps with run.step()",
                )
            return None  # the loop was over: nothing was to be captured
        try:
            exported: Exported = export(path)
        except BaseException:
            remove(path)
            raise
        self._save_stacks(written, exported.path)
        record.failure = None  # where the end of the run did not wait for it, and the process lived on
        record.path = relative(exported.path, log_dir)
        record.bytes = size_of(exported.path)
        record.dropped, record.extra = exported.dropped, exported.extra
        record.notes = [*record.notes, *exported.notes]
        summary = self._folder / f"{record.name}{SUMMARY}"
        if self._analyse:
            record.summary = relative(summary, log_dir)
        write_whole(self._folder / f"{record.name}{ENDING}", record.as_json().encode())
        referenced = bound(self._folder, Path(log_dir), record.rank, self._max)
        self.full = referenced >= 2 * self._max
        if not self._analyse:
            return None
        return AnalysisJob(exported.path, summary, lambda failure: self._analysed(written, failure))

    def _save_stacks(self, written: Written, profile: Path) -> None:
        """Write the sampled stacks beside a profile, which is valid without them, too."""
        sampler = written.capture.sampler
        if sampler is None:
            return
        try:
            sampler.save(profile.with_name(profile.name + STACKS))
        except OSError as error:
            written.record.notes.append(f"the sampled stacks could not be written: {error.strerror or error}")

    def _analysed(self, written: Written, failure: str | None) -> None:
        record = written.record
        record.not_analysed = failure
        written.done = True
        if failure is not None and written is not self.current:  # the run's own pointer is written already
            self._beside(record)

    def _lost(self, written: Written, error: BaseException) -> None:
        if isinstance(error, CaptureError):
            reason, hint = error.message, error.hint
        elif isinstance(error, OSError):
            reason = f"it could not be written: {error.strerror or error}"
            hint = "free space, or give output_dir= a place that can be written"
        else:
            reason, hint = f"{type(error).__name__}: {error}", ""
        written.record.failure = reason
        self._tell_lost(written.record, reason + "; training goes on" * (not written.capture.ended), hint)

    # --- in the run -----------------------------------------------------------------------------------

    def _settle_earlier(self) -> None:
        for writing in [writing for writing in self._earlier if writing.exported]:
            self._settle(writing)

    def _settle(self, written: Written) -> None:
        """Book the cost and point to the profile."""
        if written is self.current:
            self.current = None
        else:
            self._earlier.remove(written)
        budget, account, steady = self._budget, written.account, written.capture._steady
        now = steady()
        usual = budget.usual_s
        held = self._held(written.capture.order)
        stolen = budget.settle(account, held=held)
        written.record.cost = {
            "stolen_seconds": stolen,
            "start_seconds": account.start_s,
            "stop_seconds": account.stop_s,
            "usual_step_seconds": usual,
            "disturbed_steps": account.disturbed,
            "run_stolen_seconds": budget.stolen_s,
            "run_overhead_ratio": budget.ratio(now),
            "max_overhead": budget.max_overhead if held else None,
            "captures": budget.captures,
        }
        if written.capture.entered:
            self._point(written.record)
        budget.after_s += steady() - now

    def _point(self, record: CaptureRecord) -> None:
        text = record.as_json()
        if record.path is not None or not self._run.role.writes:
            self._beside(record)

        def make() -> list[Value]:
            return [value_of(text)]

        self._run.event(make, record.steps[0] if record.steps else None, nbytes=len(text), tag=TAG)

    def _beside(self, record: CaptureRecord) -> None:
        """Write the facts beside the profile, for the next reader."""
        place, there = self._folder / f"{record.name}{ENDING}", record.path is not None

        def leave() -> None:
            if there and not place.exists():
                return  # deleted since, with its profile
            with suppress(OSError):  # the run's own pointer says it, and the failure to write is told already
                self._folder.mkdir(parents=True, exist_ok=True)
                write_whole(place, record.as_json().encode())

        try:
            self._writer.put(leave)
        except RuntimeError:
            leave()
