"""The change log of a run of the store: its series over all attempts, and all that happened besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from stepscope.health.changes import ChangeGroup, Event, RecordedSeries, change_log
from stepscope.names.settings import flatten
from stepscope.names.splits import judged_split
from stepscope.store.findings import WrittenFinding
from stepscope.store.info import RunInfo
from stepscope.store.records import RecordSeries
from stepscope.store.series import Series
from stepscope.store.writers import Writer
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.store.ranks import Rank

CHECKPOINTS, CAPTURES = "checkpoint/saved", "stepscope/profile"
Places = dict[int, tuple[float, int]]
"""Time and step of one point of each attempt."""


@dataclass(frozen=True)
class Recorded:
    """All that a run recorded and that may have changed.

    Attributes:
        columns: All series of a run and its parts, those of the run first, by attempt.
        writers: Those of the run and its parts.
        findings: Of the run itself.
        records: Its checkpoints and captures.
        members: The ranks of its job.
    """

    name: str
    columns: Sequence[Series]
    writers: Sequence[Writer]
    findings: Sequence[WrittenFinding]
    records: Sequence[RecordSeries]
    members: Sequence[Rank]


def changes_of(run: Recorded) -> list[ChangeGroup]:
    """Return groups of changes of a run and its parts, in the order of time."""
    columns = [part for part in run.columns if len(part)]
    ranks = {writer.id: writer.rank for writer in run.writers}
    return change_log(_joined(run.name, columns, ranks), events_of(run, columns))


def _joined(
    name: str, columns: Sequence[Series], ranks: Mapping[str, int | None]
) -> Iterator[RecordedSeries]:
    """Yield each series of each writer, its attempts one after the other."""
    several = len(set(ranks.values())) > 1
    attempts: dict[tuple[str, str, str], list[Series]] = {}
    for column in columns:
        attempts.setdefault((column.run, column.tag, column.writer), []).append(column)
    for (run, tag, writer), own in attempts.items():
        yield RecordedSeries(
            tag,
            np.concatenate([column.step for column in own]),
            np.concatenate([column.value for column in own]),
            np.concatenate([column.wall for column in own]),
            rank=ranks.get(writer) if several else None,
            run="" if run == name else run,
            split=judged_split(own[0].split),
        )


def events_of(run: Recorded, columns: Sequence[Series]) -> Iterator[Event]:
    """Yield attempts, with what differs between them, checkpoints, captures, lost ranks and findings.

    Args:
        run: The run.
        columns: All its series with any point.
    """
    begun: Places = {}
    ended: Places = {}
    for column in columns:
        first, last = ((float(column.wall[at]), int(column.step[at])) for at in (0, -1))
        begun[column.attempt] = min(first, begun.get(column.attempt, first))
        ended[column.attempt] = max(last, ended.get(column.attempt, last))
    yield from _attempts(_infos(run.writers), begun, ended)
    for finding in run.findings:
        since = finding.step if finding.since_step is None else finding.since_step
        # Its figures are those of when it was written: who tells the finding as of now would contradict them.
        text = f"{finding.severity} finding: {finding.title}"
        yield Event("finding", text, since, _since_when(finding, since, columns))
    for series in run.records:
        yield from _records(series)
    yield from _lost_ranks(run.members)


def _since_when(finding: WrittenFinding, step: int, columns: Sequence[Series]) -> float:
    """Return when the series of a finding reached a step; when it was noticed, if its points do not tell."""
    for column in columns:
        if column.tag == finding.tag and column.attempt == finding.attempt:
            reached = np.flatnonzero(column.step >= step)
            if len(reached):
                return min(float(column.wall[reached[0]]), finding.wall)
    return finding.wall


def _infos(writers: Sequence[Writer]) -> dict[int, RunInfo]:
    """Return what each attempt says about itself, by its lowest rank."""
    infos: dict[int, RunInfo] = {}
    for writer in sorted(writers, key=lambda writer: writer.rank or 0, reverse=True):
        for source in writer.every_source:
            if source.info is not None and source.info.attempt is not None:
                infos[source.info.attempt] = source.info
    return infos


def _attempts(infos: Mapping[int, RunInfo], begun: Places, ended: Places) -> Iterator[Event]:
    for before, attempt in pairwise(sorted(begun)):
        (last_wall, last), (wall, step) = ended[before], begun[attempt]
        again = f", records {counted(last - step + 1, 'step')} again" if step <= last else ""
        yield Event("attempt", f"attempt {attempt} begins{again}", step, wall, begins=True)
        old, new = infos.get(before), infos.get(attempt)
        if old is not None and old.status in ("failed", "stopped"):
            why = f": {old.reason}" if old.reason else ""
            yield Event("attempt", f"attempt {before} {old.status}{why}", last, last_wall)
        if old is not None and new is not None:
            for text in settings_between(old, new):
                yield Event("setting", text, step, wall)
            for text in _code(old, new):
                yield Event("code", text, step, wall)


def settings_between(old: RunInfo, new: RunInfo) -> list[str]:
    """Return the settings in which two attempts or runs differ, each with both values."""
    return [
        *_differing(flatten(old.config), flatten(new.config)),
        *_differing({"ranks": old.world_size}, {"ranks": new.world_size}),
    ]


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    for name in sorted({*old, *new}):
        before, after = _shown(old.get(name)), _shown(new.get(name))
        if before != after:
            yield f"{name} {before} → {after}"
        elif old.get(name) != new.get(name):  # beyond what is shown
            yield f"{name} changed"


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value}"[:80]


def _code(old: RunInfo, new: RunInfo) -> Iterator[str]:
    """Yield what differs in the code of two attempts, if both recorded it."""
    yield from _differing(old.frameworks, {**old.frameworks, **new.frameworks})
    if not (old.code and new.code):
        return
    before, after = old.code.get("commit"), new.code.get("commit")
    if before != after:
        yield f"commit {_shown(before)[:10]} → {_shown(after)[:10]}"
    files = [info.code.get("files") or {} for info in (old, new)]
    # A file that one of the two has not imported yet says nothing.
    changed = [name for name in sorted(files[0]) if name in files[1] and files[0][name] != files[1][name]]
    if changed:
        more = f" and {counted(len(changed) - 3, 'further file')}" if len(changed) > 3 else ""
        yield f"code of {', '.join(changed[:3])}{more} changed"


def _records(series: RecordSeries) -> Iterator[Event]:
    """Yield the checkpoints or captures of one attempt."""
    for at, (step, wall) in enumerate(zip(series.step.tolist(), series.wall.tolist(), strict=True)):
        if series.tag == CHECKPOINTS:
            yield Event("checkpoint", "last checkpoint before it", step, wall)
            continue
        facts = series[at]
        if isinstance(facts, dict) and not facts.get("cost"):  # it is written again once its cost is known
            failure = facts.get("failure")
            yield Event("capture", f"no profile: {failure}" if failure else "profile captured", step, wall)


def _lost_ranks(members: Sequence[Rank]) -> Iterator[Event]:
    """Yield the ranks that ended before others: they failed, their process is gone, or they are silent."""
    newest = max((rank.digest.last_step or 0 for rank in members), default=0)
    for rank in members:
        last = rank.digest.last_step
        if last is not None and last < newest and rank.state in ("failed", "stalled"):
            why = f": {rank.reason}" if rank.reason else ""
            yield Event("rank", f"{rank.label} is lost{why}", last, rank.written)
