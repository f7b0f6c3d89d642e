"""``StepscopeLogger``: Lightning's values go into a run."""

from __future__ import annotations

import os
import sys
import weakref
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from stepscope.integrations.guard import guarded
from stepscope.integrations.holder import RunHolder
from stepscope.integrations.lightning.package import Logger, rank_zero_only
from stepscope.names.meanings import Meanings, meanings_at
from stepscope.record import Run
from stepscope.record.endings import outcome
from stepscope.record.problems import Reporter


class StepscopeLogger(Logger):  # type: ignore[misc]
    """Records values of a Lightning trainer and module: ``Trainer(logger=StepscopeLogger("runs/first"))``.

    The directory is the run: there are no names and versions below it, and checkpoints go to
    ``checkpoints`` in it. A second ``fit``, or a ``test`` after it, is a further attempt of the same run.

    Tags stay as they are logged, with one exception: a value that ``validation_step`` or ``test_step`` logs
    under another name is prefixed with ``eval/`` or ``test/``, because it would otherwise mix with the values
    of the training.

    Every rank has a run for its own role; Stepscope's rules assign the files to ranks.

    Args:
        run: The run's directory, or a run, which you then close.
        prefix: Put before every tag, with a slash.
        log_graph: Whether to record the module's graph when ``fit`` begins, called with its
            ``example_input_array``; without one, the tree of its modules.
        options: For ``stepscope.Run``: ``config``, ``tags``, ``hooks`` and so on.

    Raises:
        UsageError: Options that cannot be right.
    """

    def __init__(
        self, run: Run | str | os.PathLike[str], *, prefix: str = "", log_graph: bool = False, **options: Any
    ) -> None:
        super().__init__()
        self._holder = RunHolder(run, options)
        self._prefix, self._graph_wanted = prefix, log_graph
        self._meanings: Meanings | None = None
        self._trainer: weakref.ref[Any] | None = None

    # --- what Lightning asks for ----------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Empty: Lightning puts it between ``save_dir`` and its checkpoints, and the directory is the run."""
        return ""

    @property
    def version(self) -> str:
        """Empty, for the same reason."""
        return ""

    @property
    def save_dir(self) -> str:
        """The run's directory."""
        return self._holder.log_dir

    log_dir = root_dir = save_dir

    @property
    def experiment(self) -> Run:
        """The run, made if there is none; on ranks that do not write its methods do nothing."""
        return self._holder.run(**self._rank())

    run = experiment

    @guarded
    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record numbers of one step, except those of the sanity check before the training.

        Args:
            metrics: Values by tag.
            step: Lightning's count of optimizer steps, from 0.
        """
        trainer = None if self._trainer is None else self._trainer()
        if trainer is not None and trainer.sanity_checking:
            return
        split = _split(trainer)
        self.experiment.scalars(
            {self._tag(str(name), split): metric for name, metric in metrics.items()}, step
        )

    @guarded
    def log_hyperparams(
        self, params: Mapping[str, Any] | Namespace, metrics: Mapping[str, Any] | None = None, step: int = 0
    ) -> None:
        """Add to the run's configuration.

        Args:
            params: Whatever the module saved with ``save_hyperparameters()``.
            metrics: Numbers to record beside them.
            step: Their step.
        """
        facts = vars(params) if isinstance(params, Namespace) else params
        self._holder.describe({str(key): value for key, value in facts.items()})
        if metrics:
            numbers = {self._tag(str(name), None): metric for name, metric in metrics.items()}
            self.experiment.scalars(numbers, step)

    @guarded
    def log_graph(self, model: Any, input_array: Any = None) -> None:
        """Get to know the module and by it the trainer, whose stage names logged values; record its graph.

        Args:
            model: The module.
            input_array: Its argument; by default its ``example_input_array``.
        """
        self._know(getattr(model, "_trainer", None))
        if self._graph_wanted and self.experiment.role.writes:
            from stepscope.integrations.torch.graph import trace

            given = getattr(model, "example_input_array", None) if input_array is None else input_array
            mover = getattr(model, "_on_before_batch_transfer", None)
            if given is not None and mover is not None:
                given = model._apply_batch_transfer_handler(mover(given))
            traced = trace(model, given)
            self.experiment.graph(traced.nodes, costs=traced.costs or None, step=0)

    def save(self) -> None:
        """Do nothing: the run writes by itself, within its ``flush_secs``."""

    @guarded
    def finalize(self, status: str) -> None:
        """End the run: finished, failed or, after Ctrl-C, stopped.

        Args:
            status: Lightning's word: "success", "failed", or "finished" before a scheduler requeues the job.
        """
        if status == "success":
            self._holder.end()
        elif status == "finished":
            self._holder.end("stopped", "requeued")
        else:
            ended, reason = outcome(sys.exc_info()[1])
            self._holder.end("failed" if ended == "finished" else ended, reason)

    # --- what the callback asks for -------------------------------------------------------------------

    @property
    def holder(self) -> RunHolder:
        """The holder of the run."""
        return self._holder

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return self._holder.reporter

    def _know(self, trainer: Any) -> None:
        if trainer is not None:
            self._trainer = weakref.ref(trainer)

    def _tag(self, name: str, split: str | None) -> str:
        if self._meanings is None:
            self._meanings = meanings_at(self.save_dir)
        if split and name != "epoch" and self._meanings.part(name) is None:
            name = f"{split}/{name}"
        return f"{self._prefix}/{name}" if self._prefix else name

    def _rank(self) -> dict[str, int]:
        """Return the rank of a process that Lightning started, before the processes are joined."""
        rank = rank_zero_only.rank if rank_zero_only.rank is not None else 0
        torch = sys.modules.get("torch.distributed")
        if rank == 0 or (torch is not None and torch.is_available() and torch.is_initialized()):
            return {}
        return {"rank": rank, "world_size": max(int(os.environ.get("WORLD_SIZE", 0)), rank + 1)}

    def __getstate__(self) -> dict[str, Any]:
        """Leave the trainer behind."""
        return {**self.__dict__, "_trainer": None}


def _split(trainer: Any) -> str | None:
    if trainer is None:
        return None
    return "eval" if trainer.validating else "test" if trainer.testing else None
