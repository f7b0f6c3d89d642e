"""Follows the values of one thread through the calls of PyTorch in two steps, to see which work was needless.

A call gets a number from its function and from the numbers of the values that it is given, so that two calls
with one number compute the same. A tensor that no call made has a number of its own until it is written to.
What draws random numbers, or is written to by an optimizer, is new each time. Each call of the second step is
marked in the profile, which knows its operators and their backward pass.

The mode lasts for two steps that are no part of the profile's: it costs some 60 µs a call, and keeps 2 kB of
each but none of its tensors. A step of very many calls is not followed to its end.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import pairwise
from math import prod
from operator import itemgetter
from types import CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from stepscope.capture.backend import FOLLOWED, LOOKS, OWN, VALUE
from stepscope.capture.places import installed

Frames = tuple[tuple[CodeType, int], ...]
_PRODUCTS = frozenset({"matmul", "__matmul__", "__rmatmul__", "mm", "bmm", "linear"})
"""Functions whose result is a product of matrices, by the last two dimensions."""
_POINTWISE = frozenset({"conv1d", "conv2d", "conv3d"})
"""Functions whose result is such a product at each place, if their kernel has the size 1."""
_LARGER = frozenset(
    {"repeat", "repeat_interleave", "expand", "expand_as", "tile", "broadcast_to", "interpolate", "upsample"}
)
"""Functions that repeat values or take means of them, which may as well be done after a product."""
_JOINS = frozenset({"cat", "concat", "concatenate"})
_LOSSES = frozenset({"cross_entropy", "nll_loss"})
_ASKS = ("need_", "return_")
"""How arguments begin that ask a function for one more result."""
_LINE_BYTES = 64
"""Memory is read in lines of this size."""
_HALF = 0.5
_LARGE_BYTES = 1 << 20
"""Arrays of the host up to this size are compared by their values."""
_MIN_NUMBERS = 1 << 12
"""Numbers of a tensor from which on it is looked at: the work on a smaller one is that of calling."""
SCOPE, UPDATE = "_record_function_", "Optimizer.step#"
"""How the names of the functions begin that open and close a scope, and that of an optimizer's step."""
_MOST_NUMBERS = 1 << 24
"""Numbers of a tensor up to which its values are read, which takes tens of milliseconds.

A step takes parts of a larger one, such as a data set, and those are read. Of one step, four times as many
are.
"""
_MOST_CALLS = 1 << 16
"""Calls of a step up to which it is followed: of two steps 250 MB are kept then, as their profile may be."""
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_core: Any = torch._C


class Fact(NamedTuple):
    """Calls whose work was needless, as far as their values tell.

    Attributes:
        kind: ``again`` in the step, ``before`` in the step before, ``unused``, the same though ``kept`` until
            the step's end, ``asked`` for and unused, ``longer`` each time, the ``order`` of two products,
            ``scattered`` rows, ``padded``, ``zeros``, ``enlarged`` before a product, ``ignored`` by the loss,
            of ``weights`` alone.
        calls: Their numbers in the second step.
        line: The line that makes them.
        other: The line that made the same before; empty without.
        name: The function that most of them call, or what is known of the values.
        ratio: The share of their work that was needless.
    """

    kind: str
    calls: list[int]
    line: str
    other: str
    name: str
    ratio: float


@dataclass
class _Call:
    name: str
    frames: Frames
    inputs: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...] = ()
    refs: tuple[Any, ...] = ()
    works: bool = True
    """Whether it does more than return a value: it writes, or gives something that is no tensor."""
    grad: bool = False
    took_ns: int = 0
    ignored: float = 0.0
    """The share of the targets that a loss ignores."""
    kept: bool = False
    """Whether a result was still there at the end of the step."""
    asked: str = ""
    """An argument that asks for one more result."""
    scattered: bool = False
    """Whether the rows that it copies lie in distant places each, of a tensor that no call made."""
    weights: bool = False
    """Whether all that it is given comes of parameters alone."""
    key: Any = None


@dataclass
class _Step:
    calls: list[_Call] = field(default_factory=list)
    numbers: dict[Any, int] = field(default_factory=dict)
    """The first call of each key."""
    used: set[int] = field(default_factory=set)
    """Values of which an attribute was asked for."""
    similar: dict[Any, list[int]] = field(default_factory=dict)
    """The first calls that differ from each other by the length of a tensor."""


class Values(TorchFunctionMode):
    """Follows the calls of the thread that enters it, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self._begin: Any = getattr(_core._profiler, "_RecordFunctionFast", torch.profiler.record_function)
        self._steps: list[_Step] = []
        self._known: dict[int, tuple[Any, int, int]] = {}
        """Of a tensor by its id: a reference, its version and its number."""
        self._values: dict[Any, int] = {}
        self._root: dict[int, int] = {}
        """Of a number, that of the first part of the value: what it grew from."""
        self._length: dict[int, int] = {}
        self._memory: dict[int, set[int]] = {}
        """The values that were seen in each piece of memory."""
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._maker: dict[int, int] = {}
        """Of a value, the call of its step that made its memory."""
        self._facts: dict[int, list[tuple[str, float, int]]] = {}
        """Of the number of a tensor from outside: what its values tell, how much of it, and of which size."""
        self._trained: set[int] = set()
        """Numbers of parameters, of gradients and of what comes of them."""
        self._weights: set[int] = set()
        """Numbers of parameters, and of what is computed of parameters alone."""
        self._random: set[Any] = set()
        self._written: set[int] = set()
        """Numbers of values that something was written onto: each needs memory of its own."""
        self._updating = self._wrote = False
        self._scopes: list[bool] = []
        """Of each open ``record_function``, whether it is the step of an optimizer."""
        self._own: dict[CodeType, bool] = {}
        self._count = 0
        self._foreign = False
        """Whether a gradient passes what no call of PyTorch made."""
        self._unread = 4 * _MOST_NUMBERS
        """Numbers that may still be read."""
        self.stopped = ""
        """Why the steps are followed no more; empty while they are."""

    @contextmanager
    def step(self) -> Iterator[None]:
        """Follow one step; not if something of the program would notice."""
        if torch.compiler.is_compiling() or _compiles():
            self._stop("PyTorch compiles parts of the program")
        if self.stopped:
            yield
            return
        self._steps.append(_Step())
        marked = self._begin(FOLLOWED) if len(self._steps) == LOOKS else nullcontext()
        mode: Any = self
        mode.__enter__()
        try:
            with marked:
                yield
        finally:
            self._leave()
            for call in self._steps[-1].calls if self._steps else ():
                call.kept = any(ref() is not None for ref in call.refs)

    def _leave(self) -> None:
        """Take the mode off the thread's stack, wherever in it it is."""
        above = []
        for _ in range(_core._len_torch_function_stack()):
            mode = _core._pop_torch_function_stack()
            if mode is self:
                break
            above.append(mode)
        for mode in reversed(above):
            _core._push_on_torch_function_stack(mode)

    def _scope(self, name: str, args: Any) -> None:
        """Note the begin or the end of a ``record_function``: an optimizer's step is one.

        Hooks would not do: a step may end within those of an optimizer, which must not change meanwhile. If
        no call wrote anything, a function of others did, of which no version tells: all weights are new.
        """
        if "enter" in name:
            updates = bool(args) and str(args[0]).startswith(UPDATE)
            self._scopes.append(updates)
            if updates:
                self._updating, self._wrote = True, False
        elif self._scopes and self._scopes.pop():
            self._updating = False
            if not self._wrote:
                kept = {at: one for at, one in self._known.items() if one[2] not in self._weights}
                self._known = kept

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch, and note what it was given and what came of it."""
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.startswith(SCOPE):
            self._scope(name, args)
        if self.stopped or name.startswith(SCOPE):
            return func(*args, **kwargs)
        call = drawn = None
        with suppress(Exception):
            call = self._before(func, args, kwargs)
            if call is not None and self._seen(call.key):
                drawn = self._drawn()
        if call is None:
            result = func(*args, **kwargs)
            with suppress(Exception):
                self._got(func, args, result)
            return result
        step = self._steps[-1]
        number = len(step.calls)
        if len(self._steps) > 1:
            with self._begin(f"{VALUE}{number}"):
                began = time.perf_counter_ns()
                result = func(*args, **kwargs)
                call.took_ns = time.perf_counter_ns() - began
        else:
            result = func(*args, **kwargs)
        try:
            step.calls.append(call)
            self._after(call, number, args, kwargs, result, drawn)
        except Exception:  # noqa: BLE001  a tensor of a kind that has no such attributes
            self._stop("a call gave something that is no usual tensor")
        if len(step.calls) >= _MOST_CALLS:
            self._stop(f"a step makes more than {_MOST_CALLS:,} calls of PyTorch")
        return result

    def _stop(self, why: str) -> None:
        """Follow no more calls, and keep nothing of those before."""
        self.stopped = why
        self._steps.clear()
        for kept in (self._known, self._values, self._memory, self._facts, self._random):
            kept.clear()

    def _drawn(self) -> bytes:
        """Return the states of the generators of random numbers."""
        with self._begin(OWN):
            states = [torch.default_generator.get_state()]
            cuda: Any = torch.cuda
            if cuda.is_available() and cuda.is_initialized():
                states.append(cuda.default_generators[cuda.current_device()].get_state())
            return b"".join(state.numpy().tobytes() for state in states)

    # --- numbers ------------------------------------------------------------------------------------------

    def _new(self) -> int:
        self._count += 1
        return self._count

    def _number(self, tensor: torch.Tensor) -> int:
        """Return the number of a tensor's value."""
        known = self._known.get(id(tensor))
        version = -1 if tensor.is_inference() else tensor._version
        if known is not None and known[0]() is tensor and known[1] == version:
            return known[2]
        number = self._new()
        # What no call of PyTorch made of a result, such as a parameter, uses its memory.
        self._steps[-1].used.update(self._memory.get(_memory_of(tensor), ()))
        self._keep(tensor, number, version)
        if known is not None and known[0]() is tensor and known[2] in self._maker:
            self._maker[number] = self._maker[known[2]]
        if tensor.grad_fn is not None and known is None:
            self._foreign = True
        if tensor.requires_grad or self._updating:
            self._trained.add(number)
        if tensor.requires_grad and tensor.is_leaf:
            self._weights.add(number)
        self._look(tensor, number)
        return number

    def _look(self, tensor: torch.Tensor, number: int) -> None:
        """Note what the values of data tell: of what comes of no parameter, gradient or optimizer."""
        if (
            len(self._steps) == 1
            and number not in self._trained
            and number not in self._facts
            and _may_look(tensor)
            and tensor.numel() <= self._unread
        ):
            self._unread -= tensor.numel()
            self._facts[number] = list(_facts_of(tensor))

    def _keep(self, tensor: torch.Tensor, number: int, version: int | None = None) -> None:
        if version is None:
            version = -1 if tensor.is_inference() else tensor._version
        self._known[id(tensor)] = weakref.ref(tensor), version, number
        self._shapes[number] = tuple(tensor.shape)
        self._memory.setdefault(_memory_of(tensor), set()).add(number)

    def _token(self, value: Any, inputs: list[int], shapes: list[tuple[int, ...]]) -> Any:
        """Return what a value of an argument is compared by."""
        if isinstance(value, torch.Tensor):
            number = self._number(value)
            inputs.append(number)
            shapes.append(tuple(value.shape))
            return "tensor", number
        if isinstance(value, tuple | list):
            return (type(value).__name__, *(self._token(one, inputs, shapes) for one in value))
        if isinstance(value, slice):
            return (
                "slice",
                *(self._token(one, inputs, shapes) for one in (value.start, value.stop, value.step)),
            )
        if isinstance(value, dict):
            return (
                "dict", *((key, self._token(one, inputs, shapes)) for key, one in value.items()),
            )  # fmt: skip
        if isinstance(value, np.ndarray):
            small = value.nbytes <= _LARGE_BYTES and value.dtype != object
            same = blake2b(value.tobytes()).digest() if small else self._new()
            return "array", str(value.dtype), value.shape, same
        if value is None or isinstance(
            value, bool | int | float | complex | str | torch.dtype | torch.device | torch.layout
            | torch.memory_format | type(...)
        ):  # fmt: skip
            return type(value).__name__, value
        return "other", self._new()

    def _before(self, func: Any, args: Any, kwargs: Mapping[str, Any]) -> _Call | None:
        """Return a call by what it is given; None for an attribute of a tensor."""
        name = getattr(func, "__name__", "")
        if name in ("__get__", "__set__", "__delete__"):
            return None
        inputs: list[int] = []
        shapes: list[tuple[int, ...]] = []
        given = list(args)
        if name == "batch_norm" and len(given) > 5 and given[5] is True:
            given[1] = given[2] = None  # running means, which the result does not depend on
        tokens = self._token(given, inputs, shapes), self._token(dict(kwargs), inputs, shapes)
        enabled = torch.is_autocast_enabled()
        asked = next((one for one in kwargs if one.startswith(_ASKS) and kwargs[one] is True), "")
        key = func, enabled, tokens
        outside = bool(inputs) and inputs[0] not in self._maker
        scattered = outside and name == "__getitem__" and _scattered(*args)
        return _Call(
            name, self._frames(), tuple(inputs), tuple(shapes), asked=asked, scattered=scattered, key=key
        )

    def _frames(self) -> Frames:
        """Return the frames of the program's own code, the outermost first."""
        frames, own = [], self._own
        frame: FrameType | None = sys._getframe(3)
        while frame is not None:
            code = frame.f_code
            mine = own.get(code)
            if mine is None:
                mine = own[code] = not code.co_filename.startswith(installed())
            if mine:
                frames.append((code, frame.f_lineno))
            frame = frame.f_back
        return tuple(reversed(frames))

    def _seen(self, key: Any) -> bool:
        return key in self._values and key not in self._random

    def _got(self, func: Any, args: Any, result: Any) -> None:
        """Note an attribute that is a tensor: a view of the one that has it, except its gradient."""
        if result is None:  # what is set is used
            self._steps[-1].used.update(self._number(one) for one in _tensors(args))
        if isinstance(result, torch.Tensor) and args and isinstance(args[0], torch.Tensor):
            self._steps[-1].used.add(self._number(args[0]))
            name = getattr(getattr(func, "__self__", None), "__name__", "grad")
            if name in ("grad", "_grad"):
                number = self._new()
                self._keep(result, number)
                self._trained.add(number)
            elif result is not args[0]:
                key = "attribute", name, self._number(args[0])
                self._keep(result, self._values.setdefault(key, self._count + 1))
                self._count = max(self._count, self._values[key])

    def _after(
        self, call: _Call, number: int, args: Any, kwargs: Mapping[str, Any], result: Any, drawn: Any
    ) -> None:
        """Give its results their numbers, and note whether it is like another call."""
        step, name, key = self._steps[-1], call.name, call.key
        if drawn is not None and drawn != self._drawn():
            self._random.add(key)
        results = [*_tensors(result)]
        writes = (name.endswith("_") and not name.endswith("__")) or name.startswith("__i") or "out" in kwargs
        writes = writes or name == "__setitem__"
        if name.startswith(("_foreach_", "_fused_", "_amp_")) and writes:
            for one in _tensors((args, kwargs)):
                self._known.pop(id(one), None)
        self._wrote |= writes
        if writes and call.inputs:
            base = args[0]._base if args and isinstance(args[0], torch.Tensor) else None
            known = self._known.get(id(base))
            self._written.update(call.inputs[:1] if known is None else (call.inputs[0], known[2]))
        call.works = writes or not results
        call.grad = any(one.requires_grad for one in results)
        call.weights = bool(call.inputs) and self._weights.issuperset(call.inputs) and not self._updating
        if len(self._steps) == 1 and name in _LOSSES and len(args) > 1:
            call.ignored = _ignored(args[1], kwargs.get("ignore_index", -100))
        random = key in self._random
        first = None if random else self._values.get(key)
        if first is None and not random:
            first = self._values[key] = self._new()
        outputs, made = [], self._maker.get(call.inputs[0], number) if writes and call.inputs else number
        written = [args[0]] if name == "__setitem__" and isinstance(args[0], torch.Tensor) else []
        for at, one in enumerate([*results, *written]):
            value = self._new() if random else self._values.setdefault((first, at), self._count + 1)
            self._count = max(self._count, value)
            self._keep(one, value)
            outputs.append(value)
            if call.weights:
                self._weights.add(value)
            if not self._trained.isdisjoint(call.inputs):
                self._trained.add(value)
            self._look(one, value)
        call.outputs = tuple(outputs)
        call.refs = tuple(weakref.ref(one) for one in results)
        if not random:
            step.numbers.setdefault(key, number)
        for value in outputs:
            self._maker.setdefault(value, made)
        if len(self._steps) > 1:
            self._grows(call, number)

    # --- lengths ------------------------------------------------------------------------------------------

    def _grows(self, call: _Call, number: int) -> None:
        """Note a value that begins with an earlier one, and a call that was made for the earlier one, too."""
        root = self._root
        if call.name in _JOINS and len(call.inputs) > 1 and len(call.outputs) == 1:
            first = call.inputs[0]
            root[call.outputs[0]] = root.get(first, first)
            return
        if not call.outputs or not call.inputs:
            return
        key = _without_lengths(call.key, root)
        before = self._steps[-1].similar.setdefault(key, [])
        if before:
            last = self._steps[-1].calls[before[-1]]
            pairs = [*zip(last.inputs, call.inputs, strict=True)]
            longer = any(
                then != now and _is_longer(self._shapes.get(then), self._shapes.get(now))
                for then, now in pairs
            )
            sliced = call.name == "__getitem__" and last.inputs == call.inputs and last.key != call.key
            if longer or sliced:
                for then, now in zip(last.outputs, call.outputs, strict=False):
                    if _is_longer(self._shapes.get(then), self._shapes.get(now)) or longer:
                        root[now] = root.get(then, then)
        before.append(number)

    # --- the answer ---------------------------------------------------------------------------------------

    def facts(self) -> list[Fact]:
        """Return which calls of the second step were needless; none if it was not followed as a whole."""
        if len(self._steps) != 2:
            return []
        facts = [
            *self._again(), *self._unused(), *self._longer(), *self._order(), *self._told(),
            *self._enlarged(), *self._ignored(), *self._of_weights(), *self._scattered(),
        ]  # fmt: skip
        groups: dict[tuple[str, str, str], list[tuple[int, str, float]]] = {}
        whole = self._whole(facts)
        for kind, number, other, name, ratio in facts:
            line, there = self._lines(number, other)
            if kind == "padded" and other is not None:
                line, there = _text(other.frames), ""  # where its length was given
            elif other is None and (frames := whole.get((kind, number))):
                line = _text(frames)
            groups.setdefault((kind, line, there), []).append((number, name, ratio))
        return [
            Fact(
                kind,
                [number for number, _, _ in group],
                line,
                other,
                max((self._last.calls[number].took_ns, name) for number, name, _ in group)[1],
                sum(ratio for *_, ratio in group) / len(group),
            )
            for (kind, line, other), group in groups.items()
        ]

    def _whole(self, facts: list[Any]) -> dict[tuple[str, int], Frames]:
        """Return, by call, the outermost line that calls what makes needless calls of its kind alone."""
        of_kind: dict[str, set[int]] = {}
        for kind, number, *_ in facts:
            of_kind.setdefault(kind, set()).add(number)
        lines = {}
        for kind in ("before", "unused", "kept", "weights"):
            goes = of_kind.get(kind, set())
            needed = {
                one
                for number, call in enumerate(self._last.calls)
                if number not in goes and call.inputs
                for one in _called(call.frames)
            }
            for number in goes:
                calls = _called(self._last.calls[number].frames)
                lines[kind, number] = next(
                    (frames for frames, code in calls if (frames, code) not in needed), ()
                )
        return lines

    @property
    def calls(self) -> int:
        """The number of calls of the second step."""
        return len(self._last.calls) if len(self._steps) == 2 else 0

    @property
    def _last(self) -> _Step:
        return self._steps[-1]

    def _again(self) -> Iterator[tuple[str, int, _Call | None, str, float]]:
        calls, earlier = self._last.calls, self._steps[0]
        computed = [
            (number, call)
            for number, call in enumerate(calls)
            if not call.works and call.key not in self._random and self._written.isdisjoint(call.outputs)
        ]
        # A step that computes nothing new is there to be measured.
        measures = all(call.key in earlier.numbers for _, call in computed)
        for number, call in computed:
            at = self._last.numbers.get(call.key, number)
            if at != number:
                first = calls[at]
                # What needs no gradient is the one to do without.
                gone, stays = (at, call) if call.grad and not first.grad else (number, first)
                yield "again", gone, stays, call.name, 1.0
            elif call.key in earlier.numbers and call.inputs and not measures:
                yield "before", number, None, call.name, 1.0

    def _unused(self) -> Iterator[tuple[str, int, None, str, float]]:
        """Yield the calls whose results nothing had used by the end of the next step.

        What was kept until its step ended may be used in others. Of calls with several results that one was
        asked for, only the others may be used.
        """
        before, now = self._steps[0].calls, self._last.calls
        if self._foreign or [call.name for call in before] != [call.name for call in now]:
            return
        used = self._steps[0].used | self._last.used
        for call in now:
            used.update(call.inputs)
        kept: set[int] = set()
        for number, call in reversed([*enumerate(before)]):
            alive = any(ref() is not None for ref in call.refs)
            if call.works or alive or not used.isdisjoint(call.outputs):
                used.update(call.inputs)
                if call.asked and len(call.outputs) > 1 and not used.issuperset(call.outputs):
                    yield "asked", number, None, f"{call.name}, {call.asked}=True", 1.0
            elif call.kept or not kept.isdisjoint(call.outputs):
                kept.update(call.inputs)
                yield "kept", number, None, now[number].name, 1.0
            else:
                yield "unused", number, None, now[number].name, 1.0

    def _longer(self) -> Iterator[tuple[str, int, _Call, str, float]]:
        for group in self._last.similar.values():
            for then, now in pairwise(group):
                first, call = self._last.calls[then], self._last.calls[now]
                sizes = [
                    _grown(self._shapes.get(one), self._shapes.get(other))
                    for one, other in zip(first.inputs, call.inputs, strict=True)
                    if one != other and self._root.get(one, one) == self._root.get(other, other)
                ]
                known = [size for size in sizes if size is not None]
                if known and first.key != call.key:
                    yield "longer", now, first, call.name, max(known)

    def _order(self) -> Iterator[tuple[str, int, _Call, str, float]]:
        """Yield products of three matrices that would take less than half in the other order."""
        uses: dict[int, int] = {}
        for call in self._last.calls:
            for value in call.inputs:
                uses[value] = uses.get(value, 0) + 1
        made = {value: number for number, call in enumerate(self._last.calls) for value in call.outputs}
        for number, call in enumerate(self._last.calls):
            if call.name not in _PRODUCTS or len(call.inputs) < 2:
                continue
            for side in (0, 1):
                at = made.get(call.inputs[side], number)
                inner = self._last.calls[at]
                if at >= number or inner.name not in _PRODUCTS or uses[call.inputs[side]] > 1:
                    continue
                if inner.name == "linear" and len(inner.inputs) > 2:  # a bias is added in between
                    continue
                now, other = _costs(inner, call, side)
                if 2 * other <= now:
                    saved = 1 - other / now
                    yield "order", at, call, inner.name, saved
                    yield "order", number, inner, call.name, saved

    def _told(self) -> Iterator[tuple[str, int, _Call | None, str, float]]:
        """Yield calls on tensors from outside that are padded, or mostly zeros."""
        comes: dict[int, list[tuple[float, int, _Call]]] = {}
        before, made = self._steps[0].calls, self._maker
        names = [call.name for call in before]
        if names != [call.name for call in self._last.calls]:
            return
        for number, call in enumerate(before):
            padded = []
            for value, shape in zip(call.inputs, call.shapes, strict=False):
                for kind, ratio, size in self._facts.get(value, ()):
                    if kind == "padded":
                        padded.append((ratio, size, before[made[value]] if value in made else call))
                    elif call.name in _PRODUCTS:
                        yield "zeros", number, None, kind, ratio
                padded += [one for one in comes.get(value, ()) if one[1] in shape]
            padded.sort(key=itemgetter(0))
            if padded and not call.works:  # what is written to is looked at again
                for value in call.outputs:
                    comes[value] = padded
                yield "padded", number, padded[-1][2], call.name, padded[-1][0]

    def _scattered(self) -> Iterator[tuple[str, int, None, str, float]]:
        """Yield copies of rows that lie in distant places each."""
        for number, call in enumerate(self._last.calls):
            if call.scattered:
                yield "scattered", number, None, call.name, 1.0

    def _enlarged(self) -> Iterator[tuple[str, int, _Call, str, float]]:
        """Yield values that are repeated, or enlarged otherwise, and then multiplied to fewer."""
        made = {value: call for call in self._last.calls for value in call.outputs}
        at = {id(call): number for number, call in enumerate(self._last.calls)}
        for call in self._last.calls:
            kernel = call.shapes[1] if len(call.shapes) > 1 else ()
            pointwise = call.name in _POINTWISE and set(kernel[2:]) == {1}
            if (call.name not in _PRODUCTS and not pointwise) or not call.outputs or not call.grad:
                continue
            before, left = list[_Call](), list(call.inputs[:1])
            while left:
                maker = made.get(left.pop())
                if maker is not None and (maker.name in _LARGER or maker.name in _JOINS):
                    before.append(maker)
                    left += maker.inputs if maker.name in _JOINS else ()
            numbers, results = prod(call.shapes[0]), prod(self._shapes[call.outputs[0]])
            grown = [one for one in before if one.name in _LARGER]
            small = sum(prod(shape) for one in grown for shape in one.shapes[:1])
            if grown and 2 * small <= numbers and 2 * results <= numbers:
                for one in [*before, call]:
                    yield "enlarged", at[id(one)], grown[0], grown[0].name, 1 - results / numbers

    def _ignored(self) -> Iterator[tuple[str, int, None, str, float]]:
        """Yield the scores of places that the loss ignores, and the loss."""
        made = {value: number for number, call in enumerate(self._last.calls) for value in call.outputs}
        before = self._steps[0].calls
        if [call.name for call in before] != [call.name for call in self._last.calls]:
            return
        for number, call in enumerate(before):
            now = self._last.calls[number]
            maker = made.get(now.inputs[0]) if now.inputs else None
            if call.ignored >= _HALF and maker is not None and maker != number:
                if self._last.calls[maker].name in _PRODUCTS:
                    yield "ignored", maker, None, self._last.calls[maker].name, call.ignored
                yield "ignored", number, None, call.name, call.ignored

    def _of_weights(self) -> Iterator[tuple[str, int, None, str, float]]:
        """Yield calls that compute something of weights alone, and pass gradients to them."""
        for number, call in enumerate(self._last.calls):
            if call.outputs and call.grad and call.weights and not call.works:
                yield "weights", number, None, call.name, 1.0

    def _lines(self, number: int, other: _Call | None) -> tuple[str, str]:
        """Return the lines of two calls: those in which their stacks part, else the innermost ones."""
        mine = self._last.calls[number].frames
        if other is None:
            return _text(mine), ""
        for one, that in zip(mine, other.frames, strict=False):
            if one != that:
                return _text((one,)), _text((that,))
        return _text(mine), _text(other.frames)


def _called(frames: Frames) -> list[tuple[Frames, CodeType | None]]:
    """Return the lines of a stack, the outermost first, each with the function that it calls."""
    codes = [*(code for code, _ in frames[1:]), None]
    return [(frames[: at + 1], code) for at, code in enumerate(codes)][: len(frames)]


def _text(frames: Frames) -> str:
    if not frames:
        return ""
    code, line = frames[-1]
    return f"{code.co_filename}({line}): {code.co_name}"


def _compiles() -> bool:
    """Return whether anything was compiled by PyTorch, whose guards look at modes."""
    compiled = sys.modules.get("torch._dynamo.utils")
    return bool(compiled is not None and compiled.counters["frames"]["total"])


def _ignored(targets: object, index: int) -> float:
    """Return the share of targets that a loss ignores."""
    if not isinstance(targets, torch.Tensor) or not _may_look(targets):
        return 0.0
    if targets.is_floating_point() or not targets.numel():
        return 0.0
    return float(targets.detach().eq(index).float().mean())


def _may_look(tensor: torch.Tensor) -> bool:
    """Return whether a tensor's values may be read: that waits for no device and for no other rank.

    A device would be waited for, which a CUDA graph that is being captured forbids; a shard of a tensor, or a
    wrapper of ``torch.func``, has no values of its own.
    """
    return type(tensor) in _PLAIN and tensor.device.type == "cpu" and tensor.numel() <= _MOST_NUMBERS


def _scattered(tensor: object, at: object) -> bool:
    """Return whether rows that are chosen of a tensor lie in distant places each, but its columns do not."""
    if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or tensor.ndim < 2:
        return False
    if isinstance(at, slice | int | tuple | type(None) | type(...)):  # a view
        return False
    size = tensor.element_size()
    return tensor.shape[-1] > 1 and tensor.stride(0) * size < _LINE_BYTES <= tensor.stride(-1) * size


def _memory_of(tensor: torch.Tensor) -> int:
    """Return the address of a tensor's memory, 0 if it has none of its own."""
    with suppress(RuntimeError, NotImplementedError):
        return tensor.untyped_storage().data_ptr()
    return 0


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _tensors(one)


def _without_lengths(key: Any, root: Mapping[int, int]) -> Any:
    """Return a key without lengths: each tensor by what it grew from, no whole numbers."""
    if isinstance(key, tuple):
        if len(key) == 2 and key[0] == "tensor":
            return "tensor", root.get(key[1], key[1])
        if len(key) == 2 and key[0] == "int":
            return "int"
        return tuple(_without_lengths(one, root) for one in key)
    return key


def _is_longer(then: tuple[int, ...] | None, now: tuple[int, ...] | None) -> bool:
    return _grown(then, now) is not None


def _grown(then: tuple[int, ...] | None, now: tuple[int, ...] | None) -> float | None:
    """Return the share of a tensor that was there when it was shorter; None if it did not grow."""
    if then is None or now is None or len(then) != len(now):
        return None
    differ = [(one, other) for one, other in zip(then, now, strict=True) if one != other]
    if not differ or any(one >= other for one, other in differ):
        return None
    return min(one / other for one, other in differ)


def _costs(inner: _Call, outer: _Call, side: int) -> tuple[int, int]:
    """Return the multiplications of two products as they are, and in the other order.

    Args:
        inner: The first product, of matrices (m, k) and (k, n).
        outer: The second, which gets its result.
        side: Whether that is its left (0) or its right factor.
    """
    (left, right), (ahead, behind) = inner.shapes[:2], outer.shapes[:2]
    m, k = (left[-2] if len(left) > 1 else 1), left[-1]
    n = right[-2 if inner.name == "linear" else -1] if len(right) > 1 else 1
    each = prod(left[:-2])
    if side == 1 and outer.name == "linear":  # x (AB)', which is (x B') A'
        rows = prod(ahead[:-1])
        return each * m * k * n + rows * n * m, rows * n * k + rows * k * m
    if side == 1:
        rows, many = (ahead[-2] if len(ahead) > 1 else 1), max(each, prod(ahead[:-2]))
        return each * m * k * n + many * rows * m * n, many * rows * m * k + many * rows * k * n
    columns = behind[-2 if outer.name == "linear" else -1] if len(behind) > 1 else 1
    joint = each if max(len(right), len(behind)) > 2 else 1  # two weights are multiplied once
    return each * (m * k * n + m * n * columns), joint * k * n * columns + each * m * k * columns


def _facts_of(tensor: torch.Tensor) -> Iterator[tuple[str, float, int]]:
    """Yield what the values of a tensor from outside tell: that it is padded, or mostly zeros."""
    if tensor.layout != torch.strided or tensor.numel() < 2 or tensor.ndim < 2 or tensor.is_complex():
        return
    if tensor.dtype == torch.bool:
        return
    with torch.no_grad():
        values = tensor.detach()
        last = values.flatten()[-1]
        for dim in range(1, values.ndim):
            size = values.shape[dim]
            other = [at for at in range(values.ndim) if at != dim]
            if size < 8 or values.select(dim, size - 1).ne(last).any():
                continue
            differs = values.ne(last)
            used = differs.any(dim=other[0]) if len(other) == 1 else differs.amax(dim=other)
            length = int(used.nonzero().max()) + 1 if used.any() else size
            if length < size:
                yield "padded", 1 - length / size, size
        if values.is_floating_point() and values.numel() >= _MIN_NUMBERS:
            zeros = 1 - int(values.count_nonzero()) / values.numel()
            if zeros >= _MOSTLY:
                ones = values.ndim == 2 and bool((values.count_nonzero(dim=1) <= 1).all())
                yield "one number a row" if ones else "mostly zeros", zeros, values.shape[-1]


_MOSTLY = 0.9
"""Share of zeros from which on most products with a matrix are with zeros, by a wide margin."""
