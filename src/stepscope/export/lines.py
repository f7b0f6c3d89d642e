"""Events as lines of JSON, assembled from columns of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from stepscope import lazy
from stepscope.export.layout import RowLayout
from stepscope.export.scrub import scrub_texts
from stepscope.trace.model import DEVICE_WORK, Kind, Trace
from stepscope.trace.tables import Ints

with lazy.needs("stepscope[frames]"):
    import polars as pl

Part = pl.Series | pl.Expr

CATEGORIES = {
    Kind.OTHER: "other", Kind.HOST_OP: "cpu_op", Kind.PYTHON_FRAME: "python_function",
    Kind.MODULE_SCOPE: "python_function", Kind.RUNTIME_CALL: "cuda_runtime", Kind.KERNEL: "kernel",
    Kind.MEMCPY: "gpu_memcpy", Kind.MEMSET: "gpu_memset", Kind.COLLECTIVE: "kernel", Kind.SEND_RECV: "kernel",
    Kind.DATA_LOADING: "user_annotation", Kind.ANNOTATION: "user_annotation", Kind.STEP: "user_annotation",
    Kind.SYNC: "cuda_sync", Kind.OVERHEAD: "overhead",
}  # fmt: skip
"""Category of each kind, under the name that PyTorch's profiler uses."""

_ON_HOST = {Kind.KERNEL: "cpu_op", Kind.COLLECTIVE: "cpu_op", Kind.SEND_RECV: "cpu_op"}
_ON_DEVICE = {Kind.ANNOTATION: "gpu_user_annotation", Kind.STEP: "gpu_user_annotation"}


class LineTexts:
    """The texts, by number, that events are assembled from, so that no Python runs per event."""

    def __init__(self, trace: Trace, place: RowLayout, pid_of_lane: list[int], scrubbed: bool) -> None:
        self.trace, self.place = trace, place
        pids = [pid_of_lane[lane] for lane, _ in place.tracks]
        self.where = pl.Series([f',"pid":{pid},"tid":{tid}' for tid, pid in enumerate(pids)], dtype=pl.String)
        self.name = quoted(trace.strings.texts(), scrubbed)
        host = [_ON_HOST.get(kind, CATEGORIES[kind]) for kind in Kind]
        device = [_ON_DEVICE.get(kind, CATEGORIES[kind]) for kind in Kind]
        self.category = pl.Series([*host, *device], dtype=pl.String)
        streams = np.array([lane.stream for lane in trace.lanes] or [-1], np.int64)
        # Readers of PyTorch's traces take whatever names a stream for work of the device.
        work = (trace.device >= 0) & np.isin(trace.kind, (*DEVICE_WORK, Kind.SYNC))
        self.numbers = {
            "step": trace.step, "device": np.where(work, trace.device, -1),
            "stream": np.where(work, streams[trace.lane], -1),
            "correlation": trace.correlation, "bytes": trace.bytes, "flops": trace.flops,
        }  # fmt: skip
        self.scope = _member("scope", quoted(trace.scopes.texts(), scrubbed))
        self.tables = [table for table in _details(trace, self.name) if len(table[1])]

    def events(self, rows: Ints) -> pl.Series:
        """Return the ``X`` events of some rows."""
        trace = self.trace
        kind = trace.kind[rows].astype(np.int64) + np.where(trace.device[rows] >= 0, len(Kind), 0)
        parts: list[Part] = [
            pl.lit('{"ph":"X","cat":"'), self.category.gather(kind), pl.lit('","name":'),
            self.name.gather(trace.name[rows]), self.where.gather(self.place.track[rows]), pl.lit(',"ts":'),
            _micros(trace.start_ns[rows]), pl.lit(',"dur":'), _micros(trace.duration_ns[rows]),
            pl.lit(',"args":{'), self._arguments(rows), pl.lit("}}"),
        ]  # fmt: skip
        return _joined(parts, len(rows))

    def _arguments(self, rows: Ints) -> pl.Series:
        texts: list[pl.Series | pl.Expr] = [
            _number(name, column[rows]) for name, column in self.numbers.items()
        ]
        texts.append(_picked(self.scope, self.trace.scope[rows]))
        texts += [_picked(text, place[rows]) for place, text in self.tables]
        return _joined(texts, len(rows)).str.strip_prefix(",")

    def flows(self, name: str, source: Ints, target: Ints, first: int) -> Iterator[pl.Series]:
        """Yield the two ends of arrows between rows; an end must lie within its event.

        Args:
            name: Name and category of the arrows.
            source: Row that each comes from.
            target: Row that each goes to.
            first: Their ids count from here.
        """
        drawn = (self.place.track[source] >= 0) & (self.place.track[target] >= 0)
        label = msgspec.json.encode(name).decode()
        number = pl.Series(first + np.arange(int(drawn.sum())))
        for phase, rows in (('"s"', source[drawn]), ('"f","bp":"e"', target[drawn])):
            head = pl.lit(f'{{"ph":{phase},"cat":{label},"name":{label}')
            parts: list[Part] = [
                head, self.where.gather(self.place.track[rows]), pl.lit(',"ts":'),
                _micros(self.trace.start_ns[rows]), pl.lit(',"id":'), number.cast(pl.String), pl.lit("}"),
            ]  # fmt: skip
            yield _joined(parts, len(rows))


def _details(trace: Trace, name: pl.Series) -> list[tuple[Ints, pl.Series]]:
    """Return arguments that only some rows have: place of each row's text or -1, and the texts."""
    operators, collectives, kernels, syncs = trace.operators, trace.collectives, trace.kernels, trace.syncs
    json_text = _valid_json(pl.Series(trace.strings.texts(), dtype=pl.String))  # shapes are JSON already
    return [
        (_place(trace, operators.row), _joined([
            _picked(_member("Input Dims", json_text), operators.shapes),
            _picked(_member("Input type", json_text), operators.types),
            _picked(_member("Outputs", json_text), operators.outputs),
        ], len(operators))),
        (_place(trace, collectives.row), _joined([
            _picked(_member("Collective name", name), collectives.operation),
            _picked(_member("Process Group Name", name), collectives.group),
            _picked(_member("dtype", name), collectives.dtype), _number("Group size", collectives.group_size),
            _number("In msg nelems", collectives.in_elements),
            _number("Out msg nelems", collectives.out_elements), _number("Seq", collectives.sequence),
        ], len(collectives))),
        (_place(trace, kernels.row), _joined([
            _number("grid blocks", kernels.grid), _number("block threads", kernels.block),
            _number("registers per thread", kernels.registers),
            _number("shared memory", kernels.shared_bytes),
            _ratio("est. achieved occupancy %", kernels.occupancy * 100),
            _ratio("blocks per SM", kernels.blocks_per_sm),
        ], len(kernels))),
        (_place(trace, syncs.row), _joined([
            _picked(_member("cuda_sync_kind", name), syncs.what),
            _number("wait_on_stream", syncs.wait_stream),
            _number("wait_on_cuda_event_record_corr_id", syncs.wait_correlation),
        ], len(syncs))),
    ]  # fmt: skip


def _place(trace: Trace, rows: Ints) -> Ints:
    place = np.full(len(trace), -1, np.int64)
    place[rows] = np.arange(len(rows))
    return place


def counter_lines(
    names: pl.Series, pids: Ints, time_ns: Ints, values: Sequence[tuple[str, pl.Series]]
) -> pl.Series:
    """Return ``C`` events.

    Args:
        names: JSON strings.
        pids: Process of each.
        time_ns: Of each.
        values: Names and values of the counters; the values as JSON, null for none.
    """
    parts: list[Part] = [
        pl.lit('{"ph":"C","name":'), names, pl.lit(',"pid":'), pl.Series(pids).cast(pl.String),
        pl.lit(',"ts":'), _micros(time_ns), pl.lit(',"args":{'),
    ]  # fmt: skip
    shown = [(pl.lit(f',"{key}":') + pl.col("v")).fill_null("") for key, _ in values]
    texts = [
        pl.DataFrame({"v": text}).select(one).to_series()
        for one, (_, text) in zip(shown, values, strict=True)
    ]
    return _joined([*parts, _joined(texts, len(names)).str.strip_prefix(","), pl.lit("}}")], len(names))


def quoted(texts: list[str], scrubbed: bool) -> pl.Series:
    """Return texts as JSON strings, without secrets if they are to be scrubbed."""
    shown = scrub_texts(texts) if scrubbed else texts
    encode = msgspec.json.encode
    return pl.Series([encode(_encodable(text)).decode() for text in shown], dtype=pl.String)


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _valid_json(texts: pl.Series) -> pl.Series:
    """Return texts that look like JSON arrays unchanged, and others as JSON strings."""
    made = [text if _is_json(text) else msgspec.json.encode(_encodable(text)).decode() for text in texts]
    return pl.Series(made, dtype=pl.String)


def _is_json(text: str) -> bool:
    if not text.startswith(("[", "{")):
        return False
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        return False
    return True


def _member(key: str, values: pl.Series) -> pl.Series:
    return _joined([pl.lit(f',"{key}":'), values], len(values))


def _number(key: str, values: Ints) -> pl.Series:
    """Return ``,"key":value`` for each value, nothing for -1."""
    series = pl.Series("value", np.asarray(values, np.int64))
    text = pl.concat_str([pl.lit(f',"{key}":'), pl.col("value").cast(pl.String)])
    return (
        pl.DataFrame(series)
        .select(pl.when(pl.col("value") >= 0).then(text).otherwise(pl.lit("")))
        .to_series()
    )


def _ratio(key: str, values: Any) -> pl.Series:
    """Return ``,"key":value`` for each value, nothing for NaN and infinities."""
    series = pl.Series("value", np.asarray(values, np.float64))
    text = pl.concat_str([pl.lit(f',"{key}":'), pl.col("value").round(4).cast(pl.String)])
    return (
        pl.DataFrame(series)
        .select(pl.when(pl.col("value").is_finite()).then(text).otherwise(pl.lit("")))
        .to_series()
    )


def _picked(texts: pl.Series, numbers: Ints) -> pl.Series:
    """Return the text of each number, nothing for -1."""
    wanted = pl.Series("n", np.asarray(numbers, np.int64))
    wanted = pl.DataFrame(wanted).select(pl.when(pl.col("n") >= 0).then(pl.col("n"))).to_series()
    return texts.gather(wanted).fill_null("")


def _micros(nanoseconds: Ints) -> pl.Series:
    """Return microseconds with three decimals, exactly."""
    frame = pl.DataFrame({"ns": np.asarray(nanoseconds, np.int64)})
    whole, rest = pl.col("ns") // 1000, pl.col("ns") % 1000
    return frame.select(
        pl.concat_str([whole.cast(pl.String), pl.lit("."), rest.cast(pl.String).str.zfill(3)])
    ).to_series()


def _joined(parts: Sequence[Part], count: int) -> pl.Series:
    """Join texts row by row; an expression stands for the same text in every row."""
    columns = {f"c{n}": part for n, part in enumerate(parts) if isinstance(part, pl.Series)}
    order = [pl.col(f"c{n}") if isinstance(part, pl.Series) else part for n, part in enumerate(parts)]
    if not count:
        return pl.Series([], dtype=pl.String)
    return pl.DataFrame(columns).select(pl.concat_str(order)).to_series()
