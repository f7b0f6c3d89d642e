"""``stepscope capture``: ask a running program for a profile of its next steps."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepscope.cli.output import complain, json_text, say
from stepscope.errors import UsageError

POLL_SECS = 0.25
WAIT_SECS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = (
        "Ask a running program that has a ProfilerHook for a profile of its next steps, through the run's "
        "directory, and print where the profiles are."
    )
    parser.add_argument("run", metavar="RUN", help="the run's directory")
    parser.add_argument(
        "--ranks", default="chief", metavar="RANKS", help="chief (the default), all, or numbers: 0,8,16"
    )
    parser.add_argument(
        "--steps", type=int, default=0, metavar="N", help="steps to record (default: the hook's)"
    )
    parser.add_argument("--at-step", type=int, metavar="N", help="step to begin with (default: the next one)")
    parser.add_argument(
        "--stacks", action="store_true", help="also record Python stacks: advice then names lines"
    )
    parser.add_argument("--memory", action="store_true", help="also take a snapshot of the device's memory")
    parser.add_argument(
        "--wait", type=float, default=WAIT_SECS, metavar="SECONDS",
        help=f"how long to wait for the profiles; 0 only asks (default: {WAIT_SECS:g})",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Run the command.

    Raises:
        UsageError: No such run, or an argument out of range.
        LogDirectoryError: The request cannot be written.
    """
    from stepscope.store import captures

    directory = Path(arguments.run)
    if not directory.is_dir():
        raise UsageError("no such run", hint="pass the directory that the run writes to", path=directory)
    listens = captures.listens(directory)  # asking makes the folder by which that is known
    request = captures.ask(
        directory, ranks=ranks_of(arguments.ranks), num_steps=arguments.steps, at_step=arguments.at_step,
        memory=arguments.memory, stacks=arguments.stacks, by="stepscope capture",
    )  # fmt: skip
    if arguments.wait <= 0:
        missing_ranks: list[dict[str, Any]] = []
    else:
        missing_ranks = wait_for(directory, request, arguments.wait)
    answers = captures.answers(directory, request)
    report(directory, request, missing_ranks, answers, as_json=arguments.json, waited=arguments.wait > 0)
    if arguments.wait > 0 and not missing_ranks and not arguments.json:
        complain(f"no profile came: {why_none(answers, listens=listens)}")
    return 0 if missing_ranks or arguments.wait <= 0 else 1


def ranks_of(text: str) -> str | list[int]:
    """Return the ranks that the option names.

    Raises:
        UsageError: It has none of the accepted forms.
    """
    if text in ("chief", "all"):
        return text
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(
            f"--ranks takes chief, all or numbers joined by commas, got {text!r}",
            hint="--ranks 0,3 for two ranks",
        )
    return [int(part) for part in parts]


def wait_for(
    directory: Path,
    request: str,
    seconds: float,
    *,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> list[dict[str, Any]]:
    """Return the profiles of a request once each rank that took it has written its own.

    Args:
        directory: The run's.
        request: Its id.
        seconds: How long to wait.
        now: Steady time in seconds.
        pause: Waits.
    """
    from stepscope.store import captures

    end = now() + seconds
    settled = 0
    while True:
        answers = [facts for facts in captures.beside(directory) if facts.get("request") == request]
        taken = [
            answer
            for answer in captures.answers(directory, request).values()
            if answer.get("status") == "taken"
        ]
        # Ranks answer within a poll of each other: what is complete twice in a row is complete.
        settled = settled + 1 if answers and len(answers) >= len(taken) else 0
        if settled >= 4 or now() >= end:
            return sorted(answers, key=lambda facts: facts.get("rank") or 0)
        pause(POLL_SECS)


def report(
    directory: Path,
    request: str,
    profiles: list[dict[str, Any]],
    answers: dict[int, dict[str, Any]],
    *,
    as_json: bool,
    waited: bool,
) -> None:
    """Print the profiles; missing ones are reported on stderr."""
    if as_json:
        print(json_text({"request": request, "profiles": profiles, "answers": answers}))
        return
    for facts in profiles:
        if facts.get("path"):
            say(directory / facts["path"])
        else:
            complain(f"rank {facts.get('rank')}: {facts.get('failure')}")
    for rank, answer in sorted(answers.items()):
        if answer.get("status") not in ("taken", None):
            complain(f"rank {rank}: {answer['status']}")
    if not waited:
        complain(f"asked: {request}")


def why_none(answers: dict[int, dict[str, Any]], *, listens: bool) -> str:
    """Return why no profile came.

    Args:
        answers: Of the ranks.
        listens: Whether a hook had looked for requests before.
    """
    if answers:
        return "the run's ProfilerHook has answered and written nothing yet"
    if listens:
        return "the run's ProfilerHook does not answer: is the program still running?"
    return "no ProfilerHook of the run has ever looked for requests: add ss.ProfilerHook() to its hooks"
