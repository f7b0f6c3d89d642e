"""The layers of a Keras model, and their outputs while something observes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from stepscope.integrations.guard import report_raised
from stepscope.record.problems import Reporter
from stepscope.record.statistics import ActivationHook

SILENT = ("relu", "relu6", "hard_swish", "hard_silu", "threshold")
BOUNDED = ("tanh", "sigmoid", "hard_tanh", "hard_sigmoid")
NAMES = {"ReLU": "relu"}
"""Activation layers without a function of that name."""
See = Callable[[str, Any], None]
Failed = Callable[[Exception], None]


class Taps:
    """The layers of a model that are measured.

    Args:
        model: The model.
        hook: Says which of its layers: by default all that hold no other.
        reporter: Told of what looking at a layer raises.

    Attributes:
        names: Of the layers.
        rows: Their numbers by name.
        kinds: "relu" for layers whose units can be dead; "tanh", "sigmoid" for those that can be saturated.
    """

    def __init__(self, model: Any, hook: ActivationHook, reporter: Reporter) -> None:
        self._reporter = reporter
        wanted: dict[str, Any] = {}
        for name, layer in named(model, str(model.name)):
            leaf = not holds_layers(layer) and type(layer).__name__ != "InputLayer"
            if leaf if hook.all_layers else hook.wants(name, layer):
                wanted.setdefault(name, layer)
        self._layers = wanted
        self.names = list(wanted)
        self.rows = {name: row for row, name in enumerate(wanted)}
        self.kinds = {name: kind for name, layer in wanted.items() if (kind := kind_of(layer))}

    @contextmanager
    def open(self, see: See) -> Iterator[None]:
        """Call something with the name and the output of each layer, for as long as this is open.

        The training goes on, whatever it raises.
        """
        for name, layer in self._layers.items():
            layer.__dict__["call"] = tapped(layer.call, name, see, self._failed)
        try:
            yield
        finally:
            for layer in self._layers.values():
                layer.__dict__.pop("call", None)

    def _failed(self, error: Exception) -> None:
        report_raised(self._reporter, "measuring a layer", error)


def holds_layers(layer: Any) -> bool:
    """Return whether a layer consists of others, in Keras 3 or in Keras 2."""
    flatten = getattr(layer, "_flatten_layers", None)
    return any(each is not layer for each in flatten()) if flatten else False


def named(model: Any, scope: str) -> Iterator[tuple[str, Any]]:
    """Yield the layers of a model and of those within it, by names as in its graph."""
    for layer in getattr(model, "layers", ()):
        name = f"{scope}/{layer.name}"
        yield name, layer
        yield from named(layer, name)


def tapped(call: Callable[..., Any], name: str, see: See, failed: Failed) -> Callable[..., Any]:
    """Return what calls a layer and looks at its output."""

    @wraps(call)
    def look(*arguments: Any, **named: Any) -> Any:
        result = call(*arguments, **named)
        try:
            out = first_array(result)
            if out is not None:
                see(name, out)
        except Exception as error:  # noqa: BLE001  the layer's own work is done
            failed(error)
        return result

    return look


def kind_of(layer: Any) -> str:
    """Return the kind of a layer by its activation, "" for one that cannot be dead or saturated."""
    function = getattr(layer, "activation", None)
    word = str(getattr(function, "__name__", "")) or NAMES.get(type(layer).__name__, "")
    if word in SILENT:
        return "relu"
    return word.removeprefix("hard_") if word in BOUNDED else ""


def first_array(result: Any) -> Any:
    """Return a layer's output, or the first of several; None for none of floating point."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, tuple | list):
        result = next((each for each in result if hasattr(each, "dtype")), None)
    dtype = getattr(result, "dtype", None)
    return result if "float" in str(getattr(dtype, "name", dtype)) else None
