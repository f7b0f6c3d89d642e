"""Splits: the part of the data that a tag or a run describes, in the writing of any framework.

A tag carries the word: ``train/loss`` and ``eval/loss``, ``Loss/train`` and ``Loss/test``, ``train-loss`` and
``validation-loss``, ``trainLoss`` and ``valLoss``, ``avg_val_loss``. Or a run does: ``X/train`` and
``X/validation`` as Keras writes them, ``X`` and ``X/eval`` as the Estimator does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import chain, pairwise
from typing import Literal, NamedTuple

from stepscope.names.kinds import metric_kind

Split = Literal["train", "eval", "test"]
JudgedSplit = Literal["train", "eval"]
"""Parts of the data, for a rule: data that is not trained on is one."""

WORDS: dict[str, Split] = {
    **dict.fromkeys(("train", "training", "trn", "tr"), "train"),
    **dict.fromkeys(("eval", "evaluate", "evaluating", "evaluation", "evaluator"), "eval"),
    **dict.fromkeys(
        ("val", "valid", "validate", "validating", "validation", "dev", "holdout", "heldout"), "eval"
    ),
    **dict.fromkeys(("test", "testing"), "test"),
    # German, French, Spanish, Portuguese, Italian, Dutch, Turkish, Russian, Chinese, Japanese, Korean
    **dict.fromkeys(("entraînement", "entrenamiento", "treino", "addestramento", "eğitim"), "train"),
    **dict.fromkeys(("обучение", "训练", "訓練", "学習", "훈련"), "train"),
    **dict.fromkeys(("validierung", "validación", "validação", "validazione", "validatie"), "eval"),
    **dict.fromkeys(("doğrulama", "валидация", "验证", "検証", "검증"), "eval"),
}
AMBIGUOUS = frozenset({"val", "valid", "dev", "tr"})
"""Words that also mean something else (``max_val``, ``valid_tokens``, ``std_dev``, ``tr_ratio``).

Within a part of a name they are a split only beside a loss or a score.
"""
Habit = Literal["path", "word", "plain"]
_LETTERS = re.compile(r"[^\W\d_]+|\d+")
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z][a-z]+|[a-z]+|\d+")
"""Words of a part: ``trainLoss`` has two, ``F1`` one and a number. Of words with other letters, capitals part
none."""
_UNSPACED = tuple(word for word in WORDS if all(ord(letter) >= 0x3000 for letter in word))
"""Words of scripts that leave no space between words."""


def judged_split(split: Split | None) -> JudgedSplit | None:
    """Return which part a split is to a rule."""
    return "eval" if split == "test" else split


class TagSplit(NamedTuple):
    """The parts of a tag's name.

    Attributes:
        metric: The tag without the word of its split.
        split: None if no word says it.
        habit: The word is a part of the path, or a word within a part.
    """

    metric: str
    split: Split | None
    habit: Habit


@lru_cache(maxsize=1 << 16)
def split_tag(tag: str) -> TagSplit:
    """Return the split in the name of a tag.

    A whole part of the path counts before a word within a part, the last part before those that it is in, and
    a word at the beginning or end of a part before one in the middle.
    """
    parts = tag.split("/")
    for place, part in enumerate(parts):
        split = _word(part) or _joined(_tokens(part))
        if split and (metric := "/".join(parts[:place] + parts[place + 1 :])):
            return TagSplit(metric, split, "path")
    for place in reversed(range(len(parts))):
        if match := _word_within(parts[place]):
            split, rest = match
            return TagSplit("/".join([*parts[:place], rest, *parts[place + 1 :]]), split, "word")
    return TagSplit(tag, None, "plain")


def words_of(tag: str) -> list[str]:
    """Return the words of a tag in small letters."""
    return [word.lower() for word in _tokens(tag)]


def _places(text: str) -> Iterator[tuple[int, int]]:
    """Yield begin and end of each word."""
    for letters in _LETTERS.finditer(text):
        begin, end = letters.span()
        if text[begin:end].isascii():
            yield from (word.span() for word in _TOKEN.finditer(text, begin, end))
        else:
            yield from _pieces(text, begin, end)


def _tokens(text: str) -> list[str]:
    return [text[begin:end] for begin, end in _places(text)]


def _word_within(part: str) -> tuple[Split, str] | None:
    """Return the split that a word within a part says, and the part without it."""
    words = list(_places(part))
    if len(words) < 2:
        return None
    single = ((begin, end, _word(part[begin:end])) for begin, end in (words[0], words[-1], *words[1:-1]))
    double = ((begin, end, _joined(_tokens(part[begin:end]))) for (begin, _), (_, end) in pairwise(words))
    for begin, end, split in chain(single, double):
        if split is None:
            continue
        rest = _without(part, begin, end)
        if not rest.strip("_- ."):
            continue
        if part[begin:end].lower() in AMBIGUOUS and metric_kind(rest, None) not in ("loss", "score"):
            continue
        return split, rest
    return None


def _word(word: str) -> Split | None:
    return WORDS.get(word.lower())


def _joined(words: list[str]) -> Split | None:
    """Return the split of a word that is written as two: ``held_out``."""
    joined = "".join(words).lower()
    return WORDS.get(joined) if len(words) == 2 and min(map(len, words)) > 2 else None


def _pieces(text: str, begin: int, end: int) -> list[tuple[int, int]]:
    """Return begin and end of a word, or of both if it is a split and a loss or score without a space."""
    for name in _UNSPACED:
        if text.startswith(name, begin, end):
            at, rest = begin + len(name), text[begin + len(name) : end]
        elif text.endswith(name, begin, end):
            at, rest = end - len(name), text[begin : end - len(name)]
        else:
            continue
        # As in other words: with a rate after it, the Japanese for training is the learning rate.
        return [(begin, at), (at, end)] if metric_kind(rest, None) in ("loss", "score") else [(begin, end)]
    return [(begin, end)]


def _without(part: str, begin: int, end: int) -> str:
    """Return a part of a name without a word and one of the separators beside it."""
    before, after = part[:begin], part[end:]
    if not before:
        return after.lstrip("_- .") or after
    if not after:
        return before.rstrip("_- .") or before
    return before + after[1:] if before[-1:] in "_- ." and after[:1] in "_- ." else before + after


def split_run(run: str, runs: Collection[str]) -> tuple[str, Split | None]:
    """Return the run that a run is part of, and which part.

    ``X/eval`` is part of ``X`` if ``X`` is a run, or if another part such as ``X/train`` stands beside it.
    """
    parent, _, last = run.rpartition("/")
    parent = parent or "."
    if run == ".":
        return run, None
    prefix = "" if parent == "." else f"{parent}/"
    split = run_word(last)
    if split is not None:
        beside = {other for name in WORDS if f"{prefix}{name}" in runs and (other := WORDS[name]) != split}
        return (parent, split) if parent in runs or beside else (run, None)
    return run, None


def run_word(last: str) -> Split | None:
    """Return the split that the last part of a run's name says; the Estimator writes ``eval_NAME`` too."""
    word = WORDS.get(last.lower())
    return "eval" if word is None and last.startswith("eval_") else word
