"""``stepscope sync``: send the files that runs have left on this machine to their stores."""

from __future__ import annotations

import argparse
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli.output import Output, complain, put
from stepscope.errors import LogDirectoryError, UsageError
from stepscope.text import counted
from stepscope.urls import is_url, join, shown, without_secrets

if TYPE_CHECKING:
    from stepscope.record.spool import SpoolEntry


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope sync``."""
    parser.add_argument(
        "path",
        nargs="?",
        metavar="PATH",
        help="a run's URL, or the directory that a run names when it ends; without it, list what waits",
    )
    parser.add_argument("--all", action="store_true", help="send everything that waits on this machine")
    parser.add_argument("--json", action="store_true", help="print the same as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Send, or list, the runs that are recorded here and not in their store yet.

    Returns:
        1 if something could not be sent.

    Raises:
        UsageError: Both a path and ``--all``.
        LogDirectoryError: Nothing waits at the path.
    """
    from stepscope.record.spool import entries, spool_home

    if arguments.all and arguments.path:
        raise UsageError("both a path and --all", hint=f"stepscope sync {shown(arguments.path)}")
    matching = chosen(arguments.path) if arguments.path else entries()
    listing = not arguments.all and not arguments.path
    seen = [listed(entry) if listing else sent(entry, arguments.path) for entry in matching]
    text = "\n".join(line(entry) for entry in seen) or f"nothing waits in {spool_home()}"
    if listing and seen:
        text += "\nstepscope sync --all sends what no process records any more"
    put(Output(f"{text}\n", [asdict(entry) for entry in seen]), as_json=arguments.json)
    return int(any(entry.state == "left" for entry in seen))


def chosen(path: str) -> list[SpoolEntry]:
    """Return the spools of a run's URL and of all below it, or those in a directory.

    Raises:
        LogDirectoryError: There is none.
    """
    from stepscope.record.spool import RUN, SpoolEntry, entries

    if is_url(path):
        matching = below(path)
    else:
        place = Path(path).absolute()
        place = place.parent if place.name == RUN else place
        one = SpoolEntry.load(place)
        matching = [one] if one else entries(place) if place.is_dir() else []
    if not matching:
        raise LogDirectoryError(
            "nothing is waiting to be sent there", hint="stepscope sync lists what does", path=shown(path)
        )
    return matching


def below(url: str) -> list[SpoolEntry]:
    """Return the spools of a URL and of all below it."""
    from stepscope.record.spool import entries

    above = shown(url).rstrip("/")
    return [entry for entry in entries() if f"{entry.url.rstrip('/')}/".startswith(f"{above}/")]


def waiting(url: str | None = None) -> list[Waiting]:
    """Return the runs on this machine that are not fully in their stores; all, or those below a URL."""
    from stepscope.record.spool import entries

    rows = [listed(entry) for entry in (entries() if url is None else below(url))]
    return [row for row in rows if row.files]


@dataclass(frozen=True)
class Waiting:
    """A spool: the files recorded on this machine of one process of a run.

    Attributes:
        state: "recording" if a process does; "ended" if it has died; "sent" now; "left" because it
            could not be sent.
        files: How many are not in the store in full.
        bytes: How much of them is not there.
        sent_bytes: How much was sent just now, in how many ``requests``.
    """

    url: str
    path: str
    state: str
    files: int
    bytes: int
    sent_bytes: int = 0
    requests: int = 0


def listed(entry: SpoolEntry, state: str = "") -> Waiting:
    """Return the state of a spool, and how much of it waits."""
    from stepscope.record.transfer import left_in

    if not state:
        state = "ended" if entry.lock() else "recording"
        entry.forget()
    return Waiting(entry.url, str(entry.path), state, *left_in(entry))


def sent(entry: SpoolEntry, path: str | None) -> Waiting:
    """Send a spool, unless a process records into it."""
    from stepscope.record.uploader import send

    address = address_of(entry, path)
    if not entry.lock():
        return listed(entry, "recording")
    try:
        done = send(entry, address, {})
    except Exception as error:  # noqa: BLE001  each driver has errors of its own
        complain(
            LogDirectoryError(
                f"not sent: {without_secrets(error, address, entry.options) or type(error).__name__}",
                hint="check the address, the network and your credentials; a spool keeps no password: give "
                "the URL with it",
                path=entry.url,
            )
        )
        return listed(entry, "left")
    count, size = done.left()
    state = "left" if count else "sent"
    return Waiting(entry.url, str(entry.path), state, count, size, done.sent_bytes, done.requests)


def address_of(entry: SpoolEntry, path: str | None) -> str:
    """Return the URL of a spool, with the password that the URL of the command holds and no spool does."""
    if path is None or not is_url(path):
        return entry.url
    below = entry.url.rstrip("/").removeprefix(shown(path).rstrip("/")).strip("/")
    return join(path, below) if below else path


def line(spool: Waiting) -> str:
    """Return the line about a spool."""
    files = counted(spool.files, "file")
    waits = f"{spool.url}: {files}, {spool.bytes:,} bytes wait in {spool.path}"
    return {
        "recording": f"{waits}; a process records there now and sends it by itself",
        "ended": f"{waits}; its process has ended",
        "left": waits,
        "sent": f"{spool.url}: sent {spool.sent_bytes:,} bytes in {counted(spool.requests, 'request')}; "
        "everything has arrived",
    }[spool.state]
