"""Captures of a run, and requests for more."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta

from stepscope.files import fitting, run_directory
from stepscope.serve.reply import run_of
from stepscope.serve.routes import get, post
from stepscope.serve.types import (
    Capture,
    CaptureAsked,
    CaptureList,
    CaptureProgress,
    CaptureReply,
    CaptureRequest,
)
from stepscope.store import Log, captures

MAX_CAPTURES = 50
"""Captures in one answer."""
WITH_SUMMARY = 5
"""Number of the newest scheduled and requested captures that come with their summaries."""


@get("captures", strict=True)
def listing(
    log: Log | None,
    run: Annotated[str, Meta(description="name of a run")],
    request: Annotated[
        Annotated[str, Meta(pattern="^[0-9a-f]{8,32}$")] | None,
        Meta(description="a request as the answer to capture names it"),
    ] = None,
) -> CaptureList:
    """Return the captures of a run.

    Raises:
        Refusal: There is no such run.
    """
    directory = directory_of(log, run)
    assert log is not None
    taken = captures.captures(log.run(run), directory, log)
    shown, left = [], {True: WITH_SUMMARY, False: WITH_SUMMARY}
    for capture in taken[:MAX_CAPTURES]:
        by_rhythm = capture.facts.get("cause") in ("schedule", "predicate")
        summary = capture.summary if left[by_rhythm] > 0 else None
        left[by_rhythm] -= summary is not None
        shown.append(capture_of(capture.facts, summary, run))
    asked = progress(directory, request) if request is not None else None
    return CaptureList(run, captures.listens(directory), len(taken), shown, asked)


def progress(directory: Path, request: str) -> CaptureProgress:
    """Return how far a request has come."""
    replies = captures.answers(directory, request)
    steps = [captures.planned_step(directory, request), *(facts.get("at_step") for facts in replies.values())]
    return CaptureProgress(
        request=request,
        at_step=next((step for step in steps if isinstance(step, int)), None),
        replies=[CaptureReply(rank, str(facts.get("status", ""))) for rank, facts in sorted(replies.items())],
    )


@post("capture")
def ask(body: CaptureRequest, log: Log | None) -> CaptureAsked:
    """Leave a request for a profile and return its id."""
    request = captures.ask(
        directory_of(log, body.run),
        ranks=body.ranks,
        num_steps=body.num_steps,
        memory=body.memory,
        stacks=body.stacks,
        by="the page",
    )
    return CaptureAsked(request)


def directory_of(log: Log | None, name: str) -> Path:
    """Return the directory of an existing run; no path is made from a client's text.

    Raises:
        Refusal: There is no such run.
    """
    log, stored = run_of(log, name)
    return run_directory(log.path, stored.name)


def capture_of(facts: dict[str, object], summary: dict[str, object] | None, run: str) -> Capture:
    """Return a capture as the page gets it; missing fields and those of a wrong type are None."""
    known = fitting(Capture, facts)
    path = known.get("path")
    if path is not None:
        known["path"] = None if path.startswith("/") else f"{run}/{path}".removeprefix("./")
    if isinstance(notes := facts.get("notes"), list):
        known["notes"] = list(map(str, notes))
    missing: dict[str, Any] = dict.fromkeys(Capture.__struct_fields__)
    missing |= {"name": "", "steps": [], "cost": {}, "dropped": {}, "notes": [], "memory": [], "before": [],
                "facts": {}}  # fmt: skip
    return Capture(**{**missing, **known, "summary": summary})
