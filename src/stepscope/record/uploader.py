"""The thread that sends a run to its store while it is recorded, and reports missing files."""

from __future__ import annotations

import math
import random
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from stepscope.errors import LogDirectoryError, UsageError
from stepscope.events.pieces import parse_piece
from stepscope.events.telemetry import FOLDER
from stepscope.events.writer import EVENTS, is_own_name
from stepscope.record.bounded import Call
from stepscope.record.clock import Deadline
from stepscope.record.info import HEAD_BYTES, attempt_in
from stepscope.record.mounts import manner_at, mount_of
from stepscope.record.problems import Problems, pass_on
from stepscope.record.spool import (
    SpoolEntry,
    SpoolRoom,
    entries,
    folder_of,
    keep_attempt,
    next_attempt,
    spool_bytes,
)
from stepscope.record.transfer import Transfer, left_in
from stepscope.remote import Remote
from stepscope.text import counted
from stepscope.urls import check_driver, is_url, scheme, shown, without_secrets

SEND_SECS = 30.0
"""Seconds between uploads to the store: some 6,000 requests a day."""
SEND_SECS_TO = {"hf": 300.0}
"""Seconds for stores in which each write is a commit, of which there may be so many in an hour."""
SEND_SECS_TO_FILES = 5.0
"""Seconds for a file system that is not a bucket: files there cost nothing."""
FIRST_SECS = 5.0
"""Seconds after its start within which the run appears in the store."""
LOOK_SECS = 1.0
ASK_TURN_SECS = 0.1
ASK_SECS = 10.0
"""The longest that a run waits for a store to say which attempts there were, before it numbers its own."""
FIRST_RETRY_SECS, LONGEST_RETRY_SECS = 1.0, 60.0
COUNT_SECS = 1.0
"""The longest that counting the remaining files may hold up the end of a run, once its time is over."""
NEWEST = 8
"""Number of the newest files in which the number of the attempt is looked up."""


class Earlier(NamedTuple):
    """The part of a run that the store holds already.

    Attributes:
        attempt: The highest number of an attempt, 0 for none.
        ranks: Names of the files of ranks.
    """

    attempt: int = 0
    ranks: tuple[str, ...] = ()


class Uploader:
    """Sends the spool of a run to its store, on a thread of its own.

    Args:
        url: The run's directory in the store.
        options: For the driver.
        problems: Told of failures.

    Attributes:
        url: The address without a secret.
        directory: Directory of the run on this machine.
        requests: Calls made to the store.
        sent_bytes: Bytes that it took.
        room: Bounds the spool.
        settled: Set once the number of the attempt is known; nothing is sent before, as it may change.
        ended_files: Event files that were ended for their size, to be sent in full and deleted here.

    Raises:
        LogDirectoryError: The spool cannot be written.
        UsageError: ``STEPSCOPE_SPOOL_BYTES`` is not a number of bytes.
    """

    def __init__(self, url: str, options: Mapping[str, Any], problems: Problems) -> None:
        self._address, self._options, self._problems = url, dict(options), problems
        self.url = shown(url)
        self.room = SpoolRoom(folder_of(url), spool_bytes())
        self.ended_files: deque[str] = deque()
        try:
            self._entry = SpoolEntry.begin(url, options)
        except OSError as error:
            raise LogDirectoryError(
                f"cannot write the spool of {self.url}: {error.strerror or error}",
                hint="name a directory that can be written in STEPSCOPE_SPOOL",
                path=folder_of(url),
            ) from error
        self.directory = str(self._entry.directory)
        self.earlier = Earlier()
        self._transfer: Transfer | None = None
        self._asked, self._wake, self._ended = threading.Event(), threading.Event(), threading.Event()
        self.settled = threading.Event()
        self._closing = self._hurry = self._inert = False
        self._ask_until = math.inf
        mount = None if is_url(url) else mount_of(url)
        files = mount is not None and mount.manner != "pieces"
        self._send_secs = SEND_SECS_TO_FILES if files else SEND_SECS_TO.get(scheme(url), SEND_SECS)
        self._failure = ""
        self._thread = threading.Thread(target=self._loop, name="stepscope-upload", daemon=True)

    @property
    def requests(self) -> int:
        """Calls made to the store so far."""
        return self._transfer.requests if self._transfer else 0

    @property
    def sent_bytes(self) -> int:
        """Bytes that the store took so far."""
        return self._transfer.sent_bytes if self._transfer else 0

    def costs(self) -> dict[str, float]:
        """Return the cost of sending so far, for the run to record."""
        return {
            "stepscope/store_requests": float(self.requests),
            "stepscope/store_sent_bytes": float(self.sent_bytes),
        }

    def start(self) -> None:
        """Begin to send, and to ask the store for earlier attempts."""
        self._thread.start()

    def wait_for_survey(self) -> None:
        """Wait shortly for the store's list of earlier attempts, for less long once the run is to end."""
        self._ask_until = min(self._ask_until, time.monotonic() + ASK_SECS)
        while not self._asked.wait(ASK_TURN_SECS) and time.monotonic() < self._ask_until:
            pass

    @property
    def asked(self) -> bool:
        """True if the store has said which attempts there are, or is waited for no longer."""
        return self._asked.is_set() or time.monotonic() >= self._ask_until

    def guess(self) -> int:
        """Return the number of this attempt as this machine knows it; from now on the store is waited for."""
        self._ask_until = min(self._ask_until, time.monotonic() + ASK_SECS)
        return next_attempt(self._address, self.earlier.attempt + 1)

    def ask_no_longer(self, deadline: Deadline) -> None:
        """Keep half of the time that is left to a run for writing logged values."""
        self._ask_until = min(self._ask_until, time.monotonic() + deadline.left() / 2)

    def attempt(self, at_least: int = 1) -> int:
        """Return the number of this attempt, and remember it."""
        number = next_attempt(self._address, max(at_least, self.earlier.attempt + 1))
        self.keep_attempt(number)
        return number

    def keep_attempt(self, number: int) -> None:
        """Remember the number of this attempt for when the store cannot be asked."""
        try:
            keep_attempt(self._address, number)
        except OSError as error:
            self._failed(error)

    def soon(self) -> None:
        """Send the present bytes, without waiting for it."""
        self._hurry = True
        self._wake.set()

    def close_soon(self) -> None:
        """Send everything and end the thread, without waiting for it."""
        self._closing = True
        self._wake.set()

    def finish(self, deadline: Deadline) -> str:
        """Send everything, as far as the deadline allows; return a message about the rest, or nothing.

        The rest is sent in the background, as long as the process lives.
        """
        if self._inert:
            return ""
        self.close_soon()
        self._thread.join(deadline.left())
        if self._ended.is_set():
            return ""
        # Also the disk of this machine may not answer: a home directory on a network.
        counting = Call(lambda: left_in(self._entry), "stepscope-spool")
        if not counting.wait(max(deadline.left(), COUNT_SECS)):
            return (
                f"the disk of the spool does not answer; stepscope sync {self._entry.path} sends what is left"
            )
        count, size = counting.result
        if not count:
            return ""
        why = f" ({self._failure})" if self._failure else ""
        files = counted(count, "file")
        return str(
            LogDirectoryError(
                f"{files} of the run, {size:,} bytes, not in {self.url} yet{why}; nothing is lost",
                hint=f"stepscope sync {self._entry.path}",
                path=self._entry.path,
            )
        )

    def forget(self) -> None:
        """Become inert in a forked child, which lacks the thread."""
        self._inert = True
        self._entry.forget()

    def abandon(self) -> None:
        """End without sending anything, if no run has begun."""
        self._inert = True
        self._wake.set()
        self._entry.remove()

    # --- the thread ---------------------------------------------------------------------------------

    def _loop(self) -> None:
        wait = FIRST_RETRY_SECS
        self._next_at = time.monotonic() + FIRST_SECS
        chance = random.Random()  # noqa: S311  its own: the program's seeds stay what they are
        while not self._inert:
            error = self._turn()
            if self._ended.is_set():
                return
            if error is None:
                wait = FIRST_RETRY_SECS
                self._pause(LOOK_SECS if self.settled.is_set() else ASK_TURN_SECS)
                continue
            self._failed(error)
            self._asked.set()
            self._pause(wait * chance.uniform(0.5, 1.5))  # processes must not retry in step
            wait = min(2 * wait, LONGEST_RETRY_SECS)

    def _turn(self) -> BaseException | None:
        """Send the files that are due; return the cause of a failure."""
        try:
            transfer = self._opened()
            if not self.settled.is_set():
                return None
            closing = self._closing
            due = closing or self._hurry or time.monotonic() >= self._next_at
            self._hurry = False
            transfer.push(time.time(), everything=due)
            while self.ended_files and not closing:
                transfer.retire(self.ended_files[0])
                self.ended_files.popleft()
            if due:
                self._next_at = time.monotonic() + self._send_secs
            if self._failure:
                self._failure = ""
                self._problems.forgive("store")
            if closing:
                self._complete(transfer)
            else:
                self._adopt()
        except BaseException as error:  # noqa: BLE001  each driver has errors of its own
            pass_on(error)
            return error
        return None

    def _pause(self, seconds: float) -> None:
        self._wake.wait(min(seconds, FIRST_RETRY_SECS) if self._closing else seconds)
        self._wake.clear()

    def _complete(self, transfer: Transfer) -> None:
        """Make one object of each event file, and delete the spool once it is empty."""
        transfer.compact()
        if not transfer.left()[0]:
            self._entry.remove()
            self._ended.set()

    def _opened(self) -> Transfer:
        if self._transfer is None:
            system = Remote(self._address, self._options)
            if not self._asked.is_set():
                self.earlier = survey(system, system.root)
                self._asked.set()
            self._transfer = Transfer(self._entry, system, system.root)
        return self._transfer

    def _adopt(self) -> None:
        """Send the files of an earlier process of the same run that died."""
        for entry in entries(folder_of(self._address)):
            if self._closing or self._inert:
                return
            if entry.path != self._entry.path and entry.lock():
                send(entry, self._address, self._options)

    def _failed(self, error: BaseException) -> None:
        self._failure = without_secrets(error, self._address, self._options) or type(error).__name__
        self._problems.post(
            "store",
            LogDirectoryError(
                f"cannot write to {self.url}: {self._failure}; the run is recorded on this machine, "
                "and sending is tried again",
                hint="check the address, the network and your credentials; stepscope sync sends what is left",
                path=self._entry.path,
            ),
            points=0,
        )


def send(entry: SpoolEntry, address: str, options: Mapping[str, Any]) -> Transfer:
    """Send the spool of a process that has ended, and delete it; the caller holds its lock.

    Args:
        entry: The spool.
        address: The store's URL; it may hold a password that the spool does not.
        options: For the driver, besides those that the spool holds.

    Returns:
        The sent files.
    """
    try:
        system = Remote(address, {**entry.options, **options})
        transfer = Transfer(entry, system, system.root)
        transfer.drop_uploads()
        transfer.push(time.time(), everything=True)
        transfer.compact()
        if not transfer.left()[0]:
            entry.remove()
        return transfer
    finally:
        entry.forget()


def survey(system: Any, root: str) -> Earlier:
    """Return the attempts of a run in a store, from names and the beginnings of its newest files."""
    names = _names(system, root)
    logs = sorted(name for name in names if _begins(name))
    heads = [system.cat_file(f"{root}/{name}", start=0, end=HEAD_BYTES) for name in logs[-NEWEST:]]
    ranks = _names(system, f"{root}/{FOLDER}")
    whole = {piece.name if (piece := parse_piece(name)) else name for name in ranks}
    return Earlier(max(map(attempt_in, heads), default=0), tuple(sorted(whole)))


def _begins(name: str) -> bool:
    """Return whether an object holds the beginning of a file in which a run may say its attempt."""
    piece = parse_piece(name)
    return (is_own_name(name) or EVENTS in name) and (piece is None or piece.start == 0)


def _names(system: Any, folder: str) -> list[str]:
    try:
        system.invalidate_cache()
        return [Path(entry).name for entry in system.ls(folder, detail=False)]
    except FileNotFoundError:
        return []


def begin_upload(place: str, options: Mapping[str, Any], problems: Problems) -> Uploader | None:
    """Return the running uploader of a run; None if the run has a directory of its own.

    Raises:
        LogDirectoryError: No driver for the store is installed, or the spool cannot be written.
        UsageError: Options of a store were given for a run that does not go to one.
    """
    if not is_url(place) and manner_at(place) != "pieces":
        if options:
            raise UsageError(
                f"storage_options are for a store, and {place} is a directory",
                hint="leave them out, or record to a URL as s3://bucket/runs/first",
            )
        return None
    check_driver(place)
    uploader = Uploader(place, options, problems)
    try:
        uploader.start()
    except BaseException:
        uploader.abandon()
        raise
    return uploader
