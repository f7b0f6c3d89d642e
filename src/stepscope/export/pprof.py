"""pprof profiles of any view, for ``go tool pprof`` and everything that reads its format.

The format is profile.proto of https://github.com/google/pprof, gzipped. Every shown node is one sample whose
stack is the node and its shown ancestors. Its values exclude those of the shown nodes below it, so that
pprof's cumulative numbers are the view's totals.
"""

from __future__ import annotations

import gzip
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import UsageError
from stepscope.export.scrub import scrub_text
from stepscope.files import writing

if TYPE_CHECKING:
    from stepscope.analyze.views import Answer

_UNITS = {
    "micros": "microseconds",
    "accelerator_micros": "microseconds",
    "cpu_micros": "microseconds",
    "bytes": "bytes",
    "peak_bytes": "bytes",
    "residual_bytes": "bytes",
    "output_bytes": "bytes",
    "params": "count",
    "float_ops": "count",
    "occurrence": "count",
}
_MEASURES = {"device_ns": "nanoseconds", "host_ns": "nanoseconds", "flops": "count", "moved_bytes": "bytes"}


@dataclass(frozen=True, slots=True)
class StackEntry:
    """One entry of a stack."""

    name: str
    file: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class StackSample:
    """Numbers at a stack, innermost first."""

    stack: tuple[StackEntry, ...]
    values: tuple[int, ...]


def write_pprof(shown: Answer, path: str | os.PathLike[str]) -> None:
    """Write the nodes that a view shows.

    Raises:
        UsageError: Nothing selected is a number, or the file cannot be written.
    """
    kinds, samples = _samples(shown)
    comment = f"stepscope {shown.view} view, {shown.label}"
    if shown.source == "tfprof":
        comment = f"tfprof {shown.view} view"
    content = gzip.compress(encode(kinds, samples, comments=[comment]), mtime=0)
    with writing("the profile", path):
        Path(path).write_bytes(content)


def _samples(shown: Answer) -> tuple[list[tuple[str, str]], list[StackSample]]:
    """Return the type of each value, and one sample for each line of a view."""
    total, nodes = shown.tree.total, [line.node for line in shown.lines]
    if tfprof := shown.source == "tfprof":
        selected = [name for name in shown.options.select if name in _UNITS]
        if not selected:
            raise UsageError(
                f"pprof needs a number, not {', '.join(shown.options.select) or 'nothing'}",
                hint=f"-select {','.join(list(_UNITS)[:3])}",
            )
        kinds = [("count", "count"), *((name, _UNITS[name]) for name in selected)]
        # The op view's totals are running sums, not sums of what is below.
        of = shown.tree.own if shown.view == "op" else total
        rest = [of[name][nodes].tolist() for name in selected]
    else:
        measures = [name for name in _MEASURES if name in total and total[name].any()]
        kinds = [("calls", "count"), *((name.removesuffix("_ns"), _MEASURES[name]) for name in measures)]
        rest = [(total[name][nodes] / shown.windows).tolist() for name in ("calls", *measures)]
    stacks: list[tuple[StackEntry, ...]] = []
    above: list[int] = []
    for index, line in enumerate(shown.lines):
        del above[line.depth :]
        if above:
            for values in rest:
                values[above[-1]] -= values[index]  # still whole: parents come before their children
        rooted = tfprof and shown.view != "op" and line.depth == 0
        stacks.append(() if rooted else (_place(line.name), *(stacks[above[-1]] if above else ())))
        above.append(index)
    if tfprof:
        return kinds, [
            StackSample(stack, (1, *values)) for stack, *values in zip(stacks, *rest, strict=True) if stack
        ]
    return kinds, [
        StackSample(stack, tuple(max(round(value), 0) for value in values))
        for stack, *values in zip(stacks, *rest, strict=True)
    ]


def _place(name: str) -> StackEntry:
    """Split ``file.py:12:function``; other names are functions. Secrets are removed from both."""
    name = scrub_text(name)
    match = re.fullmatch(r"(.+\.py):(\d+):(.+)", name) or re.fullmatch(r"(.+\.py)\((\d+)\): (.+)", name)
    if not match:
        return StackEntry(name)
    return StackEntry(f"{Path(match[1]).stem}:{match[3]}", match[1], int(match[2]))


# --- the message --------------------------------------------------------------------------------------

_MESSAGES = """
Profile: sample_type 1 ValueType*, sample 2 Sample*, location 4 Location*, function 5 Function*, \
string_table 6 bytes*, comment 13 int64*, default_sample_type 14 int64
ValueType: type 1 int64, unit 2 int64
Sample: location_id 1 uint64*, value 2 int64*
Location: id 1 uint64, line 4 Line*
Line: function_id 1 uint64, line 2 int64
Function: id 1 uint64, name 2 int64, system_name 3 int64, filename 4 int64
"""


@dataclass
class _Tables:
    """Strings, functions and locations by number; strings start at 0, which is empty, the others at 1."""

    strings: dict[str, int] = field(default_factory=lambda: {"": 0})
    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    locations: dict[StackEntry, int] = field(default_factory=dict)

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def location(self, place: StackEntry) -> int:
        self.functions.setdefault((place.name, place.file), len(self.functions) + 1)
        return self.locations.setdefault(place, len(self.locations) + 1)


def encode(
    kinds: Sequence[tuple[str, str]], samples: Iterable[StackSample], *, comments: Sequence[str] = ()
) -> bytes:
    """Encode samples as an uncompressed ``perftools.profiles.Profile``.

    Args:
        kinds: Type and unit of each value.
        samples: Each with as many values as there are kinds.
        comments: Sentences kept in the profile.
    """
    from stepscope.protos import classes

    tables, profile = _Tables(), classes("stepscope.pprof", _MESSAGES)("Profile")()
    for kind, unit in kinds:
        profile.sample_type.add(type=tables.string(kind), unit=tables.string(unit))
    for sample in samples:
        profile.sample.add(location_id=map(tables.location, sample.stack), value=sample.values)
    for place, number in tables.locations.items():
        location = profile.location.add(id=number)
        location.line.add(function_id=tables.functions[place.name, place.file], line=place.line)
    for (name, file), number in tables.functions.items():
        text = tables.string(name)
        profile.function.add(id=number, name=text, system_name=text, filename=tables.string(file))
    profile.comment.extend(map(tables.string, comments))
    profile.default_sample_type = tables.string(kinds[-1][0] if kinds else "")
    profile.string_table.extend(text.encode("utf-8", "replace") for text in tables.strings)
    return bytes(profile.SerializeToString())
