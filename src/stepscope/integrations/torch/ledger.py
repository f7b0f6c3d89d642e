"""The ledger of watched objects: the optimizers that step, and their present parameters.

A training changes its parameters: groups are added, optimizers are replaced, layers are unfrozen, adapters
come and go. The ledger compares identities at every step, which costs a few pointers, and tells those who
measure. Changes that nobody can follow are stated once in the run, with the step (``Run.unmeasured``).
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from operator import is_
from typing import Any, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from stepscope.integrations.guard import report_raised
from stepscope.integrations.torch.updates import Joined
from stepscope.kernels.marks import Newcomers, Rhythm
from stepscope.record import Run

SILENT_TURNS = 3
"""Steps of an optimizer in a row in which no parameter has a gradient, after which they count as ended."""
SILENT_STEPS = 10
"""Steps of the run without one of the optimizer, at least, after which it counts as not used any more."""
LONGEST = 1024
"""Steps of the run over which gradients may be accumulated, at most."""


class Follower(Protocol):
    """Something that watches a model and its optimizers, by name."""

    model: nn.Module | None
    optimizers: dict[str, Optimizer]

    def adopt(self, optimizer: Optimizer) -> None:
        """Watch an optimizer that works on its parameters, which it did not know."""


def parameters_of(optimizer: Optimizer) -> Iterator[Tensor]:
    """Yield the parameters of an optimizer."""
    for group in optimizer.param_groups:
        yield from group["params"]


class Groups:
    """The parameters of one optimizer as they were at the last look.

    Args:
        optimizer: The optimizer.
    """

    __slots__ = ("_lists",)

    def __init__(self, optimizer: Optimizer) -> None:
        self._lists = [list(group["params"]) for group in optimizer.param_groups]

    def same(self, optimizer: Optimizer) -> bool:
        """Return whether the optimizer has the same parameters, in the same groups."""
        lists, groups = self._lists, optimizer.param_groups
        if len(lists) != len(groups):
            return False
        for known, group in zip(lists, groups, strict=True):
            now = group["params"]
            # By identity: comparing tensors would compare their elements, on their device.
            if len(known) != len(now) or not all(map(is_, known, now)):
                return False
        return True


class Ledger:
    """The optimizers that a run knows, and those that it meets while the training goes on.

    Args:
        run: The run.

    Attributes:
        left_out: Tags of parameters that had a gradient and were in no optimizer, see ``WatchedParameters``.
    """

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)
        self.left_out: dict[str, int] = {}
        self._met: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._strangers: weakref.WeakSet[Optimizer] = weakref.WeakSet()
        self._followers: list[weakref.ref[Follower]] = []
        # The hook keeps neither this nor its run alive.
        self._newcomers = Newcomers(weakref.WeakMethod(self.stepping))
        self._handle: Any = None

    def follow(self, follower: Follower) -> None:
        """Tell a follower of optimizers that it does not know, until ``forget``."""
        self._followers.append(weakref.ref(follower))
        self._newcomers.known.update(map(weakref.ref, follower.optimizers.values()))
        if self._handle is None:
            self._handle = Joined(self._newcomers)
            weakref.finalize(self, self._handle.remove)

    def forget(self, follower: Follower) -> None:
        """Tell a follower no more."""
        self._followers = [reference for reference in self._followers if reference() not in (None, follower)]
        if not self._followers and self._handle is not None:
            self._handle.remove()
            self._handle = None

    def owned(self) -> set[int]:
        """Return the identity of each parameter of an optimizer that is watched or was seen to step."""
        return {
            id(parameter)
            for optimizer in {*self._watched(), *self._met}
            for parameter in parameters_of(optimizer)
        }

    @property
    def strangers(self) -> bool:
        """Whether optimizers stepped whose parameters are of no watched model."""
        return bool(self._strangers)

    def stepping(self, optimizer: Optimizer) -> None:
        """Look at an optimizer that is about to step and is not known."""
        try:
            self._meet(optimizer)
        except Exception as error:  # noqa: BLE001  optimizers and modules of any kind
            self._newcomers.known.add(weakref.ref(optimizer))
            run = self._run()
            if run is not None:
                report_raised(run, "watch: a new optimizer", error)

    def _meet(self, optimizer: Optimizer) -> None:
        if self._is_within_another():
            return  # as that of SAM: what it does is a part of the step of the one outside
        theirs = set(map(id, parameters_of(optimizer)))
        for reference in self._followers:
            follower = reference()
            if follower is None:
                continue
            known = {
                id(parameter) for one in follower.optimizers.values() for parameter in parameters_of(one)
            }
            models = set() if follower.model is None else set(map(id, follower.model.parameters()))
            if theirs & (known | models):
                follower.adopt(optimizer)
        self._met.add(optimizer)
        # One that another replaced here is met again if it steps again.
        watched = self._watched()
        self._newcomers.known = {
            reference
            for reference in self._newcomers.known
            if (one := reference()) in self._strangers or any(one is other for other in watched)
        } | {weakref.ref(optimizer)}
        if not any(optimizer is one for one in watched):
            self._strangers.add(optimizer)

    def _watched(self) -> list[Optimizer]:
        followers = [follower for reference in self._followers if (follower := reference()) is not None]
        return [optimizer for one in followers for optimizer in one.optimizers.values()]

    def _is_within_another(self) -> bool:
        """Return whether a watched optimizer's step is running, of which the present one is a part."""
        watched = set(map(id, self._watched()))
        frame = sys._getframe(1)
        while (frame := frame.f_back) is not None:  # type: ignore[assignment]
            if frame.f_code.co_name in ("step", "wrapper") and id(frame.f_locals.get("self")) in watched:
                return True
        return False


class Silence(Rhythm):
    """Whether the steps of some optimizers, and gradients in them, have failed to come.

    A loop may accumulate over many steps of the run, so the wait grows with the longest distance so far, and
    as long as one and the same gradient is added to.

    Args:
        parameters: Returns the parameters that the optimizers have now.
        step: The step of the run that comes next.

    Attributes:
        since: The first step since when nothing is measured, once that is certain; None before.
    """

    def __init__(self, parameters: Callable[[], Iterable[Tensor]], step: int) -> None:
        super().__init__(step, SILENT_STEPS)
        self._parameters = parameters
        self.since: int | None = None
        self._gradient: weakref.ref[Tensor] | None = None
        self._empty = 0

    def measured(self, step: int, gradients: bool) -> bool:
        """Note whether there were gradients in a step that was measured; return whether they have ended."""
        self._empty = 0 if gradients else self._empty + 1
        if self._empty != SILENT_TURNS or self.since is not None:
            return False
        self.since = step - SILENT_TURNS + 1
        return True

    def look(self, step: int) -> bool:
        """Return, once, that the optimizers have not stepped for too long."""
        if step - self.last <= self.patience or self.since is not None:
            return False
        gradient = next(
            (parameter.grad for parameter in self._parameters() if parameter.grad is not None), None
        )
        before, self._gradient = self._gradient, None if gradient is None else weakref.ref(gradient)
        if gradient is not None and (before is None or before() is gradient) and self.patience < LONGEST:
            self.patience = min(step - self.last + (1 if before is None else self.patience), LONGEST)
            return False
        self.since = self.last + 1
        return True

    def over(self) -> bool:
        """Return whether the missing values are there again."""
        ended, self.since = self.since is not None, None
        return ended


_ledgers: weakref.WeakKeyDictionary[Run, Ledger] = weakref.WeakKeyDictionary()


def ledger_of(run: Run) -> Ledger:
    """Return the ledger of a run."""
    ledger = _ledgers.get(run)
    if ledger is None:
        ledger = _ledgers[run] = Ledger(run)
    return ledger


# --- the optimizer's own use of the gradients ---------------------------------------------------------


def closure_in(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
    """Return the closure that was given to an optimizer's step; None if there is none.

    Args:
        args: Of the step: the optimizer first.
        kwargs: Of the step.
    """
    closure = kwargs.get("closure")
    if closure is None and len(args) > 1:
        closure = args[1]
    return closure if callable(closure) else None


def with_closure(
    args: tuple[Any, ...], kwargs: dict[str, Any], closure: Callable[..., Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of a step with another closure."""
    if kwargs.get("closure") is not None:
        return args, {**kwargs, "closure": closure}
    return (args[0], closure, *args[2:]), kwargs


def is_nested(optimizer: Optimizer) -> bool:
    """Return whether a hook is called by a step within a step of one optimizer, as by ``super().step()``."""
    frame, steps = sys._getframe(1), 0
    while frame is not None and steps < 2:
        # The wrapper that PyTorch puts around the ``step`` of each class, and which calls the hooks.
        if frame.f_code.co_name == "wrapper" and frame.f_locals.get("self") is optimizer:
            steps += 1
        frame = frame.f_back  # type: ignore[assignment]
    return steps == 2


class Evaluations:
    """The evaluations of the closure in one step of an optimizer, in whose gradients it is computed.

    LBFGS and SAM evaluate it several times. The gradients that count are those that were there when the
    parameters were last written: ``used`` is their reading.

    Args:
        optimizer: The optimizer.
        closure: The user's argument of ``step``.
        read: Reads the gradients; called after each evaluation.
    """

    def __init__(self, optimizer: Optimizer, closure: Callable[..., Any], read: Callable[[], Any]) -> None:
        self._parameters = list(parameters_of(optimizer))
        self._closure, self._read = closure, read
        self._versions: list[int] = []
        self._newest: Any = None
        self._used: Any = None
        self.count = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate, and read the gradients."""
        if self.count:
            self._look()
        result = self._closure(*args, **kwargs)
        self.count += 1
        self._newest, self._versions = self._read(), self._now()
        return result

    def used(self) -> Any:
        """Return the reading of the gradients that the step used last; None if nothing was read."""
        if self.count > 1:
            self._look()
        # Writing through ``.data`` leaves no trace: the last evaluation is then the best guess.
        return self._newest if self._used is None else self._used

    def _look(self) -> None:
        """Take the newest gradients for used if the parameters were written since."""
        if self._newest is not None and self._versions != self._now():
            self._used = self._newest

    def _now(self) -> list[int]:
        return [parameter._version for parameter in self._parameters]
