"""Requests for a capture, as files in the run's directory; a signal is one, too.

Whoever wants a profile leaves ``capture/ID.request.json``. Every rank looks for new files every few hundred
milliseconds, off the training thread, without a daemon or a port. For several ranks the chief answers with
``ID.plan.json``, which names a step far enough ahead that all of them read it in time; for one rank, that
rank takes the next step. Each rank leaves the outcome as ``ID.rankN.json``. Requests are written by
``stepscope.store.captures``.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean, median
from types import FrameType
from typing import TYPE_CHECKING, Any

from stepscope.capture.capture import Order
from stepscope.capture.files import read_json, signal_name
from stepscope.errors import CaptureError
from stepscope.files import write_whole
from stepscope.record.clock import OPEN_SECS

if TYPE_CHECKING:
    from stepscope.record.run import Run

FOLDER = "capture"
REQUEST, PLAN = ".request.json", ".plan.json"
MOST_STEPS, MOST_SECS = 100, 1e12
PATIENCE_SECS = 10.0
"""How far ahead a plan may lie at most if it is not known how long its steps will be."""
LIFE_SECS = 600.0
"""Age beyond which a request is ignored: whoever asked has gone."""
_ID = re.compile(r"^[0-9a-f]{8,32}$")


@dataclass(frozen=True)
class PendingCapture:
    """A request for a capture.

    Attributes:
        id: Its name, hexadecimal.
        ranks: "chief", "all" or numbers.
        num_steps: Steps to record, 0 for the hook's own number.
        at_step: Step to begin with, None for the next one that all can reach.
        memory: Also take a memory snapshot of the device.
        stacks: Also record Python stacks, whatever the hook does otherwise.
        by: Who asks: "page", "command line".
        wall: When.
    """

    id: str
    ranks: str | tuple[int, ...] = "chief"
    num_steps: int = 0
    at_step: int | None = None
    memory: bool = False
    by: str = ""
    wall: float = 0.0
    stacks: bool = False

    def names(self, rank: int, *, chief: bool) -> bool:
        """Return whether a rank is to capture."""
        if isinstance(self.ranks, str):
            return chief or self.ranks == "all"
        return rank in self.ranks

    @property
    def several(self) -> bool:
        """True if more than one rank may take part, so that they must agree on a step."""
        return self.ranks == "all" or (not isinstance(self.ranks, str) and len(self.ranks) > 1)


def read_request(path: Path) -> PendingCapture | None:
    """Return the request in a file, None if it holds none that can be followed."""
    request = read_json(path)
    ranks = request.get("ranks", "chief")
    if isinstance(ranks, list) and all(isinstance(rank, int) and rank >= 0 for rank in ranks):
        ranks = tuple(ranks)
    elif ranks not in ("chief", "all"):
        return None
    number, at_step = request.get("num_steps", 0), request.get("at_step")
    name = path.name.removesuffix(REQUEST).removesuffix(PLAN)
    if not _ID.match(name) or not isinstance(number, int) or not 0 <= number <= MOST_STEPS:
        return None
    if at_step is not None and not isinstance(at_step, int):
        return None
    wall = request.get("wall", 0.0)
    return PendingCapture(
        name, ranks, number, at_step, request.get("memory") is True, str(request.get("by", ""))[:100],
        float(wall) if isinstance(wall, int | float) and abs(wall) < MOST_SECS else 0.0,
        request.get("stacks") is True,
    )  # fmt: skip


def steps_ahead(steps: Sequence[float], poll_secs: float) -> int:
    """Return how many steps ahead a plan must name, so that every rank reads it before.

    Three polls and a second for the file to show on a network file system; at least two steps, because the
    ranks of a job are at most one step apart if they communicate in each. The time is converted to steps
    by their median, because a single long step says nothing about those to come; but if many are long, as the
    mean shows, nobody waits longer than ``PATIENCE_SECS`` for that.

    Args:
        steps: Durations of the last steps, in seconds.
        poll_secs: Time between two looks of a rank, in seconds.
    """
    known = [seconds for seconds in steps if math.isfinite(seconds) and seconds > 0]
    if not known:
        return 100
    lead, usual, mean = 3 * poll_secs + 1.0, median(known), fmean(known)
    ahead = min(math.ceil(lead / usual), math.ceil(PATIENCE_SECS / mean))
    return max(math.ceil(lead / mean), ahead, 2)


def answer(log_dir: Path, request_id: str, rank: int, facts: Mapping[str, Any]) -> None:
    """Leave the outcome of a request on this rank.

    Raises:
        OSError: The directory cannot be written.
    """
    folder = log_dir / FOLDER
    folder.mkdir(exist_ok=True)
    write_whole(folder / f"{request_id}.rank{rank}.json", json.dumps(dict(facts), default=str).encode())


class Triggers:
    """The requests of others for one rank of a run.

    Args:
        run: Whose directory is watched.
        take: Takes an order, from any thread.
        poll_secs: Seconds between two looks.
        on_signal: Number of the signal that asks for a capture, None for none.
        first: Called before anything else, on the thread; its exceptions are not reported.
    """

    def __init__(
        self,
        run: Run,
        take: Callable[[Order], bool],
        *,
        poll_secs: float,
        on_signal: int | None,
        first: Callable[[], None] | None = None,
    ) -> None:
        self._first = first
        self._run, self._take, self._poll_secs, self._signal = run, take, poll_secs, on_signal
        self._folder = Path(run.log_dir) / FOLDER
        self._seen: set[str] = set()
        self._mtime = -1
        self._looking, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self._earlier: Any = None

    def start(self) -> None:
        """Begin to look; requests to an earlier attempt are ignored."""
        self._install()
        try:
            self._thread = threading.Thread(target=self._loop, name="stepscope-triggers", daemon=True)
            self._thread.start()
            self._looking.wait(OPEN_SECS)
        except RuntimeError:
            self._thread = None  # the interpreter is ending: nobody will ask

    def stop(self) -> None:
        """Look no more."""
        self._stopping.set()
        self._uninstall()

    def _open(self) -> None:
        with contextlib.suppress(OSError):  # a run that cannot be written can still be trained
            self._folder.mkdir(exist_ok=True)  # by which others see that requests are looked for
            self._seen.update(path.name for path in self._files())

    def _loop(self) -> None:
        self._open()
        self._looking.set()
        if self._first is not None:
            with contextlib.suppress(Exception):  # the first capture will fail likewise, and say why
                self._first()
        while not self._stopping.wait(self._poll_secs):
            self._try_to_look()

    def _try_to_look(self) -> None:
        try:
            self.look()
        except OSError as error:
            failure = CaptureError(
                f"requests cannot be read: {error.strerror or error}",
                path=self._folder,
                hint="let this process read and write the folder of the run",
            )
            self._run.report("profile", failure, points=0, later=True)

    def look(self) -> None:
        """Take new requests; without any, this costs one ``stat``.

        Raises:
            OSError: The directory cannot be read.
        """
        try:
            mtime = self._folder.stat().st_mtime_ns
        except FileNotFoundError:
            return
        # A time stamp may be as coarse as a second or two: while it is fresh, the names are looked at again.
        if mtime == self._mtime and time.time_ns() - mtime > 4_000_000_000:
            return
        self._mtime = mtime
        for path in self._files():
            if path.name not in self._seen:
                self._seen.add(path.name)
                self._found(path)

    def _files(self) -> list[Path]:
        if not self._folder.is_dir():
            return []
        return sorted(path for path in self._folder.iterdir() if path.name.endswith((REQUEST, PLAN)))

    def _found(self, path: Path) -> None:
        request = read_request(path)
        if request is None or time.time() - request.wall > LIFE_SECS:
            return
        role = self._run.role
        planned = path.name.endswith(PLAN)
        if request.several and not planned:
            if role.writes:
                self._plan(request)
            return
        if request.names(role.rank, chief=role.writes):
            self.accept(request)

    def _plan(self, request: PendingCapture) -> None:
        """Name the step at which all ranks capture."""
        at = request.at_step
        if at is None:
            durations = [seconds for _, seconds, _ in self._run.step_counter.since(0)]
            at = (self._run.current_step or 0) + steps_ahead(durations, self._poll_secs)
        facts = {**asdict(request), "at_step": at}
        write_whole(self._folder / f"{request.id}{PLAN}", json.dumps(facts).encode())

    def accept(self, request: PendingCapture) -> None:
        """Pass a request on to the hook and report that."""
        order = Order(
            "request", request.num_steps, f"by {request.by}" if request.by else "", request=request.id,
            at_step=request.at_step, memory_snapshot=request.memory, with_stack=request.stacks or None,
        )  # fmt: skip
        taken = self._take(order)
        self._answer(request.id, {"status": "taken" if taken else "refused", "at_step": request.at_step})

    def missed(self, order: Order, step: int) -> None:
        """Report that a step was over before the request for it could be followed."""
        if order.request is not None:
            facts = {"status": "missed", "at_step": order.at_step, "step": step}
            threading.Thread(
                target=self._answer, args=(order.request, facts), name="stepscope-answer", daemon=True
            ).start()

    def _answer(self, request_id: str, facts: dict[str, Any]) -> None:
        try:
            answer(Path(self._run.log_dir), request_id, self._run.role.rank, facts)
        except OSError as error:
            failure = CaptureError(
                f"a request cannot be answered: {error.strerror or error}",
                path=self._folder,
                hint="let this process write to the folder of the run, and check whether its disk is full",
            )
            self._run.report("profile", failure, points=0, later=True)

    # --- the signal -----------------------------------------------------------------------------------

    def _install(self) -> None:
        if self._signal is None or threading.current_thread() is not threading.main_thread():
            return
        self._earlier = signal.signal(self._signal, self._on_signal)

    def _uninstall(self) -> None:
        number = self._signal
        if number is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(number) == self._on_signal:
            signal.signal(number, signal.SIG_DFL if self._earlier is None else self._earlier)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._take(Order("signal", 0, signal_name(number)))
        if callable(self._earlier):
            self._earlier(number, frame)
