"""Parts of a self-contained HTML page: no script, no request to anywhere, readable in light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape as _escape

from stepscope.export.scrub import scrub_text

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1c2024; --soft: #60646c; --line: #e0e1e6; --page: #fcfcfd; --accent: #0b68cb;
  --c0: #0072b2; --c1: #e69f00; --c2: #009e73; --c3: #cc79a7; --c4: #8b8d98; --c5: #d55e00; --c6: #56b4e9;
  --c7: #d9d9e0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #edeef0; --soft: #b0b4ba; --line: #2e3135; --page: #111113; --accent: #70b8ff;
    --c0: #3b9eff; --c1: #ffca16; --c2: #3dd68c; --c3: #f5a3d0; --c4: #777b84; --c5: #ff8b3e; --c6: #8ad7ff;
    --c7: #43484e;
  }
}
body {
  font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page);
  margin: 0 auto; padding: 24px; max-width: 1200px;
}
h1 { font-size: 20px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 16px; margin: 32px 0 8px; }
p, .soft { color: var(--soft); margin: 4px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
.wide { overflow-x: auto; }
th, td { text-align: right; padding: 3px 10px; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--soft); font-weight: 500; }
td:last-child, th:last-child { text-align: left; }
.name { white-space: normal; overflow-wrap: anywhere; min-width: 300px; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 11px; }
.legend span { margin-right: 14px; white-space: nowrap; }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px; }
.tree details { margin-left: 16px; }
.tree > details { margin-left: 0; }
.tree summary, .tree .leaf {
  padding: 2px 0; border-bottom: 1px solid var(--line); display: flex; gap: 10px;
}
.tree .leaf { margin-left: 16px; }
.tree summary { cursor: pointer; }
.tree summary::before, .tree .leaf::before { content: ""; width: 10px; }
.tree summary::before { content: "▸"; }
.tree details[open] > summary::before { content: "▾"; }
.tree .label { flex: 1; overflow-wrap: anywhere; }
.tree .number { width: 84px; text-align: right; flex: none; font-variant-numeric: tabular-nums; }
.bar { width: 110px; flex: none; align-self: center; height: 8px; background: var(--line); }
.blank { background: none; }
.bar i { display: block; height: 8px; background: var(--accent); }
.finding {
  border: 1px solid var(--line); border-left: 4px solid var(--c4); border-radius: 4px; padding: 8px 12px;
  margin: 8px 0;
}
.high { border-left-color: var(--c5); }
.medium { border-left-color: var(--c1); }
.low { border-left-color: var(--c6); }
.finding pre { margin: 4px 0; white-space: pre-wrap; color: var(--soft); }
"""


_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""Nothing may be loaded and nothing may run: the page is text, style and drawings."""


@dataclass(frozen=True)
class PageRow:
    """A line of a tree: its depth, its share of the whole, its numbers as text, and its name."""

    depth: int
    ratio: float
    numbers: Sequence[str]
    name: str


def escape(text: object) -> str:
    """Make any text safe in markup and attributes, without secrets; lone surrogates become question marks."""
    clean = scrub_text(str(text)).encode("utf-8", "replace").decode("utf-8")
    return _escape(clean, quote=True)


def document(title: str, sections: Iterable[str]) -> str:
    """Return a whole page."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(sections)
        + "\n</body>\n</html>\n"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the last column is a name and may wrap."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join(_row(row) for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _row(row: Sequence[str]) -> str:
    numbers = "".join(f"<td>{escape(cell)}</td>" for cell in row[:-1])
    return f'<tr>{numbers}<td class="name">{escape(row[-1])}</td></tr>\n'


def tree(heads: Sequence[str], branches: Sequence[PageRow], *, open_depth: int = 2) -> str:
    """Return lines that can be folded; those above ``open_depth`` start unfolded."""
    parts = ['<div class="tree">', _line("leaf soft", None, heads, "name")]
    open_details: list[int] = []
    for index, branch in enumerate(branches):
        while open_details and open_details[-1] >= branch.depth:
            parts.append("</details>")
            open_details.pop()
        following = branches[index + 1].depth if index + 1 < len(branches) else 0
        if following > branch.depth:
            state = " open" if branch.depth < open_depth else ""
            parts.append(
                f"<details{state}>{_line('', branch.ratio, branch.numbers, branch.name, tag='summary')}"
            )
            open_details.append(branch.depth)
        else:
            parts.append(_line("leaf", branch.ratio, branch.numbers, branch.name))
    parts += ["</details>"] * len(open_details)
    return "\n".join([*parts, "</div>"])


def _line(kind: str, ratio: float | None, numbers: Sequence[str], name: str, *, tag: str = "div") -> str:
    cells = "".join(f'<span class="number">{escape(number)}</span>' for number in numbers)
    width = min(max(ratio or 0.0, 0.0), 1.0) * 100
    filled = f'<i style="width:{width:.1f}%"></i>' if ratio is not None else ""
    kind_of_bar = "bar" if ratio is not None else "bar blank"
    label = f'<span class="{kind_of_bar}">{filled}</span><span class="label">{escape(name)}</span>'
    return f'<{tag} class="{kind}">{cells}{label}</{tag}>'


def stacked_bars(labels: Sequence[str], parts: Sequence[tuple[str, Sequence[float]]], *, unit: str) -> str:
    """Return one horizontal bar per label, split into parts.

    Args:
        labels: One per bar.
        parts: Name and, per bar, size; all in one unit.
        unit: Of the sizes, for the title of each piece.
    """
    whole = max((sum(sizes[i] for _, sizes in parts) for i in range(len(labels))), default=0) or 1
    height, left, width = 20, 90, 1000
    shapes = []
    for index, label in enumerate(labels):
        x, y = float(left), index * height
        shapes.append(f'<text x="{left - 8}" y="{y + 14}" text-anchor="end">{escape(label)}</text>')
        for number, (name, sizes) in enumerate(parts):
            span = sizes[index] / whole * (width - left)
            if span > 0:
                title = f"<title>{escape(f'{label}: {name} {sizes[index]:,.3g} {unit}')}</title>"
                shapes.append(
                    f'<rect x="{x:.2f}" y="{y + 3}" width="{span:.2f}" height="{height - 6}" '
                    f'fill="var(--c{number % 8})">{title}</rect>'
                )
                x += span
    legend = "".join(
        f'<span><i class="key" style="background:var(--c{number % 8})"></i>{escape(name)}</span>'
        for number, (name, _) in enumerate(parts)
    )
    box = f"0 0 {width} {max(len(labels), 1) * height}"
    chart = f'<svg viewBox="{box}" role="img" aria-label="time per step">{"".join(shapes)}</svg>'
    return f'<p class="legend">{legend}</p>{chart}'


def area(times: Sequence[float], values: Sequence[float], *, caption: str) -> str:
    """Return a step chart of a level over time."""
    if not len(times):
        return ""
    width, height = 1000, 140
    first, span = times[0], (times[-1] - times[0]) or 1
    most = max(values) or 1
    points = [f"0,{height}"]
    before = 0.0
    for time, value in zip(times, values, strict=True):
        x = (time - first) / span * width
        points += [
            f"{x:.1f},{height - before / most * height:.1f}",
            f"{x:.1f},{height - value / most * height:.1f}",
        ]
        before = value
    points.append(f"{width},{height}")
    shape = f'<polygon points="{" ".join(points)}" fill="var(--c0)" fill-opacity="0.35"/>'
    label = escape(caption)
    return f'<p>{label}</p><svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">{shape}</svg>'
