"""The code blocks of README and docs, and what a reader who pastes them has already."""

import re
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block of a page.

    Attributes:
        output: What the page says that it prints: the text block that follows it directly, "" for none.
    """

    language: str
    text: str
    output: str = ""

    @property
    def of_tensorflow(self) -> bool:
        """Whether it needs TensorFlow, which has an environment of its own."""
        return "import tensorflow as tf" in self.text


def relative(path: Path) -> str:
    """Return the name of a page within the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Return the blocks of a page in order, all or those of one language."""
    text, found = page.read_text(), []
    matches = list(FENCE.finditer(text))
    for match, after in zip_longest(matches, matches[1:]):
        follows = after is not None and after[2] == "text" and not text[match.end() : after.start()].strip()
        output = after[3] if after is not None and follows and match[2] != "text" else ""
        found.append(Block(match[2], match[3], output))
    return [each for each in found if language in (None, each.language)]


POWER = "\u00d710[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+"
"""A power of ten behind a number, as in 5.9 times ten to the minus five."""
NUMBER = rf"\d[\d.,]*(?:{POWER})?"


QUEUED = re.compile(r"; [\d.,]+ \w?s more wait for a processor(?=\))| on a free processor")
"""What advice adds about a step that waited for a processor."""


def not_printed(said: str, printed: str) -> list[str]:
    """Return the lines of a page's output that a program did not print.

    Numbers stand for any number, as they differ from run to run, and "…" for anything; the amount of space
    between words does not matter. Lines may have been printed between them. How long a busy machine keeps a
    step waiting does not matter, either.
    """
    lines = [" ".join(QUEUED.sub("", line).split()) for line in printed.splitlines()]
    return [line for line in said.splitlines() if line.strip() and not any(map(_as_printed(line), lines))]


def _as_printed(line: str) -> Callable[[str], re.Match[str] | None]:
    pattern = re.escape(" ".join(line.split()))
    pattern = re.sub(r"…", ".*", pattern)
    # A dot that is escaped within a number is part of it.
    pattern = re.sub(rf"\d(?:\d|\\\.(?=\d)|,(?=\d))*(?:{POWER})?", lambda _: NUMBER, pattern)
    return re.compile(pattern).fullmatch


def outside_of_fences(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def tensorflow_blocks(page: Path) -> list[Block]:
    """Return what runs with TensorFlow: all blocks of its own page, of others those that import it."""
    found = blocks(page, "python")
    return found if page.name == "tensorflow.md" else [each for each in found if each.of_tensorflow]


def program(page: Path) -> list[Block]:
    """Return all other blocks of Python and shell of a page, in order."""
    aside = tensorflow_blocks(page)
    return [each for each in blocks(page) if each.language in ("python", "sh") and each not in aside]
