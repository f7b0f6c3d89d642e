"""The prompt of ``stepscope profile PATH``: completion, history, and commands from a pipe."""

from __future__ import annotations

import glob
import os
import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import current_thread, main_thread

from stepscope.analyze.options import OPTIONS, ORDERS, OUTPUTS, SELECTS, VIEWS
from stepscope.cli.output import complain, put
from stepscope.cli.session import COMMANDS, ProfileSession
from stepscope.errors import StepscopeError, UsageError

PROMPT = "stepscope> "
_HISTORY_LINES = 2000
_WITH_PATH = ("diff", "report", "timeline")
_CHOICES = {
    "order_by": ORDERS,
    "select": SELECTS,
    "output": OUTPUTS,
    "account_displayed_op_only": ("true", "false"),
}


def prompt(session: ProfileSession, *, as_json: bool) -> int:
    """Read and run commands until ``quit`` or the end of input.

    Ctrl-C drops the line, or stops the command, without leaving. From a pipe, nothing is echoed, and the exit
    code is 1 if a command failed.
    """
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    failed = False
    with _line_editing(interactive):
        if interactive:
            complain(f"{session.source.path}: help lists the commands, TAB completes, quit leaves")
        for line in _lines(interactive):
            try:
                if not run_line(session, line, as_json=as_json):
                    return 0
            except StepscopeError as error:  # noqa: PERF203
                complain(error)
                failed = True
            except KeyboardInterrupt:
                if not interactive:
                    raise
                complain("stopped")
    return 1 if failed and not interactive else 0


def run_line(session: ProfileSession, line: str, *, as_json: bool) -> bool:
    """Run one typed line; an empty one shows the options, as tfprof does. Returns False to leave.

    Raises:
        StepscopeError: The command failed.
    """
    words = split(line)
    if words[:1] in (["quit"], ["exit"], ["q"]):
        return False
    put(session.run(words) if words else session.show_options(), as_json=as_json)
    return True


def split(line: str) -> list[str]:
    """Split a line into words; the rest after ``sql`` stays one.

    Raises:
        UsageError: A quote is not closed.
    """
    line = line.strip()
    command, _, rest = line.partition(" ")
    if command == "sql":
        return [command, rest.strip()] if rest.strip() else [command]
    try:
        return shlex.split(line)
    except ValueError as error:
        raise UsageError(f"cannot read the line: {str(error).lower()}", hint="close the quote") from None


def _lines(interactive: bool) -> Iterator[str]:
    while True:
        try:
            yield input(PROMPT) if interactive else _piped_line()
        except EOFError:  # noqa: PERF203
            if interactive:
                print()
            return
        except KeyboardInterrupt:
            if not interactive:
                raise
            print()


def _piped_line() -> str:
    """Return the next line of a pipe; Ctrl-C meanwhile ends the process at once.

    Python only notes a signal that comes just before it reads, and acts on it once a line has come.
    """
    mine = current_thread() is main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not mine:
        return input()
    sys.stdout.flush()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return input()
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# --- completion and history ---------------------------------------------------------------------------


def complete(line: str, word: str) -> list[str]:
    """Return the completions of a word at the end of a line."""
    before = line[: len(line) - len(word)].split()
    if not before:
        return [f"{name} " for name in COMMANDS if name.startswith(word)]
    if before[-1].lstrip("-") in _CHOICES:
        head, comma, last = word.rpartition(",")
        return [
            head + comma + choice for choice in _CHOICES[before[-1].lstrip("-")] if choice.startswith(last)
        ]
    if before[0] == "help":
        return [name for name in COMMANDS if name.startswith(word)]
    if before[0] in (*VIEWS, "kernel", "set") and word.startswith("-"):
        dashes = word[: len(word) - len(word.lstrip("-"))]
        return [f"{dashes}{name} " for name in OPTIONS if f"{dashes}{name}".startswith(word)]
    if before[0] in (*VIEWS, "kernel", "set") and not word:
        return [f"-{name} " for name in OPTIONS]
    return _paths(word) if before[0] in _WITH_PATH else []


def _paths(word: str) -> list[str]:
    paths = glob.glob(f"{glob.escape(os.path.expanduser(word))}*")  # noqa: PTH111, PTH207
    return sorted(path + os.sep if Path(path).is_dir() else path for path in paths)


def history_file() -> Path:
    """The file that keeps the typed lines."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "stepscope" / "profile_history"


@contextmanager
def _line_editing(interactive: bool) -> Iterator[None]:
    try:
        import readline
    except ImportError:  # a Python built without it: plain lines
        interactive = False
    if not interactive:
        yield
        return
    path = history_file()
    with suppress(OSError):
        readline.read_history_file(path)
    readline.set_history_length(_HISTORY_LINES)
    readline.set_completer_delims(" ")
    readline.parse_and_bind(
        "bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete"
    )

    def completer(word: str, state: int) -> str | None:
        matches = complete(readline.get_line_buffer()[: readline.get_endidx()], word)
        return matches[state] if state < len(matches) else None

    readline.set_completer(completer)
    try:
        yield
    finally:
        readline.set_completer(None)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(path)
