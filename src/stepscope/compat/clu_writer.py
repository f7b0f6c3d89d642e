"""The writers of CommonLoopUtils' ``clu.metric_writers``, without TensorFlow.

A run encodes and writes on threads of its own, so the asynchronous writers pass values on to it directly;
other writers, including the user's own, are called on a thread.
"""

from __future__ import annotations

import logging
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

from stepscope.compat import tf_values
from stepscope.compat.branches import LeavingFiles
from stepscope.errors import StepscopeError, UsageError
from stepscope.events.messages import Metadata
from stepscope.events.wire import decode
from stepscope.record.run import Run
from stepscope.record.summaries.encoder import Prepared

Array = Any
Scalar = Any

__all__ = [
    "AsyncMultiWriter",
    "AsyncWriter",
    "LoggingWriter",
    "MetricWriter",
    "MultiWriter",
    "SummaryWriter",
    "create_default_writer",
    "ensure_flushes",
    "write_values",
]


class MetricWriter(ABC):
    """The interface of all writers: one method per kind, several values of a step at a time."""

    @abstractmethod
    def write_summaries(
        self, step: int, values: Mapping[str, Array], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Write tensors, with the SummaryMetadata that names the plugin that shows them."""

    @abstractmethod
    def write_scalars(self, step: int, scalars: Mapping[str, Scalar]) -> None:
        """Write numbers."""

    @abstractmethod
    def write_images(self, step: int, images: Mapping[str, Array]) -> None:
        """Write images, [n, height, width, channels] or [height, width, channels]."""

    @abstractmethod
    def write_videos(self, step: int, videos: Mapping[str, Array]) -> None:
        """Write videos, [n, frames, height, width, channels] or without the first."""

    @abstractmethod
    def write_audios(self, step: int, audios: Mapping[str, Array], *, sample_rate: int) -> None:
        """Write sounds, [n, frames, channels], of -1 to 1."""

    @abstractmethod
    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write texts in Markdown."""

    @abstractmethod
    def write_histograms(
        self, step: int, arrays: Mapping[str, Array], num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write how values are distributed."""

    def write_pointcloud(  # noqa: B027  newer than the others: a writer need not have it
        self,
        step: int,
        point_clouds: Mapping[str, Array],
        *,
        point_colors: Mapping[str, Array] | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        """Write point clouds, [batch, n, 3], optionally with colours of 0 to 255."""

    @abstractmethod
    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write hyper-parameters, once."""

    @abstractmethod
    def flush(self) -> None:
        """Wait until everything is written."""

    @abstractmethod
    def close(self) -> None:
        """Write everything and end."""


class SummaryWriter(MetricWriter):
    """Writes into a run of its own.

    Args:
        logdir: The run's directory.
    """

    def __init__(self, logdir: str | os.PathLike[str]) -> None:
        self._run = Run(logdir, rank=0, world_size=1, max_summary_bytes=1 << 30, _open_writer=LeavingFiles)

    def write_summaries(
        self, step: int, values: Mapping[str, Array], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Write tensors."""
        for tag, value in values.items():
            about = metadata_of(metadata.get(tag) if isinstance(metadata, Mapping) else metadata)
            self._run.summary(tag, step, partial(tf_values.array, value, about))

    def write_scalars(self, step: int, scalars: Mapping[str, Scalar]) -> None:
        """Write numbers, as tensors of float32."""
        for tag, value in scalars.items():
            self._run.summary(tag, step, partial(tf_values.scalar, value))

    def write_images(self, step: int, images: Mapping[str, Array]) -> None:
        """Write images."""
        for tag, value in images.items():
            self._run.summary(tag, step, partial(tf_values.images, value))

    def write_videos(self, step: int, videos: Mapping[str, Array]) -> None:
        """Write videos as GIFs."""
        for tag, value in videos.items():
            order = "THWC" if getattr(value, "ndim", 5) == 4 else "NTHWC"
            self._run.video(tag, value, step, dataformats=order)

    def write_audios(self, step: int, audios: Mapping[str, Array], *, sample_rate: int) -> None:
        """Write sounds."""
        for tag, value in audios.items():
            self._run.summary(tag, step, partial(tf_values.audio, value, sample_rate))

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write texts."""
        for tag, value in texts.items():
            self._run.summary(tag, step, partial(tf_values.text, value))

    def write_histograms(
        self, step: int, arrays: Mapping[str, Array], num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write the distribution of values; in 30 buckets by default."""
        for tag, value in arrays.items():
            self._run.summary(tag, step, partial(tf_values.histograms, value, (num_buckets or {}).get(tag)))

    def write_pointcloud(
        self,
        step: int,
        point_clouds: Mapping[str, Array],
        *,
        point_colors: Mapping[str, Array] | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        """Write point clouds."""
        for tag, value in point_clouds.items():
            colors, config = (point_colors or {}).get(tag), (configs or {}).get(tag)
            self._run.mesh(tag, value, step, colors=points_colors(colors), config=config)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write hyper-parameters; they can be read from the file at once."""
        value = tf_values.session_start(hparams, self._run.clock.wall())
        self._run.summary(value.tag, 0, lambda: Prepared(lambda _: [value], 1024))
        self._run.flush()

    def flush(self) -> None:
        """Wait until everything has been handed to the operating system."""
        self._run.flush()

    def close(self) -> None:
        """Write everything and end the run."""
        self._run.close()


def metadata_of(metadata: Any) -> Metadata | None:
    """Return SummaryMetadata, given as a message or as its bytes."""
    if metadata is None:
        return None
    serialize = getattr(metadata, "SerializeToString", None)
    return decode(Metadata, bytes(serialize() if serialize else metadata))


def points_colors(colors: Any) -> Any:
    """Return colours as 0 to 255; floats of 0 to 1 are scaled to that."""
    if colors is None:
        return None
    import numpy as np

    found = np.asarray(colors)
    if found.dtype.kind != "f" or not found.size or not 0 <= found.min() <= found.max() <= 1:
        return found
    return (found * 255 + 0.5).astype(np.uint8)


def logger() -> Any:
    """Return absl's logging, which the original uses, or else Python's logger ``stepscope.clu_writer``."""
    try:
        return import_module("absl.logging")
    except ImportError:
        return logging.getLogger("stepscope.clu_writer")


class LoggingWriter(MetricWriter):
    """Writes a line per call to absl's log, or without absl to the logger ``stepscope.clu_writer``.

    Args:
        collection: Named in each line.
    """

    def __init__(self, collection: str | None = None) -> None:
        self._collection = f" collection={collection}" if collection else ""

    def _say(self, step: int, what: str) -> None:
        logger().info("[%d]%s %s", step, self._collection, what)

    def _shapes(self, step: int, kind: str, values: Mapping[str, Array]) -> None:
        shapes = {tag: tuple(getattr(value, "shape", ())) for tag, value in values.items()}
        self._say(step, f"Got {kind}: {shapes}.")

    def write_summaries(
        self, step: int, values: Mapping[str, Array], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Log shapes."""
        self._shapes(step, "raw tensors", values)

    def write_scalars(self, step: int, scalars: Mapping[str, Scalar]) -> None:
        """Log numbers."""
        shown = (
            f"{tag}={value:.6g}" if isinstance(value, float) else f"{tag}={value}"
            for tag, value in sorted(scalars.items())
        )
        self._say(step, ", ".join(shown))

    def write_images(self, step: int, images: Mapping[str, Array]) -> None:
        """Log shapes."""
        self._shapes(step, "images", images)

    def write_videos(self, step: int, videos: Mapping[str, Array]) -> None:
        """Log shapes."""
        self._shapes(step, "videos", videos)

    def write_audios(self, step: int, audios: Mapping[str, Array], *, sample_rate: int) -> None:
        """Log shapes."""
        self._shapes(step, "audios", audios)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Log texts."""
        self._say(step, f"Got texts: {texts}.")

    def write_histograms(
        self, step: int, arrays: Mapping[str, Array], num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Log buckets and how many values are in each."""
        for tag, value in arrays.items():
            if buckets := counted(value, (num_buckets or {}).get(tag)):
                self._say(step, f"Histogram for {tag!r} = {{{buckets}}}")

    def write_pointcloud(
        self,
        step: int,
        point_clouds: Mapping[str, Array],
        *,
        point_colors: Mapping[str, Array] | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        """Log shapes."""
        self._shapes(step, "point clouds", point_clouds)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Log hyper-parameters."""
        logger().info("[Hyperparameters]%s %s", self._collection, hparams)

    def flush(self) -> None:
        """Have the log written out."""
        found = logger()
        if hasattr(found, "flush"):
            found.flush()
        else:
            for handler in found.handlers:
                handler.flush()

    def close(self) -> None:
        """Have the log written out."""
        self.flush()


def counted(array: Array, buckets: int | None) -> str:
    """Return a histogram as text: equal bins between smallest and largest value; empty without values."""
    import numpy as np

    values = np.asarray(array)
    if not values.size:
        return ""
    if buckets and buckets < 2:
        logger().warning("num_buckets was automatically changed from %d to 2", buckets)
    low, high = values.min(), values.max()
    edges = np.array([low - 0.5, low + 0.5], np.float64)
    counts = np.array([values.size])
    if low != high:
        counts, edges = np.histogram(values, bins=max(buckets or 30, 2), range=(low, high))
    ends = [")"] * (len(counts) - 1) + ["]"]
    return ", ".join(
        f"[{left:.3g}, {right:.3g}{end}: {count}"
        for left, right, end, count in zip(edges[:-1], edges[1:], ends, counts, strict=True)
    )


class ForwardingWriter(MetricWriter):
    """Passes every write on."""

    @abstractmethod
    def _forward(self, method: str, *given: Any, **named: Any) -> None:
        """Pass a call of a method on."""

    def write_summaries(
        self, step: int, values: Mapping[str, Array], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Write tensors."""
        self._forward("write_summaries", step, values, metadata)

    def write_scalars(self, step: int, scalars: Mapping[str, Scalar]) -> None:
        """Write numbers."""
        self._forward("write_scalars", step, scalars)

    def write_images(self, step: int, images: Mapping[str, Array]) -> None:
        """Write images."""
        self._forward("write_images", step, images)

    def write_videos(self, step: int, videos: Mapping[str, Array]) -> None:
        """Write videos."""
        self._forward("write_videos", step, videos)

    def write_audios(self, step: int, audios: Mapping[str, Array], *, sample_rate: int) -> None:
        """Write sounds."""
        self._forward("write_audios", step, audios, sample_rate=sample_rate)

    def write_texts(self, step: int, texts: Mapping[str, str]) -> None:
        """Write texts."""
        self._forward("write_texts", step, texts)

    def write_histograms(
        self, step: int, arrays: Mapping[str, Array], num_buckets: Mapping[str, int] | None = None
    ) -> None:
        """Write how values are distributed."""
        self._forward("write_histograms", step, arrays, num_buckets)

    def write_pointcloud(
        self,
        step: int,
        point_clouds: Mapping[str, Array],
        *,
        point_colors: Mapping[str, Array] | None = None,
        configs: Mapping[str, Any] | None = None,
    ) -> None:
        """Write point clouds."""
        self._forward("write_pointcloud", step, point_clouds, point_colors=point_colors, configs=configs)

    def write_hparams(self, hparams: Mapping[str, Any]) -> None:
        """Write hyper-parameters."""
        self._forward("write_hparams", hparams)


class MultiWriter(ForwardingWriter):
    """Passes everything on to several writers.

    Args:
        writers: They are called in this order.
    """

    def __init__(self, writers: Sequence[MetricWriter]) -> None:
        self._writers = tuple(writers)

    def _forward(self, method: str, *given: Any, **named: Any) -> None:
        for writer in self._writers:
            getattr(writer, method)(*given, **named)

    def flush(self) -> None:
        """Wait until everything is written."""
        self._forward("flush")

    def close(self) -> None:
        """Write everything and end."""
        self._forward("close")


class AsyncWriter(ForwardingWriter):
    """Passes everything on to a writer without waiting for it.

    An exception in a write is raised by one of the next calls, as ``StepscopeError``, which is also
    CommonLoopUtils' ``AsyncError`` where that is loaded.

    Args:
        writer: The writer.
        num_workers: Threads; with more than one, or None, calls may overtake each other.
    """

    def __init__(self, writer: MetricWriter, *, num_workers: int | None = 1) -> None:
        self._writer = writer
        at_once = isinstance(writer, SummaryWriter)
        self._pool = None if at_once else ThreadPoolExecutor(num_workers, "AsyncWriter")
        self._running: deque[Future[object]] = deque()

    def _forward(self, method: str, *given: Any, **named: Any) -> None:
        write = getattr(self._writer, method)
        if self._pool is None:
            write(*given, **named)
            return
        done = [each for each in self._running if each.done()]
        self._running.append(self._pool.submit(write, *given, **named))
        self._raise(done)

    def _raise(self, done: Iterable[Future[object]]) -> None:
        """Raise the error of one of these; those of the others are raised later."""
        for each in done:
            self._running.remove(each)
            if (error := each.exception()) is not None:
                raise async_error(self._writer, error) from error

    def flush(self) -> None:
        """Wait for everything that was passed on, then flush the writer, even if a write failed."""
        try:
            wait(self._running)
            self._raise(list(self._running))
        finally:
            self._writer.flush()

    def close(self) -> None:
        """Flush the writer, then close it, even if flushing failed."""
        try:
            self.flush()
        finally:
            self._writer.close()
            if self._pool is not None:
                self._pool.shutdown()


def async_error(writer: MetricWriter, error: BaseException) -> StepscopeError:
    """Return the error that reports another one, also of CommonLoopUtils' class where that is loaded."""
    said = f"a write of {type(writer).__name__} failed: {type(error).__name__}: {error}"
    hint = "Consider re-running without AsyncWriter, by create_default_writer(asynchronous=False)"
    original = sys.modules.get("clu.asynclib")
    kinds = (StepscopeError,) if original is None else (StepscopeError, original.AsyncError)
    found: StepscopeError = type("AsyncError", kinds, {})(said, hint=hint)
    return found


class AsyncMultiWriter(MultiWriter):
    """Passes everything on to several writers without waiting for them.

    Args:
        writers: In this order.
        num_workers: Threads for each.
    """

    def __init__(self, writers: Sequence[MetricWriter], *, num_workers: int | None = 1) -> None:
        super().__init__([AsyncWriter(writer, num_workers=num_workers) for writer in writers])


@contextmanager
def ensure_flushes(*writers: MetricWriter) -> Iterator[MetricWriter]:
    """Flush writers at the end of the block."""
    try:
        yield writers[0]
    finally:
        for writer in writers:
            writer.flush()


def create_default_writer(
    logdir: str | os.PathLike[str] | None = None,
    *,
    just_logging: bool = False,
    asynchronous: bool = True,
    collection: str | None = None,
) -> MultiWriter:
    """Return a writer of log lines and, with a directory, of a run.

    Args:
        logdir: The run's directory.
        just_logging: Only log lines, for all processes but the first.
        asynchronous: Which class is returned; neither waits.
        collection: A folder below the directory, also named in the log lines.
    """
    writers: list[MetricWriter] = [LoggingWriter(collection=collection)]
    if logdir is not None and not just_logging:
        place = os.fspath(logdir)
        writers.append(SummaryWriter(os.path.join(place, collection) if collection else place))  # noqa: PTH118
    return AsyncMultiWriter(writers) if asynchronous else MultiWriter(writers)


def _write_hparams(write: Callable[..., None], step: int, values: Mapping[str, Any]) -> None:
    """Write hyper-parameters, with a step if the writer takes one: the original passes it to all writers."""
    import inspect

    try:
        inspect.signature(write).bind(step, values)
    except (TypeError, ValueError):
        write(values)
    else:
        write(step, values)


def write_values(writer: MetricWriter, step: int, metrics: Mapping[str, Any]) -> None:
    """Write values according to their type: those of ``clu.values``, numbers, and arrays of one element.

    Args:
        writer: The writer that gets them.
        step: The step of all values.
        metrics: Values by tag.

    Raises:
        UsageError: A value has another type.
    """
    groups: dict[str, dict[str, Any]] = {}
    sounds: dict[int, dict[str, Any]] = {}
    buckets: dict[str, Any] = {}
    for tag, metric in metrics.items():
        kind, value = type(metric).__name__, getattr(metric, "value", metric)
        if kind == "Summary":
            writer.write_summaries(step, {tag: value}, metadata=metric.metadata)
        elif kind in ("Image", "Text", "HyperParam", "Histogram"):
            groups.setdefault(kind, {})[tag] = value
            if kind == "Histogram":
                buckets[tag] = metric.num_buckets
        elif kind == "Audio":
            sounds.setdefault(metric.sample_rate, {})[tag] = value
        elif kind == "Scalar" or isinstance(value, int | float) or getattr(value, "size", 2) <= 1:
            groups.setdefault("Scalar", {})[tag] = value
        else:
            raise UsageError(
                f"{tag!r} of type {kind} cannot be written", hint="wrap it in a class of clu.values"
            )
    writes: dict[str, Callable[[dict[str, Any]], None]] = {
        "Scalar": lambda values: writer.write_scalars(step, values),
        "Image": lambda values: writer.write_images(step, values),
        "Text": lambda values: writer.write_texts(step, values),
        "HyperParam": lambda values: _write_hparams(writer.write_hparams, step, values),
        "Histogram": lambda values: writer.write_histograms(step, values, num_buckets=buckets),
    }
    for kind, values in groups.items():
        writes[kind](values)
    for rate, values in sounds.items():
        writer.write_audios(step, values, sample_rate=rate)
