"""Gradients of an Estimator, or of any session that trains, fetched with the steps that are sampled."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from stepscope.errors import RecordError
from stepscope.events.kinds.graph import OWN_SCOPE
from stepscope.integrations.guard import guarded
from stepscope.integrations.tensorflow import runs
from stepscope.integrations.tensorflow.evaluation import evaluates
from stepscope.integrations.tensorflow.hooks import global_step, step_before
from stepscope.integrations.tensorflow.session import SessionHook, SessionPart
from stepscope.integrations.tensorflow.statistics import norm_of, rows_of
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook, GradientHook
from stepscope.record.statistics.hooks import record
from stepscope.record.statistics.sampling import ReadyPace, SamplingBudget
from stepscope.record.statistics.table import StatisticsWriter, table

APPLY = re.compile(r"(Resource)?(Sparse)?Apply[A-Z]")
"""Types of operations that apply a gradient to a variable."""
REPLICA = re.compile(r"/replica_\d+$")


class GradientSessionHook(SessionHook):
    """Records statistics of the gradients that a session's optimizer applies, and of the weights before.

    They are found in the graph where operations apply them: after averaging over the replicas of a strategy,
    clipping, or other changes by the model function. Statistics are operations of the graph, which only
    sampled steps fetch. Of several processes, the chief records.

    Args:
        run: The run or its directory; the same as for ``StepscopeHook`` if there is one.
        hook: Chooses the quantities, the steps and the variables; by default ``GradientHook()``. ``updates``
            are not measured. ``max_overhead`` goes by how much longer the session takes for sampled steps.
        options: For ``Run``, if it is made here.
    """

    def __init__(
        self, run: Run | str | os.PathLike[str], hook: GradientHook | None = None, **options: Any
    ) -> None:
        super().__init__()
        self._where, self._hook, self._options = run, hook or GradientHook(), options

    @guarded
    def begin(self) -> None:
        """Find the gradients in the graph and add their statistics to it."""
        if evaluates():
            self._enter(Unmeasured())
        else:
            self._enter(self._fetched(runs.join(self._where, self, **self._options)))

    def _fetched(self, run: Run) -> Fetched:
        return FetchedGradients(run, self._hook)


class Unmeasured(SessionPart):
    """An evaluation."""

    evaluates = True


class Fetched(SessionPart):
    """Statistics of one graph, fetched with the steps that are sampled.

    Args:
        run: The run to record into.
        hook: Chooses the quantities.
    """

    def __init__(self, run: Run, hook: GradientHook | ActivationHook) -> None:
        if hook not in run.hooks:
            run.add_hook(hook)  # where captures find which steps it measures
        hook.parts.append(self)
        self.run, self._sampling = run, hook.sampling()
        self._pace, self._budget = ReadyPace(), SamplingBudget(hook, self._sampling)
        self.next, self._runs, self._names = 1, 0, list[str]()
        self._program = "none"
        """The statistics that the step fetches, by the name under which its time is compared."""
        if run.role.writes:
            # The trailing slash keeps it one scope, whatever scope this is in.
            with tf.compat.v1.name_scope(f"{OWN_SCOPE}/"):
                self._build()

    def _build(self) -> None:
        """Add the statistics to the graph."""
        raise NotImplementedError

    def begin(self, session: Any) -> None:
        """Read the step at which this session begins."""
        self.next = global_step(session) + 1

    def before(self, session: Any) -> Any:
        """Fetch what the coming step measures."""
        fetches = self.fetches(session)
        return tf.compat.v1.train.SessionRunArgs(fetches) if fetches else None

    def fetches(self, session: Any) -> dict[str, Any]:
        """Return the tensors to fetch with the coming step."""
        raise NotImplementedError

    def after(self, context: Any, values: Any) -> None:
        """Record the fetched values, at the number of the step as the Estimator counts."""
        fetched = values.results or {}
        if "step" not in fetched:
            return
        step = int(context.session.run(self._step)) if self._single else int(fetched["step"]) + 1
        self.next, self._runs = step + 1, self._runs + 1
        kind = self._program.partition(":")[0]
        self._pace.ready(self._runs, kind, self._program)
        if kind in {"full", "histograms"}:
            self._budget.spent(step, self._pace.sample_seconds, self._pace.step_seconds)
        self._record(step, fetched)

    def _record(self, step: int, values: dict[str, Any]) -> None:
        raise NotImplementedError

    def finish(self, timeout: float) -> None:
        """Do nothing: fetched values are recorded already."""

    def _watch_steps(self, graph: Any) -> None:
        self._step, self._single = step_before(graph), self.run.role.world_size == 1


class FetchedGradients(Fetched):
    """The gradients of one graph, and the weights before the step."""

    def __init__(self, run: Run, hook: GradientHook) -> None:
        self._hook, self.whole, self._weights = hook, False, None
        self._writer = StatisticsWriter(run, hook.stats)
        super().__init__(run, hook)

    def _build(self) -> None:
        hook = self._hook
        graph = tf.compat.v1.get_default_graph()
        pairs = {name: pair for name, *pair in applied(graph)}
        taken = [name for name, (gradient, _) in pairs.items() if not fetchable(gradient)]
        self._names = [name for name in pairs if hook.wants(name, pairs[name][1])] if not taken else []
        self.whole = len(self._names) == len(pairs)
        if not self._names:
            self._tell(taken)
            return
        self._watch_steps(graph)
        gradients, weights = (
            dict(zip(pairs, side, strict=True)) for side in zip(*pairs.values(), strict=True)
        )
        self._norm = norm_of(list(gradients.values()))
        self._sizes = [int(gradients[name].shape.num_elements()) for name in self._names]
        kinds = {"gradients": gradients, "weights": weights}
        self._full = {
            (kind, part, histograms): [
                row for row in rows_of(self._of_part(arrays, part), histograms=histograms) if row is not None
            ]
            for kind, arrays in kinds.items()
            if kind in hook.of
            for part in range(hook.rotate)
            for histograms in ((False, True) if hook.histograms_every else (False,))
        }

    def fetches(self, session: Any) -> dict[str, Any]:
        """Return the tensors to fetch with the coming step, and look at the weights before it."""
        if not self._names:
            return {}
        self._weights, self._program = None, "norm"
        if not self._sampling.due(self.next):
            return {"step": self._step, **({"norm": self._norm} if self._hook.norm_every_step else {})}
        part = self._sampling.turn(self.next, self._hook.rotate)
        histograms = self._sampling.histogram_due(self.next)
        self._program = f"{'histograms' if histograms else 'full'}:{part}"
        if ("weights", part, histograms) in self._full:
            self._weights = session.run(self._full["weights", part, histograms])
        asked = {"step": self._step, "norm": self._norm}
        if ("gradients", part, histograms) in self._full:
            asked["gradients"] = self._full["gradients", part, histograms]
        return asked

    def _record(self, step: int, values: dict[str, Any]) -> None:
        if "norm" not in values:
            return
        kinds = {"gradients": values.get("gradients"), "weights": self._weights}
        tables = {
            kind: table(self._sizes, parts[0], parts[1], parts[2] if len(parts) > 2 else None)
            for kind, parts in kinds.items()
            if parts is not None
        }
        norm = float(values["norm"])
        whole = self.whole and self._hook.rotate == 1
        names = dict.fromkeys(tables, self._names)
        record(self._writer, self._hook, step, names, tables, norm=norm, whole=whole)

    def _of_part(self, arrays: dict[str, Any], part: int) -> list[Any]:
        """Return the arrays of one part of those that are wanted, None in place of others."""
        turns = self._hook.rotate
        return [arrays[name] if row % turns == part else None for row, name in enumerate(self._names)]

    def _tell(self, taken: list[str]) -> None:
        what = (
            f"the gradient of {taken[0]} is handed over between processes"
            if taken
            else "no operation of the graph applies one that is wanted"
        )
        error = RecordError(
            f"gradients are not recorded: {what}",
            hint="see the limits in docs/guides/frameworks/tensorflow.md",
            path=self.run.log_dir,
        )
        self.run.report("gradients", error)


def applied(graph: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, gradient and weight of each variable that an operation of the graph trains."""
    variables = {
        variable.op.name: variable for variable in tf.compat.v1.global_variables() if hasattr(variable, "op")
    }
    for one in graph.get_collection(tf.compat.v1.GraphKeys.TRAINABLE_RESOURCE_VARIABLES):
        variables[one.op.name] = one
    seen: set[str] = set()
    for op in graph.get_operations():
        if not APPLY.match(op.type):
            continue
        inputs = {argument.name: op.inputs[at] for at, argument in enumerate(op.op_def.input_arg)}
        gradient, name = inputs.get("grad", inputs.get("delta")), inputs["var"].op.name
        if gradient is None or REPLICA.search(name) or name in seen or not gradient.dtype.is_floating:
            continue
        weight = read(variables.get(name), inputs["var"], gradient.dtype)
        if weight is None or not weight.shape.is_fully_defined():
            continue
        if "indices" in inputs:
            rows = weight.shape[0]
            gradient = tf.math.unsorted_segment_sum(gradient, inputs["indices"], rows)
        seen.add(name)
        yield name, tf.ensure_shape(gradient, weight.shape), weight


def read(variable: Any, var: Any, dtype: Any) -> Any:
    """Return the value of a variable that an operation trains; None if it cannot be read."""
    if var.dtype != tf.resource:
        return tf.identity(var) if not var.dtype._is_ref_dtype else tf.convert_to_tensor(variable)
    if variable is not None and variable.shape.is_fully_defined():
        return tf.ensure_shape(tf.raw_ops.ReadVariableOp(resource=var, dtype=dtype), variable.shape)
    return None


def fetchable(gradient: Any) -> bool:
    """Return whether a gradient may be fetched: not from an accumulator, which that would empty."""
    seen, waiting = set(), [gradient.op]
    while waiting:
        op = waiting.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        if op.type.endswith("TakeGradient"):
            return False
        waiting += [tensor.op for tensor in op.inputs]
    return True
