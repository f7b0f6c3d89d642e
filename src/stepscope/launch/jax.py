"""JAX: the steps are the calls of the function that computes gradients, with weights that are new.

Either a compiled function gets what it returned before, as one that makes the update as well does, or a
function of gradients gets other arrays where it takes those whose gradients it returns. Further calls with
the same weights add up gradients, and belong to one step.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial, wraps
from time import perf_counter, time
from types import ModuleType
from typing import Any

from stepscope.integrations.compiling import compilations
from stepscope.launch import compiling, printed
from stepscope.launch.loop import NO_LOADER, Loop
from stepscope.launch.process import process
from stepscope.launch.sources import PRINTED

MAX_LEAVES = 8
"""Arrays of a call that are compared with those of the next."""
MAX_WRAPS = 8
"""Transformations of a function that are looked through."""
LOOPS = ("scan", "fori_loop", "while_loop")
WITHIN = "the updates within a step: a step is one call of {}, which loops over gradients"
ALL_WITHIN = (
    "the steps: they are within a call of {}, which loops over gradients; a call for each epoch shows more"
)


class Followed:
    """A function whose calls are followed. One that is made anew for each call is the same as before.

    Attributes:
        name: Its name.
        differentiates: Whether it computes gradients.
        differentiates_in_loop: Whether it does so in a loop of ``jax.lax``.
        calls: How often it was called since it was made the last time ...
        called: ... and when the last call began.
        ended: When the last call ended that followed an update.
        first: When the first call began.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.differentiates = self.differentiates_in_loop = False
        self.counted = False
        self.calls, self.called = 0, -1.0
        self.ended = self.first = -1.0
        self.compiled_s = 0.0
        self._returned: list[weakref.ref[Any]] = []
        self._weights: list[tuple[int, weakref.ref[Any]]] = []
        """Inputs whose gradients it returns: their places among all, and the arrays that were there last."""

    def goes_on(self, inputs: list[Any]) -> bool | None:
        """Return whether a call follows an update: None if its weights are those of the call before."""
        returned = {id(array) for ref in self._returned if (array := ref()) is not None}
        if any(id(leaf) in returned for leaf in inputs):
            return True
        if not self.differentiates or not self._weights or self._weights[-1][0] >= len(inputs):
            return False
        return any(ref() is not inputs[place] for place, ref in self._weights) or None

    def gave(self, inputs: list[Any]) -> bool:
        """Return whether a call takes what this function returned last."""
        return any(ref() is leaf for ref in self._returned for leaf in inputs)

    def remember(self, inputs: list[Any], outputs: list[Any]) -> None:
        """Take the arrays of a call."""
        self._returned = references(outputs[:MAX_LEAVES])
        if self.differentiates and not self._weights:
            sized = {_form(leaf) for leaf in outputs}
            places = [place for place, leaf in enumerate(inputs) if _form(leaf) in sized][:MAX_LEAVES]
        else:
            places = [place for place, _ in self._weights]
        arrays = references(inputs[place] for place in places)
        self._weights = list(zip(places, arrays, strict=False)) if len(arrays) == len(places) else []


def references(leaves: Iterable[Any]) -> list[weakref.ref[Any]]:
    """Return weak references to arrays, up to the first leaf of another type."""
    made: list[weakref.ref[Any]] = []
    with suppress(TypeError):  # a Python number
        made.extend(map(weakref.ref, leaves))
    return made


def _form(leaf: Any) -> tuple[Any, ...] | None:
    """Return shape and type of an array of JAX, by which gradients are those of weights; None of others."""
    if not hasattr(leaf, "sharding"):  # NumPy's arrays are batches
        return None
    return (*leaf.shape, leaf.dtype)


class Candidates:
    """Which function takes the steps: one that differentiates, or that follows one that does.

    Attributes:
        inside: The function that is being called, while it is traced.
        loops: How many loops of ``jax.lax`` are being traced, each within the one before.
        differentiates: Whether any function computes gradients.
        leader: The function that takes the steps.
    """

    def __init__(self, jax: ModuleType) -> None:
        self.loop = Loop(process)
        self._leaves = jax.tree_util.tree_leaves
        self.tracer = jax.core.Tracer
        self.inside: Followed | None = None
        self.loops = 0
        self.differentiates = False
        self.leader: Followed | None = None
        self._before: Followed | None = None
        self._known: dict[object, Followed] = {}

    def leaves(self, tree: Any) -> list[Any]:
        """Return the leaves of a tree; none of one that JAX cannot take apart, which it will say itself."""
        with suppress(Exception):
            return self._leaves(tree)  # type: ignore[no-any-return]
        return []

    def uncounted(self) -> str:
        """Return why no steps are counted: a whole training may be one call."""
        within = [function.name for function in self._known.values() if function.differentiates_in_loop]
        return ALL_WITHIN.format(within[0]) if within else ""

    def traced(self, inputs: Any) -> bool:
        """Return whether a call is part of another that is not followed, such as one of ``vmap``."""
        return any(isinstance(leaf, self.tracer) for leaf in self.leaves(inputs))

    def follow(self, function: Any, made: float) -> Followed:
        """Return what is known of a function that is called for the first time.

        If another of the same code was called once before this one was made, the program makes it anew for
        each call, and both are one.

        Args:
            function: It.
            made: When it was made.
        """
        name, made_of = getattr(function, "__name__", "the compiled function"), []
        for _ in range(MAX_WRAPS):
            inner = function.func if isinstance(function, partial) else getattr(function, "__wrapped__", None)
            if inner is None:
                break
            made_of.append(type(function))
            function = inner
        key = (*made_of, getattr(function, "__code__", type(function)))
        known = self._known.get(key)
        if known is None or known.calls != 1 or known.called > made:
            known = self._known[key] = Followed(name)
        known.calls = 0
        return known

    def takes(self, function: Followed, inputs: list[Any]) -> bool:
        """Return whether a function that is called again after an update takes the steps.

        One that is called twice in a row, and not with what the leader trains, is of a later training.

        Args:
            function: It.
            inputs: The arrays of the call.
        """
        leader = self.leader
        if leader is function:
            return True
        if not (function.differentiates or self.differentiates):
            return False
        follows = self._before is function and leader is not None and not leader.gave(inputs)
        if leader is None or (function.differentiates and (follows or not leader.differentiates)):
            self.leader = function
            return True
        return False

    def called(self, function: Followed, call: Callable[..., Any], arguments: Any, options: Any) -> Any:
        """Call a function of the program's, and count the step that it takes."""
        begun = perf_counter()
        function.calls, function.called = function.calls + 1, begun
        inputs = self.leaves((arguments, options))
        goes_on = function.goes_on(inputs)
        self.inside = function
        try:
            result = call(*arguments, **options)
        finally:
            self.inside = None
        ended = perf_counter()
        if goes_on and self.takes(function, inputs):
            if not function.counted:
                function.counted = True
                process.say(NO_LOADER)
                if function.differentiates_in_loop:
                    process.say(WITHIN.format(function.name))
                self.loop.step(function.first, function.ended, function.compiled_s)
                # The first call is known as a step only now.
                process.record(
                    PRINTED, printed.told.of_first_step(time() - (perf_counter() - function.ended))
                )
            self.loop.step(function.ended, ended, compilations.take())
        if function.differentiates:
            self._before = function
        if goes_on is False:
            function.first, function.compiled_s = begun, compilations.take()
        if goes_on is not None:
            function.ended = ended
        function.remember(inputs, self.leaves(result))
        return result


class Compiled:
    """A compiled function; everything but its call is that of the original."""

    def __init__(self, function: Any, candidates: Candidates) -> None:
        self.__wrapped__ = function
        self._candidates = candidates
        self._followed: Followed | None = None
        self._made = perf_counter()
        for name in ("__name__", "__qualname__", "__doc__", "__module__"):
            if hasattr(function, name):
                setattr(self, name, getattr(function, name))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else _Bound(self, instance)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        candidates = self._candidates
        if candidates.inside is not None or process.led or process.off:  # called by another, or by a trainer
            return self.__wrapped__(*arguments, **options)
        if self._followed is None:
            self._followed = candidates.follow(self.__wrapped__, self._made)
        return candidates.called(self._followed, self.__wrapped__, arguments, options)


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
    process.reasons.append(candidates.uncounted)
    atexit.register(candidates.loop.close)
    for name in ("jit", "pmap"):
        jax.__dict__[name] = _compiling(getattr(jax, name), candidates)
    for name in ("grad", "value_and_grad"):
        setattr(jax, name, _noted(getattr(jax, name), candidates))
    for name in LOOPS:
        setattr(jax.lax, name, _looped(getattr(jax.lax, name), candidates))


def _compiling(transform: Callable[..., Any], candidates: Candidates) -> Callable[..., Any]:
    """Return a transformation whose functions are followed."""

    def compiling(*arguments: Any, **options: Any) -> Any:
        made = transform(*arguments, **options)
        if arguments or "fun" in options:
            return Compiled(made, candidates)
        return lambda function: Compiled(made(function), candidates)

    compiling.__wrapped__ = transform  # type: ignore[attr-defined]
    compiling.__doc__ = transform.__doc__
    return compiling


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
    """Return a transformation that notes in which compiled function it is traced.

    If none is, its own calls are followed.
    """

    def differentiate(*arguments: Any, **options: Any) -> Any:
        function = transform(*arguments, **options)
        followed: Followed | None = None
        made = perf_counter()

        @wraps(function)
        def call(*inputs: Any, **named: Any) -> Any:
            nonlocal followed
            candidates.differentiates = True
            outer = candidates.inside
            if outer is None and not process.led and not process.off and not candidates.traced(inputs):
                followed = followed or candidates.follow(function, made)
                followed.differentiates = True
                return candidates.called(followed, function, inputs, named)
            if outer is not None:
                outer.differentiates = True
                outer.differentiates_in_loop |= candidates.loops > 0
            return function(*inputs, **named)

        return call

    differentiate.__wrapped__ = transform  # type: ignore[attr-defined]
    differentiate.__doc__ = transform.__doc__
    return differentiate
