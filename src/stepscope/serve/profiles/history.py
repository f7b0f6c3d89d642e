"""The profiles of a run over its training, as a table of the page."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from msgspec import Meta

from stepscope.analyze.history import ProfileColumn, column, history
from stepscope.errors import TraceError, UsageError
from stepscope.serve.profiles.open_profiles import OpenProfile, Profiles
from stepscope.serve.profiles.types import HistoryAnswer, HistoryCapture
from stepscope.serve.reply import Refusal
from stepscope.serve.routes import get

MOST_PROFILES = 24
MOST_ROWS = 1000


@get("profile/history")
def over_time(
    profiles: Profiles,
    path: Annotated[list[str], Meta(description=f"profiles, 1 to {MOST_PROFILES}")],
    by: Annotated[
        Literal["parts", "scopes", "launched", "operators", "kernels"], Meta(description="kind of rows")
    ] = "operators",
) -> HistoryAnswer:
    """Return how long each thing took in each profile.

    A profile that cannot be read is among the answer's captures with the reason, and has no value.

    Raises:
        Refusal: No profile, too many, one that must not be read, or by something unknown.
    """
    if not 1 <= len(path) <= MOST_PROFILES:
        raise Refusal(400, f"{len(path)} profiles: expected 1 to {MOST_PROFILES}", "path=a&path=b")
    captures, columns, on_device = [], [], False
    for name in path:
        try:
            profile = profiles.get(name)
            own = profile.once(("history", by), lambda profile=profile: column(profile.trace, by))  # type: ignore[misc]
        except UsageError as error:
            raise Refusal(400, error.message, error.hint) from None
        except (Refusal, TraceError) as error:
            if isinstance(error, Refusal) and error.status != 422:
                raise
            captures.append(lost(name, str(error)))
            columns.append(ProfileColumn(0.0, {}, {}))
            continue
        captures.append(capture_of(profile, own))
        columns.append(own)
        on_device |= bool(len(profile.trace.device_work()))
    lines = history(columns)
    return HistoryAnswer(
        by=by,
        captures=captures,
        rows=lines[:MOST_ROWS],
        total=len(lines),
        on_device=on_device,
    )


def capture_of(profile: OpenProfile, own: ProfileColumn) -> HistoryCapture:
    """Return the description of a profile."""
    steps = sorted(set(profile.trace.steps.number.tolist()))
    return HistoryCapture(
        path=profile.path,
        title=PurePosixPath(profile.path).name,
        steps=steps,
        step_ns=own.step_ns if steps else None,
        ranks=len(profile.trace.ranks),
        failure=None,
    )


def lost(path: str, reason: str) -> HistoryCapture:
    """Return a profile that could not be read."""
    return HistoryCapture(path, PurePosixPath(path).name, [], None, 0, reason)
