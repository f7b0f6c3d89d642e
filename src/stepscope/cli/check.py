"""``stepscope check``: is a candidate worse than a baseline? Its exit code says so, for CI."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from stepscope.cli.arguments import add_cache
from stepscope.cli.output import Output, complain, put
from stepscope.errors import UsageError
from stepscope.files import write_whole, writing
from stepscope.text import plain_line

if TYPE_CHECKING:
    from stepscope.serve.check import Check, Side

FAILED, UNKNOWN = 3, 6
"""Exit codes beside 0, as of ``stepscope watch``: a check failed; a check cannot tell."""
RESULTS = {0: "passed", FAILED: "failed", UNKNOWN: "cannot tell"}
ORDER = ("failed", "cannot tell", "passed")
"""Of the checks that are shown."""
KINDS = ("end", "findings", "expect", "steps", "throughput", "memory", "metric", "operations")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="+",
        metavar="BASELINE CANDIDATE",
        help="each: a run's directory, a directory of runs, a run's name or a run query within --logs; the "
        "baseline also: a file that --save-baseline wrote",
    )
    parser.add_argument(
        "--logs", default=".", metavar="DIR", help="log directory of names and queries (default: .)"
    )
    parser.add_argument(
        "--fail-on",
        choices=("high", "medium", "low", "info", "never"),
        default="high",
        help="fail at a finding of at least this severity that the baseline does not have (default: high)",
    )
    parser.add_argument(
        "--expect",
        action="append",
        default=[],
        metavar="CONDITION",
        help="fail if it does not hold at the end of a run of the candidate, such as 'last(eval/loss) < 0.3' "
        "or 'at(1000, eval/loss) < 0.35'; may be repeated",
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        default=[],
        help="make these checks alone; a side that did not record what they need cannot be judged then",
    )
    parser.add_argument(
        "--metric",
        default="",
        metavar="TAG",
        help="the metric (default: the loss or score of the evaluation)",
    )
    parser.add_argument(
        "--save-baseline",
        metavar="FILE.json",
        help="write what the checks need of the candidate into a small file, unless a check failed; with one "
        "directory nothing is checked",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--junit", metavar="FILE", help="also write JUnit's XML")
    parser.add_argument(
        "--markdown",
        metavar="FILE",
        help="also write Markdown, with a picture beside it for each value compared",
    )
    add_cache(parser)


def run(arguments: argparse.Namespace) -> int:
    """Judge the candidate; return the exit code.

    Raises:
        UsageError: Another number of sides than the options need.
        StepscopeError: A side cannot be read.
    """
    from stepscope.serve.check import checks_of, measured, side_of

    places = arguments.places
    if len(places) > 2 or (len(places) == 1 and not arguments.save_baseline):
        raise UsageError(
            f"check compares two sides, {len(places)} given",
            hint="stepscope check BASELINE CANDIDATE, or stepscope check RUNS --save-baseline FILE.json",
        )
    options = {"metric": arguments.metric, "cache": arguments.cache}
    if len(places) == 1:
        _save(side_of(places[0], arguments.logs, **options), arguments.save_baseline)
        return 0
    asked = arguments.expect if not arguments.only or "expect" in arguments.only else ()
    candidate, met = measured(places[1], arguments.logs, asked, **options)
    baseline = side_of(places[0], arguments.logs, **options)
    checks = checks_of(baseline, candidate, only=arguments.only, fail_on=arguments.fail_on) + met
    code = code_of(checks)
    data = {"result": RESULTS[code], "checks": [asdict(check) for check in checks]}
    put(Output(text_of(checks), data), as_json=arguments.json)
    if arguments.junit:
        with writing("JUnit's XML", arguments.junit):
            write_whole(arguments.junit, junit_of(checks))
    if arguments.markdown:
        write_markdown(checks, Path(arguments.markdown))
    if arguments.save_baseline and code != FAILED:
        _save(candidate, arguments.save_baseline)
    return code


def _save(candidate: Side, file: str) -> None:
    from stepscope.serve.check import save_baseline
    from stepscope.text import counted

    save_baseline(candidate, Path(file))
    complain(f"{counted(len(candidate.runs), 'run')} written to {file}")


def code_of(checks: Sequence[Check]) -> int:
    """Return the exit code: a failed check counts more than one that cannot tell."""
    states = {check.status for check in checks}
    if "failed" in states:
        return FAILED
    return UNKNOWN if "cannot tell" in states or not checks else 0


def headline(checks: Sequence[Check]) -> str:
    """Return the result in one line."""
    from stepscope.text import counted

    counts = Counter[str](check.status for check in checks)
    states = ", ".join(f"{counted(counts[state], 'check')} {state}" for state in ORDER if counts[state])
    return f"{RESULTS[code_of(checks)]}: {states or 'nothing was compared: the sides share no data'}"


def text_of(checks: Sequence[Check]) -> str:
    """Return the checks as lines, those that failed first."""
    lines = [headline(checks)]
    for check in ordered(checks):
        lines.append(f"{check.status:<11}  {check.kind:<10}  {check.text}")
        if check.missing:
            lines.append(f"{'':<25}needs {check.missing}")
    return "\n".join(lines) + "\n"


def ordered(checks: Sequence[Check]) -> list[Check]:
    """Return the checks, those that failed first."""
    return sorted(checks, key=lambda check: ORDER.index(check.status))


def junit_of(checks: Sequence[Check]) -> bytes:
    """Return the checks as JUnit's XML; one that cannot tell is skipped."""
    counts = Counter(check.status for check in checks)
    facts = {
        "name": "stepscope check",
        "tests": str(len(checks)),
        "failures": str(counts["failed"]),
        "skipped": str(counts["cannot tell"]),
    }
    root = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(root, "testsuite", facts)
    for check in checks:
        name = plain_line(f"{check.kind} {check.subject}".strip())
        case = ElementTree.SubElement(suite, "testcase", {"classname": "stepscope.check", "name": name})
        text = plain_line(check.text)
        if check.status == "failed":
            ElementTree.SubElement(case, "failure", {"message": text})
        elif check.status == "cannot tell":
            ElementTree.SubElement(case, "skipped", {"message": f"{text}; needs {plain_line(check.missing)}"})
        else:
            ElementTree.SubElement(case, "system-out").text = text
    data: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return data


def write_markdown(checks: Sequence[Check], path: Path) -> None:
    """Write the checks as Markdown, and a picture beside it for each value that was compared.

    Raises:
        LogDirectoryError: They cannot be written.
    """
    from stepscope.serve.check import picture_of

    def cell(text: str) -> str:
        plain = plain_line(text).replace("\\", "\\\\")
        for mark in "|<>[]`*_":
            plain = plain.replace(mark, f"\\{mark}")
        return plain

    lines = [f"### stepscope check: {headline(checks)}", "", "| result | check | |", "|---|---|---|"]
    pictures: list[tuple[str, str, bytes]] = []
    for check in ordered(checks):
        needs = f"; needs {check.missing}" if check.missing else ""
        lines.append(f"| {check.status} | {check.kind} | {cell(check.text + needs)} |")
        if check.before and check.after:
            name = f"{path.stem}-{len(pictures) + 1}.png"
            pictures.append((name, f"{check.kind} {check.subject}", picture_of(check)))
    lines += ["", *(f"![{cell(about)}]({name})" for name, about, _ in pictures)]
    with writing("Markdown", path):
        write_whole(path, ("\n".join(lines) + "\n").encode())
        for name, _, image in pictures:
            write_whole(path.with_name(name), image)
