"""Hooks that end a training."""

import stepscope as ss
from stepscope.errors import HaltError


class Stops(ss.Hook):
    """Asks the run to stop after a step."""

    def __init__(self, after: int) -> None:
        self.after = after

    def begin(self, run: ss.Run) -> None:
        self.run = run

    def after_step(self, step: int) -> None:
        if step == self.after:
            self.run.request_stop("enough")


class Halts(ss.Hook):
    """Raises after the first step what is meant to leave the loop."""

    def after_step(self, step: int) -> None:
        raise HaltError("no further")
