"""Clipping by ``torch.nn.utils``: the norm of the gradients before it, which nothing later knows.

``clip_grad_norm_`` and whatever is built on it (Lightning, Accelerate, transformers, torchtitan) end in one
function of ``torch.nn.utils.clip_grad``, and ``clip_grad_value_`` calls another one before it changes
anything. While a model is watched, these are wrapped: they act as before.
"""

from __future__ import annotations

import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import utils
from torch.nn.utils import clip_grad

from stepscope.integrations.torch.backward import without
from stepscope.integrations.torch.parameters import is_distributed
from stepscope.record.statistics.table import SQUARES, Array, StatisticsTable


class ClipCall(NamedTuple):
    """One call that clips.

    Attributes:
        norm: Norm of the gradients before.
        most: The limit; a tensor if calls were joined.
        parameters: Identities of the parameters.
    """

    norm: Tensor
    most: float | Tensor
    parameters: frozenset[int]

    def after(self) -> Tensor:
        """Return the norm after clipping, by the formula of ``clip_grad_norm_``."""
        return self.norm * torch.clamp(self.most / (self.norm + 1e-6), max=1.0)

    def then(self, later: ClipCall) -> ClipCall:
        """Return both calls as one, if the later one saw the result of this one; otherwise the later one.

        Gradients are the same if their norm is; no device is waited for.
        """
        same = torch.isclose(later.norm, self.after(), rtol=1e-4, atol=0.0)
        least = torch.minimum(torch.as_tensor(self.most), torch.as_tensor(later.most)).to(later.norm)
        most = torch.where(same, least, torch.as_tensor(later.most).to(later.norm))
        return ClipCall(torch.where(same, self.norm, later.norm), most, later.parameters)


@dataclass(frozen=True)
class Cut:
    """One call that clips values, which does not give the norm.

    Attributes:
        parameters: Identities of the parameters.
        rows: Theirs, of those that this rank measures.
        table: Sums of squares before, of this rank's part.
        wait: Waits until a device has filled the table; None if it is there.
    """

    parameters: frozenset[int]
    rows: tuple[int, ...]
    table: StatisticsTable
    wait: Callable[[], None] | None

    def gone(self, gradients: Array) -> float:
        """Return by how much clipping made the sum of squares smaller; may wait for a device.

        Args:
            gradients: Rows of moments after it, of the same parts.
        """
        if self.wait is not None:
            self.wait()
        rows = list(self.rows)
        return float((self.table.moments[rows, SQUARES] - gradients[rows, SQUARES]).sum())


class Listener(Protocol):
    """A listener for clipping."""

    @property
    def resting(self) -> bool:
        """Whether it measures nothing now: what is clipped meanwhile costs nothing."""

    def clipped(self, clip: ClipCall, begun: float) -> None:
        """Take note of it.

        Args:
            clip: The call.
            begun: When it was made, by ``time.perf_counter``: noting it is a part of what measuring costs.
        """

    def cut(self, gradients: Sequence[Tensor]) -> None:
        """Look at gradients whose values are about to be clipped."""


class Wrapped:
    """A wrapped function of torch, wherever torch refers to it by name."""

    def __init__(self, name: str, public: str, wrap: Callable[[Any], Any]) -> None:
        self._original = getattr(clip_grad, name)
        self._places = [(clip_grad, name)]
        if getattr(utils, public, None) is self._original:
            self._places.append((utils, public))
        wrapper = wrap(self._original)
        wrapper.__wrapped__ = self._original
        for place, at in self._places:
            setattr(place, at, wrapper)
        self._wrapper = wrapper

    def undo(self) -> None:
        """Restore the function, unless somebody else has wrapped it meanwhile."""
        for place, at in self._places:
            if getattr(place, at) is self._wrapper:
                setattr(place, at, self._original)


class Clips:
    """The clipping calls since the last step; several for the same parameters are combined."""

    def __init__(self) -> None:
        self._clips: list[ClipCall | Cut] = []

    def __bool__(self) -> bool:
        return bool(self._clips)

    def add(self, clip: ClipCall | Cut) -> None:
        """Note a call; a skipped step may have left others for the same parameters."""
        kind = type(clip)
        for other in self._clips:
            if (
                isinstance(other, ClipCall)
                and isinstance(clip, ClipCall)
                and other.parameters == clip.parameters
            ):
                clip = other.then(clip)
        self._clips = [
            other
            for other in self._clips
            if not (isinstance(other, kind) and other.parameters & clip.parameters)
        ]
        self._clips.append(clip)

    def take(self) -> list[ClipCall | Cut]:
        """Return the calls, and forget them."""
        clips, self._clips = self._clips, []
        return clips

    def cover(self, identities: set[int]) -> bool:
        """Return whether norms of all these parameters are known, and finite as far as is known at once."""
        clips = [clip for clip in self._clips if isinstance(clip, ClipCall)]
        if len(clips) < len(self._clips) or not clips:
            return False  # after a cut the norm is another one
        if not identities <= frozenset().union(*(clip.parameters for clip in clips)):
            return False
        return all(not clip.norm.is_cpu or isfinite(float(clip.norm)) for clip in clips)


def norms(clips: Sequence[ClipCall | Cut]) -> list[ClipCall]:
    """Return the calls that scaled, except those after a cut of the same parameters, which covers both."""
    last: list[ClipCall] = []
    cut: frozenset[int] = frozenset()
    for clip in clips:
        if isinstance(clip, Cut):
            cut |= clip.parameters
        elif not clip.parameters & cut:
            last.append(clip)
    return last


def cuts(clips: Sequence[ClipCall | Cut]) -> list[Cut]:
    """Return the calls that clipped values."""
    return [clip for clip in clips if isinstance(clip, Cut)]


def total(norms: list[Tensor]) -> Tensor:
    """Return the joint norm of several norms."""
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms))


_lock = threading.Lock()
_listeners: tuple[weakref.ref[Any], ...] = ()
"""Replaced rather than changed, as they are gone through in each step."""
_wrapped: list[Wrapped] = []
_kind = threading.local()
GROUPING = "_group_tensors_by_device_and_dtype"
"""Function that ``clip_grad_value_`` calls with the gradients first, even if it was imported earlier."""


def listen(listener: Listener) -> None:
    """Report every clipping call to a listener, until ``ignore``."""
    global _listeners
    with _lock:
        _listeners = (*without(_listeners, listener), weakref.ref(listener))
        if not _wrapped and hasattr(clip_grad, "_clip_grads_with_norm_"):
            _wrapped.append(Wrapped("_get_total_norm", "get_total_norm", _note_kind))
            _wrapped.append(Wrapped("_clip_grads_with_norm_", "clip_grads_with_norm_", _note_clip))
        if len(_wrapped) == 2 and hasattr(clip_grad, GROUPING):
            _wrapped.append(Wrapped(GROUPING, "", _note_cut))


def ignore(listener: Listener) -> None:
    """Tell a listener no more."""
    global _listeners
    with _lock:
        _listeners = without(_listeners, listener)
        while _wrapped and not _listeners:
            _wrapped.pop().undo()


def _awake() -> list[Any]:
    listeners = []
    for ref in _listeners:  # a comprehension is a call of its own before Python 3.12
        listener = ref()
        if listener is not None and not listener.resting:
            listeners.append(listener)
    return listeners


def _note_kind(original: Any) -> Any:
    def get_total_norm(tensors: Any, norm_type: float = 2.0, *more: Any, **named: Any) -> Any:
        norm = original(tensors, norm_type, *more, **named)
        _kind.last = (norm, norm_type)
        return norm

    return get_total_norm


def _note_clip(original: Any) -> Any:
    def clip_grads_with_norm_(
        parameters: Any, max_norm: float, total_norm: Any, *more: Any, **named: Any
    ) -> Any:
        begun, listeners = time.perf_counter(), _awake()
        if listeners:
            parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            _tell(listeners, begun, parameters, max_norm, total_norm)
        return original(parameters, max_norm, total_norm, *more, **named)

    return clip_grads_with_norm_


def _note_cut(original: Any) -> Any:
    def group_tensors_by_device_and_dtype(tensors: Any, *more: Any, **named: Any) -> Any:
        if sys._getframe(1).f_code.co_name == "clip_grad_value_":
            for listener in _awake():
                listener.cut(tensors[0])
        return original(tensors, *more, **named)

    return group_tensors_by_device_and_dtype


def _tell(listeners: list[Any], begun: float, parameters: list[Any], max_norm: Any, total_norm: Any) -> None:
    try:
        norm, kind = getattr(_kind, "last", (None, 2.0))
        _kind.last = (None, 2.0)
        if norm is total_norm and float(kind) != 2.0:
            gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
            for listener in listeners:
                listener.cut(gradients)
            return
        if not isinstance(total_norm, Tensor):
            return
        if is_distributed(total_norm):
            distributed: Any = total_norm
            if not all(placement.is_replicate() for placement in distributed.placements):
                return
            total_norm = distributed.to_local()
        # A copy: what torch returns is the user's, who may change it in place.
        clip = ClipCall(total_norm.detach().clone(), float(max_norm), frozenset(map(id, parameters)))
        for listener in listeners:
            listener.clipped(clip, begun)
    except Exception:  # noqa: BLE001  clipping must go on whatever is given
        return
