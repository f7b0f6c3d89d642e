"""Logged values become a tag, a step and a float, or a value that is read later on the writer's thread.

No framework is imported. The type's own module says which one made it, and the answer is remembered per type.
Of a value on a device the caller's thread takes the cheapest snapshot, and the number is read later:

- torch on the CPU: read at once, there is nothing to wait for.
- torch on CUDA or XPU: an asynchronous copy into page-locked memory on the current stream, and an event. No
  sync; the writer's thread takes the number once the event has passed.
- torch on another device: detach and clone; ``.item()`` on the writer's thread.
- JAX: a reference, as arrays cannot change; the number once the array is ready.
- TensorFlow: a reference, or a read of a variable; ``.numpy()`` on the writer's thread.

A stream runs its work in order, so the copy sees the value before any later in-place change by the same
stream.
"""

from __future__ import annotations

import operator
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from stepscope.record.problems import RefusalError, pass_on, shown

MAX_TAG = 1_024
_TAG_HINT = "name the series, as in run.scalar('train/loss', loss)"
_STEP_HINT = "pass an integer, or none to use the current step of run.steps()"

_readers: dict[type, Reader] = {}


def read(value: Any) -> float | Pending:
    """Return the value as a float, or an object that becomes one later.

    Raises:
        RefusalError: It is not a single number. Other exceptions come from the value's own code.
    """
    kind = type(value)
    reader = _readers.get(kind)
    if reader is None:
        reader = _readers[kind] = reader_for(kind)
    return reader(value)


def reader_for(kind: type) -> Reader:
    """Choose how values of a type are read."""
    if issubclass(kind, str | bytes | bytearray | list | tuple | dict | set | type(None)):
        return _refuse
    if issubclass(kind, int | float):
        return _plain
    reader = framework_reader(kind)
    if reader is not None:
        return reader
    if any(base.__module__ == "numpy" for base in kind.__mro__):
        return _numpy
    return _plain if hasattr(kind, "__float__") or hasattr(kind, "__index__") else _refuse


def reader_now(kind: type) -> Callable[[Any], float | None] | None:
    """Return the function that reads values of a type without waiting; None if there is nothing.

    It may return None, or raise, for a value that takes the longer way.
    """
    reader = reader_for(kind)
    if reader is read_torch:
        return None if hasattr(kind, "get_mask") else read_torch_now
    if reader is not _numpy:
        return None
    numpy = sys.modules["numpy"]
    plain = issubclass(kind, numpy.floating | numpy.integer | numpy.bool_)
    return float if plain and not issubclass(kind, numpy.timedelta64 | numpy.longdouble) else _numpy


def framework_reader(kind: type) -> Reader | None:
    """Return how a framework's values are read; None if the type belongs to no framework."""
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == "keras":
            return _keras
        choose = READERS.get(base.__module__.partition(".")[0])
        if choose is not None:
            return choose(kind)
    return None


def _keras(value: Any) -> float | Pending:
    """Read a variable's value, which is an array of the backend."""
    if not hasattr(value, "value"):
        raise not_a_number(
            "a symbolic Keras tensor, which has no number yet", "log what the model returns for data"
        )
    return read(value.value)


def _plain(value: Any) -> float:
    """Numbers proper: bool, int, float, Decimal, Fraction and whatever else defines ``__float__``."""
    try:
        return same(float(value), value)
    except OverflowError:
        raise _beyond() from None


def same(number: float, value: Any) -> float:
    """Return a float if it stands for the value that it was made of.

    ``Decimal``, ``Fraction`` and long doubles hold numbers that a float takes for 0 or infinite.

    Raises:
        RefusalError: It became 0 or infinite.
    """
    if number in _ENDS and value != number:
        raise _beyond()
    return number


_ENDS = (0.0, float("inf"), float("-inf"))


def _beyond() -> RefusalError:
    return not_a_number("a number beyond the range of a float", "log its logarithm, or scale it")


def masked() -> RefusalError:
    """Return the refusal of a masked element: the number behind a mask is not meant to be read."""
    return not_a_number(
        "a masked value, which has no number", "log nothing where there is no value, or its filled(nan)"
    )


def _numpy(value: Any) -> float:
    if value.size != 1:
        raise not_a_number(f"an array of shape {value.shape}", "log one number: its mean() or max(), say")
    if (mask := getattr(value, "mask", None)) is not None and mask.any():
        raise masked()
    item = value.item()
    if isinstance(item, str | bytes) or not hasattr(item, "__float__"):
        raise not_a_number(f"a numpy value of type {value.dtype}")
    return same(float(item), item)


def _refuse(value: Any) -> float:
    hint = ""
    if isinstance(value, dict):
        hint = "use run.scalars({...}) for several numbers"
    elif value is None:
        hint = "log nothing where there is no value: what is not recorded is not shown as 0"
    raise not_a_number(shown(value), hint)


# --- tags and steps ---------------------------------------------------------------------------------


def as_tag(tag: Any) -> str:
    """Return the tag as plain text.

    Raises:
        RefusalError: It is not text, empty, too long, or not Unicode.
    """
    if not isinstance(tag, str):
        raise RefusalError("tag", f"a tag must be text, got {shown(tag)}", _TAG_HINT)
    if not tag or len(tag) > MAX_TAG:
        raise RefusalError("tag", f"a tag must have 1 to {MAX_TAG} characters, got {len(tag)}", _TAG_HINT)
    try:
        tag.encode()
    except UnicodeEncodeError:
        raise RefusalError("tag", f"a tag must be Unicode text, got {shown(tag)}", _TAG_HINT) from None
    return str(tag)


def as_step(step: Any) -> int | Pending:
    """Return the step as an integer, or an object that becomes one later: JAX counts steps on the device.

    Raises:
        RefusalError: It is not a 64-bit integer.
    """
    if isinstance(step, int):
        return _whole(int(step))
    if framework_reader(type(step)) is not None:
        number = read(step)
        return _whole(number) if isinstance(number, float) else number
    try:
        return _whole(operator.index(step))
    except TypeError:
        raise _no_step(shown(step)) from None


class Delayed:
    """A point whose step is still on a device, and perhaps its value too.

    Attributes:
        step: The step, once ``read`` has returned.
    """

    __slots__ = ("_step", "_value", "step")

    def __init__(self, value: float | Pending, step: Pending) -> None:
        self._value, self._step = value, step
        self.step = 0

    def ready(self) -> bool:
        """Return whether both are there."""
        return self._step.ready() and (isinstance(self._value, float) or self._value.ready())

    def read(self) -> float:
        """Return the value; the step is then known as well."""
        number = self._value if isinstance(self._value, float) else self._value.read()
        self.step = _whole(self._step.read())
        return number


def _whole(number: float) -> int:
    if number != number or number in (float("inf"), float("-inf")) or number != int(number):
        raise _no_step(repr(number))
    if not -(1 << 63) <= number < 1 << 63:
        raise RefusalError("step", f"a step must fit into 64 bits, got {shown(number)}", _STEP_HINT)
    return int(number)


def _no_step(got: str) -> RefusalError:
    return RefusalError("step", f"a step must be an integer, got {got}", _STEP_HINT)


# --- values on devices ------------------------------------------------------------------------------


Reader = Callable[[Any], "float | Pending"]


class Pending(Protocol):
    """A value still on a device."""

    def ready(self) -> bool:
        """Return whether ``read`` would return without waiting for the device."""

    def read(self) -> float:
        """Return the value as it was when it was logged.

        Raises:
            RefusalError: It cannot be had any more.
        """


Point = tuple[str, Any, int, float]
"""Tag, value (a float or a Pending), step, wall time in seconds."""


class DevicePoints:
    """Holds points whose values are still on a device, in the order of each tag.

    A point of a tag never overtakes an earlier one of the same tag; other tags do not wait.

    Args:
        lost: Called with the point and the exception if its value is lost.
    """

    def __init__(self, lost: Callable[[Point, BaseException], None]) -> None:
        self._lost = lost
        self._points: dict[str, deque[Point]] = {}

    def __len__(self) -> int:
        return sum(map(len, list(self._points.values())))

    def add(self, point: Point) -> None:
        """Take a point."""
        self._points.setdefault(point[0], deque()).append(point)

    def ready(self) -> list[Point]:
        """Release the points whose devices have finished, with their values read."""
        points_: list[Point] = []
        for tag, points in list(self._points.items()):
            while points and self._read_first(points, points_):
                points.popleft()
            if not points:
                del self._points[tag]
        return points_

    def put_back(self, points: list[Point]) -> None:
        """Take points again that ``ready`` gave."""
        for point in reversed(points):
            self._points.setdefault(point[0], deque()).appendleft(point)

    def clear(self) -> list[Point]:
        """Let go of everything."""
        points = [point for points in self._points.values() for point in points]
        self._points.clear()
        return points

    def _read_first(self, points: deque[Point], ready: list[Point]) -> bool:
        """Read a tag's first point; return True once it is dealt with, even if it was lost."""
        tag, value, step, wall = points[0]
        if isinstance(value, float):
            ready.append(points[0])
            return True
        try:
            if not value.ready():
                return False
            number = value.read()
            ready.append((tag, number, getattr(value, "step", step), wall))
        except BaseException as error:  # noqa: BLE001  whatever a framework raises must not end the thread
            pass_on(error)
            self._lost(points[0], error)
        return True


def not_a_number(message: str, hint: str = "") -> RefusalError:
    """Return the refusal of a value."""
    return RefusalError(
        "value", message, hint or "pass one number: a Python, numpy, torch, JAX or TensorFlow scalar"
    )


SLOTS = 1024
"""Page-locked slots allocated at once per device and type: allocating is slow, and they take only 8 KiB."""


# --- torch ------------------------------------------------------------------------------------------


def read_torch(value: Any) -> float | Pending:
    """Read a CPU tensor, or snapshot one on a device."""
    if value.numel() != 1:
        raise not_a_number(
            f"a tensor of shape {tuple(value.shape)}", "log one number: its mean() or norm(), say"
        )
    value = value.detach()
    if hasattr(value, "get_mask") and not bool(value.get_mask().all()):
        raise masked()
    if value.is_cpu:
        return float(value.item())
    torch = sys.modules["torch"]
    if value.is_complex():
        raise not_a_number("a complex tensor", "log its abs(), real or imag")
    accelerator = getattr(torch, value.device.type, None)
    if not hasattr(accelerator, "current_stream") or not hasattr(accelerator, "Event"):
        return ClonedTensor(value.clone())
    return _slots(torch, accelerator, value).snapshot(value)


def read_torch_now(value: Any) -> float | None:
    """Read a CPU tensor of one element; None for one on a device."""
    return float(value.item()) if value.is_cpu else None


def read_distributed(value: Any) -> float | Pending:
    """Read this rank's copy of a DTensor.

    A sharded or partial one holds just a part here, and reading it as the whole would record a wrong number.
    """
    if all(placement.is_replicate() for placement in value.placements):
        return read_torch(value.to_local())
    raise not_a_number(
        f"a DTensor placed {tuple(value.placements)}, of which this rank holds a part",
        "log value.full_tensor(), called on every rank",
    )


class ClonedTensor:
    """A copy on a device without streams and events in torch's sense."""

    __slots__ = ("_copy",)

    def __init__(self, copy: Any) -> None:
        self._copy = copy

    def ready(self) -> bool:
        """Return True: only ``read`` can tell, and it waits on the writer's thread."""
        return True

    def read(self) -> float:
        """Wait for the device and return the number."""
        return float(self._copy.item())


class Slots:
    """A pool of page-locked slots for one device and type, with an event each."""

    def __init__(self, torch: Any, accelerator: Any, value: Any) -> None:
        self._torch, self._accelerator = torch, accelerator
        self._dtype, self._device = value.dtype, value.device
        self._free: deque[tuple[Any, Any]] = deque()
        self._grow()

    def snapshot(self, value: Any) -> DeviceTensor:
        """Start a copy of the value behind the work already queued on its current stream."""
        capturing = getattr(self._accelerator, "is_current_stream_capturing", None)
        if capturing is not None and capturing():
            raise not_a_number("a tensor inside a CUDA graph capture", "log it after the graph's replay")
        try:
            place, event = self._free.popleft()
        except IndexError:
            self._grow()
            place, event = self._free.popleft()
        place.copy_(value.reshape(1) if value.dim() > 1 else value, non_blocking=True)
        event.record(self._accelerator.current_stream(self._device))
        return DeviceTensor(place, event, self._free)

    def _grow(self) -> None:
        # Outside inference mode: its tensors could not be written to by a later call outside of it.
        with self._torch.inference_mode(False):
            block = self._torch.empty(SLOTS, dtype=self._dtype, pin_memory=True)
            self._free.extend((block[i : i + 1], self._accelerator.Event()) for i in range(SLOTS))


class DeviceTensor:
    """A copy on its way from the device."""

    __slots__ = ("_event", "_free", "_place")

    def __init__(self, place: Any, event: Any, free: deque[tuple[Any, Any]]) -> None:
        self._place, self._event, self._free = place, event, free

    def ready(self) -> bool:
        """Return whether the device has passed the copy."""
        return bool(self._event.query())

    def read(self) -> float:
        """Return the number and release the slot."""
        self._event.synchronize()
        number = float(self._place.item())
        self._free.append((self._place, self._event))
        return number


_all_slots: dict[tuple[Any, Any], Slots] = {}
_slots_lock = threading.RLock()


def _slots(torch: Any, accelerator: Any, value: Any) -> Slots:
    key = (value.device, value.dtype)
    slots = _all_slots.get(key)
    if slots is None:
        with _slots_lock:
            slots = _all_slots.get(key) or _all_slots.setdefault(key, Slots(torch, accelerator, value))
    return slots


# --- JAX --------------------------------------------------------------------------------------------


def read_jax(value: Any) -> Pending:
    """Hold on to an array, which nothing can change."""
    shape = value.shape
    if shape and value.size != 1:
        raise not_a_number(f"an array of shape {shape}", "log one number: its mean() or max(), say")
    if value.is_deleted():
        raise not_a_number(
            "a donated or deleted JAX array", "log it before it is donated, or a jnp.copy of it"
        )
    return JaxArray(value)


def refuse_traced(value: Any) -> Pending:
    """Refuse the tracers that a function under ``jit``, ``grad`` or ``vmap`` receives instead of arrays."""
    raise not_a_number(
        "a traced JAX value, which has no number yet", "return it from the function and log the result"
    )


class JaxArray:
    """A reference to an array that may still be computed."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def ready(self) -> bool:
        """Return whether the array is computed, or can never be."""
        return bool(self._array.is_deleted() or self._array.is_ready())

    def read(self) -> float:
        """Return the number."""
        array = self._array
        if array.is_deleted():
            raise not_a_number(
                "a JAX array that was donated or deleted before it was read",
                "log a jnp.copy of it, or do not donate it to the next step",
            )
        if not array.is_fully_addressable:
            array = self._copy_here(array)
        return float(array.item())

    @staticmethod
    def _copy_here(array: Any) -> Any:
        if not array.is_fully_replicated:
            raise not_a_number("a JAX array sharded over processes", "reduce it inside the jitted step")
        return array.addressable_data(0)


# --- TensorFlow -------------------------------------------------------------------------------------


def read_tensorflow(value: Any) -> Pending:
    """Hold on to an eager tensor, which nothing can change; read a variable into one."""
    read_value = getattr(value, "read_value", None)
    if read_value is not None:
        value = read_value()
    if isinstance(replicas := getattr(value, "values", None), tuple):
        raise not_a_number(
            f"{len(replicas)} values, one per replica", "log strategy.reduce('MEAN', value, axis=None)"
        )
    if not hasattr(value, "numpy"):
        raise not_a_number(
            "a symbolic TensorFlow tensor, which has no number yet",
            "log it outside tf.function, from what it returns",
        )
    if value.shape.num_elements() != 1:
        raise not_a_number(f"a tensor of shape {value.shape}", "log one number: tf.reduce_mean of it, say")
    return EagerTensor(value)


class EagerTensor:
    """A reference to an eager tensor."""

    __slots__ = ("_tensor",)

    def __init__(self, tensor: Any) -> None:
        self._tensor = tensor

    def ready(self) -> bool:
        """Say yes: ``read`` is the only way to know, and waits on the writer's thread."""
        return True

    def read(self) -> float:
        """Wait for the device and return the number."""
        return float(self._tensor.numpy().item())


def _torch(kind: type) -> Reader:
    return read_distributed if hasattr(kind, "placements") else read_torch


def _jax(kind: type) -> Reader:
    return refuse_traced if any(base.__name__ == "Tracer" for base in kind.__mro__) else read_jax


READERS: dict[str, Callable[[type], Reader]] = {
    "torch": _torch,
    "jax": _jax,
    "jaxlib": _jax,
    "tensorflow": lambda kind: read_tensorflow,
}
"""How values of a type are read, by the package that made the type."""
