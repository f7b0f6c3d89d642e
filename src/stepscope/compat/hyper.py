"""Hyper-parameters as torch's ``add_hparams`` records them: records without tensors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import numpy as np

from stepscope.events import hparams
from stepscope.events.hparams import (
    Experiment,
    HParamInfo,
    HyperparameterEntry,
    MetricInfo,
    MetricName,
    PluginContent,
    Scalar,
    SessionEnd,
    SessionStart,
    Status,
    ValueList,
)
from stepscope.events.messages import Metadata, Value
from stepscope.events.wire import encode
from stepscope.record.problems import shown
from stepscope.record.summaries.encoder import refused
from stepscope.record.summaries.snapshot import snapshot


class HyperparameterKind(IntEnum):
    """Types of hyper-parameters, as TensorBoard counts them."""

    UNSET, STRING, BOOL, NUMBER = range(4)


def records(given: Any, metrics: Any, domains: Any) -> list[Value]:
    """Return the records of the experiment, and of the beginning and end of its session.

    Args:
        given: Hyper-parameters by name; None is left out, an array of one element is a number.
        metrics: The metrics that judge them; only their tags matter here.
        domains: Lists of the values that a hyper-parameter can have, by its name.

    Raises:
        RefusalError: They are not mappings, or a domain does not fit.
    """
    for what, given_facts in (
        ("hparam_dict", given),
        ("metric_dict", metrics),
        ("hparam_domain_discrete", domains),
    ):
        if not isinstance(given_facts, Mapping):
            raise refused(f"{what} of {shown(given_facts)}", "pass a dictionary")
    entries: list[HyperparameterEntry] = []
    infos: list[HParamInfo] = []
    for name, value in given.items():
        given_facts = _plain(value)
        if given_facts is None:
            continue
        kind, scalar = _scalar(given_facts)
        entries.append(HyperparameterEntry(str(name), scalar))
        infos.append(HParamInfo(str(name), type=int(kind), domain_discrete=_domain(name, domains)))
    if unknown := [name for name in domains if name not in given]:
        raise refused(
            f"a domain of {unknown[0]!r}, which is not a hyper-parameter", "name it as in hparam_dict"
        )
    named = [MetricInfo(MetricName(tag=str(tag))) for tag in metrics]
    contents = {
        hparams.EXPERIMENT_TAG: PluginContent(experiment=Experiment(hparam_infos=infos, metric_infos=named)),
        hparams.START_TAG: PluginContent(session_start_info=SessionStart(entries)),
        hparams.END_TAG: PluginContent(session_end_info=SessionEnd(int(Status.SUCCESS))),
    }
    return [
        Value(tag, metadata=Metadata.of(hparams.PLUGIN_NAME, encode(content)))
        for tag, content in contents.items()
    ]


def _plain(value: Any) -> Any:
    """Return a hyper-parameter as a number, a text or None; an array of one element is a number."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(value) and not hasattr(value, "shape"):
        return getattr(value, "__name__", str(value))
    shape = getattr(value, "shape", None)
    if shape is not None and math.prod(shape) == 1:
        plain = snapshot(value).fetch().reshape(-1)
        return plain.tolist()[0]
    if isinstance(value, np.generic):
        return value.item()
    return str(value)


def _scalar(value: Any) -> tuple[HyperparameterKind, Scalar]:
    if isinstance(value, int | float):
        try:
            return HyperparameterKind.NUMBER, Scalar(number_value=float(value))
        except OverflowError:
            return HyperparameterKind.STRING, Scalar(string_value=str(value))
    return HyperparameterKind.STRING, Scalar(string_value=str(value))


def _domain(name: Any, domains: Mapping[Any, Any]) -> ValueList | None:
    domain = domains.get(name)
    if domain is None:
        return None
    if not isinstance(domain, list | tuple):
        raise refused(f"a domain of {shown(domain)}", "pass the list of values that it can have")
    return ValueList([_scalar(_plain(value))[1] for value in domain])
