"""The health of a run: the rules applied to the series of the store, and the run's own findings.

A run is also compared with the earlier runs of its log directory, by the store's facts about them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stepscope.analyze.health.batch_size import BatchSize, batch_size
from stepscope.analyze.health.forecast import Forecast, forecast
from stepscope.analyze.health.judge import AttemptSeries, judge
from stepscope.analyze.health.past import MAX_RUNS, Past, compare, reached
from stepscope.analyze.health.report import HealthReport
from stepscope.analyze.health.resumed import discontinuities
from stepscope.errors import EmptyTraceError, EventFileError
from stepscope.health import Abstention, Finding, Verdict
from stepscope.health.changes import RecordedSeries
from stepscope.health.finding import as_shown
from stepscope.health.kind import kind_of
from stepscope.health.rules import AttemptDiscontinuous, SaturatedActivation
from stepscope.health.saturation import layer_of, saturated
from stepscope.names.roles import RANKS_LOSS
from stepscope.names.splits import judged_split
from stepscope.store.lines import placed, windows_of_run

if TYPE_CHECKING:
    from stepscope.health.alert import Alert
    from stepscope.health.monitor import Choice
    from stepscope.names.meanings import Meanings
    from stepscope.store import Log, Series, StoredRun
    from stepscope.store.findings import WrittenFinding
    from stepscope.store.records import RecordSeries


def report_of(
    log: Log,
    run: StoredRun,
    *,
    attempt: int | None = None,
    rules: Choice | None = None,
    roles: Mapping[str, str] | None = None,
    alerts: Iterable[str | Alert] = (),
) -> HealthReport:
    """Return the rules' report about a run, with its evaluation and all its ranks.

    Args:
        log: That the run is in.
        run: The run; a part that does not stand for it is judged alone.
        attempt: Which to judge; by default the newest.
        rules: As for ``HealthHook``.
        roles: As for ``HealthHook``; the stored corrections of the log directory hold too.
        alerts: As for ``HealthHook``.

    Raises:
        UsageError: An unknown rule, threshold or role, or a malformed condition.
    """
    newest = max((writer.attempt for writer in run.writers), default=1)
    judged = attempt_of(run, attempt or newest)
    tags = {points.tag for points in judged.series}
    histograms = [
        histogram for histogram in saturation_of(run, judged.number) if histogram.points.tag not in tags
    ]
    judged = replace(judged, series=judged.series + [histogram.points for histogram in histograms])
    own, off = dict(rules or {}), []
    if own:
        from stepscope.analyze.health.slow_rank import TITLES

        off = [rule for rule in TITLES if own.pop(rule, None) is False]
    meanings = log.meanings.corrected(roles)
    verdict = judge(judged, rules=own, meanings=meanings, alerts=alerts, config=run.info.config)
    verdict = with_coarse(verdict, histograms, own.get(SaturatedActivation.id))
    written = [finding for finding in run.findings if finding.attempt == judged.number]
    name = run.base if run.whole is run else run.name
    name = log.path.name if name == "." else name
    report = joined(verdict, written)
    report = with_ranks(report, run, judged.number, off=off)
    if judged.number > 1 and (rules or {}).get(AttemptDiscontinuous.id) is not False:
        before = attempt_of(run, judged.number - 1)
        report = with_findings(report, discontinuities(before, judged, meanings))
    report = replace(
        report, findings=as_shown(placed(report.findings, windows_of_run(run.ranks.members(), judged.number)))
    )
    if attempt in (None, newest):
        report = replace(report, findings=[*report.findings, *unlike(log, run, meanings)])
    forecast, batch = forecasts_of(log, run, meanings), batch_of(run)
    known = (meanings.role(points.tag) for points in judged.series)
    recorded = frozenset(meaning.role for meaning in known if meaning)
    hooks = (run.info.hooks or ()) if run.info.attempt == judged.number else ()
    state = run.state if attempt in (None, newest) else ""
    return HealthReport(name, judged.number, report, "rules", forecast, batch, recorded, hooks, state)


def with_findings(verdict: Verdict, more: Iterable[Finding]) -> Verdict:
    """Return a verdict with further findings, whose rules then neither abstain nor pass."""
    added = list(more)
    rules = {finding.rule for finding in added}
    return replace(
        verdict,
        findings=[*verdict.findings, *added],
        abstained=[unjudged for unjudged in verdict.abstained if unjudged.rule not in rules],
        passed=[rule for rule in verdict.passed if rule not in rules],
    )


def attempt_of(run: StoredRun, number: int) -> AttemptSeries:
    """Return the series of one attempt of a run, and those that its parts recorded in the same time."""
    own = [series for tag in run.tags() for series in run.columns(tag) if series.attempt == number]
    begin = min((float(series.wall[0]) for series in own if len(series)), default=float("-inf"))
    points = list(points_of(run, own))
    for part in run.parts:
        columns = [series for tag in part.tags() for series in part.columns(tag)]
        points += [
            points for points in map(Since(begin, number), points_of(part, columns)) if len(points.step)
        ]
    return AttemptSeries(number, points + telemetry_of(run, number))


HISTOGRAMS = 100
"""Histograms of one tag that are read, evenly over those of an attempt: their share of saturated values
changes slowly, and the rule takes five."""


@dataclass(frozen=True, eq=False)
class HistogramSaturation:
    """The saturation of a layer by its histograms.

    Attributes:
        points: The least shares of saturated values that they allow.
        most: The greatest.
    """

    layer: str
    points: RecordedSeries
    most: NDArray[np.float64]


def saturation_of(run: StoredRun, number: int) -> Iterator[HistogramSaturation]:
    """Return the shares of saturated values that histograms of activations hold."""
    for about in run.records():
        layer = layer_of(about.tag) if about.kind == "histogram" else None
        for series in run.record(about.tag) if layer is not None else ():
            if layer is None or series.attempt != number or not len(series.step):
                continue
            few = min(HISTOGRAMS, len(series.step))
            rows = np.unique(np.linspace(0, len(series.step) - 1, few).astype(int))
            records = list(readable(series, rows.tolist()))
            shares = saturated(
                about.tag, [record[1] for record in records], [record[2] for record in records]
            )
            if shares is None:
                continue
            at = [record[0] for record in records]
            tag = f"activations/{layer}/saturation_ratio"
            name, split = run.name, judged_split(run.split)
            points = RecordedSeries(tag, series.step[at], shares.least, series.wall[at], None, name, split)
            yield HistogramSaturation(layer, points, shares.most)


def readable(
    series: RecordSeries, rows: Iterable[int]
) -> Iterator[tuple[int, NDArray[np.float64], tuple[float, float] | None]]:
    """Return place, rows and sums of histograms, without those that are damaged: the page counts them."""
    for row in rows:
        with suppress(EventFileError):
            yield row, series[row], series.histogram_sums(row)


def with_coarse(
    verdict: Verdict, histograms: Sequence[HistogramSaturation], choice: bool | Mapping[str, float] | None
) -> Verdict:
    """Return a verdict that abstains if histograms are too coarse to show saturation.

    Args:
        verdict: Of the rules.
        histograms: Of layers that recorded no share of saturated values.
        choice: Whether to judge saturation, or its thresholds; None: by the rule's own.
    """
    rule = SaturatedActivation(choice if isinstance(choice, Mapping) else None)
    if choice is False or rule.id in {finding.rule for finding in verdict.findings}:
        return verdict
    ratio, samples = rule.limits["ratio"], rule.limit("samples")
    coarse = [
        histogram
        for histogram in histograms
        if in_a_row(histogram.most > ratio, samples) and not in_a_row(histogram.points.value > ratio, samples)
    ]
    if not coarse:
        return verdict
    first = coarse[0]
    more = f" and {len(coarse) - 1} more" if len(coarse) > 1 else ""
    least, most = np.nanmin(first.points.value), np.nanmax(first.most)
    reason = (
        f"not judged: the buckets of the histograms are wider than the limit: {least:.0%} to {most:.0%} "
        f"of the activations of layer {first.layer}{more} may be saturated; ss.ActivationHook() or more "
        "buckets tell"
    )
    return replace(
        verdict,
        abstained=[
            *(unjudged for unjudged in verdict.abstained if unjudged.rule != rule.id),
            Abstention(rule.id, rule.title, reason),
        ],
        passed=[other for other in verdict.passed if other != rule.id],
    )


def in_a_row(flags: NDArray[np.bool_], times: int) -> bool:
    """Return whether flags are set so many times in a row."""
    return len(flags) >= times and bool(np.convolve(flags, np.ones(times), "valid").max() >= times)


def telemetry_of(run: StoredRun, number: int) -> list[RecordedSeries]:
    """Return the losses of all ranks, as each rank's own file has them; empty if there is one rank."""
    ranks = []
    for rank in ranks_of(run, number):
        steps = run.ranks.steps(rank, attempt=number)
        there = steps.has_loss
        columns = steps.step[there], steps.loss[there], steps.wall[there]
        ranks.append(RecordedSeries(RANKS_LOSS, *columns, rank, run.name))
    return [points for points in ranks if len(points.step)]


class Since:
    """Cuts off the points from before an attempt began."""

    def __init__(self, wall: float, number: int) -> None:
        self._wall = wall if number > 1 else float("-inf")

    def __call__(self, points: RecordedSeries) -> RecordedSeries:
        """Return the points from then on."""
        later = points.wall >= self._wall
        if later.all():
            return points
        return replace(points, step=points.step[later], value=points.value[later], wall=points.wall[later])


def points_of(run: StoredRun, series: list[Series]) -> Iterator[RecordedSeries]:
    """Return series for the rules; each writer without a rank is a separate run."""
    ranks = {writer.id: writer.rank for writer in run.writers}
    several = len({one.writer for one in series}) > 1
    ranked = several and len(set(ranks.values())) > 1
    split = judged_split(run.split)
    for line in series:
        name = run.name if ranked or not several else f"{run.name} ({line.writer})"
        rank = ranks.get(line.writer) if ranked else None
        yield RecordedSeries(line.tag, line.step, line.value, line.wall, rank, name, split)


def joined(verdict: Verdict, written: list[WrittenFinding]) -> Verdict:
    """Return a verdict with the run's own evidence, in any order: stacks, and live observations."""
    findings = list(verdict.findings)
    known = {(finding.rule, finding.tag, finding.step): at for at, finding in enumerate(findings)}
    # A training may hear of it later than all its values show it: the same onset is the same finding.
    onsets = {
        (finding.rule, finding.tag, finding.rank, finding.first_step): at
        for at, finding in enumerate(findings)
    }
    ranks = {(finding.rule, finding.rank) for finding in findings if finding.tag == RANKS_LOSS}
    for note in written:
        at = known.get((note.rule, note.tag, note.step))
        if at is None:
            at = onsets.get((note.rule, note.tag, note.rank, note.first_step))
        if at is None and note.tag == RANKS_LOSS and (note.rule, note.rank) in ranks:
            continue  # seen live at another step, where a rank's numbers came late
        if at is None:
            facts = {field.name: getattr(note, field.name) for field in fields(Finding)}
            findings.append(Finding(**facts | {"number": note.number or 0}))
        else:
            seen = findings[at]
            stack, batches = note.stack or seen.stack, note.batches or seen.batches
            findings[at] = replace(seen, stack=stack, batches=batches, rewind=note.rewind or seen.rewind)
    return with_findings(replace(verdict, findings=[]), findings)


# --- ranks ------------------------------------------------------------------------------------------


def ranks_of(run: StoredRun, number: int) -> list[int]:
    """Return the ranks that wrote in an attempt, empty if there is one."""
    names = run.ranks.names().values()
    ranks = sorted({name.rank for name in names if name.kind == "rank" and name.attempt == number})
    return ranks if len(ranks) > 1 else []


def with_ranks(verdict: Verdict, run: StoredRun, number: int, *, off: Collection[str] = ()) -> Verdict:
    """Return a verdict with evidence from the ranks' stages, unchanged if there is one rank.

    Args:
        verdict: Of the other rules.
        run: The run.
        number: Of the attempt.
        off: Rules that are switched off.
    """
    ranks = ranks_of(run, number)
    if not ranks:
        return verdict
    # A fifth of the start of a command; most runs have one rank.
    from stepscope.analyze.health.slow_rank import MOST_VALUES, TITLES, slow_ranks
    from stepscope.analyze.ranks.account import accounts_of

    if set(TITLES) <= set(off):
        return verdict
    ends = [run.ranks.steps(rank, attempt=number).step for rank in ranks]
    last = max((int(steps.max()) for steps in ends if len(steps)), default=0)
    begin = last + 1 - MOST_VALUES // len(ranks)
    table = run.ranks.stages(attempt=number, begin=begin)
    try:
        accounts = accounts_of(table)
    except EmptyTraceError:
        return verdict
    first = run.ranks.steps(table.ranks[0], attempt=number)
    if table.own_steps:
        walls = dict(enumerate(first.wall[first.step >= begin].tolist()))
    else:
        judged = first.step >= table.steps[0]
        walls = dict(zip(first.step[judged].tolist(), first.wall[judged].tolist(), strict=True))
    findings, abstained = slow_ranks(
        accounts, hosts=dict(zip(table.ranks, table.hosts, strict=True)), walls=walls
    )
    findings = [finding for finding in findings if finding.rule not in off]
    answered = {finding.rule for finding in findings} | {unjudged.rule for unjudged in abstained} | set(off)
    return replace(
        verdict,
        findings=[*verdict.findings, *findings],
        abstained=[*verdict.abstained, *(unjudged for unjudged in abstained if unjudged.rule not in off)],
        passed=[*verdict.passed, *(rule for rule in TITLES if rule not in answered)],
    )


NOISE = "gradients/noise_scale"
TAGS = 2
"""Losses that are compared, those of training first."""
UNFIT = ("adversarial", "reinforcement")
"""Kinds of training whose losses follow no law."""
POINTS = 20_000
"""Most points of a series that are looked at; of longer ones, every n-th."""


def unlike(log: Log, run: StoredRun, meanings: Meanings) -> Iterator[Finding]:
    """Yield the differences of a run from the last finished ones that recorded the same losses."""
    for tag in losses_of(run, meanings)[:TAGS]:
        past = list(islice(earlier(log, run, tag), MAX_RUNS))
        own = run.columns(tag)[-1]
        wall = float(own.wall[-1]) if len(own) else run.info.started or 0.0
        departure = compare(series_of(run, tag), past, tag=tag, wall=wall)
        if departure is not None:
            yield departure


def earlier(log: Log, run: StoredRun, tag: str) -> Iterator[Past]:
    """Yield a series of the finished runs that began before a run, the newest first."""
    begun = run.info.started or 0.0
    others = (
        (other.info, other)
        for other in log.runs()
        if other.name != run.name and other.whole is other and tag in other.files.tags
    )
    before = [
        (info.started or 0.0, other)
        for info, other in others
        if info.status == "finished" and (info.started or 0.0) < begun
    ]
    for _, previous in sorted(before, key=lambda pair: pair[0], reverse=True):
        yield series_of(previous, tag)


def forecasts_of(log: Log, run: StoredRun, meanings: Meanings) -> dict[str, Forecast]:
    """Return forecasts of the final training losses of a run, as far as possible."""
    total, forecasts = run.info.total_steps, {}
    if total is None or run.state != "running" or any(kind_of(tag) in UNFIT for tag in run.tags()):
        return {}
    roles = {tag: meaning.role for tag in run.tags() if (meaning := meanings.role(tag))}
    rates = next((series_of(run, tag).values for tag, role in roles.items() if role == "learning_rate"), None)
    for tag in losses_of(run, meanings)[:1]:
        series = series_of(run, tag)
        ahead = forecast(series.steps, series.values, total - 1, rates)
        if ahead is not None:
            steps = (
                (other.name, reached(other, ahead.value))
                for other in islice(earlier(log, run, tag), MAX_RUNS)
            )
            forecasts[tag] = replace(
                ahead, reached=tuple((name, step) for name, step in steps if step is not None)
            )
    return forecasts


def batch_of(run: StoredRun) -> BatchSize | None:
    """Return the verdict of a run's gradient noise scale on its batch; None if it is not recorded."""
    if NOISE not in run.tags():
        return None
    return batch_size(series_of(run, NOISE).values, run.info.world_size)


def losses_of(run: StoredRun, meanings: Meanings) -> list[str]:
    """Return the tags of a run that are losses, those of training first."""
    losses = [tag for tag in run.tags() if (meaning := meanings.role(tag)) and meaning.role == "loss"]
    return sorted(losses, key=lambda tag: (meanings.part(tag) in ("eval", "test"), tag))


def series_of(run: StoredRun, tag: str) -> Past:
    """Return the newest attempt of a series."""
    newest = run.columns(tag)[-1]
    every = max(1, -(-len(newest) // POINTS))
    steps = np.asarray(newest.step, np.float64)[::every]
    return Past(run.name, steps, np.asarray(newest.value, np.float64)[::every], run.info.config)
