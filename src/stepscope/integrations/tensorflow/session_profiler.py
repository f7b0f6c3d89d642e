"""ProfilerHook for the Estimator and other sessions, with the output of TensorFlow's hook and ProfileContext.

Each captured step leaves ``timeline-N.json`` for chrome://tracing and ``run_meta_N`` (RunMetadata); all of
them together a ``profile.context``, which tfprof, profiler-ui and ``stepscope profile`` read. The RunMetadata
of a capture's last step goes into the run, too, where the Graph finds times, memory and shapes. Captures of
all processes that are due at one step lie in one folder: together they are one profile.

Operations that Stepscope itself added to the graph are in the timelines and in RunMetadata, because they took
time, but not among the costs: neither in ``profile.context`` nor in the Graph.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.client import timeline
from tensorflow.python.profiler import model_analyzer

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.capture.hook import LambdaProfilerHook as LambdaCaptures
from stepscope.capture.hook import ProfilerHook as Captures
from stepscope.events.kinds.graph import is_own
from stepscope.integrations.guard import guarded
from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.evaluation import evaluates
from stepscope.integrations.tensorflow.hooks import global_step
from stepscope.integrations.tensorflow.session import writes_summaries_to
from stepscope.integrations.tensorflow.writer import RunWriter
from stepscope.record import Run
from stepscope.record.problems import Problems, Reporter

v1: Any = tf.compat.v1
_timeline: Any = timeline
_analyzer: Any = model_analyzer


class SessionBackend:
    """Keeps the RunMetadata of captured steps; the session's own tracer makes them.

    Args:
        show_dataflow: As for ``ProfilerHook``.
        show_memory: Likewise.
        timelines: Likewise.
        round_steps: Steps between two captures, after which a capture's folder is named; None for none.
    """

    name, format, ending = "tensorflow", "tfprof", ".tfprof"

    def __init__(
        self, *, show_dataflow: bool, show_memory: bool, timelines: bool, round_steps: int | None = None
    ) -> None:
        self.recording, self._round = False, round_steps or 1
        self._dataflow, self._memory, self._timelines = show_dataflow, show_memory, timelines
        self._steps: list[tuple[int, Any]] = []
        self.graph: Any = None

    def folder_of(self, step: int) -> str:
        """Return the folder of a capture that begins with a step, which all processes share."""
        return f"step{step // self._round * self._round:08d}"

    def start(self, wanted: CaptureOptions) -> None:
        """Have the next steps traced."""
        self._steps, self.recording = [], True

    def add(self, step: int, metadata: Any) -> None:
        """Keep what a traced step left."""
        self._steps.append((step, metadata))

    def memory(self) -> dict[str, int]:
        """Return the resident set, in bytes."""
        return resident_facts()

    def stop(self) -> Export:
        """Stop tracing steps; the files are written later."""
        self.recording = False
        steps, graph = self._steps, self.graph
        self._steps = []

        def export(path: Path) -> Exported:
            path.unlink()
            path.mkdir()
            # What all else can be made of comes first: drawing timelines takes far longer.
            (path / "profile.context").write_bytes(context(graph, steps))
            for step, metadata in steps:
                (path / f"run_meta_{step}").write_bytes(metadata.SerializeToString())
            for step, metadata in steps if self._timelines else ():
                drawn = _timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(
                    show_dataflow=self._dataflow, show_memory=self._memory
                )
                (path / f"timeline-{step}.json").write_text(drawn, encoding="utf-8")
            return Exported(path, notes=[] if steps else ["no step was traced"])

        return export


def context(graph: Any, steps: list[tuple[int, Any]]) -> bytes:
    """Return the ProfileProto of all captured steps, as ProfileContext dumped it, without our operations."""
    profiler = _analyzer.Profiler(graph)
    for step, metadata in steps:
        profiler.add_step(step, without_own(metadata))
    found: bytes = profiler.serialize_to_string()
    return found


def without_own(metadata: Any) -> Any:
    """Return RunMetadata without the times and memory of operations that Stepscope added to the graph."""
    found = v1.RunMetadata()
    found.CopyFrom(metadata)
    for device in found.step_stats.dev_stats:
        nodes = [node for node in device.node_stats if not is_own(node.node_name)]
        if len(nodes) < len(device.node_stats):
            del device.node_stats[:]
            device.node_stats.extend(nodes)
    return found


class ProfilerHook(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc, unused-ignore]
    """Captures steps: ``estimator.train(…, hooks=[ProfilerHook(save_steps=500, run="runs/a")])``.

    Arguments and rhythm are those of ``ss.ProfilerHook``, which does the work: requests from the
    page and the command line, and bounded disk are the same. In training steps are numbered by the global
    step as it is after the step, in an evaluation they are counted from 1.

    Args:
        save_steps: Steps between two captures.
        save_secs: Seconds between two captures; not both.
        output_dir: Directory of the run, where ``run`` is not given.
        show_dataflow: Arrows between operators in the timeline.
        show_memory: Tensors and allocators in the timeline.
        run: The run or its directory.
        timelines: Whether ``timeline-N.json`` is made; expensive for large graphs.
        options: As for ``ss.ProfilerHook``.

    Raises:
        UsageError: An argument cannot be right.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        show_dataflow: bool = True,
        show_memory: bool = False,
        *,
        run: Run | str | os.PathLike[str] | None = None,
        timelines: bool = True,
        **options: Any,
    ) -> None:
        self._where = run or output_dir
        self._settings: dict[str, Any] = {
            "show_dataflow": show_dataflow,
            "show_memory": show_memory,
            "timelines": timelines,
            "round_steps": save_steps,
        }
        self._options = {"save_steps": save_steps, "save_secs": save_secs, **options}
        self._captures = self._make_captures()  # refuses now what cannot be right
        self._backend = SessionBackend(**self._settings)
        self._run: Run | None = None
        self._alone = Problems()
        self._step = 0
        self._begun = 0.0
        self._fetch: Any = None
        self._writer: RunWriter | None = None
        self._graph_wanted = False

    def _make_captures(self, **more: Any) -> Captures:
        return Captures(**self._options, **more)

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return self._alone if self._run is None else self._run

    @guarded
    def begin(self) -> None:
        """Join the run."""
        evaluating = evaluates()
        place = self._where
        if evaluating and not isinstance(place, Run) and place is not None:
            place = Path(place) / "eval"
        self._run = runs.join(place, self)
        self._backend = SessionBackend(**self._settings)
        self._captures = self._make_captures(backend=self._backend)
        self._captures.begin(self._run)
        self._writer = RunWriter(self._run) if self._run.role.writes else None
        self._graph_wanted = self._writer is not None and not writes_summaries_to(self._run.log_dir)
        self._fetch = None if evaluating else v1.train.get_global_step()
        self._step = 0

    @guarded
    def after_create_session(self, session: Any, coord: Any) -> None:
        """Read the graph, and the step at which this session begins."""
        self._backend.graph = session.graph
        if self._fetch is not None:
            self._step = global_step(session)

    @guarded
    def before_run(self, run_context: Any) -> Any:
        """Trace the step if it is captured."""
        self._begun = time.perf_counter()
        self._captures.before_step(self._step + 1)
        traced = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE) if self._backend.recording else None
        return v1.train.SessionRunArgs(self._fetch, options=traced)

    @guarded
    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keep what was traced."""
        found = run_values.results
        # The global step may be read before or after the train op adds to it.
        self._step = max(0 if found is None else int(found), self._step + 1)
        traced = self._backend.recording
        if traced:
            self._backend.add(self._step, run_values.run_metadata)
        self._captures.note(self._step, time.perf_counter() - self._begun, None)
        if traced and not self._backend.recording:
            self._tell_graph(run_values.run_metadata)

    def _tell_graph(self, metadata: Any) -> None:
        """Record the cost of a capture's last step, as TensorFlow's hook does, and once the graph."""
        if self._writer is None:
            return
        if self._graph_wanted:
            self._writer.add_graph(self._backend.graph)
            self._graph_wanted = False
        self._writer.add_run_metadata(without_own(metadata), f"step_{self._step}", self._step)

    @guarded
    def end(self, session: Any) -> None:
        """Write what was captured and leave the run."""
        if self._run is not None:
            self._captures.end(self._run, "finished")
            runs.leave(self._run, self)


class LambdaProfilerHook(ProfilerHook):
    """Captures the steps for which a function says so: ``hooks=[LambdaProfilerHook(lambda step: …, run=…)]``.

    Args:
        predicate: Called with the number of every step, as the global step is after it.
        output_dir: Directory of the run, where ``run`` is not given.
        options: As for ``ProfilerHook``, without ``save_steps`` and ``save_secs``.

    Raises:
        UsageError: An argument cannot be right.
    """

    def __init__(
        self, predicate: Callable[[int], object], output_dir: str | None = None, **options: Any
    ) -> None:
        self._predicate = predicate
        super().__init__(output_dir=output_dir, **options)

    def _make_captures(self, **more: Any) -> Captures:
        options = {name: value for name, value in self._options.items() if value is not None}
        return LambdaCaptures(self._predicate, **options, **more)
