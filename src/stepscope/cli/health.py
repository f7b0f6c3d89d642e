"""The health of the runs of a log directory, for ``stepscope advise``."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import TYPE_CHECKING, Any

from stepscope.cli.output import Output
from stepscope.errors import UsageError

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.store import Log, StoredRun


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments that concern runs."""
    parser.add_argument("--run", metavar="NAME", help="judge only this run of a log directory (default: all)")
    parser.add_argument("--attempt", type=int, metavar="N", help="judge this attempt (default: the newest)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="RULE=off|RULE.LIMIT=X",
        help="switch a health rule off, or set one of its thresholds; may be repeated",
    )
    parser.add_argument(
        "--role",
        action="append",
        default=[],
        metavar="TAG=WORDS",
        help="correct the meaning of a series, such as objective=loss or 'held/*=metric,eval'; repeatable",
    )


def log_at(path: str, *, cache: bool) -> Log | None:
    """Return the log directory at a path, opened; None if it holds no scalars."""
    from stepscope.mirror import fetched

    place = fetched(path)
    if not place.is_dir() or not any_event_file(str(place)):
        return None
    from stepscope import store

    log = store.open(place, cache=cache)
    if any(run.tags() for run in log.runs()):
        return log
    log.close()
    return None


def any_event_file(path: str) -> bool:
    """Return whether a directory holds a file with the name of an event file, compacted or not."""
    from stepscope.events.writer import is_compacted

    return any("tfevents" in name or is_compacted(name) for _, _, names in os.walk(path) for name in names)


def advise_log(log: Log, arguments: argparse.Namespace) -> Output:
    """Apply the health rules to the runs of a log directory, and close it.

    Raises:
        UsageError: A rule, threshold, role or option that cannot be right.
        UnknownRunError: No such run.
    """
    from stepscope.cli.causes import causes_of
    from stepscope.serve.captures import directory_of
    from stepscope.serve.health import report_of

    rules, roles = choice_of(arguments.set), pairs(arguments.role, "--role TAG=WORDS")
    with log:
        wanted = wanted_runs(log, arguments)
        reports = [report_of(log, run, attempt=arguments.attempt, rules=rules, roles=roles) for run in wanted]
        causes = [None if arguments.attempt else causes_of(directory_of(log, run.name)) for run in wanted]
    texts = [
        report.text(see="" if arguments.verbose else evidence_of(arguments.path, report.run))
        + ("" if cause is None else "\n".join([*cause.lines, ""]))
        for report, cause in zip(reports, causes, strict=True)
    ]
    facts = facts_of(reports)
    for run, cause in zip(facts["runs"], causes, strict=True):
        run["profile"] = cause and {"path": cause.path, "findings": cause.advice, "lacking": cause.lacking}
    return Output("\n".join(texts), facts)


def evidence_of(path: str, run: str) -> str:
    """Return the command that shows the evidence for the findings of a run."""
    return f"stepscope advise {shlex.quote(str(path))} --run {shlex.quote(run)} -v"


def wanted_runs(log: Log, arguments: argparse.Namespace) -> list[StoredRun]:
    """Return the runs to judge: the named one or all, if they have the requested attempt.

    Raises:
        UnknownRunError: No such run.
        UsageError: None of them has such an attempt.
    """
    named, number = arguments.run, arguments.attempt
    runs = [run for run in log.runs() if run.whole is run] if named is None else [log.run(named)]
    if number is None:
        return runs
    newest = {run.name: max((writer.attempt for writer in run.writers), default=1) for run in runs}
    matching = [run for run in runs if 1 <= number <= newest[run.name]]
    if runs and not matching:
        most = max(newest.values())
        raise UsageError(
            f"no attempt {number}: expected 1 to {most}"
            if most > 1
            else f"no attempt {number}: there is only 1",
            hint="leave out --attempt for the newest",
        )
    return matching


def facts_of(reports: Iterable[HealthReport]) -> dict[str, Any]:
    """Return reports as JSON types: all findings, all abstentions, and facts of whole runs."""
    data: dict[str, Any] = {"findings": [], "abstained": [], "runs": []}
    for report in reports:
        facts = report.as_dict()
        about = {"run": facts["run"], "attempt": facts["attempt"]}
        data["findings"] += [{**finding, **about, "part": finding["run"]} for finding in facts["findings"]]
        data["abstained"] += [{**rule_facts, **about} for rule_facts in facts["abstained"]]
        data["runs"].append(
            {
                **about,
                **{
                    name: facts[name]
                    for name in ("verdict", "coverage", "passed", "more", "forecast", "batch_size")
                },
            }
        )
    return data


def choice_of(words: Iterable[str]) -> dict[str, bool | Mapping[str, float]]:
    """Return the choice of rules that ``--set`` makes.

    Raises:
        UsageError: A word that says nothing.
    """
    rules: dict[str, bool | Mapping[str, float]] = {}
    for name, value in pairs(words, "--set RULE=off or --set RULE.LIMIT=X").items():
        rule, _, limit = name.partition(".")
        if not limit and value in ("off", "on"):
            rules[rule] = value == "on"
            continue
        try:
            number = float(value)
        except ValueError:
            number = None
        if not limit or number is None or not isfinite(number):
            raise UsageError(
                f"--set {name}={value} sets nothing", hint="--set plateau=off, --set loss-spike.ratio=2"
            )
        before = rules.get(rule)
        rules[rule] = {**(before if isinstance(before, dict) else {}), limit: number}
    return rules


def pairs(words: Iterable[str], form: str) -> dict[str, str]:
    """Return words of the form ``NAME=VALUE``.

    Raises:
        UsageError: One is not of it.
    """
    given = {}
    for word in words:
        name, equals, value = word.rpartition("=")
        if not equals or not name or not value:
            raise UsageError(f"{word!r} is not of the form {form}", hint=form)
        given[name] = value
    return given
