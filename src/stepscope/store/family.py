"""Families of series that share a chart: training and evaluation of the same metric, found by name.

Lightning writes a metric of the training as ``train_loss_step`` and ``train_loss_epoch`` if it was asked for
both, beside one ``val_loss``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stepscope.names.meanings import NAMED, Meanings
from stepscope.names.splits import Habit, Split


class TagGroup(NamedTuple):
    """Tags for one chart: each with its split, training first."""

    metric: str
    lines: tuple[tuple[str, Split | None], ...]

    @property
    def overlay(self) -> bool:
        """True if several splits are drawn over each other."""
        return len({split for _, split in self.lines}) > 1


ORDER: list[Split | None] = ["train", None, "eval", "test"]


def groups(tags: Iterable[str], meanings: Meanings = NAMED) -> list[TagGroup]:
    """Return which tags go on one chart, in the order of their names.

    Tags of one metric, written in one habit, go together if it has at least two splits. A plain
    tag is the training part if there is no other: ``loss`` with ``val_loss``. Every tag is on exactly one
    chart.
    """
    plain: dict[str, str] = {}
    worded: dict[tuple[str, Habit], list[tuple[str, Split | None]]] = {}
    for tag in sorted(tags):
        metric, word, habit = meanings.split(tag)
        if word is None:
            plain.setdefault(metric.lower(), tag)
        worded.setdefault((metric.lower() if word else tag, habit), []).append((tag, word))
    _join_forked(worded, plain)
    for (metric, habit), lines in sorted(worded.items(), key=lambda item: item[0][1] == "path"):
        alone = plain.get(metric)
        if alone is not None and habit != "plain" and not any(word == "train" for _, word in lines):
            lines.append((alone, None))
            del plain[metric], worded[alone, "plain"]
    tag_groups: list[TagGroup] = []
    for lines in worded.values():
        lines.sort(key=lambda line: (ORDER.index(line[1]), line[0]))
        metric = min((meanings.split(tag).metric for tag, _ in lines), key=len)
        together = TagGroup(metric, tuple(lines))
        tag_groups += (
            [together] if together.overlay else [TagGroup(tag, ((tag, word),)) for tag, word in lines]
        )
    return sorted(tag_groups, key=lambda group: group.lines[0][0])


def _join_forked(
    worded: dict[tuple[str, Habit], list[tuple[str, Split | None]]], plain: dict[str, str]
) -> None:
    """Put ``X_step`` and ``X_epoch`` of the training to the evaluation's ``X``, if there is no other."""
    for (metric, habit), lines in list(worded.items()):
        if habit == "plain" or metric in plain or any(word == "train" for _, word in lines):
            continue
        forked = [f"{metric}_{part}" for part in ("epoch", "step")]
        for name in forked:
            trained = worded.get((name, habit), [])
            if trained and all(word == "train" for _, word in trained):
                lines += worded.pop((name, habit))
            elif name in plain and set(forked) <= plain.keys():
                lines.append((plain[name], None))
        if any(word is None for _, word in lines):
            for name in forked:
                del worded[plain.pop(name), "plain"]
