"""Tables of cases as text files: what a case is about, its repetitions, and lines that a test evaluates.

``[rule: name] x20`` begins a case, ``@ names in values`` repeats it for each of some values, ``#`` begins a
comment, and a line that begins with a blank goes on the one before. Lines before the first case are shared.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

HEADER = re.compile(r"\[(?:([a-z-]+): )?(.+)\](?: x(\d+))?")
VARIABLE = re.compile(r"[A-Za-z_]\w* = ")


@dataclass
class Case:
    """A case of a table.

    Attributes:
        rule: What it is about, None if about all rules.
        seeds: How often it is repeated with another seed.
    """

    rule: str | None
    name: str
    seeds: int = 0
    lines: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return f"{self.rule}: {self.name}" if self.rule else self.name

    def choices(self, names: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the label and the variables of each repetition, given the names that values may use."""
        repeats = [line[2:].partition(" in ") for line in self.lines if line.startswith("@ ")]
        every = [eval(f"[*labelled({values})]", {**names, "labelled": labelled}) for *_, values in repeats]
        for choice in itertools.product(*every):
            known = dict(names)
            for (variables, *_), (_, value) in zip(repeats, choice, strict=True):
                known["value"] = value
                exec(f"{variables} = value", known)
            yield ", ".join(label for label, _ in choice), known


def read_table(path: Path) -> tuple[list[str], list[Case]]:
    """Return the shared lines and the cases of a file."""
    shared: list[str] = []
    cases: list[Case] = []
    for line in path.read_text().splitlines():
        lines = cases[-1].lines if cases else shared
        if match := HEADER.fullmatch(line):
            cases.append(Case(match[1], match[2], int(match[3] or 0)))
        elif line.startswith(" "):
            lines[-1] += line
        elif line and not line.startswith("#"):
            lines.append(line)
    return shared, cases


def labelled(*values: Any) -> list[tuple[str, Any]]:
    """Return values with their labels, which the keys of a dict are."""
    if len(values) == 1:
        (values,) = values
    if isinstance(values, dict):
        return list(values.items())
    return [(label(value), value) for value in values]


def label(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.kind}{value.shape} of mean {np.nanmean(value):.3g}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(label(each) for each in value) + ")"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
