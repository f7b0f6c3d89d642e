"""Calls the hooks of a run and keeps their failures from the training loop."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from stepscope.errors import HaltError, RecordError
from stepscope.record.clock import Deadline
from stepscope.record.hooks.hook import Hook
from stepscope.record.problems import Problems

if TYPE_CHECKING:
    from stepscope.kernels.steps import Rest, Steps
    from stepscope.record.protocol import HookRun

Called = tuple["Rest | None", Hook, Callable[[int], None]]
"""A hook that may rest, and what to call of it."""
MAX_FAILURES = 3
"""Failures in a row after which a hook is switched off."""
WITHDRAW_SECS = 10.0
"""A hook that is ended in the middle of the training has so long."""


class Hooks:
    """The hooks of one run, called in the order in which they were added.

    Args:
        run: The run, which may be gone.
        problems: Told of what hooks raise.
        steps: Tells of their boundaries.
    """

    def __init__(self, run: weakref.ref[HookRun], problems: Problems, steps: Steps) -> None:
        self._run, self._problems, self._steps = run, problems, steps
        self._hooks: list[Hook] = []
        self._failures: dict[tuple[int, str], int] = {}
        steps.hooks = self

    def __iter__(self) -> Iterator[Hook]:
        return iter(tuple(self._hooks))

    def __len__(self) -> int:
        return len(self._hooks)

    def add(self, hook: Hook, run: HookRun) -> None:
        """Begin a hook and call it from now on."""
        self._hooks.append(hook)
        begin: Callable[..., None] = hook.begin
        try:
            begin(run)
        except HaltError:
            raise
        except Exception as error:  # noqa: BLE001  a hook's own code
            self._tell(hook, "begin", error, "it is switched off")
            self._hooks.remove(hook)
            return
        self._choose()

    def call(self, chosen: tuple[Called, ...], step: int) -> None:
        """Call what is to be called at a boundary of a step, but for hooks that rest."""
        for rest, hook, act in chosen:
            if rest is not None and rest.on:
                continue
            try:
                act(step)
            except HaltError:
                raise
            except Exception as error:  # noqa: BLE001  a hook's own code
                self._failed(hook, act.__name__, error)
            else:
                if self._failures:
                    self._failures.pop((id(hook), act.__name__), None)

    def forget(self) -> None:
        """Call no hook any more, in a forked child: they are the parent's."""
        self._hooks = []
        self._choose()

    def withdraw(self) -> None:
        """End the hooks that are not meant for this rank, where it turned out not to be the chief."""
        run = self._run()
        if run is None:
            return
        for hook in tuple(self._hooks):
            if hook.ranks != "all" and not run.role.writes:
                self._hooks.remove(hook)
                self._end(hook, run, "finished", Deadline.after(WITHDRAW_SECS, run.clock))
        self._choose()

    def end(self, status: str, deadline: Deadline) -> None:
        """End every hook, the last added first; once.

        Args:
            status: How the run ends.
            deadline: Shared by all of them.
        """
        run = self._run()
        if run is None:
            return
        hooks, self._hooks = self._hooks, []
        self._choose()
        for hook in reversed(hooks):
            self._end(hook, run, status, deadline)

    def _end(self, hook: Hook, run: HookRun, status: str, deadline: Deadline) -> None:
        try:
            end: Callable[..., None] = hook.end
            end(run, status, deadline) if takes_deadline(end) else end(run, status)
        except Exception as error:  # noqa: BLE001  a hook's own code, and the run is to be closed all the same
            self._tell(hook, "end", error, "the run is closed all the same")

    def _choose(self) -> None:
        self._steps.before = tuple(
            (hook._rest, hook, hook.before_step) for hook in self._hooks if _has(hook, "before_step")
        )
        self._steps.after = tuple(
            (hook._rest, hook, hook.after_step) for hook in self._hooks if _has(hook, "after_step")
        )

    def _failed(self, hook: Hook, method: str, error: Exception) -> None:
        key = id(hook), method
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        off = failures >= MAX_FAILURES
        if off and hook in self._hooks:
            self._hooks.remove(hook)
            self._choose()
        self._tell(hook, method, error, "it is switched off" if off else "training goes on")

    def _tell(self, hook: Hook, method: str, error: Exception, then: str) -> None:
        name = type(hook).__name__
        found = f"{name}.{method} raised {type(error).__name__}: {error}; {then}"
        refusal = RecordError(found, hint=f"see where it raises with STEPSCOPE_STRICT=1, or leave out {name}")
        refusal.__cause__ = error
        self._problems.tell("hook", refusal)


def takes_deadline(end: Callable[..., Any]) -> bool:
    """Whether a hook's ``end`` takes a deadline; one of earlier versions takes run and status alone."""
    try:
        inspect.signature(end).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def _has(hook: Hook, method: str) -> bool:
    """Whether a class overrides a method, or an instance does."""
    return getattr(getattr(hook, method), "__func__", None) is not getattr(Hook, method)
