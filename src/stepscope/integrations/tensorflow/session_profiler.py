"""ProfilerHook for the Estimator and other sessions, with the output of TensorFlow's hook and ProfileContext.

Each captured step leaves ``timeline-N.json`` for chrome://tracing and ``run_meta_N`` (RunMetadata); all of
them together a ``profile.context``, which tfprof, profiler-ui and ``stepscope profile`` read. The RunMetadata
of a capture's last step goes into the run, too, for the times, memory and shapes of the Graph page. In a job,
the captures of all processes that are due in one interval lie in one folder: together they are one profile.

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
from tensorflow.python.profiler import model_analyzer, tfprof_logger

from stepscope.capture.backend import CaptureOptions, Export, Exported, resident_facts
from stepscope.capture.hook import LambdaProfilerHook as LambdaCaptures
from stepscope.capture.hook import ProfilerHook as Captures
from stepscope.capture.hook import Ranks
from stepscope.capture.schedule import BeginVerdict, Schedule
from stepscope.events.kinds.graph import is_own
from stepscope.integrations.guard import guarded
from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.evaluation import evaluates
from stepscope.integrations.tensorflow.hooks import global_step, step_before
from stepscope.integrations.tensorflow.session import SessionHook, SessionPart, writes_summaries_to
from stepscope.integrations.tensorflow.writer import RunWriter
from stepscope.record import Run

v1: Any = tf.compat.v1
_timeline: Any = timeline
_analyzer: Any = model_analyzer
_logger: Any = tfprof_logger


class SessionBackend:
    """Keeps the RunMetadata of captured steps; the session's own tracer makes them.

    Args:
        show_dataflow: As for ``ProfilerHook``.
        show_memory: Likewise.
        timelines: Likewise.
        round_steps: Steps between two captures, after which the folder is named in which the processes of a
            job leave theirs; None to name it after the step.
    """

    name, format, ending = "tensorflow", "tfprof", ".tfprof"
    overlaps = True

    def __init__(
        self, *, show_dataflow: bool, show_memory: bool, timelines: bool, round_steps: int | None = None
    ) -> None:
        self.recording, self._round = False, round_steps or 1
        self._dataflow, self._memory, self._timelines = show_dataflow, show_memory, timelines
        self._steps: list[tuple[int, Any]] = []
        self._context: ContextWriter | None = None
        self.graph: Any = None

    def folder_of(self, step: int) -> str:
        """Return the folder of a capture that begins with a step."""
        return f"step{step // self._round * self._round:08d}"

    def start(self, wanted: CaptureOptions) -> None:
        """Have the next steps traced."""
        self._steps, self.recording = [], True

    def add(self, step: int, metadata: Any) -> int:
        """Keep the trace of a step; return how many steps of the capture are kept."""
        self._steps.append((step, metadata))
        return len(self._steps)

    def memory(self) -> dict[str, int]:
        """Return the resident set, in bytes."""
        return resident_facts()

    def stop(self) -> Export:
        """Stop tracing steps; the files are written later."""
        self.recording = False
        steps = self._steps
        self._steps = []
        if self._context is None or self._context.graph is not self.graph:
            self._context = ContextWriter(self.graph)
        context = self._context

        def export(path: Path) -> Exported:
            path.unlink()
            path.mkdir()
            for step, metadata in steps:
                (path / f"run_meta_{step}").write_bytes(metadata.SerializeToString())
            for step, metadata in steps if self._timelines else ():
                drawn = _timeline.Timeline(metadata.step_stats).generate_chrome_trace_format(
                    show_dataflow=self._dataflow, show_memory=self._memory
                )
                (path / f"timeline-{step}.json").write_text(drawn, encoding="utf-8")
            (path / "profile.context").write_bytes(context.of(steps))
            return Exported(path, notes=[] if steps else ["no step was traced"])

        return export


class ContextWriter:
    """Makes the ProfileProto of captured steps, as ProfileContext dumped it, without our operations.

    tfprof writes out the graph and collects the Python stacks of all operations anew for each step, which
    takes far longer than all else. Neither changes: it is done for the first capture alone.

    Args:
        graph: Of the session.
    """

    def __init__(self, graph: Any) -> None:
        self.graph = graph
        self._graph_def = self._op_log = b""

    def of(self, steps: list[tuple[int, Any]]) -> bytes:
        """Return the ProfileProto of some steps."""
        metadata = [(step, without_own(run_metadata)) for step, run_metadata in steps]
        first = metadata[0][1] if metadata else None
        if not self._op_log:
            self._op_log = _logger.merge_default_with_oplog(self.graph, run_meta=first).SerializeToString()
        flops = [
            _logger.merge_default_with_oplog(self.graph, run_meta=run_metadata, add_trace=False)
            for _, run_metadata in metadata
        ]
        if not self._graph_def:  # the run's metadata completed the shapes in it
            self._graph_def = self.graph.as_graph_def(add_shapes=True).SerializeToString()
        library = _analyzer.print_mdl
        library.NewProfiler(self._graph_def, self._op_log)
        try:
            for (step, run_metadata), op_log in zip(metadata, flops, strict=True):
                library.AddStep(step, b"", run_metadata.SerializeToString(), op_log.SerializeToString())
            data: bytes = library.SerializeToString()
            return data
        finally:
            library.DeleteProfiler()


def without_own(metadata: Any) -> Any:
    """Return RunMetadata without the times and memory of operations that Stepscope added to the graph."""
    copied = v1.RunMetadata()
    copied.CopyFrom(metadata)
    for device in copied.step_stats.dev_stats:
        nodes = [node for node in device.node_stats if not is_own(node.node_name)]
        if len(nodes) < len(device.node_stats):
            del device.node_stats[:]
            device.node_stats.extend(nodes)
    return copied


class SinceLast(Schedule):
    """The rhythm of TensorFlow's hook: so many steps, or seconds, after the last capture or the begin.

    In a job, steps are counted from multiples of ``save_steps``: each process takes its first step of every
    interval, so that the captures of all of them lie together and none drifts.

    Args:
        save_steps: Steps between two captures.
        save_secs: Seconds between two captures; at most one of the two.
        skip_first: Steps of the session that are never captured; the first one never is.

    Raises:
        UsageError: Two rhythms at once, or a number out of range.
    """

    def __init__(self, save_steps: int | None, save_secs: float | None, skip_first: int) -> None:
        super().__init__(save_steps=save_steps, save_secs=save_secs, skip_first=skip_first)
        self.last_step = 0
        """The step at which the session began, or that was captured last."""
        self.in_job = False

    def begins(self, step: int, now: float, verdict: Callable[[float, int], BeginVerdict]) -> bool:
        """Return whether a capture begins with this step; one that cannot begins as soon as possible."""
        asked, self._asked = self._asked, self._asked + 1
        if not asked and self.save_secs is not None:
            self._next_secs = now + self.save_secs
        if asked < max(self.skip_first, 1):
            return False
        due = step
        if self.save_steps is not None:
            every = int(self.save_steps)
            due = (self.last_step // every + 1) * every if self.in_job else self.last_step + every
        if step < due or (self.save_secs is not None and now < self._next_secs):
            return False
        answer = verdict(now, due)
        if answer is not BeginVerdict.LATER:
            self.last_step = step
            self._next_secs = now + (self.save_secs or 0.0)
        return answer is BeginVerdict.NOW


class SessionCaptures(Captures):
    """Captures in the rhythm of TensorFlow's hook."""

    def __init__(self, save_steps: int | None, save_secs: float | None, **options: Any) -> None:
        super().__init__(save_steps, save_secs, **options)
        if self.schedule.captures:
            self.schedule = SinceLast(save_steps, save_secs, self.schedule.skip_first)


class ProfiledSession(SessionPart):
    """One session whose steps are captured.

    Args:
        run: The run to record into.
        captures: Decides, and writes.
        backend: Keeps the traces.
        counts: Whether steps are counted from 1, as in an evaluation; else the global step numbers them.
    """

    def __init__(self, run: Run, captures: Captures, backend: SessionBackend, *, counts: bool) -> None:
        self.run, self.evaluates, self._captures, self._backend = run, counts, captures, backend
        self._fetch = None if counts else step_before(v1.get_default_graph())
        self._writer = RunWriter(run) if run.role.writes else None
        self._graph_wanted = self._writer is not None and not writes_summaries_to(run.log_dir)
        self._alone = run.role.world_size == 1
        if isinstance(captures.schedule, SinceLast):
            captures.schedule.in_job = not self._alone
        self._step, self._begun = 0, 0.0

    def begin(self, session: Any) -> None:
        """Read the graph, and the step at which this session begins."""
        self._backend.graph = session.graph
        if self._fetch is not None:
            self._step = global_step(session)
        self._seed()

    def before(self, session: Any) -> Any:
        """Begin a step, traced if it is captured."""
        self._begun = time.perf_counter()
        self._captures.before_step(self._step + 1)
        traced = v1.RunOptions(trace_level=v1.RunOptions.FULL_TRACE) if self._backend.recording else None
        return v1.train.SessionRunArgs(self._fetch, options=traced)

    def after(self, context: Any, values: Any) -> None:
        """End a step and keep its trace."""
        took = time.perf_counter() - self._begun
        self._step = self._number(values.results)
        traced = self._backend.recording
        if traced:
            if self._fetch is not None:
                self._step = int(context.session.run(self._fetch))
            if self._backend.add(self._step, values.run_metadata) == 1:
                self._seed()
        self._captures.note(self._step, took, None)
        if traced and not self._backend.recording:
            self._tell_graph(values.run_metadata)

    def end(self, session: Any) -> None:
        """Write the captured steps."""
        self._captures.end(self.run, "finished")

    def _number(self, values: Any) -> int:
        """Return the number of the step that ended.

        The global step that was fetched with it is from before or after the train op, as it happens. If only
        this process trains, it tells which. Among several, TensorFlow takes it to be the one before.
        """
        if values is None:
            return self._step + 1
        return int(values) + (not (self._alone and int(values) == self._step + 1))

    def _seed(self) -> None:
        if isinstance(self._captures.schedule, SinceLast):
            self._captures.schedule.last_step = self._step

    def _tell_graph(self, metadata: Any) -> None:
        """Record the cost of a capture's last step, as TensorFlow's hook does, and once the graph."""
        if self._writer is None:
            return
        if self._graph_wanted:
            self._writer.add_graph(self._backend.graph)
            self._graph_wanted = False
        self._writer.add_run_metadata(without_own(metadata), f"step_{self._step}", self._step)


class ProfilerHook(SessionHook):
    """Captures steps: ``estimator.train(…, hooks=[ProfilerHook(save_steps=500, run="runs/a")])``.

    Arguments and rhythm are those of TensorFlow's hook: of a session that begins at step 0, the steps 500,
    1000, …, one step each, in every process that has the hook. ``ss.ProfilerHook`` handles its captures:
    requests from the page and the command line, and bounded disk. In training steps are numbered by the
    global step as it is after the step, in an evaluation they are counted from 1.

    Args:
        save_steps: Steps between two captures.
        save_secs: Seconds between two captures; not both.
        output_dir: Directory of the run, if ``run`` is not given.
        show_dataflow: Arrows between operators in the timeline.
        show_memory: Tensors and allocators in the timeline.
        run: The run or its directory.
        timelines: Whether ``timeline-N.json`` is made; expensive for large graphs.
        num_steps: Steps in one capture.
        ranks: As for ``ss.ProfilerHook``.
        skip_first: Likewise; the first step of a session is never captured by the rhythm.
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
        num_steps: int = 1,
        ranks: Ranks = "all",
        skip_first: int = 0,
        **options: Any,
    ) -> None:
        self._where = run or output_dir
        self._settings: dict[str, Any] = {
            "show_dataflow": show_dataflow,
            "show_memory": show_memory,
            "timelines": timelines,
        }
        self._save_steps = save_steps
        rhythm = {"save_steps": save_steps, "save_secs": save_secs}
        self._options = {
            **rhythm,
            "num_steps": num_steps,
            "ranks": ranks,
            "skip_first": skip_first,
            **options,
        }
        self._make_captures()  # refuses now what cannot be right
        super().__init__()

    def _make_captures(self, **more: Any) -> Captures:
        return SessionCaptures(**self._options, **more)

    @guarded
    def begin(self) -> None:
        """Join the run. Evaluations take place within the session of the training."""
        evaluating = evaluates()
        place = self._where
        if evaluating and not isinstance(place, Run) and place is not None:
            place = Path(place) / "eval"
        run = runs.join(place, self)
        rounds = self._save_steps if run.role.world_size > 1 else None
        backend = SessionBackend(**self._settings, round_steps=rounds)
        captures = self._make_captures(backend=backend)
        captures.begin(run)
        self._enter(ProfiledSession(run, captures, backend, counts=evaluating))


class LambdaProfilerHook(ProfilerHook):
    """Captures the steps for which a function says so: ``hooks=[LambdaProfilerHook(lambda step: …, run=…)]``.

    Args:
        predicate: Called with the number of every step, as the global step is after it.
        output_dir: Directory of the run, if ``run`` is not given.
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
