"""The meaning of a tag: the facts in its name, and before them the corrections of a user.

Every reader of tags asks a ``Meanings``, so that all of them say the same of one tag. A correction is stored
once, in ``.stepscope/metrics`` of a log directory, in one file per tag or pattern. It holds there and in all
directories below: for the page, the commands, and a run that records there.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast, get_args

from stepscope.errors import UsageError
from stepscope.files import STATE_FOLDER, json_object
from stepscope.names.kinds import KINDS, LOWER_IS_BETTER, MetricKind, metric_kind, title_and_unit
from stepscope.names.roles import LAYERED, RANKS_LOSS, ROLES, Meaning, meaning_of, scale_of
from stepscope.names.splits import Split, TagSplit, split_tag, words_of
from stepscope.urls import is_url

MAX_BYTES = 1 << 20
"""Largest size of the file of a correction."""
MAX_TAG = 10_000
"""Longest tag or pattern."""
SPLITS: tuple[str, ...] = (*get_args(Split), "none")
ROLES_OF_KIND: dict[str, tuple[str, ...]] = {
    "loss": ("loss", "part_loss", "rank_loss", "metric"),
    "score": ("metric",),
}
"""Roles of series that say how well a model learns, by the kinds that they can have; the usual one first."""
LEARNING = frozenset(role for roles in ROLES_OF_KIND.values() for role in roles)
KINDS_OF_ROLE: dict[str, tuple[MetricKind, ...]] = {
    **dict.fromkeys(("loss", "part_loss", "rank_loss"), ("loss",)),
    "metric": ("score", "loss"),
    **dict.fromkeys(("learning_rate", "loss_scale"), ("schedule",)),
    **dict.fromkeys(("gradient_norm", "clipped_norm", "layer_gradient"), ("norm",)),
    **dict.fromkeys(("update_norm", "weight_norm", "update_operator", "weight_operator"), ("norm",)),
    **dict.fromkeys(("clipped", "update_ratio", "zeros", "dead", "saturated", "expert_load"), ("ratio",)),
    **dict.fromkeys(("gpu", "cpu", "io_wait"), ("ratio",)),
    **dict.fromkeys(("gradient_nonfinite", "activation_nonfinite"), ("nonfinite",)),
    **dict.fromkeys(("skipped", "labels"), ("counter",)),
    **dict.fromkeys(("step_time", "data_wait", "compile_time"), ("latency",)),
    "memory": ("bytes",),
}
"""Kinds that a series of a role can have, the usual one first; of other roles any."""
BY_NAME = "its name"


@dataclass(frozen=True, slots=True)
class Correction:
    """The facts about a tag that a user has corrected; None: as the name says.

    Attributes:
        role: A role of ``ROLES``, or "none" if no rule may look at it.
        split: The part of the data, or "none" if the word in the name is none.
    """

    kind: MetricKind | None = None
    role: str | None = None
    split: Split | Literal["none"] | None = None

    def __bool__(self) -> bool:
        return self != Correction()

    def __or__(self, other: Correction) -> Correction:
        """Return this correction, with the other's facts if this has none."""
        return Correction(self.kind or other.kind, self.role or other.role, self.split or other.split)

    def __str__(self) -> str:
        facts = ((field.name, getattr(self, field.name)) for field in fields(self))
        return " ".join(f"{name}:{value}" for name, value in facts if value)


WORDS: dict[str, tuple[str, ...]] = {"role": (*ROLES, "none"), "split": SPLITS, "kind": KINDS}
"""The words of each fact, in the order in which a word without a prefix is looked up."""


def correction_of(tag: str, wanted: Correction | Mapping[str, Any] | str) -> Correction:
    """Return a correction as a user writes it.

    Args:
        tag: The tag, or a pattern in which ``*`` stands for any characters.
        wanted: Words, as ``"loss"``, ``"metric eval"`` or ``"kind:ratio,split:none"``; or the facts by name.

    Raises:
        UsageError: There is no such role, split or kind.
    """
    if isinstance(wanted, Correction):
        return wanted
    if isinstance(wanted, str):
        facts: dict[str, Any] = dict(_fact_of(tag, word) for word in re.split(r"[,\s]+", wanted.strip()))
    else:
        facts = {name: wanted[name] for name in WORDS if wanted.get(name) is not None}
    for name, value in facts.items():
        if value not in WORDS[name]:
            known = ", ".join(WORDS[name])
            raise UsageError(f"no {name} {value!r} for {tag!r}", hint=f"the {name}s: {known}")
    if not 0 < len(tag) <= MAX_TAG:
        raise UsageError(
            f"tag of {len(tag)} characters: expected 1 to {MAX_TAG}", hint="the name of a series"
        )
    return Correction(**facts)


def _fact_of(tag: str, word: str) -> tuple[str, str]:
    """Return the fact that a word states, and the word."""
    name, colon, value = word.partition(":")
    if colon and name in WORDS:
        return name, value
    name = next((name for name, words in WORDS.items() if word in words), "")
    if not name:
        hint = "; ".join(f"the {name}s: {', '.join(words)}" for name, words in WORDS.items())
        raise UsageError(f"no role {word!r} for {tag!r}", hint=hint)
    return name, word


@dataclass(frozen=True, slots=True)
class Described:
    """Everything that is known about a tag, and the evidence for it.

    Attributes:
        metric: The tag without the word of its split; lines of one metric share a chart.
        role: Its role for the health rules, and in words; None: no rule looks at it.
        split: The part of the data that the tag or the run says.
        lower_is_better: None if neither end is better.
        correction: The corrections that hold for it.
        evidence: By the name of the fact: ``kind``, ``role`` and ``split``, those that are known.
    """

    tag: str
    metric: str
    unit: str | None
    kind: MetricKind
    role: str | None
    role_text: str | None
    split: Split | None
    lower_is_better: bool | None
    correction: Correction
    evidence: dict[str, str]

    @property
    def because(self) -> str:
        """The evidence on one line."""
        reasons: dict[str, list[str]] = {}
        for name, why in self.evidence.items():
            reasons.setdefault(why, []).append(name)
        if len(reasons) == 1:
            return next(iter(reasons))
        return "; ".join(f"{' and '.join(names)}: {why}" for why, names in reasons.items())


class Meanings:
    """The meanings of tags, with a user's corrections.

    Args:
        corrections: By tag, or by pattern in which ``*`` stands for any characters. For each fact the tag
            itself counts before patterns, and a long pattern before a short one. No pattern matches the
            series of Stepscope itself.

    Raises:
        UsageError: There is no such role, split or kind.
    """

    def __init__(self, corrections: Mapping[str, Correction | Mapping[str, Any] | str] | None = None) -> None:
        given = corrections or {}
        self.corrections = {tag: correction_of(tag, words) for tag, words in given.items()}
        patterns = [tag for tag in self.corrections if "*" in tag]
        self._patterns = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
        self._known: dict[str, dict[str, tuple[str, str]]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Meanings) and self.corrections == other.corrections

    def __hash__(self) -> int:
        return hash(frozenset(self.corrections.items()))

    def corrected(self, more: Mapping[str, Correction | Mapping[str, Any] | str] | None) -> Meanings:
        """Return the meanings with more corrections, whose facts count before those of the same tag.

        Raises:
            UsageError: There is no such role, split or kind.
        """
        added = {tag: correction_of(tag, words) for tag, words in (more or {}).items()}
        merged = {tag: words | self.corrections.get(tag, Correction()) for tag, words in added.items()}
        return Meanings({**self.corrections, **merged}) if added else self

    def _facts(self, tag: str) -> dict[str, tuple[str, str]]:
        """Return the corrected facts of a tag, each with the tag or pattern that it is stored under."""
        if not self.corrections:
            return {}
        facts = self._known.get(tag)
        if facts is None:
            facts = {}
            own = tag == RANKS_LOSS or tag.startswith("stepscope/")  # no pattern means these
            keys = (
                [] if own else [key for key in self._patterns if key != tag and starred(key, tag) is not None]
            )
            for key in (tag, *keys):
                correction = self.corrections.get(key, Correction())
                for name in WORDS:
                    if value := getattr(correction, name):
                        facts.setdefault(name, (value, key))
            self._known[tag] = facts
        return facts

    def corrects(self, tag: str) -> bool:
        """Return whether a user has corrected a tag."""
        return bool(self._facts(tag))

    def split(self, tag: str) -> TagSplit:
        """Return the metric of a tag and the part of the data that the tag says."""
        named, (word, _) = split_tag(tag), self._facts(tag).get("split", ("", ""))
        if not word:
            return named
        if word == "none":
            return TagSplit(tag, None, "plain")
        part = cast(Split, word)
        return TagSplit(tag, part, "word") if named.split is None else named._replace(split=part)

    def part(self, tag: str, of_run: Split | None = None) -> Split | None:
        """Return the part of the data that a series describes.

        Args:
            tag: Its name.
            of_run: The part that the run's name says: it counts if the tag says none.
        """
        own = self.split(tag).split
        return own if own or "split" in self._facts(tag) else of_run

    def role(self, tag: str) -> Meaning | None:
        """Return the role of a tag for the health rules; None if no rule knows it."""
        facts, named = self._facts(tag), meaning_of(tag)
        if not facts:
            return named
        role = self._role(named and named.role, facts)
        if role is None:
            return None
        layer = named.layer if named and named.role == role else self._layer(tag, role, facts)
        return Meaning(role, self.split(tag).split, layer, scale_of(tag, role))

    @staticmethod
    def _role(named: str | None, facts: Mapping[str, tuple[str, str]]) -> str | None:
        """Return a role. A corrected kind gives one if it contradicts the name's, or if that has none."""
        if "role" in facts:
            role, _ = facts["role"]
            return None if role == "none" else role
        if "kind" not in facts:
            return named
        kind, _ = facts["kind"]
        fitting = ROLES_OF_KIND.get(kind, ())
        if named in fitting or not (fitting or named in LEARNING):
            return named
        return fitting[0] if fitting else None

    @staticmethod
    def _layer(tag: str, role: str, facts: Mapping[str, tuple[str, str]]) -> str | None:
        """Return the layer that the star of a pattern stands for."""
        _, key = facts.get("role", ("", ""))
        parts = starred(key, tag) if "*" in key and role in LAYERED else None
        return "/".join(filter(None, parts)) or None if parts else None

    def kind(self, tag: str, named: MetricKind | None = None) -> MetricKind:
        """Return the kind of a tag's metric.

        Args:
            tag: The tag.
            named: The kind that the name says, if the caller knows it.
        """
        facts = self._facts(tag)
        if "kind" in facts:
            return cast(MetricKind, facts["kind"][0])
        if named is None:
            metric = self.split(tag).metric
            named = metric_kind(metric, title_and_unit(metric)[1])
        fitting = KINDS_OF_ROLE.get(facts["role"][0]) if "role" in facts else None
        return named if fitting is None or named in fitting else fitting[0]

    def lower_is_better(self, tag: str) -> bool | None:
        """Return whether lower values of a tag are better; None if neither end is."""
        return LOWER_IS_BETTER.get(self.kind(tag))

    def is_training_loss(self, tag: str) -> bool:
        """Return whether a series is a loss that is trained on, or a part of one."""
        meaning = self.role(tag)
        if meaning is None or meaning.split not in (None, "train"):
            return False
        return meaning.role == "loss" or ("loss" in words_of(tag) and self.kind(tag) == "loss")

    def described(self, tag: str, of_run: Split | None = None) -> Described:
        """Return everything that is known about a tag, with the evidence.

        Args:
            tag: Its name.
            of_run: As for ``part``.
        """
        facts, split, meaning, kind = self._facts(tag), self.split(tag), self.role(tag), self.kind(tag)
        unit = title_and_unit(split.metric)[1]
        evidence = {name: f"corrected for {key}" for name, (_, key) in facts.items()}
        role = meaning and meaning.role
        if role is not None:
            named = meaning_of(tag)
            evidence.setdefault("role", BY_NAME if named and named.role == role else "its corrected kind")
        part = self.part(tag, of_run)
        if part is not None:
            evidence.setdefault("split", BY_NAME if split.split is not None else "the run's name")
        if kind != "other":
            named_so = kind == metric_kind(split.metric, unit)
            evidence.setdefault("kind", BY_NAME if named_so else "its corrected role")
        correction = Correction(**{name: value for name, (value, _) in facts.items()})  # type: ignore[arg-type]
        return Described(
            tag=tag,
            metric=split.metric,
            unit=unit,
            kind=kind,
            role=role,
            role_text=ROLES[role] if role else None,
            split=part,
            lower_is_better=LOWER_IS_BETTER.get(kind),
            correction=correction,
            evidence=evidence,
        )


def starred(pattern: str, tag: str) -> list[str] | None:
    """Return the text that each star of a pattern stands for, the shortest; None if the tag is another."""
    first, *middle, last = pattern.split("*")
    at, end = len(first), len(tag) - len(last)
    if at > end or not tag.startswith(first) or not tag.endswith(last):
        return None
    parts = []
    for part in middle:
        begin = tag.find(part, at, end)
        if begin < 0:
            return None
        parts.append(tag[at:begin])
        at = begin + len(part)
    return [*parts, tag[at:end]]


NAMED = Meanings()
"""The meanings that the names alone give."""


# --- the stored corrections -----------------------------------------------------------------------------


def folder_of(directory: Path) -> Path:
    """Return the folder of a log directory that holds its corrections."""
    return directory / STATE_FOLDER / "metrics"


class StoredMeanings:
    """The meanings with the corrections of a log directory and of those above it, followed.

    A directory above into which anybody may write, such as ``/tmp``, is not asked.

    Args:
        directory: The log directory, or one below it, such as that of a run.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        here = Path(directory).absolute()
        self._folders = [folder_of(directory) for directory in (here, *here.parents)]
        self._stamp: tuple[object, ...] | None = None
        self.meanings = NAMED

    def refresh(self) -> bool:
        """Read new corrections; return whether any has changed."""
        files = list(self._files())
        stamp = tuple((str(path), now.st_mtime_ns, now.st_size, now.st_ino) for path, now in files)
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        corrections: dict[str, Correction] = {}
        for path, _ in files:  # those of the nearest directory first
            facts = json_object(path, MAX_BYTES) or {}
            tag = facts.get("tag")
            if isinstance(tag, str) and (correction := _readable(tag, facts)):
                corrections[tag] = corrections.get(tag, Correction()) | correction
        before, self.meanings = self.meanings, Meanings(corrections)
        return before != self.meanings

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        for place, folder in enumerate(self._folders):
            paths: list[Path] = []
            with suppress(OSError):
                if not place or not folder.parent.parent.stat().st_mode & stat.S_IWOTH:
                    paths = sorted(path for path in folder.iterdir() if path.suffix == ".json")
            for path in paths:
                with suppress(OSError):  # it is being removed
                    yield path, path.stat()


def _readable(tag: str, facts: Mapping[str, Any]) -> Correction | None:
    """Return the correction in a file; None if it holds none."""
    try:
        return correction_of(tag, {name: facts.get(name) for name in WORDS})
    except (UsageError, TypeError):
        return None


def meanings_at(directory: str | os.PathLike[str]) -> Meanings:
    """Return the meanings that hold in a directory now; those of the names alone for a URL."""
    if is_url(directory):
        return NAMED
    stored = StoredMeanings(directory)
    stored.refresh()
    return stored.meanings
