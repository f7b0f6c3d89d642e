"""``stepscope glance``: a profile on one screen: step breakdown, top operations, advice."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from stepscope.attribute.purpose import WORDS, Purpose
from stepscope.cli.arguments import add_cache
from stepscope.cli.output import Output, put
from stepscope.files import write_whole, writing


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="a profile, a directory of ranks and steps, or a run: its newest profile"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--output", metavar="FILE", help="write the JSON into a file and print nothing")
    add_cache(parser, "keep the trace's columns in a cache file")


def run(arguments: argparse.Namespace) -> int:
    from stepscope.analyze.glance import glance
    from stepscope.cli.advise import facts_of
    from stepscope.cli.source import open_source
    from stepscope.store.captures import newest_of_run

    path = arguments.path
    newest, which = newest_of_run(Path(path))
    if newest is not None:
        path = str(Path(path, newest.facts["path"]))
    facts = glance(facts_of(open_source(path, cache=arguments.cache)))
    if which:
        facts["profile"] = path
        facts["notes"] = [which, *facts.get("notes", ())]
    if arguments.output:
        write(facts, Path(arguments.output))
    else:
        put(Output(text_of(facts), facts, tuple(facts.get("notes", ()))), as_json=arguments.json)
    return 0


def write(answer: dict[str, Any], path: Path) -> None:
    """Write the summary so that a reader sees all of it or nothing.

    Raises:
        UsageError: It cannot be written.
    """
    import json

    with writing("the summary", path, "choose another --output"):
        write_whole(path, json.dumps(answer, ensure_ascii=False, default=list).encode())


def text_of(answer: dict[str, Any]) -> str:
    """Return the summary for people."""
    lines = [*_first(answer), *_steps(answer), *_waited_for(answer), *_operations(answer), *_advice(answer)]
    return "\n".join(lines) + "\n"


def _first(facts: dict[str, Any]) -> list[str]:
    """Return the most important point: the first finding and how to mend it, else the verdict."""
    first = next((one for one in facts.get("advice", ()) if one["severity"] != "info"), None)
    if first is not None:
        return [first["summary"], *(f"  because {why}" for why in first.get("chain", ())), ""]
    return [facts["verdict"], ""] if facts.get("verdict") else []


_TOUCHING = 0.005
"""Share of a step below which the time between steps, or a purpose, is not worth a line."""


def _steps(facts: dict[str, Any]) -> list[str]:
    steps = facts.get("steps")
    if not steps or steps["mean_ns"] is None:
        return ["no time was recorded", ""]
    ranks = f" on {steps['ranks']} ranks" if steps["ranks"] > 1 else ""
    lines = [
        f"no steps were marked: {_ms(steps['mean_ns'])} from the first to the last work"
        + (f", the mean{ranks}" if ranks else "")
    ]
    if steps["count"]:
        lines = [
            f"{steps['count']} step{'s' * (steps['count'] != 1)}{ranks}: mean {_ms(steps['mean_ns'])}, "
            f"min {_ms(steps['min_ns'])}, median {_ms(steps['median_ns'])}, max {_ms(steps['max_ns'])}"
        ]
    for part in facts["parts"]:
        share = "-" if part["ratio"] is None else f"{100 * part['ratio']:.1f} %"
        lines.append(f"  {part['part'].replace('_', ' '):<14}{_ms(part['mean_ns']):>12}{share:>9}")
    beside = [
        f"{WORDS[purpose]} {_ms(part['mean_ns'])} ({100 * part['ratio']:.1f} %)"
        for part in facts["purposes"]
        if (purpose := Purpose[part["purpose"].upper()]) in WORDS and part["ratio"] >= _TOUCHING
    ]
    if beside:
        lines.append(f"  of this, {', '.join(beside)}")
    missing = facts["parts_missing"]
    shown = {part["part"] for part in facts["parts"]}
    if unknown := [part.replace("_", " ") for part in missing if part not in shown]:
        why = f": {missing['other']}" if "other" in missing else ""
        lines.append(f"  not known: {', '.join(unknown)}{why}")
    between = facts["between_steps"]["mean_ns"]
    if between and between >= _TOUCHING * steps["mean_ns"]:
        lines.append(f"  {'between steps':<14}{_ms(between):>12}   in no step, the mean")
    return [*lines, ""]


_WHOLE_PATH = 0.95
"""Share of a step from which on its critical path counts as covering all of it."""


def _operations(facts: dict[str, Any]) -> list[str]:
    table = facts.get("operations")
    if not table:
        return []
    lines = [f"top operations, {table['denominator']}"]
    for row in table["rows"][1:]:
        where = next((one for one in ("step", "device", "host") if row.get(f"{one}_ns") is not None), "host")
        time, ratio = row.get(f"{where}_ns"), row.get(f"{where}_ratio")
        lines.append(f"  {_ms(time):>12}  {100 * (ratio or 0):5.1f} %  {_short(row['name'])}")
    return [*lines, ""]


def _waited_for(facts: dict[str, Any]) -> list[str]:
    pieces = facts.get("waited_for")
    if not pieces:
        return []
    marked = (facts.get("steps") or {}).get("count")
    lines = [
        "what the steps waited for, by their critical path, mean per step"
        if marked
        else "what the work waited for, by its critical path from the first to the last"
    ]
    steps, first = facts.get("steps") or {}, pieces[0]
    length = first["ns"] / first["ratio"] if first["ratio"] else None
    if length is not None and steps.get("mean_ns") and length < _WHOLE_PATH * steps["mean_ns"]:
        lines[0] += f"; shares are of that path, {_ms(length)} of {_ms(steps['mean_ns'])}"
    for piece in pieces:
        name, bound = _short(piece["name"]), piece["bound"].replace("_", " ")
        lines.append(f"  {_ms(piece['ns']):>12}  {100 * (piece['ratio'] or 0):5.1f} %  {name} ({bound})")
    return [*lines, ""]


def _advice(facts: dict[str, Any]) -> list[str]:
    # Where there is nothing to do, the verdict was said first.
    is_told = any(one["severity"] != "info" for one in facts.get("advice", ()))
    lines = [facts["verdict"]] if is_told and facts.get("verdict") else []
    for finding in facts.get("advice", ()):
        lines += [f"{finding['severity']}: {finding['summary']}", f"  do: {finding['action']}"]
        lines += [f"  see: {finding['command']}"] if finding.get("command") else []
    missing = facts.get("abstained") or ()
    lines += [f"could not be judged: {', '.join(one['rule'] for one in missing)}"] if missing else []
    return lines


MOST_CHARACTERS = 100
"""Characters of a name in a line of text; names of library kernels can have a thousand."""


def _short(name: str) -> str:
    """Return a name that fits a line, its beginning and its end; ``--json`` has it whole."""
    half = MOST_CHARACTERS // 2
    return name if len(name) <= MOST_CHARACTERS else f"{name[: half - 1]}…{name[-half:]}"


def _ms(nanoseconds: float | None) -> str:
    if nanoseconds is not None and 0 < nanoseconds < 500:  # what was recorded is not nothing
        return "< 0.001 ms"
    return "-" if nanoseconds is None else f"{nanoseconds / 1e6:.3f} ms"
