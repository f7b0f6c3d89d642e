"""Families of series that share a chart: training and evaluation of the same metric, found by name.

Two habits exist. A tag carries the word: ``train/loss`` and ``eval/loss``, ``Loss/train`` and ``Loss/test``,
``train_loss`` and ``val_loss``, ``loss`` and ``val_loss``. Or a run does: ``X/train`` and ``X/validation`` as
Keras writes them, ``X`` and ``X/eval`` as the Estimator does.

Lightning writes a metric of the training as ``train_loss_step`` and ``train_loss_epoch`` where it was asked
for both, beside one ``val_loss``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Literal, NamedTuple

from stepscope.splits import SPLIT_WORDS, Part, outer_word

Split = Part
WORDS = SPLIT_WORDS

Habit = Literal["path", "word", "plain"]


class Family(NamedTuple):
    """The family of a series.

    Attributes:
        run: The run that its run is a part of; itself where it is not a part.
        split: None if neither the tag nor the run says.
        metric: The tag without the word of its split.
    """

    run: str
    split: Split | None
    metric: str


class TagSplit(NamedTuple):
    """The parts of a tag's name: the metric, the split, and how it is written."""

    metric: str
    split: Split | None
    habit: Habit


def split(run: str, tag: str, runs: Collection[str] = ()) -> Family:
    """Return where a series belongs.

    The tag's word counts before the run's.

    Args:
        run: Name of its run.
        tag: Its name.
        runs: Names of all runs of the log directory.
    """
    base, of_run = run_split(run, runs)
    metric, of_tag, _ = tag_split(tag)
    return Family(base, of_tag or of_run, metric)


@lru_cache(maxsize=1 << 16)
def tag_split(tag: str) -> TagSplit:
    """Return what the name of a tag says.

    The word is a whole part of the path, or the first or last word of the last part: ``train_loss``,
    ``loss-val``, ``Training Loss``, ``valLoss``.
    """
    parts = tag.split("/")
    for place, part in enumerate(parts):
        word = WORDS.get(part.lower())
        if word and (rest := "/".join(parts[:place] + parts[place + 1 :])):
            return TagSplit(rest, word, "path")
    if outer := outer_word(parts[-1]):
        return TagSplit("/".join([*parts[:-1], outer[1]]), outer[0], "word")
    return TagSplit(tag, None, "plain")


def run_split(run: str, runs: Collection[str]) -> tuple[str, Split | None]:
    """Return the run that a run is part of, and which part.

    ``X/eval`` is part of ``X`` where ``X`` is a run, or where another part such as ``X/train`` stands beside
    it.
    """
    parent, _, last = run.rpartition("/")
    parent = parent or "."
    word = run_word(last)
    if word is None or run == ".":
        return run, None
    prefix = "" if parent == "." else f"{parent}/"
    beside = {found for name in WORDS if f"{prefix}{name}" in runs and (found := WORDS[name]) != word}
    return (parent, word) if parent in runs or beside else (run, None)


def run_word(last: str) -> Split | None:
    """Return the split that the last part of a run's name says; the Estimator writes ``eval_NAME`` too."""
    word = WORDS.get(last.lower())
    return "eval" if word is None and last.startswith("eval_") else word


class TagGroup(NamedTuple):
    """Tags for one chart: each with its split, training first."""

    metric: str
    lines: tuple[tuple[str, Split | None], ...]

    @property
    def overlay(self) -> bool:
        """True if several splits are drawn over each other."""
        return len({split for _, split in self.lines}) > 1


ORDER: list[Split | None] = ["train", None, "eval", "test"]


def groups(tags: Iterable[str]) -> list[TagGroup]:
    """Return which tags go on one chart, in the order of their names.

    Tags of one metric, written in one habit, go together where at least two splits of it are there. A plain
    tag is the training part where there is no other: ``loss`` with ``val_loss``. Every tag is on exactly one
    chart.
    """
    plain: dict[str, str] = {}
    worded: dict[tuple[str, Habit], list[tuple[str, Split | None]]] = {}
    for tag in sorted(tags):
        metric, word, habit = tag_split(tag)
        if word is None:
            plain.setdefault(metric.lower(), tag)
        worded.setdefault((metric.lower() if word else tag, habit), []).append((tag, word))
    _join_forked(worded, plain)
    for (metric, habit), lines in sorted(worded.items(), key=lambda item: item[0][1] == "path"):
        alone = plain.get(metric)
        if alone is not None and habit != "plain" and not any(word == "train" for _, word in lines):
            lines.append((alone, None))
            del plain[metric], worded[alone, "plain"]
    found: list[TagGroup] = []
    for lines in worded.values():
        lines.sort(key=lambda line: (ORDER.index(line[1]), line[0]))
        metric = min((tag_split(tag).metric for tag, _ in lines), key=len)
        together = TagGroup(metric, tuple(lines))
        found += [together] if together.overlay else [TagGroup(tag, ((tag, word),)) for tag, word in lines]
    return sorted(found, key=lambda group: group.lines[0][0])


def _join_forked(
    worded: dict[tuple[str, Habit], list[tuple[str, Split | None]]], plain: dict[str, str]
) -> None:
    """Put ``X_step`` and ``X_epoch`` of the training to the evaluation's ``X``, where there is no other."""
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
