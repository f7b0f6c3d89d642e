"""The command line: one module per command, loaded only when that command runs.

A command module has ``add_arguments(parser)`` and ``run(arguments) -> int | None``. Data goes to stdout, all
else to stderr. Exit codes: 0 done, 1 the user's mistake (a ``StepscopeError``), 2 usage, 70 a defect of ours.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from stepscope.version import __version__

COMMANDS = {
    "run": "run a training script unchanged, record it, and say at the end how it went",
    "serve": "show a log directory in the browser, live",
    "share": "make a link to a running server that is view-only and expires",
    "token": "print the token of your servers, or replace it: old links and cookies stop working",
    "top": "watch runs in the terminal: charts, findings, ranks",
    "ls": "list runs: state, step, points, last values",
    "ask": "answer one question about runs and profiles within a budget of tokens",
    "sql": "answer SQL over runs, series, findings, settings, ranks and profile events",
    "mcp": "serve the questions to agents, over the Model Context Protocol",
    "skill": "print or install the skill for coding agents",
    "runs": "name, note, tag, archive, delete and restore runs",
    "profile": "answer tfprof's questions about any profile, at a prompt or in one shot",
    "advise": "say what is slow in a profile, with evidence and what to do",
    "changes": "say what changed in a run, when and in which order, or in one run and not in another",
    "watch": "judge runs while they train; its exit code says what was found, for CI",
    "check": "say by tests whether a candidate is worse than a baseline; its exit code is for CI",
    "glance": "show a profile on one screen: step breakdown, top operations, advice",
    "ranks": "say which ranks of a job wait for whom, why, and what it costs",
    "timeline": "write any profile as a Chrome/Perfetto trace",
    "diff": "compare two profiles by scope, operator and kernel",
    "capture": "ask a running program for a profile of its next steps",
    "report": "write a run as a single, self-contained HTML file",
    "export": "write scalar series as csv, parquet or json",
    "compact": "turn logs into Parquet on any store, and read every value back",
    "import": "turn logs of other tools (tables, JSON, consoles, W&B, MLflow, trackio) into runs",
    "sync": "send what runs have left on this machine to their stores",
    "whoami": "say which rank and role this process would have in a job, and how that is known",
    "demo": "train something real, record it and look at it",
    "openapi": "print the description of the HTTP interface",
    "completion": "print a completion script for bash, zsh, fish or tcsh",
}
"""Every command with its one line of help, in the order of a first session."""

ANSWERS = ("ask", "sql")
"""Commands that end with one answer, until which they need all that they have read."""
READS_PROFILES = ("profile", "advise", "glance", "ranks", "timeline", "diff", "ask", "check", "sql")
"""Commands that run with a memory limit, like a server's readers, in a process that can be ended."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    named = next((word for word in words if word in COMMANDS), None)
    if argv is None and named in READS_PROFILES:
        # Nothing here multiplies matrices: the threads that numpy's library starts for it only cost time.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if argv is None and named in ANSWERS:
        gc.disable()  # it would look through all that was read, again and again, for garbage
    parser = build_parser(only=named, words=words)
    meant = _meant(words)
    if meant:
        parser.error(meant)
    arguments = parser.parse_args(words)
    if arguments.command is None:
        parser.print_help()
        return 0
    if argv is None and arguments.command in READS_PROFILES:
        return _apart(arguments)
    return _done(arguments)


def _meant(words: Sequence[str]) -> str:
    """Return the probable command of a first word that is no command, empty if it is one."""
    first = words[0] if words else ""
    if first in ("", *COMMANDS) or (first.startswith("-") and not first.startswith("--logdir")):
        return ""
    from difflib import get_close_matches
    from pathlib import Path

    from stepscope.urls import is_url, shown

    if first.startswith("--logdir"):
        place = first.partition("=")[2] or " ".join(words[1:2]) or "DIRECTORY"
        return f"no option --logdir; to show a log directory: stepscope serve {shown(place)}"
    near = get_close_matches(first, COMMANDS, n=1)
    if is_url(first) or Path(first).is_dir():
        hint = f"to show a log directory: stepscope serve {shown(first)}"
    elif Path(first).exists():
        hint = f"to look at a profile: stepscope glance {first}"
    else:
        hint = f"did you mean {near[0]}?" if near else f"the commands: {', '.join(COMMANDS)}"
    return f"no command {shown(first)!r}; {hint}"


def _apart(arguments: argparse.Namespace) -> int:
    """Run a command in a process whose memory is bounded, and return its exit code."""
    from stepscope.cli.guarded import guarded
    from stepscope.errors import StepscopeError
    from stepscope.trace.bounds import limit_data, memory_bound

    try:
        bound = memory_bound()
    except StepscopeError as error:
        from stepscope.cli.output import complain

        complain(error)
        return 1

    def work() -> int:
        limit_data(bound)
        return _done(arguments)

    code = guarded(work, most_bytes=bound, interactive=arguments.command == "profile")
    gc.freeze()  # or the interpreter would look through all that was read once more as it ends
    return code


def _done(arguments: argparse.Namespace) -> int:
    """Run the command that the arguments name and return its exit code."""
    from stepscope.errors import StepscopeError

    try:
        return int(import_module(f"stepscope.cli.{arguments.command}").run(arguments) or 0)
    except StepscopeError as error:
        from stepscope.cli.output import complain

        complain(error)
        return 1
    except BrokenPipeError:
        # The reader of our stdout has gone, as in `stepscope ls | head`; Python must not try to flush it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  the last frame of the program; Polars panics beside Exception
        from stepscope.trace.bounds import lacks_memory

        if lacks_memory(error):
            from stepscope.cli.output import complain

            complain(
                StepscopeError(
                    "this takes more memory than there is, or than is allowed",
                    hint="record fewer steps, or set STEPSCOPE_READ_BYTES to more (0: no bound)",
                )
            )
            return 1
        import traceback

        traceback.print_exc()
        print("this is a defect in stepscope; please report it with the lines above", file=sys.stderr)
        return 70


def build_parser(*, only: str | None = None, words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser of all commands.

    Args:
        only: The command whose arguments are filled in, for a short start; ``*`` for all.
        words: Of the command line, from which ``ask`` takes the question whose options it needs.
    """
    parser = argparse.ArgumentParser(
        prog="stepscope", description="See every step of your training.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"stepscope {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands")
    for name, line in COMMANDS.items():
        command = commands.add_parser(
            name, help=line, description=line[0].upper() + line[1:] + ".", allow_abbrev=False
        )
        if only in (name, "*"):
            add_arguments = import_module(f"stepscope.cli.{name}").add_arguments
            add_arguments(command, words) if name == "ask" else add_arguments(command)
    return parser
