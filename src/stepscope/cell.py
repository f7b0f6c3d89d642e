"""HTML for the cell of a notebook: tables and cards, with every text escaped, in the notebook's colours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as escaped

from stepscope.text import number, printable, terminal_text

Value = str | int | float | None
_CELL = "text-align:left;padding:2px 12px 2px 0;vertical-align:top"
_FAINT = "opacity:.65;font-weight:normal"


def escape(text: str) -> str:
    """Return foreign text for HTML, in which nothing that it hides takes effect either."""
    return escaped(terminal_text(printable(text)))


def table_html(columns: Sequence[str], rows: Iterable[Sequence[Value]], *, caption: str = "") -> str:
    """Return a table.

    Args:
        columns: The heads.
        rows: Cells; None if a fact was not recorded.
        caption: Its subject.
    """
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    above = f'<caption style="text-align:left;{_FAINT}">{escape(caption)}</caption>' if caption else ""
    return f"<table>{above}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def card_html(title: str, facts: Iterable[tuple[str, Value]], *, text: str = "") -> str:
    """Return a card: a title, a sentence, and facts by name; facts that are None are left out."""
    rows = "".join(
        f'<tr><th scope="row" style="{_CELL};{_FAINT}">{escape(name)}</th>{_cell(value)}</tr>'
        for name, value in facts
        if value is not None
    )
    sentence = f"<div>{escape(text)}</div>" if text else ""
    table = f"<table><tbody>{rows}</tbody></table>" if rows else ""
    return (
        '<div style="border:1px solid;border-radius:6px;padding:8px 12px;max-width:60em">'
        f"<strong>{escape(title)}</strong>{sentence}{table}</div>"
    )


def _cell(value: Value) -> str:
    shown = "-" if value is None else number(value) if isinstance(value, float) else str(value)
    return f'<td style="{_CELL}">{escape(shown)}</td>'
