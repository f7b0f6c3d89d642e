"""CSV for spreadsheets: names from elsewhere are text, never formulas that would run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""The first characters by which a spreadsheet recognises a formula."""
_SPECIAL = frozenset(',"\r\n')
"""Characters for which a cell of CSV is quoted."""


def guarded(text: str) -> str:
    """Return a text in a form that a spreadsheet does not take for a formula."""
    return f"'{text}" if text.startswith(_FORMULA) else text


def csv_cell(text: str) -> str:
    """Return a text as a guarded cell of CSV."""
    text = guarded(text)
    return '"{}"'.format(text.replace('"', '""')) if _SPECIAL.intersection(text) else text


def guarded_frame(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with every text column guarded in this way."""
    import polars as pl

    texts = [name for name, kind in frame.schema.items() if kind in (pl.String, pl.Categorical, pl.Enum)]
    columns = [pl.col(name).cast(pl.String) for name in texts]
    is_formula = [column.str.slice(0, 1).is_in(_FORMULA) for column in columns]
    return frame.with_columns(
        pl.when(risky).then("'" + column).otherwise(column).alias(name)
        for name, column, risky in zip(texts, columns, is_formula, strict=True)
    )
