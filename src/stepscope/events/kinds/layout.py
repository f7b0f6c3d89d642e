"""Layouts of TensorBoard's custom scalars: which tags share a chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.messages import Tensor, Value
from stepscope.events.wire import Message, decode, encode, message, wire

PLUGIN = "custom_scalars"
TAG = "custom_scalars__config__"


@message
class Band(Message):
    """A value between two others, by their tags."""

    value: str = wire(1, "string")
    lower: str = wire(2, "string")
    upper: str = wire(3, "string")


@message
class Multiline(Message):
    """Regular expressions of tags."""

    tag: list[str] = wire(1, "string", repeated=True)


@message
class Margin(Message):
    """Bands."""

    series: list[Band] = wire(1, Band, repeated=True)


@message
class LayoutChart(Message):
    """One chart."""

    title: str = wire(1, "string")
    multiline: Multiline | None = wire(2, Multiline, oneof="content")
    margin: Margin | None = wire(3, Margin, oneof="content")


@message
class Category(Message):
    """Charts under one heading."""

    title: str = wire(1, "string")
    chart: list[LayoutChart] = wire(2, LayoutChart, repeated=True)
    closed: bool = wire(3, "bool")


@message
class Layout(Message):
    """All charts of a log directory."""

    version: int = wire(1, "int32")
    category: list[Category] = wire(2, Category, repeated=True)


def layout_of(categories: Mapping[str, Mapping[str, Sequence[Any]]]) -> Layout:
    """Return a layout from ``{category: {chart: ["Multiline", [tag, …]] or ["Margin", 3 tags]}}``."""
    return Layout(
        category=[
            Category(name, [_chart(title, *chart) for title, chart in charts.items()])
            for name, charts in categories.items()
        ]
    )


def _chart(title: str, kind: str, tags: Sequence[str]) -> LayoutChart:
    if kind.lower() == "margin":
        bands = [Band(*tags[at : at + 3]) for at in range(0, len(tags), 3)]
        return LayoutChart(title, margin=Margin(bands))
    return LayoutChart(title, multiline=Multiline(list(tags)))


def value(layout: Layout) -> Value:
    """Return the value that records a layout."""
    return Value.of(TAG, PLUGIN, Tensor.of_texts(encode(layout)))


def read(value: Value) -> Layout:
    """Return a layout.

    Raises:
        EventFileError: It is not one.
    """
    if value.tensor is None or not value.tensor.string_val:
        raise EventFileError("a layout without its message", hint=UNUSUAL_SUMMARY)
    return decode(Layout, value.tensor.string_val[0])
