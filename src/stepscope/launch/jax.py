"""JAX: the compiled function that is called again and again with what it returned before is the step."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from time import perf_counter, time
from types import ModuleType
from typing import Any

from stepscope.integrations.compiling import compilations
from stepscope.launch import compiling, printed
from stepscope.launch.loop import NO_LOADER, Loop
from stepscope.launch.process import process

MAX_LEAVES = 8
"""Outputs of a call that are looked for among the inputs of the next."""
LOOPS = ("scan", "fori_loop", "while_loop")
WITHIN = "the updates within a step: a step is one call of {}, which loops over gradients"


class Candidates:
    """Which compiled function takes the steps: one that differentiates, or that follows one that does.

    Attributes:
        inside: The function that is being called, while it is traced.
        loops: How many loops of ``jax.lax`` are being traced, each within the one before.
        differentiates: Whether any function computes gradients.
        leader: The function that takes the steps.
    """

    def __init__(self, jax: ModuleType) -> None:
        self.loop = Loop(process)
        self.leaves = jax.tree_util.tree_leaves
        self.inside: Compiled | None = None
        self.loops = 0
        self.differentiates = False
        self.leader: Compiled | None = None

    def takes(self, function: Compiled) -> bool:
        """Return whether a function whose outputs have come back as inputs takes the steps."""
        leader = self.leader
        if leader is function:
            return True
        if not (function.differentiates or self.differentiates):
            return False
        if leader is None or (function.differentiates and not leader.differentiates):
            self.leader = function
            return True
        return False


class Compiled:
    """A compiled function; everything but its call is that of the original."""

    def __init__(self, function: Any, candidates: Candidates) -> None:
        self.__wrapped__ = function
        self._candidates = candidates
        self._returned: list[weakref.ref[Any]] = []
        self._ended = self._first = -1.0
        self._compiled_s = 0.0
        self.differentiates = self.differentiates_in_loop = False
        self._counted = False
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        candidates = self._candidates
        outer = candidates.inside
        if outer is not None or process.led or process.off:  # called by another, or by a trainer
            return self.__wrapped__(*arguments, **options)
        begun = perf_counter()
        comes_back = self._comes_back(arguments, options) if self._returned else False
        candidates.inside = self
        try:
            result = self.__wrapped__(*arguments, **options)
        finally:
            candidates.inside = None
        ended = perf_counter()
        if comes_back and candidates.takes(self):
            if not self._counted:
                self._counted = True
                process.say(NO_LOADER)
                if self.differentiates_in_loop:
                    process.say(WITHIN.format(getattr(self, "__name__", "the compiled function")))
                candidates.loop.step(self._first, self._ended, self._compiled_s)
                # The first call is known as a step only now.
                process.record(printed.told.of_first_step(time() - (perf_counter() - self._ended)))
            candidates.loop.step(self._ended, ended, compilations.take())
        if not comes_back:
            self._first, self._compiled_s = begun, compilations.take()
        self._ended = ended
        self._remember(result)
        return result

    def _comes_back(self, arguments: Any, options: Any) -> bool:
        returned = {id(array) for ref in self._returned if (array := ref()) is not None}
        return any(id(leaf) in returned for leaf in self._candidates.leaves((arguments, options)))

    def _remember(self, result: Any) -> None:
        self._returned = []
        with suppress(TypeError):  # a Python number after the arrays
            for leaf in self._candidates.leaves(result)[:MAX_LEAVES]:
                self._returned.append(weakref.ref(leaf))


class _Bound:
    """A compiled method of an instance."""

    def __init__(self, function: Compiled, instance: Any) -> None:
        self._function, self._instance = function, instance

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self._function(self._instance, *arguments, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function.__wrapped__.__get__(self._instance), name)


def install(jax: ModuleType) -> None:
    """Observe functions that are compiled from now on."""
    printed.install()
    compiling.install(jax)
    candidates = Candidates(jax)
    compiled = jax.jit

    def jit(*arguments: Any, **options: Any) -> Any:
        made = compiled(*arguments, **options)
        if arguments or "fun" in options:
            return Compiled(made, candidates)
        return lambda function: Compiled(made(function), candidates)

    jit.__wrapped__ = compiled  # type: ignore[attr-defined]
    jit.__doc__ = compiled.__doc__
    jax.__dict__["jit"] = jit
    for name in ("grad", "value_and_grad"):
        setattr(jax, name, _noted(getattr(jax, name), candidates))
    for name in LOOPS:
        setattr(jax.lax, name, _looped(getattr(jax.lax, name), candidates))


def _looped(loop: Callable[..., Any], candidates: Candidates) -> Callable[..., Any]:
    """Return a loop of ``jax.lax`` that notes that its body is being traced."""

    @wraps(loop)
    def looped(*arguments: Any, **options: Any) -> Any:
        candidates.loops += 1
        try:
            return loop(*arguments, **options)
        finally:
            candidates.loops -= 1

    return looped


def _noted(transform: Callable[..., Any], candidates: Candidates) -> Callable[..., Any]:
    """Return a transformation that notes in which compiled function it is traced."""

    def differentiate(*arguments: Any, **options: Any) -> Any:
        function = transform(*arguments, **options)

        def call(*inputs: Any, **named: Any) -> Any:
            candidates.differentiates = True
            if candidates.inside is not None:
                candidates.inside.differentiates = True
                candidates.inside.differentiates_in_loop |= candidates.loops > 0
            return function(*inputs, **named)

        call.__wrapped__ = function  # type: ignore[attr-defined]
        return call

    differentiate.__wrapped__ = transform  # type: ignore[attr-defined]
    differentiate.__doc__ = transform.__doc__
    return differentiate
