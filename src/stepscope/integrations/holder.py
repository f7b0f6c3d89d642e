"""The run behind a trainer's callback or logger: created when first needed, ended with the training."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from stepscope.errors import UsageError
from stepscope.record import Run
from stepscope.record.config import directory
from stepscope.record.info import Status
from stepscope.record.problems import Problems, Reporter


class RunHolder:
    """Holds a run for one or several trainings.

    Logging after the training has ended, for instance by an evaluation, begins a new attempt in the same
    directory. A run that the user made is never closed here.

    Args:
        run: The run's directory, or a run.
        options: For ``Run``, if this makes it.

    Raises:
        UsageError: Options were given for an existing run.
    """

    def __init__(self, run: Run | str | os.PathLike[str], options: Mapping[str, Any]) -> None:
        self._given = run if isinstance(run, Run) else None
        if self._given is not None and options:
            raise UsageError(
                f"a run that already exists takes no options, got {', '.join(sorted(options))}",
                hint="pass them to ss.Run(…), or pass the directory in place of the run",
            )
        self.log_dir = self._given.log_dir if self._given is not None else directory(run)
        self._options = dict(options)
        self._config: dict[str, Any] = {}
        self._given_start = self._options.pop("start_step", None)
        self._next = 0
        self._open: Run | None = None
        self._alone = Problems()

    @property
    def own(self) -> bool:
        """True if the run is made and closed here."""
        return self._given is None

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems: the run, if there is one."""
        run = self._given or self._open
        return self._alone if run is None else run

    def run(self, **options: Any) -> Run:
        """Return the run, made if there is none.

        Args:
            options: For ``Run``, if it is made now and the user has not said otherwise.
        """
        if self._given is not None:
            return self._given
        if self._open is None:
            options = {"start_step": self._next, **options, **self._options}
            start, self._given_start = self._given_start, None
            if start is not None:  # of the first attempt; a later one goes on
                options["start_step"] = start
            self._open = Run(self.log_dir, **options)
            self._open.describe(self._config)
        return self._open

    @property
    def opened(self) -> Run | None:
        """The run if there is one."""
        return self._given or self._open

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to the configuration of the run, now and of later attempts."""
        self._config.update(facts)
        run = self.opened
        if run is not None:
            run.describe(facts)

    def end(self, status: Status = "finished", reason: str | None = None) -> None:
        """Close the run, unless the user made it."""
        run, self._open = self._open, None
        if run is not None:
            self._next = run.step_counter.next
            run.close(status, reason)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the open run behind: a copy in another process creates its own."""
        return {**self.__dict__, "_open": None, "_alone": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _alone=Problems())
