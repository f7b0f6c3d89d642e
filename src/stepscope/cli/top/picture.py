"""One picture of ``stepscope top``, made away from the thread that shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rich.text import Text

from stepscope.cli.ls_ranks import HEAD, line_of
from stepscope.cli.top.plot import plot
from stepscope.health.finding import batch_line
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.analyze.health import HealthReport
    from stepscope.cli.top.board import Board, Drawn, RunLine, XAxis
    from stepscope.health import Finding

Pane = Literal["charts", "findings", "ranks"]
SMOOTHINGS = (0.0, 0.6, 0.9, 0.97)
AXES: tuple[XAxis, ...] = ("step", "relative", "wall")
SIZES = ((100_000, 100_000), (90, 18), (56, 11), (38, 8))
"""Least columns and rows of a chart; the first is one chart on the whole pane."""
TONES = {"high": "bold #ff7f76", "medium": "#e5a93f", "low": "#74aaff", "info": "#9ba5b1"}
RANK_HEAD = HEAD[1:]


@dataclass(frozen=True)
class Choices:
    """The choices of the person at the terminal.

    Attributes:
        run: The run under the cursor.
        marked: Runs whose lines are drawn together; without any, the one under the cursor.
        words: That the titles of charts must hold.
        first: Number of the first chart shown.
        cells: Columns and rows of the pane.
        size: Index into ``SIZES``.
    """

    run: str = ""
    marked: frozenset[str] = frozenset()
    pane: Pane = "charts"
    words: str = ""
    x: XAxis = "step"
    smoothing: float = 0.0
    log: bool = False
    first: int = 0
    cells: tuple[int, int] = (80, 12)
    size: int = 2

    @property
    def names(self) -> list[str]:
        """The runs whose lines are drawn."""
        return sorted(self.marked) or [self.run]

    @property
    def grid(self) -> tuple[int, int]:
        """How many charts stand side by side and one below the other."""
        columns, rows = self.cells
        wide, high = SIZES[self.size]
        return max(1, columns // wide), max(1, rows // high)


@dataclass(frozen=True)
class Picture:
    """The picture that is shown.

    Attributes:
        head: The line on top.
        charts: All charts of the pane.
        count: Number of charts.
        findings: Rows of severity, step, title and summary, with the detail of each.
        verdict: The line above the findings.
        ranks: Rows as of ``RANK_HEAD``.
    """

    wanted: Choices
    runs: list[RunLine]
    head: str
    charts: Text = field(default_factory=Text)
    count: int = 0
    findings: list[tuple[list[Text], Text]] = field(default_factory=list)
    verdict: Text = field(default_factory=Text)
    ranks: list[list[str]] = field(default_factory=list)


def picture(board: Board, wanted: Choices, *, now: float) -> Picture:
    """Return the screen's content; of the panes, only the open one."""
    runs = board.runs(now=now)
    names = [run.name for run in runs]
    running = sum(run.state == "running" for run in runs)
    head = f"{board.log.path}   {len(runs)} run{'s' * (len(runs) != 1)}, {running} running"
    if wanted.run not in names:
        return Picture(wanted, runs, head)
    if wanted.pane == "findings":
        report = board.report(wanted.run)
        return Picture(wanted, runs, head, findings=rows_of(report), verdict=verdict_of(report))
    if wanted.pane == "ranks":
        return Picture(wanted, runs, head, ranks=[line_of(rank, now) for rank in board.ranks(wanted.run)])
    charts = board.charts(wanted.names, wanted.words)
    across, down = wanted.grid
    shown = charts[wanted.first : wanted.first + across * down]
    columns = wanted.cells[0] // across
    drawn = [board.draw(chart, wanted.names, 2 * columns, wanted.x, wanted.smoothing) for chart in shown]
    return Picture(wanted, runs, head, charts=tiled(drawn, wanted), count=len(charts))


def tiled(drawn: Sequence[Drawn], wanted: Choices) -> Text:
    """Return charts side by side and below each other."""
    across, down = wanted.grid
    columns, rows = wanted.cells[0] // across, wanted.cells[1] // down
    blocks = [block(plot, columns - 1, rows, wanted) for plot in drawn]
    lines: list[Text] = []
    for at in range(0, len(blocks), across):
        lines += [Text(" ").join(parts) for parts in zip(*blocks[at : at + across], strict=True)]
    return Text("\n").join(lines)


def block(drawn: Drawn, columns: int, rows: int, wanted: Choices) -> list[Text]:
    """Return one chart as lines of one width: title, legend, plot."""
    title = Text(drawn.title, "bold")
    if drawn.unit:
        title.append(f"  {drawn.unit}", "dim")
    legend = Text("  ").join(Text.assemble(("■ ", colour), (label, "dim")) for colour, label in drawn.legend)
    body = plot(drawn.traces, columns, max(3, rows - 3), log=wanted.log)
    lines = [title, legend, *body.split("\n", allow_blank=True)]
    lines = [*lines, *(Text() for _ in range(rows - len(lines)))][:rows]
    for line in lines:
        line.truncate(columns, overflow="ellipsis", pad=True)
    return lines


def rows_of(report: HealthReport | None) -> list[tuple[list[Text], Text]]:
    """Return the findings of a run, the severest first, and open questions last."""
    if report is None:
        return []
    lines = []
    for finding in report.verdict.findings:
        since = f"{finding.since:,}" + ("" if finding.closed_step is None else f" to {finding.closed_step:,}")
        tone = TONES[finding.severity] if finding.is_open else "dim"
        row = [Text(finding.severity, tone), Text(since), Text(finding.title, tone), Text(finding.summary)]
        detail = Text(f"{finding.title}\n", "bold")
        detail.append(f"{finding.summary}\n").append(f"{finding.action}\n", "#53c5ab")
        for line in (*finding.causes, *map(batch_line, finding.batches), *finding.rewind):
            detail.append(f"{line}\n")
        if finding.also:
            detail.append(f"also in {', '.join(finding.also)}\n", "dim")
        detail.append("   ".join(place_of(finding)), "dim")
        lines.append((row, detail))
    for one in report.verdict.abstained:
        words = f"could not tell: {one.missing}"
        row = [Text("-", "dim"), Text(""), Text(one.title, "dim"), Text(words, "dim")]
        lines.append((row, Text(f"{one.title}\n{words}\nrule {one.rule}")))
    return lines


def place_of(finding: Finding) -> list[str]:
    """Return the place of a finding: series, layer, rank, rule."""
    layer = [f"layer {finding.layer}"] if finding.layer else []
    rank = [] if finding.rank is None else [f"rank {finding.rank}"]
    return [finding.tag, *layer, *rank, f"rule {finding.rule}"]


def verdict_of(report: HealthReport | None) -> Text:
    """Return one line on the whole run."""
    if report is None:
        return Text()
    verdict = report.verdict
    opened = sum(finding.is_open for finding in verdict.findings)
    looked = f"{counted(len(verdict.passed), 'rule')} found nothing, {len(verdict.abstained)} could not tell"
    if not verdict.findings:
        return Text(f"No findings: {looked}", "#4cc27a" if verdict.passed else "dim")
    return Text(f"{counted(len(verdict.findings), 'finding')}, {opened} open; {looked}", "bold")
