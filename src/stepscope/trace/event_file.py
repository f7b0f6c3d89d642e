"""The RunMetadata that TensorFlow's ``ProfilerHook`` puts into event files, one per profiled step."""

from __future__ import annotations

import re
from pathlib import Path

from stepscope.errors import EmptyTraceError
from stepscope.events import EventFile
from stepscope.trace.draft import Draft
from stepscope.trace.step_stats import draft_run_metadata

_RUN_METADATA = "graph_tagged_run_metadata"


def read(path: Path) -> list[Draft]:
    """Read every tagged RunMetadata of an event file.

    Raises:
        EmptyTraceError: There is none.
        EventFileError: Not an event file.
    """
    file = EventFile(path)
    records = file.read().records
    drafts: list[Draft] = []
    for position, plugin in zip(records.position, records.plugin, strict=True):
        if plugin != _RUN_METADATA:
            continue
        tagged = file.event_at(int(position)).tagged_run_metadata
        if tagged is None:
            continue
        number = re.search(r"(\d+)\D*$", tagged.tag)
        drafts.append(
            draft_run_metadata(tagged.run_metadata, str(path), int(number[1]) if number else len(drafts))
        )
    if not drafts:
        raise EmptyTraceError(
            "the event file holds no profile: no RunMetadata in it",
            hint="profile a step with ProfilerHook, or with FileWriter.add_run_metadata", path=path,
        )  # fmt: skip
    return drafts
