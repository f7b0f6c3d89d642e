"""SummaryWriter: the interface of torch's and of tensorboardX's, on top of a run."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

from stepscope.compat import encodings, hyper
from stepscope.compat.arrays import NumberMethods
from stepscope.compat.curves import Curves
from stepscope.compat.dialect import number
from stepscope.compat.file_writer import OwnFile
from stepscope.compat.media import Media
from stepscope.errors import RecordError
from stepscope.events import hparams
from stepscope.events.kinds import layout as layouts
from stepscope.events.kinds.graph import OWN_COSTS, OWN_GRAPH
from stepscope.record.summaries.encoder import Prepared
from stepscope.record.values import as_step

_GRAPH_HINT = "pass the module and an example of what it is called with, on its device"
_FILE_GRAPH_HINT = "record the graph of the module itself with add_graph(model, example)"


class SummaryWriter(NumberMethods, Media, Curves):
    """Records as ``torch.utils.tensorboard.SummaryWriter`` and ``tensorboardX.SummaryWriter`` do.

    Scripts only change their import, and what is written is what torch writes, record for record;
    ``stepscope.compat.tensorboardx`` has the writer that writes as tensorboardX does.
    ``docs/guides/compat.md`` lists the differences: nothing waits for a queue, ``flush`` writes everything.

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
            from stepscope.compat import models
            from stepscope.integrations.torch.graph import as_tensorboard

            made = as_tensorboard(model, input_to_model, verbose=verbose, strict=use_strict_trace)
            found = models.measured(model, input_to_model, verbose=verbose) if self._own or not made else None
        except Exception as error:  # noqa: BLE001  a model's own code, or one that cannot be traced
            refusal = f"not recorded: the graph of {type(model).__name__}: {error}"
            self._run.report("value", RecordError(refusal, hint=_GRAPH_HINT, path=self._run.log_dir))
            return
        if made is not None:
            self._get_file_writer().add_graph(made)
        elif found is not None:
            self._run.graph(found.nodes, costs=found.costs or None, tag=self._dialect.profile_tag, step=0)
        if self._own and found is not None:
            self._prepared(OWN_GRAPH, 0, None, lambda: models.own_graph("graph", found.nodes))
            if found.costs:
                self._prepared(OWN_COSTS, 0, None, lambda: models.own_graph("costs", found.costs))

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
            0 if self._dialect.whole_metrics else step,
            wall,
            lambda: self._hyper(None if own else place, hparam_dict, metric_dict, domains, step),
        )

    def _hyper(
        self, place: str | None, given: Any, metrics: Any, domains: Mapping[str, Any], step: Any
    ) -> Prepared:
        values = hyper.records(given, metrics, domains, self._dialect)
        if place is None:
            for tag, value in metrics.items():
                self.add_scalar(tag, value, step)
            return Prepared(lambda _: values, 1024)
        numbers = [(str(self._dialect.tag(tag)), number(value)) for tag, value in metrics.items()]
        branch = self._branches.begin(place, self._local(place))
        at, begins = as_step(step), 0 if self._dialect.whole_metrics else as_step(step)
        return Prepared(lambda _: branch.put_all(values, begins, numbers, at), 1024)

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
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        writer = SummaryWriter(
            log_dir, max_queue=max_queue, flush_secs=flush_secs, filename_suffix=filename_suffix
        )
        tag = writer._dialect.profile_tag
        put, flush, close = writer._put_event, writer.flush, writer.close
        super().__init__(writer.get_logdir(), tag, put=put, flush=flush, close=close)


def _nothing() -> None:
    return None
