"""The answer of any command within a budget of tokens: what comes first counts most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from stepscope.cli.output import Output, json_text
from stepscope.errors import UsageError
from stepscope.serve.questions.answer import CHARACTERS, LEAST_BUDGET, largest, rounded

MOST_INNER = 1 << 20
"""Values of a list within a value if nothing is cut there."""


def within(output: Output, budget: int) -> Output:
    """Return an answer of at most so many tokens, as text and as JSON; 0 is no limit.

    Raises:
        UsageError: There is no room for a sentence.
    """
    if not budget:
        return output
    if budget < LEAST_BUDGET:
        raise UsageError(
            f"a budget of {budget} tokens: expected {LEAST_BUDGET} or more", hint="--budget 4000"
        )
    room = budget * CHARACTERS
    # JSON is printed with the end of a line.
    return Output(shorter_text(output.text, room), shorter_data(output.data, room - 1), output.notes)


def shorter_text(text: str, room: int) -> str:
    """Return the first lines of a text that have room, and a line that says how many were left out."""
    if len(text) <= room:
        return text
    lines = text.rstrip("\n").split("\n")
    most = room - len(left_out(len(lines), len(lines), room))
    shown = largest(len(lines), lambda count: sum(map(len, lines[:count])) + count <= most)
    if shown < 1:
        lines, shown = [f"{lines[0][: most - 2]}…", *lines[1:]], 1
    return "\n".join(lines[:shown]) + "\n" + left_out(len(lines) - shown, len(lines), room)


def left_out(count: int, total: int, room: int) -> str:
    """Return the line that says how much is missing, and how to get it."""
    return f"left out: {count:,} of {total:,} lines; --budget {room} shows more, --budget 0 all\n"


def shorter_data(data: Any, room: int) -> Any:
    """Return JSON types whose lists are cut from the last one on, until the rest has room.

    If the first list has no room for a value, the lists within its values are cut, too. ``left_out`` of the
    answer counts the values that are missing, by the place of their list.
    """
    data = _with_digits(data)
    if not isinstance(data, dict):
        data = {"rows": data}
    if len(json_text(data)) <= room:
        return data

    def made(counts: Mapping[str, int], inner: int) -> dict[str, Any]:
        missing: Counter[str] = Counter()
        cut = {
            key: _cut(items[: counts[key]], inner, key, missing)
            if key in counts
            else _cut(items, inner, key, missing)
            for key, items in data.items()
        }
        for key, count in counts.items():
            missing[key] += len(data[key]) - count
        return {**cut, "left_out": {key: count for key, count in missing.most_common(20) if count}}

    counts = {key: len(items) for key, items in data.items() if isinstance(items, list)}
    for inner in (MOST_INNER, 8, 3, 1, 0):
        chosen = dict(counts)
        for key in reversed(counts):

            def fits(count: int, key: str = key, inner: int = inner, chosen: dict[str, int] = chosen) -> bool:
                return len(json_text(made({**chosen, key: count}, inner))) <= room

            count = largest(counts[key], fits)
            chosen[key] = max(count, 0)
            if count > 0 or (count == 0 and key != next(iter(counts))):
                return made(chosen, inner)
    return {"left_out": f"{len(json_text(data)):,} characters: --budget 0 prints all"}


def _with_digits(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_digits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_digits(item) for item in value]
    return rounded(value) if isinstance(value, float) else value


def _cut(value: Any, most: int, place: str, missing: Counter[str]) -> Any:
    if isinstance(value, dict):
        return {key: _cut(item, most, f"{place}.{key}".lstrip("."), missing) for key, item in value.items()}
    if isinstance(value, list):
        if len(value) > most:
            missing[place or "rows"] += len(value) - most
        return [_cut(item, most, place, missing) for item in value[:most]]
    return value
