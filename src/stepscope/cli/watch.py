"""``stepscope watch``: judges runs while they train, or once, and ends with a code that CI understands."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

from stepscope.cli import health
from stepscope.cli.arguments import add_verbose
from stepscope.cli.ls import check_readable
from stepscope.cli.output import json_text, say
from stepscope.errors import NoEventFilesError, UsageError

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.analyze.health.forecast import Forecast
    from stepscope.health import Finding
    from stepscope.store import Log, StoredRun

FOUND, BROKE, LATE, UNJUDGED = 3, 4, 5, 6
"""Exit codes beside 0: a finding at least as severe as asked; a run failed or is gone; time is up; a
condition of ``--alert`` could be judged of no run."""
SEVERITIES = ("high", "medium", "low", "info")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a run, or a directory of runs")
    parser.add_argument(
        "--fail-on",
        choices=SEVERITIES,
        default="high",
        help="exit with code 3 at a finding of at least this severity (default: high)",
    )
    parser.add_argument(
        "--alert",
        action="append",
        default=[],
        metavar="CONDITION",
        help="also judge by a condition of severity high, such as 'ema(train/loss, 50) > 3'; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    add_verbose(parser, "also print the evidence and thresholds of findings")
    parser.add_argument("--once", action="store_true", help="judge what is there now, then exit")
    parser.add_argument(
        "--interval", type=float, default=5.0, metavar="SECS", help="seconds between two checks (default: 5)"
    )
    parser.add_argument(
        "--for",
        type=float,
        dest="most_s",
        metavar="SECS",
        help="exit with code 5 if a run goes on for longer",
    )
    health.add_arguments(parser)


def run(
    arguments: argparse.Namespace,
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Follow the runs until they end, or until one is found that should not go on.

    Raises:
        NoEventFilesError: There is no run.
        UsageError: An option that cannot be right.
    """
    from stepscope import store

    if not 0 < arguments.interval < inf:
        raise UsageError(
            f"--interval {arguments.interval:g}: expected seconds, more than 0", hint="--interval 5"
        )
    if arguments.most_s is not None and not arguments.most_s >= 0:
        raise UsageError(f"--for {arguments.most_s:g}: expected seconds, 0 or more", hint="--for 3600")
    begun, watcher = clock(), RunsWatcher(arguments)
    with store.open(arguments.path, cache=False) as log:
        if not log.runs():
            check_readable(log, arguments.path)
            raise NoEventFilesError(
                "no event files to watch",
                hint="pass the directory that a run writes to",
                path=arguments.path,
            )
        while True:
            code = watcher.look(log)
            if code is not None:
                return code
            if arguments.most_s is not None and clock() - begun >= arguments.most_s:
                watcher.tell({"event": "end", "reason": "time is up"}, "time is up")
                return LATE
            sleep(arguments.interval)
            log.refresh()


class RunsWatcher:
    """Judges runs again and again, and reports news.

    Args:
        arguments: Of the command.

    Raises:
        UsageError: A rule, threshold, role or condition that cannot be right.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        from stepscope.health import Alert

        self._arguments = arguments
        self._rules = health.choice_of(arguments.set)
        self._roles = health.pairs(arguments.role, "--role TAG=WORDS")
        self._alerts = [Alert(text, severity="high") for text in arguments.alert]
        self._worst = SEVERITIES.index(arguments.fail_on)
        self._told: set[tuple[object, ...]] = set()
        self._judged: dict[str, int] = {}
        self._unjudged: dict[str, dict[str, str]] = {}
        self._verdicts: dict[str, str] = {}
        self._foretold: dict[tuple[str, str], Forecast] = {}

    def look(self, log: Log) -> int | None:
        """Judge the runs that have changed; return the exit code, None to go on."""
        failed = False
        for judged in self._runs(log):
            if self._judged.get(judged.name) != judged.family_generation:
                self._judged[judged.name] = judged.family_generation
                report = self._report(log, judged)
                self._verdicts[judged.name] = report.outcome
                own = {alert.title for alert in self._alerts}
                self._unjudged[judged.name] = {
                    one.rule: one.missing for one in report.verdict.abstained if one.rule in own
                }
                severe = [self._tell(judged, finding) for finding in report.verdict.findings]
                self._foretell(judged, report)
                failed = failed or any(severe)
        if failed:
            return FOUND
        states = {run.name: run.state for run in self._runs(log)}
        going = [name for name, state in states.items() if state == "running"]
        if going and not self._arguments.once:
            return None
        broken = [name for name, state in states.items() if state in ("failed", "stopped", "stalled")]
        counted = ", ".join(
            f"{list(states.values()).count(one)} {one}" for one in sorted(set(states.values()))
        )
        unjudged = self._tell_unjudged()
        self.tell(
            {"event": "end", "states": states, "verdicts": self._verdicts},
            "\n".join(
                [
                    f"{counted}; nothing found at or above {self._arguments.fail_on}",
                    *(f"{name}: {verdict}" for name, verdict in self._verdicts.items()),
                ]
            ),
        )
        if broken:
            return BROKE
        return UNJUDGED if unjudged else 0

    def _tell_unjudged(self) -> bool:
        """Report the conditions that could be judged in no run; return whether there are any."""
        first, *others = self._unjudged.values() or ({},)
        common = {rule: first[rule] for rule in first if all(rule in rules for rules in others)}
        for rule, missing in common.items():
            facts = {"event": "not judged", "rule": rule, "missing": missing}
            self.tell(facts, f"not judged: {rule}: {missing}")
        return bool(common)

    def _runs(self, log: Log) -> list[StoredRun]:
        return health.wanted_runs(log, self._arguments)

    def _report(self, log: Log, run: StoredRun) -> HealthReport:
        from stepscope.serve.health import report_of

        return report_of(
            log,
            run,
            attempt=self._arguments.attempt,
            rules=self._rules,
            roles=self._roles,
            alerts=self._alerts,
        )

    def _foretell(self, run: StoredRun, report: HealthReport) -> None:
        """Report the forecast of a final loss: at first, and again once it has left the reported band."""
        for tag, forecast in report.forecast.items():
            before = self._foretold.get((run.name, tag))
            if before is None or abs(forecast.value - before.value) > before.half:
                self._foretold[run.name, tag] = forecast
                text = forecast.text(tag)
                facts = {
                    "event": "forecast",
                    "log_run": run.name,
                    "tag": tag,
                    "text": text,
                    **asdict(forecast),
                }
                self.tell(facts, f"forecast: {run.name}: {text}")

    def _tell(self, run: StoredRun, finding: Finding) -> bool:
        """Report a finding if it is new; return whether it is severe enough."""
        name = (run.name, finding.rule, finding.tag, finding.layer, finding.rank, finding.step)
        if name not in self._told:
            self._told.add(name)
            text = "\n".join(self._lines(run, finding))
            self.tell({"event": "finding", "log_run": run.name, **finding.as_dict()}, text)
        return SEVERITIES.index(finding.severity) <= self._worst

    def _lines(self, run: StoredRun, finding: Finding) -> list[str]:
        from stepscope.analyze.health.report import brief_lines, lines_of

        if self._arguments.verbose:
            lines = lines_of(finding.rule, [finding], 0)
        else:
            lines = brief_lines([finding], 0, health.evidence_of(self._arguments.path, run.name))
        return [f"{finding.severity}: {run.name}: {finding.rule}: {finding.summary}", *lines[1:]]

    def tell(self, facts: dict[str, Any], text: str) -> None:
        """Print one event."""
        if self._arguments.json:
            print(json_text(facts, allow_nan=False), flush=True)
        else:
            say(text)
            sys.stdout.flush()
