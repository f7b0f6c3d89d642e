"""SummaryWriter: the interface of torch's and of tensorboardX's, on top of a run."""

from __future__ import annotations

import json
import os
import posixpath
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from stepscope.compat import encodings, hyper
from stepscope.compat.files import PROFILE_TAG, Branches, Float32Writer, LeavingFiles, OwnFile, whole
from stepscope.errors import RecordError
from stepscope.events import hparams
from stepscope.events.columns import GRAPHS, RUN_METADATA
from stepscope.events.kinds import layout as layouts
from stepscope.events.kinds.graph import OWN_COSTS, OWN_GRAPH
from stepscope.events.messages import Event, Metadata, SessionLog, SessionStatus, Tensor, Value
from stepscope.events.writer import FILE_VERSION
from stepscope.kernels.steps import HotCalls, HotWriter
from stepscope.record.problems import RefusalError
from stepscope.record.run import Run
from stepscope.record.sink import LogFiles
from stepscope.record.summaries.documents import serialized
from stepscope.record.summaries.encoder import Prepared, refused
from stepscope.record.summaries.media import rendered
from stepscope.record.values import as_step
from stepscope.urls import is_url


class Nowhere:
    """Accepts everything and keeps nothing."""

    log_dir = ""

    def __getattr__(self, name: str) -> Any:
        return _ignore


def _ignore(*arguments: object, **options: object) -> bool:
    return True


NOWHERE = Nowhere()


_GRAPH_HINT = "pass the module and an example of what it is called with, on its device"
_FILE_GRAPH_HINT = "record the graph of the module itself with add_graph(model, example)"
SUMMARY_BYTES = 1 << 30
"""Waiting summaries: scripts for the originals log whole models at once and expect nothing to be dropped."""
FLUSH_SECS = 1.0

W = TypeVar("W", bound="SummaryWriter")


class SummaryWriter(HotWriter):
    """Records as ``torch.utils.tensorboard.SummaryWriter`` and ``tensorboardX.SummaryWriter`` do.

    Scripts only change their import, and the files equal torch's, record for record.
    ``docs/guides/compat.md`` lists the differences: nothing waits for a queue, and ``flush`` writes
    everything.

    Args:
        log_dir: The run's directory; by default ``runs/<time>_<host><comment>``.
        comment: End of the default directory's name.
        purge_step: Records of earlier attempts from this step on become void.
        max_queue: Accepted and not needed: no call waits for a queue.
        flush_secs: The longest that a value waits, at most 1 s.
        filename_suffix: End of the event file's name.
        write_to_disk: Whether anything is written.
        logdir: tensorboardX's name for ``log_dir``.
        comet_config: Not supported; anything but disabled leads to one warning.
        kwargs: Other arguments of tensorboardX, which are ignored with one warning.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        logdir: str | os.PathLike[str] | None = None,
        comet_config: Mapping[str, Any] | None = None,
        *,
        own_file: bool = False,
        **kwargs: Any,
    ) -> None:
        named = log_dir or logdir
        if not named:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            named = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")  # noqa: PTH118  as text
        self.log_dir = self.logdir = named
        self.purge_step, self.max_queue, self.flush_secs = purge_step, max_queue, flush_secs
        self.filename_suffix, self.kwargs = filename_suffix, kwargs
        self.file_writer: OwnFile | None = None
        self.all_writers: dict[str, Any] | None = None
        self.default_bins = encodings.default_bins()
        self.scalar_dict: dict[str, list[list[float]]] = {}
        self._disk, self._own = write_to_disk, own_file
        self._branches = Branches(filename_suffix)
        self._defaults: dict[str, Any] = {}
        self._opened: Run | None = None
        super().__init__()
        self._open()
        for name, given in (("comet_config", comet_config), *kwargs.items()):
            if given and not (name == "comet_config" and given.get("disabled")):
                self._ignored(name)

    # --- the run ------------------------------------------------------------------------------------

    @property
    def _run(self) -> Any:
        """The run; opened again if something is logged after ``close``."""
        return self._opened if self._opened is not None else self._open()

    def _open(self) -> Any:
        self.file_writer = OwnFile(self.get_logdir(), put=self._put_event, flush=self.flush, close=self.close)
        self.all_writers = {self.get_logdir(): self.file_writer}
        if not self._disk:
            return NOWHERE
        self._opened = run = Run(
            self.log_dir,
            rank=0,  # whoever makes a writer wants one; the originals know no ranks
            world_size=1,
            flush_secs=max(min(float(self.flush_secs), FLUSH_SECS), 0.01),
            max_summary_bytes=SUMMARY_BYTES,
            _open_writer=partial(
                LogFiles if self._own else LeavingFiles,
                open_log=partial(Float32Writer, suffix=self.filename_suffix),
            ),
        )
        if self.purge_step is not None:
            self._purge(run, self.purge_step)
            self.purge_step = None
        self._direct = self._find_direct()
        return run

    def _find_direct(self) -> Run | None:
        """Return the run that takes ordinary numbers directly; None once closed and within ``use_metadata``.

        It takes only tags that were recorded before. If ``Run.scalar`` was patched, the patch is
        called.
        """
        run = self._opened
        own = getattr(type(run), "scalar", None) is HotCalls.scalar and "scalar" not in vars(run)
        return run if own and not self._defaults else None

    def _purge(self, run: Run, step: int) -> None:
        run.event(lambda: Event(file_version=FILE_VERSION), step, tag="purge_step")
        start = SessionLog(int(SessionStatus.START))
        run.event(lambda: Event(session_log=start), step, tag="purge_step")
        run.flush()  # what is logged next stands behind it

    def get_logdir(self) -> str:
        """Return the directory of the run."""
        return os.fspath(self.log_dir)

    def _put_event(self, event: Event, step: Any, wall: float | None) -> None:
        at, when = self._place(step or None, wall)
        nbytes = max(len(event.graph_def or b""), 1024)
        self._run.event(lambda: event, at, nbytes=nbytes, tag="file_writer", wall=when)

    def _get_file_writer(self) -> OwnFile:
        """Return the file writer, which Lightning's logger requests; opened again after ``close``."""
        if self.file_writer is None:
            self._open()
        assert self.file_writer is not None
        return self.file_writer

    def _line(self, place: str) -> Any:
        """Return the file of a run beside this one."""
        branch = self._branches.get(place, self._local(place))
        if self.all_writers is not None:
            self.all_writers.setdefault(place, branch)
        return branch

    def _local(self, place: str) -> str:
        """Return the directory of a run beside this one; for a run in a store, below its local directory."""
        if not is_url(place):
            return place
        run, base = self._run, self.get_logdir().rstrip("/")
        below = place.removeprefix(base) if place.startswith(base) else place.partition("://")[2]
        inside = posixpath.normpath("/" + below.lstrip("/"))  # never above the run
        return str(run.log_dir) + inside

    def flush(self) -> None:
        """Wait until everything logged so far has been handed to the operating system."""
        if self._opened is not None:
            self._opened.flush()

    def close(self) -> None:
        """Write everything and end the run; logging afterwards begins another attempt."""
        run, self._opened, self._direct = self._opened, None, None
        if run is not None:
            run.close()
        self._branches.close(finished=True)
        self.file_writer = self.all_writers = None

    def __enter__(self: W) -> W:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        run, self._opened, self._direct = self._opened, None, None
        if run is not None:
            run.__exit__(kind, error, traceback)
        self._branches.close(finished=kind is None)
        self.file_writer = self.all_writers = None

    @contextmanager
    def use_metadata(self: W, *, global_step: Any = None, walltime: float | None = None) -> Iterator[W]:
        """Set step and time of values that are logged in this block without them."""
        before, self._defaults = self._defaults, {"global_step": global_step, "walltime": walltime}
        self._direct = None
        try:
            yield self
        finally:
            self._defaults = before
            self._direct = self._find_direct()

    # --- the way of all -----------------------------------------------------------------------------

    def _place(self, step: Any, wall: float | None) -> tuple[Any, float | None]:
        """Return step and time of a value; by default those of ``use_metadata``."""
        step = self._defaults.get("global_step", 0) if step is None else step
        wall = self._defaults.get("walltime") if wall is None else wall
        if type(step) is not int:
            if step is None:
                step = 0
            elif isinstance(step, float | str | bytes | bool) or type(step).__module__ == "numpy":
                step = whole(step)
        return step, wall

    def _add(self, tag: str, step: Any, wall: float | None, prepare: Callable[[], Prepared]) -> None:
        self._prepared(tag, *self._place(step, wall), prepare)

    def _prepared(self, tag: str, step: Any, wall: float | None, prepare: Callable[[], Prepared]) -> None:
        self._run.summary(tag, step, prepare, wall)

    def _ignored(self, name: str) -> None:
        what = f"SummaryWriter({name}=…) is not supported and is ignored"
        error = RecordError(what, hint="leave it out", path=os.fspath(self.log_dir))
        if self._opened is not None:
            self._opened.report("argument", error, points=0)

    # --- numbers and arrays ---

    def _add_unusual(
        self,
        tag: str,
        value: Any,
        step: Any,
        wall: float | None,
        new_style: bool | str,
        double_precision: bool | str,
        display_name: str,
        summary_description: str,
    ) -> None:
        step, wall = self._place(step, wall)
        if new_style or double_precision or display_name or summary_description:
            about = (
                new_style if isinstance(new_style, str) else display_name,
                double_precision if isinstance(double_precision, str) else summary_description,
            )
            style = bool(new_style is not False and not isinstance(new_style, str)), double_precision is True
            if style[0] or any(about):
                self._prepared(tag, step, wall, lambda: _scalar(value, about, *style))
                return
        if not isinstance(value, float):
            value = self._number(tag, value)
            if value is None:
                return
        if wall is None:
            self._run.scalar(tag, value, step)
        else:
            self._run.record({tag: value}, step, wall=wall)

    def _number(self, tag: str, value: Any) -> Any:
        """Return text that spells a number as that number, anything else unchanged; None if it is refused."""
        kind = getattr(getattr(value, "dtype", None), "kind", "")
        if not isinstance(value, str | bytes | list) and (
            not isinstance(kind, str) or kind not in ("S", "U")
        ):
            return value
        try:
            return encodings.number(value)
        except RefusalError as refusal:
            message = f"not recorded: {tag!r} must be one number, got {refusal.found}"
            self._run.report("value", RecordError(message, hint=refusal.hint, path=self._run.log_dir))
            return None

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record numbers that TensorBoard draws on one chart, each in a run of its own beside this one.

        Args:
            main_tag: The tag that they share.
            tag_scalar_dict: Numbers by name.
            global_step: Their step.
            walltime: Their time in seconds since the epoch.
        """
        step, wall = self._place(global_step, walltime)
        for name, value in tag_scalar_dict.items():
            place = f"{self.get_logdir()}/{str(main_tag).replace('/', '_')}_{name}"
            self._prepared(main_tag, step, wall, partial(self._branch, place, value, step, wall))

    def _branch(self, place: str, value: Any, step: Any, wall: float | None) -> Prepared:
        branch, plain = self._line(place), encodings.number(value)
        numbered = as_step(step)
        points = self.scalar_dict.setdefault(place, [])
        if isinstance(plain, float) and isinstance(numbered, int):
            points.append([self._run.clock.wall() if wall is None else wall, numbered, plain])
        return Prepared(lambda tag: branch.put(tag, plain, numbered, wall), 256)

    def export_scalars_to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the numbers of ``add_scalars`` so far as JSON, ``{line: [[time, step, value], …]}``."""
        Path(path).write_text(json.dumps(self.scalar_dict), encoding="utf-8")
        self.scalar_dict = {}

    def add_tensor(
        self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Record an array unchanged."""
        self._add(tag, global_step, walltime, lambda: encodings.tensor(tensor))

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Record the distribution of values.

        Args:
            tag: Name of the series.
            values: An array or tensor.
            global_step: Step at which the value was measured.
            bins: "tensorflow", or bins as for ``numpy.histogram``.
            walltime: Its time in seconds since the epoch.
            max_bins: Join bins until there are about this many.
        """
        edges = self.default_bins if isinstance(bins, str) and bins == "tensorflow" else bins
        self._add(tag, global_step, walltime, lambda: encodings.prepare_histogram(values, edges, max_bins))

    def add_histogram_raw(
        self,
        tag: str,
        min: float,  # noqa: A002  the originals' names
        max: float,  # noqa: A002
        num: float,
        sum: float,  # noqa: A002
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record a histogram that has been counted already."""
        facts = (min, max, num, sum, sum_squares)
        self._add(
            tag,
            global_step,
            walltime,
            lambda: encodings.prepare_raw_histogram(facts, bucket_limits, bucket_counts),
        )

    # --- pictures and sounds ---

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Record an image: uint8, or floats of 0 to 1."""
        self._add(tag, global_step, walltime, lambda: encodings.prepare_image(img_tensor, dataformats))

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Record several images as one, eight in a row: an array, or a list with ``dataformats="CHW"``."""
        self._add(tag, global_step, walltime, lambda: encodings.prepare_images(img_tensor, dataformats))

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float | str = 1,
        dataformats: Any = "CHW",
        labels: Any = None,
        **kwargs: Any,
    ) -> None:
        """Record an image with boxes drawn on it.

        Args:
            tag: Name of the series.
            img_tensor: The image.
            box_tensor: [n, 4]: left, top, right and bottom in pixels.
            global_step: Step at which the value was measured.
            walltime: Its time in seconds since the epoch.
            rescale: Factor of the size; tensorboardX has ``dataformats`` here.
            dataformats: Of the image; tensorboardX has ``labels`` here.
            labels: One per box.
            kwargs: Arguments of tensorboardX: ``rescale`` and ``dataformats`` are used, others ignored.
        """
        if isinstance(rescale, str):
            labels = labels if isinstance(dataformats, str) else dataformats
            rescale, dataformats = 1, rescale
        self._add(
            tag,
            global_step,
            walltime,
            lambda: encodings.prepare_image_with_boxes(
                img_tensor, box_tensor, float(rescale), dataformats, labels
            ),
        )

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Record a matplotlib figure, or several as one image.

        Args:
            tag: Name of the series.
            figure: A figure or a list of figures.
            global_step: Step at which the value was measured.
            close: Close it afterwards.
            walltime: Its time in seconds since the epoch.
        """
        self._add(tag, global_step, walltime, lambda: _figures(figure))
        pyplot = sys.modules.get("matplotlib.pyplot")
        if close and pyplot is not None:
            for one_figure in figure if isinstance(figure, list) else [figure]:
                pyplot.close(one_figure)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float | None = 4,
        walltime: float | None = None,
        dataformats: str = "NTCHW",
    ) -> None:
        """Record videos, side by side, as a GIF; no other package is needed."""
        self._add(
            tag, global_step, walltime, lambda: encodings.prepare_video(vid_tensor, fps or 4, dataformats)
        )

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Record a sound, values of -1 to 1: (1, L) or (L,); or (L, 2), as tensorboardX takes it."""
        self._add(tag, global_step, walltime, lambda: encodings.audio(snd_tensor, sample_rate))

    # --- texts ---

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Record a text in Markdown."""
        self._add(f"{tag}/text_summary", global_step, walltime, lambda: encodings.text(text_string))

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record precision and recall of a binary classifier."""
        self._add(
            tag,
            global_step,
            walltime,
            lambda: encodings.pr_curve(labels, predictions, num_thresholds, weights),
        )

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record a curve that has been computed already, one number per threshold in each argument."""
        rows = [
            true_positive_counts,
            false_positive_counts,
            true_negative_counts,
            false_negative_counts,
            precision,
            recall,
        ]
        self._add(tag, global_step, walltime, lambda: encodings.pr_curve_counts(rows, num_thresholds))

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Mapping[str, Any] | None = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Record a point cloud or a mesh: [batch, n, 3]."""
        self._add(tag, global_step, walltime, lambda: encodings.mesh(vertices, colors, faces, config_dict))

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Record vectors for the projector.

        Args:
            mat: [points, dimensions].
            metadata: One label per point.
            label_img: (N, C, H, W), one image per point.
            global_step: Step at which the value was measured.
            tag: Its name.
            metadata_header: Names of several columns of labels.
        """

        def prepare() -> Prepared:
            plain = as_step(step)
            number = plain if isinstance(plain, int) else int(plain.read())
            return encodings.prepare_embedding(
                os.fspath(self._run.log_dir), str(tag), number, mat, metadata, metadata_header, label_img
            )

        step, wall = self._place(global_step, None)
        self._prepared(tag, step, wall, prepare)

    # --- models -------------------------------------------------------------------------------------

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Record the graph of a torch module, as ``torch.jit`` sees it.

        If it cannot be traced so, or TensorBoard is not installed, the graph is that of ``torch.export``'s
        operations, or else of the modules. With ``own_file=True`` that graph, with the cost of each
        operation, is recorded as well.

        Args:
            model: The module.
            input_to_model: A tensor or a tuple of tensors to call it with.
            verbose: Also print the graph.
            use_strict_trace: See ``torch.jit.trace``.
        """
        self._run.event(_nothing, 0, tag="add_graph")  # tells of a closed run before the work
        try:
            from stepscope.integrations.torch.graph import as_tensorboard, trace

            made = as_tensorboard(model, input_to_model, verbose=verbose, strict=use_strict_trace)
            traced = trace(model, input_to_model) if self._own or not made else None
            if traced is not None and verbose:
                for node in traced.nodes:
                    print(f"{node.name}: {node.op}({', '.join(node.inputs)})")
        except Exception as error:  # noqa: BLE001  a model's own code, or one that cannot be traced
            refusal = f"not recorded: the graph of {type(model).__name__}: {error}"
            self._run.report("value", RecordError(refusal, hint=_GRAPH_HINT, path=self._run.log_dir))
            return
        if made is not None:
            self._get_file_writer().add_graph(made)
        elif traced is not None:
            self._run.graph(traced.nodes, costs=traced.costs or None, tag=PROFILE_TAG, step=0)
        if self._own and traced is not None:
            self._prepared(OWN_GRAPH, 0, None, lambda: own_graph("graph", traced.nodes))
            if traced.costs:
                self._prepared(OWN_COSTS, 0, None, lambda: own_graph("costs", traced.costs))

    def add_onnx_graph(self, prototxt: str | os.PathLike[str]) -> None:
        """Warn once that graphs of ONNX files are not recorded."""
        self._no_file_graph(prototxt)

    def add_openvino_graph(self, xmlname: str | os.PathLike[str]) -> None:
        """Warn once that graphs of OpenVINO files are not recorded."""
        self._no_file_graph(xmlname)

    def _no_file_graph(self, path: str | os.PathLike[str]) -> None:
        refusal = f"not recorded: the graph of the file {os.fspath(path)!r}"
        self._run.report("value", RecordError(refusal, hint=_FILE_GRAPH_HINT, path=self._run.log_dir))

    # --- the run as a whole -------------------------------------------------------------------------

    def add_hparams(
        self,
        hparam_dict: Mapping[str, Any],
        metric_dict: Mapping[str, Any],
        hparam_domain_discrete: Any = None,
        run_name: Any = None,
        global_step: Any = None,
        name: str | None = None,
    ) -> None:
        """Record hyper-parameters and their results, in a run of their own below this one.

        Args:
            hparam_dict: Hyper-parameters by name.
            metric_dict: Numbers by tag.
            hparam_domain_discrete: The values that a hyper-parameter can have; tensorboardX has ``name``
                here.
            run_name: Name of the run below, by default the time; "." is this run. tensorboardX has
                ``global_step`` here.
            global_step: Step of the numbers, by default 0.
            name: As ``run_name``.
        """
        if isinstance(hparam_domain_discrete, str):
            name, hparam_domain_discrete = hparam_domain_discrete, None
        if run_name is not None and not isinstance(run_name, str):
            global_step, run_name = run_name if global_step is None else global_step, None
        step, wall = self._place(global_step, None)
        place = os.path.join(self.get_logdir(), name or run_name or str(time.time()))  # noqa: PTH118  as text
        domains = {} if hparam_domain_discrete is None else hparam_domain_discrete
        own = os.path.normpath(place) == os.path.normpath(self.get_logdir())
        self._prepared(
            hparams.EXPERIMENT_TAG,
            step,
            wall,
            lambda: self._hyper(None if own else place, hparam_dict, metric_dict, domains, step),
        )

    def _hyper(
        self, place: str | None, given: Any, metrics: Any, domains: Mapping[str, Any], step: Any
    ) -> Prepared:
        values = hyper.records(given, metrics, domains)
        if place is None:
            for tag, value in metrics.items():
                self.add_scalar(tag, value, step)
            return Prepared(lambda _: values, 1024)
        numbers = [(str(tag), encodings.number(value)) for tag, value in metrics.items()]
        branch = self._branches.begin(place, self._local(place))
        at = as_step(step)
        return Prepared(lambda _: branch.put_all(values, numbers, at), 1024)

    def add_custom_scalars(self, layout: Mapping[str, Mapping[str, Sequence[Any]]]) -> None:
        """Record which tags share a chart: ``{category: {chart: ["Multiline" or "Margin", [tag, …]]}}``."""
        self._add(layouts.TAG, 0, None, lambda: encodings.layout(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Record that tags share a chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """Record that three tags are a value and its bounds."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})


class FileWriter(OwnFile):
    """Writes protocol buffers into an event file.

    Args:
        log_dir: The run's directory.
        max_queue: Accepted and not needed: no call waits for a queue.
        flush_secs: The longest that an event waits, at most 1 s.
        filename_suffix: End of the file's name.
        logdir: tensorboardX's name for ``log_dir``.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        logdir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._writer = writer = SummaryWriter(
            log_dir or logdir, max_queue=max_queue, flush_secs=flush_secs, filename_suffix=filename_suffix
        )
        super().__init__(writer.get_logdir(), put=writer._put_event, flush=writer.flush, close=writer.close)

    @contextmanager
    def use_metadata(self, *, global_step: Any = None, walltime: float | None = None) -> Iterator[FileWriter]:
        """Set step and time of values that are added in this block without them."""
        with self._writer.use_metadata(global_step=global_step, walltime=walltime):
            yield self


_global: GlobalSummaryWriter | None = None
_making = threading.Lock()


class GlobalSummaryWriter:
    """The one writer of a process, which counts the steps of each tag by itself; for code in many places.

    Args:
        logdir: The run's directory; other arguments are those of ``SummaryWriter``.
        comment: As for ``SummaryWriter``, like those that follow.
        purge_step: Likewise.
        max_queue: Likewise.
        flush_secs: Likewise.
        filename_suffix: Likewise.
        write_to_disk: Likewise.
        log_dir: Likewise.
        coalesce_process: Accepted; a forked child has to make a writer of its own, as with ``SummaryWriter``.
        kwargs: As for ``SummaryWriter``.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
        coalesce_process: bool = True,
        **kwargs: Any,
    ) -> None:
        self.smw = SummaryWriter(
            logdir or log_dir,
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            write_to_disk,
            **kwargs,
        )
        self._lock = threading.Lock()
        self._steps: Counter[tuple[str, str]] = Counter()

    def add_scalar(self, tag: str, scalar_value: Any, walltime: float | None = None) -> None:
        """Record a number at the next step of its tag."""
        self.smw.add_scalar(tag, scalar_value, self._next("scalar", tag), walltime)

    def add_image(
        self, tag: str, img_tensor: Any, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """Record an image at the next step of its tag."""
        self.smw.add_image(tag, img_tensor, self._next("image", tag), walltime, dataformats)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Record a histogram at the next step of its tag."""
        self.smw.add_histogram(tag, values, self._next("histogram", tag), bins, walltime, max_bins)

    def add_audio(
        self, tag: str, snd_tensor: Any, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """Record a sound at the next step of its tag."""
        self.smw.add_audio(tag, snd_tensor, self._next("audio", tag), sample_rate, walltime)

    def add_text(self, tag: str, text_string: str, walltime: float | None = None) -> None:
        """Record a text at the next step of its tag."""
        self.smw.add_text(tag, text_string, self._next("text", tag), walltime)

    @staticmethod
    def getSummaryWriter() -> GlobalSummaryWriter:  # noqa: N802  the original's name
        """Return the writer of this process, which the first call creates."""
        global _global
        with _making:
            if _global is None:
                _global = GlobalSummaryWriter()
            return _global

    @property
    def file_writer(self) -> OwnFile:
        """The object that accepts protocol buffers."""
        return self.smw._get_file_writer()

    def close(self) -> None:
        """Write everything and end the run."""
        self.smw.close()

    def _next(self, kind: str, tag: str) -> int:
        with self._lock:
            self._steps[kind, tag] += 1
            return self._steps[kind, tag] - 1


def _scalar(value: Any, about: tuple[str, str], new_style: bool, double: bool) -> Prepared:
    """Return a number as a tensor, or with its title and description."""
    plain = encodings.number(value)
    later = plain.read if not isinstance(plain, float) else lambda: plain
    if new_style:
        return encodings.scalar(later, double=double)
    return encodings.titled_scalar(later, *about)


def _figures(figure: Any) -> Prepared:
    """Draw figures immediately; without alpha, like the originals."""
    several = figure if isinstance(figure, list) else [figure]
    if not several or not all(hasattr(one_figure, "savefig") for one_figure in several):
        raise refused(f"{type(figure).__name__}, expected a matplotlib figure", "pass the figure itself")
    drawn = [rendered(one_figure)[:, :, :3] for one_figure in several]
    if len({picture.shape for picture in drawn}) > 1:
        raise refused("figures of several sizes", "give them one figsize, or log them one by one")
    return encodings.prepare_image(np.stack(drawn), "NHWC")


def own_graph(what: str, parts: Any) -> Prepared:
    """Return a graph, or the costs of its nodes, as a summary, for files that may hold no graph event.

    Args:
        what: "graph" or "costs".
        parts: The nodes, or their costs.
    """
    stored = Tensor.of_texts(serialized(what, parts))
    about = Metadata.of(GRAPHS if what == "graph" else RUN_METADATA)
    return Prepared(lambda tag: [Value(tag, tensor=stored, metadata=about)], len(stored.string_val[0]))


def _nothing() -> None:
    return None
