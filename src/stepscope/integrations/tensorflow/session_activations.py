"""Activations of an Estimator, or of any session that trains, fetched with the steps that are sampled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from stepscope.errors import RecordError
from stepscope.events.kinds.graph import OWN_SCOPE
from stepscope.integrations.tensorflow.session_gradients import Fetched, GradientSessionHook
from stepscope.integrations.tensorflow.statistics import FAR, rows_of
from stepscope.record import Run
from stepscope.record.statistics import ActivationHook
from stepscope.record.statistics.hooks import ActivationReport
from stepscope.record.statistics.table import table

KINDS = {
    **dict.fromkeys(("Relu", "Relu6"), "relu"),
    "Tanh": "tanh",
    "Sigmoid": "sigmoid",
    **dict.fromkeys(("Elu", "Selu", "LeakyRelu", "Softplus", "Softsign"), ""),
}
"""Types of operations that are a layer's activation, and whether it can be dead or saturated."""


class ActivationSessionHook(GradientSessionHook):
    """Records statistics of the outputs of activation functions in the graph of a session that trains.

    They are found by their operations (``Relu``, ``Sigmoid``, ``Tanh`` …) and named by the scope that these
    are in; those within loops and conditions of the graph cannot be fetched and are left out. Statistics are
    operations of the graph, which only sampled steps fetch. Of several processes, the chief records its own.

    Args:
        run: The run or its directory; the same as for ``StepscopeHook`` if there is one.
        hook: Chooses the quantities, the steps and the layers; by default ``ActivationHook()``. A function as
            ``layers`` is called with the name and the operation's output.
        options: For ``Run``, if it is made here.
    """

    def __init__(
        self, run: Run | str | os.PathLike[str], hook: ActivationHook | None = None, **options: Any
    ) -> None:
        super().__init__(run, hook or ActivationHook(), **options)  # type: ignore[arg-type]

    def _fetched(self, run: Run) -> Any:
        return FetchedActivations(run, self._hook)  # type: ignore[arg-type]


class FetchedActivations(Fetched):
    """The activations of one graph."""

    def __init__(self, run: Run, hook: ActivationHook) -> None:
        self._hook, self._report = hook, ActivationReport(run, hook.stats, hook.window)
        super().__init__(run, hook)

    def _build(self) -> None:
        graph, hook = tf.compat.v1.get_default_graph(), self._hook
        tensors = {name: tensor for name, tensor in outputs(graph) if hook.wants(name, tensor)}
        self._names = list(tensors)
        if not tensors:
            error = RecordError(
                "activations are not recorded: no operation of the graph is an activation function that is "
                "wanted",
                hint=f"found by type: {', '.join(KINDS)}",
                path=self.run.log_dir,
            )
            self.run.report("statistics", error)
            return
        self._watch_steps(graph)
        kinds = {name: KINDS[tensor.op.type] for name, tensor in tensors.items()}
        far = {name: FAR[kind](tensors[name]) for name, kind in kinds.items() if kind in FAR}
        units = {name: tensors[name] for name, kind in kinds.items() if kind == "relu"}
        self._statistics = {
            histograms: [
                row for row in rows_of(list(tensors.values()), histograms=histograms) if row is not None
            ]
            for histograms in ((False, True) if hook.histograms_every else (False,))
        }
        self._more = {
            "sizes": tf.stack([tf.size(tensor, tf.int64) for tensor in tensors.values()]),
            "saturated": {
                name: tf.reduce_mean(tf.cast(tensor >= hook.saturated, tf.float64))
                for name, tensor in far.items()
            },
            "active": {
                name: tf.reduce_any(tf.not_equal(tensor, 0), axis=list(range(tensor.shape.rank - 1)))
                for name, tensor in units.items()
                if tensor.shape.rank and tensor.shape.rank > 1
            },
        }

    def fetches(self, session: Any) -> dict[str, Any]:
        """Return the tensors to fetch with the coming step."""
        if not self._names:
            return {}
        self._program = "none"
        if not self._sampling.due(self.next):
            return {"step": self._step}
        histograms = self._sampling.histogram_due(self.next)
        self._program = "histograms" if histograms else "full"
        return {"step": self._step, "rows": self._statistics[histograms], **self._more}

    def _record(self, step: int, values: dict[str, Any]) -> None:
        if "rows" not in values:
            return
        floats, integers, *counts = values["rows"]
        rows = table(values["sizes"].tolist(), floats, integers, counts[0] if counts else None)
        saturated = {name: float(share) for name, share in values["saturated"].items() if np.isfinite(share)}
        self._report.take(step, self._names, rows, saturated=saturated, active=values["active"])


def outputs(graph: Any) -> Iterator[tuple[str, Any]]:
    """Yield name and output of each activation function of a graph that a step can fetch.

    An operation at the end of its layer's scope has the layer's name: ``dnn/hiddenlayer_0/Relu``.
    """
    seen: set[str] = set()
    for op in graph.get_operations():
        within = f"/{op.name}"
        if op.type not in KINDS or "/gradients" in within or f"/{OWN_SCOPE}/" in f"{within}/":
            continue
        if op._get_control_flow_context() is not None or not op.outputs[0].dtype.is_floating:
            continue
        scope, _, last = op.name.rpartition("/")
        name = scope if scope and last == op.type and scope not in seen else op.name
        seen.add(name)
        yield name, op.outputs[0]
