"""Hugging Face Accelerate: ``StepscopeTracker`` for ``Accelerator(log_with=…)``."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from accelerate.tracking import GeneralTracker

from stepscope.integrations.guard import guarded
from stepscope.integrations.holder import RunHolder
from stepscope.names.settings import leaves
from stepscope.record import Run
from stepscope.record.endings import outcome
from stepscope.record.problems import Reporter

__all__ = ["StepscopeTracker"]


class StepscopeTracker(GeneralTracker):  # type: ignore[misc]
    """Records the values of ``accelerator.log``: ``Accelerator(log_with=StepscopeTracker("runs/first"))``.

    ``init_trackers(name, config=…)`` begins the run and ``end_training()`` ends it; in an ``except`` or
    ``finally`` block reached by an exception, as failed or stopped. Steps are measured by looping over
    ``tracker.run.steps(loader)``. Every process has a run for its own role; Stepscope's rules assign the
    files to processes.

    Args:
        run: The run's directory, or a run, which you then close.
        options: For ``stepscope.Run``: ``config``, ``tags``, ``hooks`` and so on.

    Raises:
        UsageError: Options that cannot be right.
    """

    name = "stepscope"
    requires_logging_directory = False
    main_process_only = False

    def __init__(self, run: Run | str | os.PathLike[str], **options: Any) -> None:
        super().__init__()
        self._holder = RunHolder(run, options)

    @property
    def run(self) -> Run:
        """The run, made if there is none; on ranks that do not write its methods do nothing."""
        return self._holder.run()

    @property
    def tracker(self) -> Run:
        """The run, as ``accelerator.get_tracker("stepscope", unwrap=True)`` asks for it."""
        return self.run

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return self._holder.reporter

    @guarded
    def start(self) -> None:
        """Begin the run."""
        self._holder.run()

    @guarded
    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Add to the run's configuration."""
        self._holder.describe(dict(values))

    @guarded
    def log(self, values: Mapping[str, Any], step: int | None = None, **_: Any) -> None:
        """Record numbers, texts, and mappings of them, whose keys are appended after a slash.

        Args:
            values: By tag. Tensors stay on their device until the run's own thread reads them.
            step: As for ``Run.scalar``.
        """
        flat = dict(leaves(values, "/"))
        self.run.scalars({tag: value for tag, value in flat.items() if not isinstance(value, str)}, step)
        for tag, value in flat.items():
            if isinstance(value, str):
                self.run.text(tag, value, step)

    @guarded
    def log_images(self, values: Mapping[str, Any], step: int | None = None, **options: Any) -> None:
        """Record several images under each tag.

        Args:
            values: Images by tag.
            step: As for ``Run.scalar``.
            options: For ``Run.images``.
        """
        for tag, images in values.items():
            self.run.images(tag, images, step, **options)

    @guarded
    def finish(self) -> None:
        """End the run."""
        self._holder.end(*outcome(sys.exc_info()[1]))
