"""The change log of a run of the store: its series over all attempts, its attempts and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from stepscope.health.changes import ChangeGroup, Event, RecordedSeries, change_log
from stepscope.names.splits import judged_split
from stepscope.store.findings import WrittenFinding
from stepscope.store.series import Series


def changes_of(
    columns: Sequence[Series], ranks: Mapping[str, int | None], findings: Sequence[WrittenFinding]
) -> list[ChangeGroup]:
    """Return groups of changes, in the order of time.

    Args:
        columns: All series of a run and its parts, those of the run first, by attempt.
        ranks: The rank of each writer.
        findings: Of the run itself.
    """
    return change_log(_joined(columns, ranks), _events(columns, findings))


def _joined(columns: Sequence[Series], ranks: Mapping[str, int | None]) -> Iterator[RecordedSeries]:
    """Yield each series of each writer, its attempts one after the other."""
    several = len(set(ranks.values())) > 1
    attempts: dict[tuple[str, str, str], list[Series]] = {}
    for each in columns:
        if len(each):
            attempts.setdefault((each.run, each.tag, each.writer), []).append(each)
    for (run, tag, writer), own in attempts.items():
        yield RecordedSeries(
            tag,
            np.concatenate([each.step for each in own]),
            np.concatenate([each.value for each in own]),
            np.concatenate([each.wall for each in own]),
            rank=ranks.get(writer) if several else None,
            run="" if run == columns[0].run else run,
            split=judged_split(own[0].split),
        )


def _events(columns: Sequence[Series], findings: Sequence[WrittenFinding]) -> Iterator[Event]:
    begun: dict[int, tuple[float, int]] = {}
    for each in columns:
        if each.attempt > 1 and len(each):
            first = float(each.wall[0]), int(each.step[0])
            begun[each.attempt] = min(first, begun.get(each.attempt, first))
    for attempt, (wall, step) in sorted(begun.items()):
        yield Event("attempt", f"attempt {attempt} begins", step, wall)
    for found in findings:
        step = found.step if found.since_step is None else found.since_step
        yield Event("finding", f"{found.severity} finding {found.rule}: {found.summary}", step, found.wall)
