"""``stepscope diff``: what changed between two profiles, and whether that is more than the steps' spread."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepscope.cli.arguments import add_cache
from stepscope.cli.output import Output, put
from stepscope.cli.source import ProfileSource, open_source

if TYPE_CHECKING:
    from stepscope.analyze.diff import Change, Diff

_MAX_ROWS = 15


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="the profile before")
    parser.add_argument("b", metavar="B", help="the profile after")
    for side in "ab":
        parser.add_argument(
            f"--steps-{side}",
            metavar="STEPS",
            default="",
            help=f"steps of {side.upper()} to compare, such as 3-5,9 (default: all)",
        )
    parser.add_argument("--json", action="store_true", help="print everything that was compared, as JSON")
    add_cache(parser, "keep the traces' columns in cache files")


def run(arguments: argparse.Namespace) -> int:
    a, b = (open_source(path, cache=arguments.cache) for path in (arguments.a, arguments.b))
    put(diff_sources(a, b, arguments.steps_a, arguments.steps_b), as_json=arguments.json)
    return 0


def diff_sources(a: ProfileSource, b: ProfileSource, steps_a: str = "", steps_b: str = "") -> Output:
    """Compare two profiles, or some steps of them.

    Raises:
        TraceError: One cannot be read.
        UsageError: No such steps.
    """
    from dataclasses import asdict

    from stepscope.analyze.chosen import keep_steps
    from stepscope.analyze.diff import diff

    difference = diff(keep_steps(a.trace, steps_a), keep_steps(b.trace, steps_b))
    head = f"A {a.path}\nB {b.path}\n"
    return Output(head + "\n".join(_lines(difference)) + "\n", asdict(difference))


def _lines(difference: Diff) -> Iterator[str]:
    yield from (f"note: {note}" for note in difference.notes)
    yield "means per step, which add up"
    yield from _table("step", [difference.step])
    yield from _told(difference.step)
    for name in ("parts", "scopes", "launched", "operators", "kernels"):
        yield from _table(name, getattr(difference, name))


def _told(step: Change) -> Iterator[str]:
    """Yield how clearly the steps distinguish A and B."""
    from stepscope import text

    if step.p_value is None or step.effect is None:
        return
    longer = text.share((1 + step.effect) / 2)
    verdict = (
        f"of all pairs of one step of A and one of B, B's is longer in {longer} (p = {step.p_value:.2g})"
    )
    if step.low_ns is not None and step.high_ns is not None:
        low, high = (("+" if ns > 0 else "") + text.time(ns) for ns in (step.low_ns, step.high_ns))
        verdict += f"; B - A lies between {low} and {high} with 95 % confidence"
    yield f"{'':<12}{verdict}"


def _table(heading: str, changes: Sequence[Change]) -> Iterator[str]:
    from stepscope import text

    shown = [one for one in changes if one.difference_ns][:_MAX_ROWS] or list(changes[:1])
    if not shown:
        return
    yield f"\n{heading:<12}{'A':>10}{'B':>12}{'B - A':>12}{'B / A':>8}  {'verdict':<8}  name"
    for one in shown:
        a, b = (text.time(side.mean_ns) if side else "-" for side in (one.a, one.b))
        ratio = f"{one.ratio:.2f}" if one.ratio is not None else "-"
        sign = "+" if one.difference_ns > 0 else ""
        difference = sign + text.time(one.difference_ns)
        yield f"{'':<12}{a:>10}{b:>12}{difference:>12}{ratio:>8}  {one.verdict:<8}  {one.name}"
    hidden = len(changes) - len(shown)
    if hidden > 0:
        yield f"{'':<12}and {hidden:,} more with smaller differences or none"
