"""``stepscope advise``: what is slow in a profile or unhealthy in a run, with evidence and a remedy."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.cli import health
from stepscope.cli.arguments import add_budget, add_cache, add_verbose
from stepscope.cli.budget import within
from stepscope.cli.output import Output, put
from stepscope.cli.source import ProfileSource, open_source
from stepscope.errors import TraceError, UsageError

if TYPE_CHECKING:
    from stepscope.analyze.advise import Facts


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", help="a profile or a directory of them; a run, or a directory of runs"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--html", metavar="FILE", help="also write a report: one file with charts, views and advice"
    )
    add_verbose(parser)
    add_budget(parser)
    add_cache(parser, "keep what was read in a cache (default: yes)")
    parser.add_argument(
        "--profile", action="store_true", help="judge the profile even if there are event files beside it"
    )
    parser.add_argument(
        "--lines", action="store_true", help="also print which lines of code the training thread ran"
    )
    health.add_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    log = None if arguments.profile else health.log_at(arguments.path, cache=arguments.cache)
    if log is not None:
        if arguments.html:
            raise UsageError("--html writes the report of a profile", hint="stepscope serve shows runs")
        put(within(health.advise_log(log, arguments), arguments.budget), as_json=arguments.json)
        return 0
    source = open_source(arguments.path, cache=arguments.cache)
    output = advise_source(source, lines=arguments.lines, verbose=arguments.verbose)
    put(within(output, arguments.budget), as_json=arguments.json)
    if arguments.html:
        write_report(source, arguments.html)
    return 0


def advise_source(source: ProfileSource, *, lines: bool = False, verbose: bool = True) -> Output:
    """Apply every rule to a profile.

    Args:
        source: The profile.
        lines: Whether to list the lines that the training thread ran, too.
        verbose: Whether to print evidence and thresholds.

    Raises:
        TraceError: The profile cannot be read.
    """
    from stepscope.analyze.advise import advise
    from stepscope.analyze.views import losses

    facts = facts_of(source)
    advice = advise(facts)
    notes = tuple(f"note: {note}" for note in losses(facts.trace)) if facts.trace is not None else ()
    text, answer = advice.text if verbose else advice.brief, advice.as_dict()
    if lines:
        from stepscope.analyze.advise.lines import lines_of, lines_text

        answer["lines"] = lines_of(facts)
        text += "\n" + lines_text(answer["lines"])
    return Output(text, answer, notes)


def facts_of(source: ProfileSource) -> Facts:
    """Return the facts for the rules; a tfprof source may have no timeline, which they then report."""
    from stepscope.analyze.advise import Facts

    profile, path = source.profile, str(source.path)
    if profile is None:
        return Facts(source.trace, path=path)
    try:
        return Facts(source.trace, profile, path)
    except TraceError:
        return Facts(None, profile, path)


def write_report(source: ProfileSource, path: str) -> Output:
    """Write a profile as one self-contained HTML file.

    Raises:
        UsageError: It cannot be written.
    """
    from stepscope.cli import report
    from stepscope.serve.report import write_profile

    files = [source.path, *source.run_metadata, *([source.op_log] if source.op_log else [])]
    report.write(Path(path), write_profile(files))
    return Output("", {"written": path}, (f"written to {path}",))
