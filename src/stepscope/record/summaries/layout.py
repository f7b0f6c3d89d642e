"""Layouts of TensorBoard's Custom Scalars page."""

from __future__ import annotations

from typing import Any

from stepscope.events.kinds import layout
from stepscope.record.summary_encoder import Prepared, refused

_HINT = "{'category': {'chart': ['Multiline', ['loss/.*']]}}, say, or ['Margin', [value, lower, upper]]"


def prepare(categories: Any) -> Prepared:
    """Return a layout.

    Raises:
        RefusalError: It is none.
    """
    try:
        found = layout.layout_of(categories)
    except (TypeError, ValueError, AttributeError) as error:
        raise refused(f"no layout ({error})", _HINT) from None
    for category in found.category:
        for chart in category.chart:
            if chart.margin is not None and any(not band.upper for band in chart.margin.series):
                raise refused(f"a margin chart {chart.title!r} without three tags", _HINT)
    value = layout.value(found)
    return Prepared(lambda tag: [value], 0)
