"""Trackers of the program, and TensorBoard's writers: the numbers that they are given become series, too."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import wraps
from itertools import groupby
from operator import index
from types import ModuleType
from typing import Any, NamedTuple
from weakref import WeakSet

from stepscope.launch.printed import telling
from stepscope.launch.process import process
from stepscope.names.settings import leaves


class Call(NamedTuple):
    """A method of a tracker that is given values; arguments are told by their names.

    Attributes:
        owner: The class; empty for a function of the module.
        method: Its name.
        value: The argument with the number, with numbers by name, or with objects that have a ``key``, a
            ``value`` and perhaps a ``step``.
        names: Arguments that make the name of a number, or stand before the names of several.
        step: The argument with the step; empty for none.
        settings: Whether the values are settings of the run rather than points of series.
    """

    owner: str
    method: str
    value: str
    names: tuple[str, ...] = ()
    step: str = "step"
    settings: bool = False


_WRITER = (
    Call("SummaryWriter", "add_scalar", "scalar_value", ("tag",), "global_step"),
    Call("SummaryWriter", "add_scalars", "tag_scalar_dict", ("main_tag",), "global_step"),
    Call("SummaryWriter", "add_hparams", "hparam_dict", settings=True),
)
CALLS: dict[str, tuple[Call, ...]] = {
    "torch.utils.tensorboard": _WRITER,
    "tensorboardX": _WRITER,
    "tensorboard.plugins.scalar.summary_v2": (Call("", "scalar", "data", ("name",)),),
    "flax.metrics.tensorboard": (Call("SummaryWriter", "scalar", "value", ("tag",)),),
    "wandb.sdk.wandb_run": (Call("Run", "log", "data"),),
    "trackio.run": (Call("Run", "log", "metrics"),),
    "swanlab.sdk.internal.run": (Call("Run", "log", "data"),),
    "mlflow.tracking.fluent": (
        Call("", "log_metric", "value", ("key",)),
        Call("", "log_metrics", "metrics"),
        Call("", "log_param", "value", ("key",), settings=True),
        Call("", "log_params", "params", settings=True),
    ),
    "mlflow.tracking.client": (
        Call("MlflowClient", "log_metric", "value", ("key",)),
        Call("MlflowClient", "log_batch", "metrics"),
        Call("MlflowClient", "log_batch", "params", settings=True),
        Call("MlflowClient", "log_param", "value", ("key",), settings=True),
    ),
    "comet_ml.experiment": (
        Call("CometExperiment", "log_metric", "value", ("name",)),
        Call("CometExperiment", "log_metrics", "dic", ("prefix",)),
        Call("CometExperiment", "log_parameters", "parameters", ("prefix",), settings=True),
    ),
    "aim.sdk.run": (Call("Run", "track", "value", ("context", "name")),),
    "clearml.logger": (Call("Logger", "report_scalar", "value", ("title", "series"), "iteration"),),
    "dvclive.live": (
        Call("Live", "log_metric", "val", ("name",)),
        Call("Live", "log_params", "params", settings=True),
    ),
}
"""By module: what is observed in it."""
SYSTEM = "system/"
"""Before the names of MLflow's measurements of the machine, which have numbers of their own for steps."""
_described: WeakSet[Any] = WeakSet()
"""Runs of trackers whose settings are recorded."""


def install(module: ModuleType) -> None:
    """Observe a tracker; what it lacks, as in another version, is said.

    Args:
        module: Named in ``CALLS``, just loaded.
    """
    name = module.__name__
    for (owner, method), calls in groupby(CALLS[name], lambda call: call[:2]):
        holder = getattr(module, owner, None) if owner else module
        original = getattr(holder, method, None)
        known = [] if original is None else list(inspect.signature(original).parameters)
        usable = [call for call in calls if {call.value, *call.names} <= set(known)]
        if usable:
            setattr(holder, method, _observed(original, known, usable, name.partition(".")[0]))
        else:
            place = ".".join(filter(None, (name, owner, method)))
            process.say(f"the values given to {place}: it takes other arguments in this version")


def _observed(original: Any, known: list[str], calls: list[Call], package: str) -> Any:
    """Return the method, which also hands on what it is given.

    Args:
        original: The method or function.
        known: The names of its arguments.
        calls: What is read of them.
        package: Of the tracker.
    """

    @wraps(original)
    def observed(*arguments: Any, **named: Any) -> Any:
        if telling.depth:  # called by another method of the tracker
            return original(*arguments, **named)
        with telling:  # a line that the tracker prints tells nothing new
            result = original(*arguments, **named)
        if not process.off and not (process.led and _by_framework(package)):
            with suppress(Exception):  # objects of the program's own
                given = {**dict(zip(known, arguments, strict=False)), **named}
                for call in calls:
                    _take(package, call, given)
                _describe(given.get("self"))
        return result

    return observed


def _by_framework(package: str) -> bool:
    """Return whether a call comes from an installed package: the framework's callback gives its values."""
    from stepscope.capture.places import installed

    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame = frame.f_back
    return frame.f_code.co_filename.startswith(installed())


def _take(package: str, call: Call, given: Mapping[str, Any]) -> None:
    """Record the values of one call."""
    prefix = "/".join(filter(None, (_word(given.get(name)) for name in call.names)))
    value = given.get(call.value)
    if call.settings:
        named = value if isinstance(value, Mapping) else {None: value}
        if isinstance(value, (list, tuple)):
            named = {setting.key: setting.value for setting in value}
        process.describe({_joined(prefix, name): setting for name, setting in named.items()})
        return
    step = given.get(call.step)
    if isinstance(value, (list, tuple)):
        for point in value:
            _record(package, {point.key: point.value}, getattr(point, "step", None))
    elif isinstance(value, Mapping):
        # A dot stands between the names of nested ones, as in W&B.
        _record(package, {_joined(prefix, name): number for name, number in leaves(value, ".")}, step)
    else:
        _record(package, {prefix: value}, step)


def _word(name: Any) -> str:
    """Return a part of a name; of a context such as ``{"subset": "val"}`` its values."""
    words = name.values() if isinstance(name, Mapping) else () if name is None else (name,)
    return "/".join(map(str, words))


def _joined(prefix: str, name: Any) -> str:
    return "/".join(filter(None, (prefix, "" if name is None else str(name))))


def _record(package: str, values: Mapping[str, Any], step: Any) -> None:
    """Record the numbers among some values, at the step that the program gives, if it is one."""
    numbers = {
        name: value for name, value in values.items() if _is_number(value) and not name.startswith(SYSTEM)
    }
    if numbers and not process.led:
        process.run()
    try:
        at = None if isinstance(step, bool) else index(step)
    except TypeError:
        at = None
    process.record(package, numbers, at)


def _is_number(value: Any) -> bool:
    """Return whether a value is one number: of Python or numpy, or a tensor of one element."""
    if isinstance(value, (bool, str, bytes)):
        return False
    shape = getattr(value, "shape", None)
    if shape is None:
        return isinstance(value, (int, float))
    known = hasattr(value, "item") or hasattr(value, "numpy")  # not so in the trace of a function
    return known and all(length == 1 for length in shape)


def _describe(run: Any) -> None:
    """Add the settings that a tracker's run was created with; once."""
    if run in _described:
        return
    config: Any = getattr(run, "config", None)
    if hasattr(config, "keys"):
        _described.add(run)
        process.describe({name: config[name] for name in config.keys() if not str(name).startswith("_")})  # noqa: SIM118
