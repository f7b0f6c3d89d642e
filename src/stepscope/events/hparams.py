"""Hyper-parameters and their outcome, as TensorBoard's HParams page reads them.

The content of plugin data named ``hparams``, one message under each of three tags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

from stepscope.errors import EventFileError
from stepscope.events.messages import Shape, Tensor, Value
from stepscope.events.wire import Message, decode, encode, message, wire

PLUGIN_NAME = "hparams"
EXPERIMENT_TAG = "_hparams_/experiment"
START_TAG = "_hparams_/session_start_info"
END_TAG = "_hparams_/session_end_info"
DT_FLOAT = 1


class Status(IntEnum):
    """How a session ended."""

    UNKNOWN, SUCCESS, FAILURE, RUNNING = range(4)


@message
class Scalar(Message):
    """A google.protobuf.Value, of the kinds that a hyper-parameter can have."""

    null_value: int | None = wire(1, "int32", oneof="kind")
    number_value: float | None = wire(2, "double", oneof="kind")
    string_value: str | None = wire(3, "string", oneof="kind")
    bool_value: bool | None = wire(4, "bool", oneof="kind")


@message
class HyperparameterEntry(Message):
    """One entry of the map of hyper-parameters."""

    key: str = wire(1, "string")
    value: Scalar | None = wire(2, Scalar)


@message
class SessionStart(Message):
    """A session began: its hyper-parameters, the group of equal sessions and the time in seconds."""

    entries: list[HyperparameterEntry] = wire(1, HyperparameterEntry, repeated=True)
    model_uri: str = wire(2, "string")
    monitor_url: str = wire(3, "string")
    group_name: str = wire(4, "string")
    start_time_secs: float = wire(5, "double")

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyper-parameters by name."""
        return {entry.key: _plain(entry.value) for entry in self.entries}


@message
class SessionEnd(Message):
    """A session ended: its Status and the time in seconds."""

    status: int = wire(1, "int32")
    end_time_secs: float = wire(2, "double")


@message
class Interval(Message):
    """Bounds of a number."""

    min_value: float = wire(1, "double")
    max_value: float = wire(2, "double")


@message
class ValueList(Message):
    """A google.protobuf.ListValue."""

    values: list[Scalar] = wire(1, Scalar, repeated=True)


@message
class HParamInfo(Message):
    """A hyper-parameter of the experiment: its name and its domain."""

    name: str = wire(1, "string")
    display_name: str = wire(2, "string")
    description: str = wire(3, "string")
    type: int = wire(4, "int32")
    domain_discrete: ValueList | None = wire(5, ValueList, oneof="domain")
    domain_interval: Interval | None = wire(6, Interval, oneof="domain")


@message
class MetricName(Message):
    """The place of a metric: the directory below that of its session, and its tag."""

    group: str = wire(1, "string")
    tag: str = wire(2, "string")


@message
class MetricInfo(Message):
    """A metric of the experiment: its tag and its name."""

    name: MetricName | None = wire(1, MetricName)
    display_name: str = wire(3, "string")
    description: str = wire(4, "string")
    dataset_type: int = wire(5, "int32")


@message
class Experiment(Message):
    """The hyperparameters that the sessions below a directory vary, and the metrics that judge them."""

    description: str = wire(1, "string")
    user: str = wire(2, "string")
    time_created_secs: float = wire(3, "double")
    hparam_infos: list[HParamInfo] = wire(4, HParamInfo, repeated=True)
    metric_infos: list[MetricInfo] = wire(5, MetricInfo, repeated=True)
    name: str = wire(6, "string")

    @property
    def facts(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "description": self.description,
            "hparams": [
                {
                    "name": hparam.name,
                    "display_name": hparam.display_name,
                    "description": hparam.description,
                    **_domain(hparam),
                }
                for hparam in self.hparam_infos
            ],
            "metrics": [
                {
                    "tag": metric.name.tag,
                    "group": metric.name.group,
                    "display_name": metric.display_name,
                    "description": metric.description,
                }
                for metric in self.metric_infos
                if metric.name is not None
            ],
        }


@message
class PluginContent(Message):
    """HParamsPluginData."""

    version: int = wire(1, "int32")
    experiment: Experiment | None = wire(2, Experiment, oneof="data")
    session_start_info: SessionStart | None = wire(3, SessionStart, oneof="data")
    session_end_info: SessionEnd | None = wire(4, SessionEnd, oneof="data")


def start_value(hparams: Mapping[str, object], *, group_name: str = "", start_time_secs: float) -> Value:
    """Return the summary value that records the hyper-parameters of a session.

    Args:
        hparams: By name; numbers, booleans and text stay as they are, None is null, others become text.
        group_name: Sessions of one name are shown as one, averaged.
        start_time_secs: When it began.
    """
    entries = [HyperparameterEntry(str(name), _scalar(value)) for name, value in hparams.items()]
    start = SessionStart(entries, group_name=group_name, start_time_secs=start_time_secs)
    return _value(START_TAG, PluginContent(session_start_info=start))


def experiment_value(hparams: Mapping[str, object], metrics: Iterable[str]) -> Value:
    """Return the summary value by which TensorBoard shows these hyper-parameters and metrics, and no others.

    Args:
        hparams: By name.
        metrics: Their tags.
    """
    infos = [HParamInfo(str(name), type=_type(_scalar(value))) for name, value in hparams.items()]
    named = [MetricInfo(MetricName(tag=tag)) for tag in metrics]
    return _value(
        EXPERIMENT_TAG, PluginContent(experiment=Experiment(hparam_infos=infos, metric_infos=named))
    )


def _type(value: Scalar) -> int:
    """Return TensorBoard's DataType: 1 text, 2 boolean, 3 float64."""
    return 1 if value.string_value is not None else 2 if value.bool_value is not None else 3


def end_value(status: Status, *, end_time_secs: float) -> Value:
    """Return the summary value that records how a session ended."""
    return _value(END_TAG, PluginContent(session_end_info=SessionEnd(int(status), end_time_secs)))


def decode_content(content: bytes) -> PluginContent:
    """Return the content of the plugin data of an ``hparams`` tag.

    Raises:
        EventFileError: The bytes are not a protocol-buffer message.
    """
    return decode(PluginContent, content)


def read(value: Value) -> dict[str, Any]:
    """Return the hyper-parameters, the facts of the experiment, or how the session ended."""
    content = value.metadata.plugin_data.content if value.metadata and value.metadata.plugin_data else b""
    try:
        data = decode_content(content)
    except EventFileError:  # the first of the tag was whole, this one is not
        return {}
    if data.session_start_info:
        return data.session_start_info.hparams
    if data.experiment:
        return data.experiment.facts
    return {"status": data.session_end_info.status} if data.session_end_info else {}


def _value(tag: str, content: PluginContent) -> Value:
    # TensorBoard wants a tensor, and an empty one so as not to show it as a series.
    return Value.of(tag, PLUGIN_NAME, Tensor(DT_FLOAT, Shape.of(0)), encode(content))


def _scalar(value: object) -> Scalar:
    if value is None:
        return Scalar(null_value=0)
    if isinstance(value, bool):  # before int: a bool is one
        return Scalar(bool_value=value)
    if isinstance(value, int | float):
        return Scalar(number_value=float(value))
    return Scalar(string_value=str(value))


def _domain(info: HParamInfo) -> dict[str, Any]:
    if info.domain_interval is not None:
        return {"low": info.domain_interval.min_value, "high": info.domain_interval.max_value}
    if info.domain_discrete is not None:
        return {"values": [_plain(option) for option in info.domain_discrete.values]}
    return {}


def _plain(value: Scalar | None) -> Any:
    if value is None:
        return None
    for plain in (value.number_value, value.string_value, value.bool_value):
        if plain is not None:
            return plain
    return None
