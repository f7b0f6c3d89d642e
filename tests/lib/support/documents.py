"""The code blocks of README and docs, and what a reader who pastes them has already."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```[ ]*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """One fenced block of a page."""

    language: str
    text: str

    @property
    def of_tensorflow(self) -> bool:
        """Whether it needs TensorFlow, which has an environment of its own."""
        return "import tensorflow as tf" in self.text


def relative(path: Path) -> str:
    """Return the name of a page within the repository."""
    return path.relative_to(ROOT).as_posix()


def blocks(page: Path, language: str | None = None) -> list[Block]:
    """Return the blocks of a page in order, all or those of one language."""
    found = [Block(name, text) for _, name, text in FENCE.findall(page.read_text())]
    return [each for each in found if language in (None, each.language)]


def outside_of_fences(page: Path) -> str:
    """Return a page without its fenced blocks."""
    return FENCE.sub("", page.read_text())


def tensorflow_blocks(page: Path) -> list[Block]:
    """Return what runs with TensorFlow: all blocks of its own page, of others those that import it."""
    found = blocks(page, "python")
    return found if page.name == "tensorflow.md" else [each for each in found if each.of_tensorflow]


def program(page: Path) -> str:
    """Return all other Python of a page, as one program."""
    aside = tensorflow_blocks(page)
    return "\n".join(each.text for each in blocks(page, "python") if each not in aside)
