"""``stepscope run``: a training script as it is, recorded, and a card at the end."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepscope.errors import UsageError
from stepscope.health.finding import plain

if TYPE_CHECKING:
    from stepscope.record.card import Card

PATH = Path(__file__).resolve().parents[1] / "launch" / "path"
SESSION, DIRECTORY, PROFILE = "STEPSCOPE_RUN_SESSION", "STEPSCOPE_RUN_DIR", "STEPSCOPE_RUN_PROFILE"
HOME = "STEPSCOPE_RUN_HOME"
"""Variable with the version of this Python and the folders of its packages."""
OWNER = "STEPSCOPE_CARD"
LOAD_AFTER_SECS = 2.0
"""The program runs this long before what makes the card is loaded beside it: short ones are not held up."""
FROM_TERMINAL = 128
"""The code of a signal that the kernel has sent, to all processes of the terminal."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--dir", default="runs", help="the log directory (default: runs)")
    parser.add_argument("--name", help="name of the run (default: of the script, with the time)")
    parser.add_argument("--profile", action="store_true", help="also profile some steps, now and then")
    parser.add_argument(
        "--card", action=argparse.BooleanOptionalAction, default=True, help="print the card at the end"
    )
    parser.add_argument("--json", action="store_true", help="print the card as one line of JSON, on stderr")
    parser.add_argument(
        "program",
        nargs=argparse.REMAINDER,
        metavar="PROGRAM",
        help="the command with its arguments: python train.py, torchrun, accelerate launch, a shell script",
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the program, print the card, and end as the program did."""
    words = list(arguments.program)
    if words[:1] == ["--"]:
        words = words[1:]
    if not words:
        raise UsageError("no program was given", hint="stepscope run -- python train.py --epochs 3")
    if words[0].endswith(".py") and not os.access(words[0], os.X_OK):
        words = [sys.executable, *words]
    directory = os.path.abspath(os.path.join(arguments.dir, arguments.name or _name(words)))  # noqa: PTH100,PTH118
    session = tempfile.mkdtemp(prefix="stepscope-run-")
    try:
        begun = time.monotonic()
        child = _start(words, _environment(directory, session, profile=arguments.profile))
        status = _wait(child, _load if arguments.card else None)
        lasted = time.monotonic() - begun
        if arguments.card:
            try:
                _print_card(
                    words,
                    session,
                    child.pid,
                    status,
                    lasted,
                    as_json=arguments.json,
                    profiled=arguments.profile,
                )
            except Exception as error:  # noqa: BLE001  the program's end counts, whatever is wrong here
                print(f"stepscope: no card: {type(error).__name__}: {error}", file=sys.stderr)
    finally:
        shutil.rmtree(session, ignore_errors=True)
    if status < 0:
        _die(-status)
    return status


def _name(words: Sequence[str]) -> str:
    """Return a name for the run: of the script, and the time."""
    scripts = [word for word in words if word.endswith((".py", ".sh", ".ipynb"))]
    stem = Path(scripts[0] if scripts else words[-1 if words[:-1] and words[-2] == "-m" else 0]).stem
    return f"{stem}-{datetime.now():%m%d-%H%M%S}"


def _environment(directory: str, session: str, *, profile: bool) -> dict[str, str]:
    """Return the environment of the program: ours, and how its Python processes find us."""
    path = os.environ.get("PYTHONPATH", "")
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(PATH), *([path] if path else [])]),
        SESSION: session,
        DIRECTORY: directory,
        OWNER: str(os.getpid()),
        HOME: os.pathsep.join([str(sys.implementation.cache_tag), *filter(os.path.isdir, sys.path)]),
    }
    if profile:
        variables[PROFILE] = "1"
    return variables


def _start(words: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the program, with our streams and in our process group.

    Raises:
        UsageError: There is no such program.
    """
    for number in _forwarded():  # a handler, unlike an ignored signal, is not inherited
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _nothing)
    try:
        return subprocess.Popen(list(words), env=dict(environment), close_fds=False)  # noqa: S603  the user's
    except OSError as error:
        raise UsageError(
            f"cannot run {words[0]!r}: {error.strerror}", hint="stepscope run -- python train.py"
        ) from error


def _nothing(number: int, frame: Any) -> None:
    """Leave it to the loop that waits."""


def _forwarded() -> list[int]:
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGWINCH")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _wait(child: subprocess.Popen[bytes], load: Callable[[], None] | None) -> int:
    """Return how the program ended, as ``Popen.returncode``; pass on signals that it does not get itself.

    Args:
        child: The program.
        load: Called once while it runs; None for nothing.
    """
    if not hasattr(signal, "sigtimedwait"):
        while True:
            with suppress(KeyboardInterrupt):
                return child.wait()
    numbers = {*_forwarded(), signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    load_at = time.monotonic() + LOAD_AFTER_SECS if load else 0.0
    try:
        while (status := child.poll()) is None:
            info = signal.sigtimedwait(numbers, max(load_at - time.monotonic(), 0.0) if load_at else 3600.0)
            if info is None:
                if load and load_at:
                    load_at = 0.0
                    load()
            elif info.si_signo != signal.SIGCHLD and info.si_code != FROM_TERMINAL:
                with suppress(OSError):
                    child.send_signal(info.si_signo)
        return status
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def _load() -> None:
    """Load what makes the card, while the program runs."""
    import numpy.ma  # noqa: F401  which the first median loads

    import stepscope.cli.card  # noqa: F401


def _print_card(
    words: Sequence[str], session: str, pid: int, status: int, lasted: float, *, as_json: bool, profiled: bool
) -> None:
    from stepscope.cli.card import card_of_session
    from stepscope.cli.output import json_text
    from stepscope.record.card import show

    shown = card_of_session(words, Path(session), pid, status, lasted, profiled=profiled)
    if as_json:
        data = {"unknown": [shown]} if isinstance(shown, str) else asdict(shown)
        print(json_text(plain(data)), file=sys.stderr)
    elif isinstance(shown, str):
        print(f"stepscope: {shown}", file=sys.stderr)
    else:
        card: Card = shown
        show(card)


def _die(number: int) -> None:
    """End by the signal that ended the program, so that whoever waits for us sees the same."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
