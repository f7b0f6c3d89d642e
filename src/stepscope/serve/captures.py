"""Captures of a run, and requests for more."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from stepscope.inside import run_directory
from stepscope.serve.encode import encoded
from stepscope.serve.reply import Refusal, refusing
from stepscope.serve.types import (
    Capture,
    CaptureAsked,
    CaptureList,
    CaptureProgress,
    CaptureReply,
    CaptureRequest,
)
from stepscope.store import captures

if TYPE_CHECKING:
    from stepscope.store import Log

REQUEST = re.compile(r"[0-9a-f]{8,32}")
MOST = 50
"""Captures in one answer."""
WITH_SUMMARY = 5
"""Number of the newest scheduled and requested captures that come with their summaries."""


def answer(query: Iterable[tuple[str, str]], log: Log | None) -> bytes:
    """Return the answer to ``captures?run=&request=``.

    Raises:
        Refusal: There is no such run, or the request's name is invalid.
    """
    fields = dict(query)
    if "run" not in fields or set(fields) - {"run", "request"}:
        raise Refusal(400, "captures takes the parameters run and request", "captures?run=NAME")
    name, request = fields["run"], fields.get("request")
    if request is not None and not REQUEST.fullmatch(request):
        raise Refusal(400, f"no request {request!r:.40}", "as the answer to capture names it")
    directory = directory_of(log, name)
    assert log is not None
    found = captures.captures(log.run(name), directory, log)
    told, left = [], {True: WITH_SUMMARY, False: WITH_SUMMARY}
    for each in found[:MOST]:
        by_rhythm = each.facts.get("cause") in ("schedule", "predicate")
        summary = each.summary if left[by_rhythm] > 0 else None
        left[by_rhythm] -= summary is not None
        told.append(capture_of(each.facts, summary, name))
    asked = progress(directory, request) if request is not None else None
    return encoded(CaptureList(name, captures.listens(directory), len(found), told, asked))


def progress(directory: Path, request: str) -> CaptureProgress:
    """Return how far a request has come."""
    replies = captures.answers(directory, request)
    steps = [captures.planned_step(directory, request), *(facts.get("at_step") for facts in replies.values())]
    return CaptureProgress(
        request=request,
        at_step=next((step for step in steps if isinstance(step, int)), None),
        replies=[CaptureReply(rank, str(facts.get("status", ""))) for rank, facts in sorted(replies.items())],
    )


def ask(body: bytes, log: Log | None) -> bytes:
    """Leave the request in a body and return its id.

    Raises:
        Refusal: It is not one, or cannot be left.
    """
    try:
        wanted = msgspec.json.decode(body, type=CaptureRequest)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(400, f"not a capture request: {error}", "see docs/reference/http-api.md") from None
    directory = directory_of(log, wanted.run)
    with refusing():
        request = captures.ask(
            directory,
            ranks=wanted.ranks,
            num_steps=wanted.num_steps,
            memory=wanted.memory,
            stacks=wanted.stacks,
            by="the page",
        )
    return encoded(CaptureAsked(request))


def directory_of(log: Log | None, name: str) -> Path:
    """Return the directory of an existing run; no path is made from what a client sent.

    Raises:
        Refusal: There is no such run.
    """
    with refusing():
        if log is not None:
            return run_directory(log.path, log.run(name).name)
    raise Refusal(404, f"no run {name!r}: nothing has been read yet", "try again in a moment")


def capture_of(facts: dict[str, object], summary: dict[str, object] | None, run: str) -> Capture:
    """Return a capture as the page gets it; what is missing or of a wrong type is None."""

    def get(name: str, *types: type) -> object:
        value = facts.get(name)
        return value if isinstance(value, types) and not isinstance(value, bool) else None

    path = get("path", str)
    return msgspec.convert(
        {
            "name": get("name", str) or "",
            "path": None if path is None or str(path).startswith("/") else f"{run}/{path}".removeprefix("./"),
            "rank": get("rank", int), "world_size": get("world_size", int), "role": get("role", str),
            "backend": get("backend", str), "format": get("format", str),
            "steps": [step for step in get("steps", list) or () if isinstance(step, int)],  # type: ignore[attr-defined]
            "cause": get("cause", str), "reason": get("reason", str), "request": get("request", str),
            "wall": get("wall", int, float), "bytes": get("bytes", int),
            "cost": get("cost", dict) or {}, "dropped": get("dropped", dict) or {},
            "notes": [str(note) for note in get("notes", list) or ()],  # type: ignore[attr-defined]
            "memory": get("memory", list) or [], "before": get("before", list) or [],
            "facts": get("facts", dict) or {},
            "failure": get("failure", str), "not_analysed": get("not_analysed", str), "summary": summary,
        },
        Capture,
        strict=False,
    )  # fmt: skip
