"""Records the stacks of every rank when a step does not end."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import RecordError
from stepscope.events.telemetry import FOLDER, HANG
from stepscope.files import write_whole
from stepscope.kernels import frames
from stepscope.record.clock import NO_DEADLINE, Deadline
from stepscope.record.config import seconds
from stepscope.record.protocol import Hook

if TYPE_CHECKING:
    from stepscope.record.run import Run

LOOKS = 10
"""Number of looks during the time after which a step counts as stalled."""
MOST_FRAMES = 100
SWITCHES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
"""Variables that switch the flight recorder on: how many collectives it keeps."""


class HangHook(Hook):
    """Watches every rank: if no step ends for some time, it writes the stacks of all threads to the run.

    Each rank watches itself, on a separate thread, and writes ``ranks/hang-…json`` with the step, the stage
    and the stacks, and beside it the contents of torch's flight recorder if that is on. ``stepscope ranks``
    compares them. As long as the step does not end, they are written again every ``timeout_s``. Training is
    never touched, and a job whose steps go on writes nothing.

    Args:
        timeout_s: Seconds without the end of a step, counted from the first step that ended.

    Raises:
        UsageError: The time is not above 0.
    """

    ranks = "all"

    def __init__(self, timeout_s: float = 300.0) -> None:
        self.timeout_s = seconds("timeout_s", timeout_s)
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._trains = 0

    def begin(self, run: Run) -> None:
        """Begin to watch."""
        self._trains = threading.get_ident()
        arguments = run.step_counter, Path(run.log_dir) / FOLDER, run
        self._thread = threading.Thread(
            target=self._watch, args=arguments, name="stepscope-hang", daemon=True
        )
        self._thread.start()

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Watch no more."""
        self._over.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(min(deadline.left(), 1.0))

    def _watch(self, steps: Any, folder: Path, run: Run) -> None:
        done, since, written, written_s = steps.done, run.clock.steady(), None, 0.0
        while not self._over.wait(self.timeout_s / LOOKS):
            now = run.clock.steady()
            if steps.done != done:
                done, since = steps.done, now
                if written is not None:
                    written.unlink(missing_ok=True)
                    written = None
            elif done and now - (since if written is None else written_s) >= self.timeout_s:
                written_s = now  # and again later: others may have gone on since
                try:
                    written = self._tell(steps, folder, run, now - since)
                except Exception as error:  # noqa: BLE001  a full disk, a foreign frame: training goes on
                    message = (
                        f"the stacks of a stalled step cannot be written: {type(error).__name__}: {error}"
                    )
                    run.report("hang", RecordError(message, hint="free space or make it writable"))
                    return

    def _tell(self, steps: Any, folder: Path, run: Run, stalled: float) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        stages = steps.stages
        role = run.role
        facts = {
            "rank": role.rank,
            "world_size": role.world_size,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "step": steps.current,
            "in_step": steps.running,
            "stage": stages.names[stages.running] if stages is not None and stages.on else None,
            "stalled_s": stalled,
            "wall": run.clock.wall(),
            "threads": stacks(self._trains),
            "recorder": self._dump(folder, role.rank),
        }
        path = folder / f"{HANG}{role.rank:05d}.{os.getpid()}.json"
        write_whole(path, json.dumps(facts, ensure_ascii=False).encode())
        return path

    @staticmethod
    def _dump(folder: Path, rank: int) -> str | None:
        """Write the content of the flight recorder and return the file's name; None if it holds nothing."""
        recorded = flight_recorder()
        if not recorded:
            return None
        path = folder / f"flight-recorder-{rank}"
        write_whole(path, recorded)
        return path.name


def stacks(trains: int) -> list[dict[str, Any]]:
    """Return the Python stack of each thread, outermost frame first.

    Args:
        trains: Identity of the thread that trains, which comes first.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    own = threading.get_ident()
    threads = []
    for ident, calls in frames.stacks(most=MOST_FRAMES)[1].items():
        if ident == own:
            continue
        lines = [
            {"file": code.co_filename, "line": frames.line_of(code, instruction), "function": code.co_name}
            for code, instruction in reversed(calls)
        ]
        threads.append({"name": names.get(ident, str(ident)), "trains": ident == trains, "frames": lines})
    return sorted(threads, key=lambda thread: not thread["trains"])


def flight_recorder() -> bytes:
    """Return the content of torch's flight recorder; empty if there is none or it is off.

    NCCL has its own recorder besides the one of the other backends: the one that holds more is used.
    """
    if all(os.environ.get(name, "0") in ("", "0") for name in SWITCHES):
        return b""
    distributed = sys.modules.get("torch._C._distributed_c10d")
    dumps = [getattr(distributed, name, None) for name in ("_dump_nccl_trace", "_dump_fr_trace")]
    return max((bytes(dump()) for dump in dumps if dump is not None), key=len, default=b"")
