"""Snapshots of logged values, held so that later changes to them do not change the record.

No framework is imported; the type's own module says which one made a value.

- numpy, torch on the CPU, lists: copied in the caller's thread.
- torch on CUDA or XPU: cloned on the device behind the work already queued on the current stream, and an
  event; the background thread copies it to the host on a stream of its own. The training never waits.
- torch on another device: cloned there.
- JAX, TensorFlow: a reference, as these cannot change; a variable's value at this moment.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.record.problems import RefusalError, shown
from stepscope.record.summaries.encode import apart

Fetch = Callable[[], NDArray[Any]]
_NUMBERS = "biufc"
_BRIEF_BYTES = 8 << 20
"""Bytes that are copied in a millisecond or two, which other threads may wait."""


class Snapshot:
    """A value as it was.

    Args:
        fetch: Returns it as an array; called once, on the background thread.
        shape: Its shape.
        nbytes: Memory that it holds.
        family: Which package made it, as ``torch`` or ``numpy``.
        floating: Whether it holds floating-point numbers.
    """

    __slots__ = ("family", "fetch", "floating", "nbytes", "shape")

    def __init__(
        self, fetch: Fetch, shape: tuple[int, ...], nbytes: int, family: str = "numpy", *, floating: bool
    ) -> None:
        self.fetch, self.shape, self.nbytes, self.family = fetch, shape, nbytes, family
        self.floating = floating

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


def snapshot(value: Any, what: str = "an array") -> Snapshot:
    """Return a value as it is now.

    Args:
        value: An array, tensor, number or nested list of numbers.
        what: The expected values, for a message.

    Raises:
        RefusalError: It is not an array of numbers, or cannot be read.
    """
    for base in type(value).__mro__:
        take = _TAKERS.get(base.__module__.partition(".")[0])
        if take is not None:
            return take(value)
    return _plain(value, what)


def _plain(value: Any, what: str) -> Snapshot:
    if value is None or isinstance(value, str | bytes | bytearray | dict | set):
        raise _refused(f"{shown(value)}, expected {what}")
    try:
        array = _copy(value) if type(value) is np.ndarray else np.array(value)
    except Exception as error:
        raise _refused(f"{shown(value)} of which no array can be made ({type(error).__name__})") from error
    if array.dtype == object:
        array = _of_parts(value, array)
    return of_array(array)


def _copy(array: NDArray[Any]) -> NDArray[Any]:
    """Copy an array; a small one without releasing the interpreter's lock.

    numpy releases it while it copies. The background thread, busy with the previous summary, would then take
    it, and the caller would wait for up to a switch interval (5 ms) after a much shorter copy.
    """
    if array.nbytes > _BRIEF_BYTES and not array.dtype.hasobject:
        held = apart(array.shape, array.dtype)
        np.copyto(held, array)
        return held
    if not array.nbytes or array.dtype.hasobject or not array.flags.c_contiguous:
        return np.array(array)
    copy: NDArray[Any] = np.ndarray(array.shape, array.dtype, bytearray(array.reshape(-1).view(np.uint8)))
    return copy


def _of_parts(value: Any, array: NDArray[Any]) -> NDArray[Any]:
    """Return a list of framework tensors as one array; these are read at once."""
    try:
        return np.stack([snapshot(part).fetch() for part in value])
    except (TypeError, ValueError) as error:
        raise _refused(f"{shown(value)} of unlike parts: {error}") from error


def of_array(array: NDArray[Any]) -> Snapshot:
    """Return an array that nobody else changes."""
    floating = array.dtype.kind == "f"
    if array.dtype.kind not in _NUMBERS:
        if "float" not in array.dtype.name:  # bfloat16 and the float8 types are numpy's void kind
            raise _refused(f"an array of {array.dtype}")
        floating, array = True, array.astype(np.float32)
    return Snapshot(lambda: array, array.shape, array.nbytes, "numpy", floating=floating)


# --- torch ------------------------------------------------------------------------------------------


def _torch(value: Any) -> Snapshot:
    torch = sys.modules["torch"]
    if hasattr(value, "get_mask"):
        if not bool(value.get_mask().all()):
            raise _refused("a masked tensor, whose masked elements have no number", _FILL)
        value = value.get_data()
    if hasattr(value, "placements"):
        value = _local(value)
    if value.requires_grad:
        value = value.detach()
    if value.device.type == "meta":
        raise _refused("a tensor on the meta device, which has no values")
    if value.layout is not torch.strided or value.is_quantized:
        value = value.dequantize() if value.is_quantized else value.to_dense()
    nbytes = value.numel() * value.element_size()
    fetch = _host_copy(torch, value) if value.device.type == "cpu" else _device_copy(torch, value)
    return Snapshot(fetch, tuple(value.shape), nbytes, "torch", floating=value.dtype.is_floating_point)


def _local(value: Any) -> Any:
    if all(placement.is_replicate() for placement in value.placements):
        return value.to_local()
    raise _refused(
        f"a DTensor placed {tuple(value.placements)}, of which this rank holds a part",
        "log value.full_tensor(), called on every rank",
    )


def _host_copy(torch: Any, value: Any) -> Fetch:
    """Copy with numpy: torch's own copy wakes all its threads, and waits for them if cores are busy."""
    bits = {2: torch.int16, 1: torch.uint8}.get(value.element_size()) if _is_foreign(torch, value) else None
    if bits is None:
        try:
            array = _copy(value.numpy())
        except RuntimeError:  # its conjugate or negative is only marked; to ask costs the interpreter's lock
            array = _copy(value.resolve_conj().resolve_neg().numpy())
        return lambda: array
    held, dtype = _copy(value.view(bits).numpy()), value.dtype
    return lambda: _as_numpy(torch, torch.from_numpy(held).view(dtype))


def _device_copy(torch: Any, value: Any) -> Fetch:
    """Clone on the device; read it once the stream that made it has passed."""
    accelerator: Any = getattr(torch, value.device.type, None)
    capturing = getattr(accelerator, "is_current_stream_capturing", None)
    if capturing is not None and capturing():
        raise _refused("a tensor inside a CUDA graph capture", "log it after the graph's replay")
    copy = value.clone()
    if not hasattr(accelerator, "current_stream") or not hasattr(accelerator, "Event"):
        return lambda: _as_numpy(torch, copy.cpu())
    event = accelerator.Event()
    event.record(accelerator.current_stream(value.device))

    def fetch() -> NDArray[Any]:
        event.synchronize()  # without the interpreter's lock
        with accelerator.stream(_side_stream(accelerator, copy.device)):
            return _as_numpy(torch, copy.cpu())  # waits for this stream alone

    return fetch


_side_streams: dict[str, Any] = {}


def _side_stream(accelerator: Any, device: Any) -> Any:
    key = str(device)
    if key not in _side_streams:
        _side_streams[key] = accelerator.Stream(device=device)
    return _side_streams[key]


def _is_foreign(torch: Any, tensor: Any) -> bool:
    """Return whether numpy has no equal: bfloat16 and the float8 types."""
    known = (torch.float16, torch.float32, torch.float64)
    return tensor.dtype.is_floating_point and tensor.dtype not in known


def _as_numpy(torch: Any, tensor: Any) -> NDArray[Any]:
    if _is_foreign(torch, tensor):
        tensor = tensor.float()
    array: NDArray[Any] = tensor.resolve_conj().resolve_neg().numpy()
    return array


# --- JAX, TensorFlow, Keras -------------------------------------------------------------------------


def _jax(value: Any) -> Snapshot:
    if any(base.__name__ == "Tracer" for base in type(value).__mro__):
        raise _refused(
            "a traced JAX value, which has no numbers yet",
            "return it from the function and log the result",
        )
    if not hasattr(value, "is_deleted"):
        return _plain(np.asarray(value), "an array")
    if value.is_deleted():
        raise _refused("a donated or deleted JAX array", "log it before it is donated, or a jnp.copy of it")

    if not value.is_fully_addressable and not value.is_fully_replicated:
        raise _refused("a JAX array sharded over processes", "gather it inside the jitted step")
    # A copy on the device, which is not waited for: the next step may donate the original.
    copy = (value if value.is_fully_addressable else value.addressable_data(0)).copy()

    def fetch() -> NDArray[Any]:
        array = np.asarray(copy)
        return array if array.dtype.kind in _NUMBERS else array.astype(np.float32)

    return Snapshot(fetch, tuple(value.shape), value.nbytes, "jax", floating="float" in value.dtype.name)


def _tensorflow(value: Any) -> Snapshot:
    read_value = getattr(value, "read_value", None)
    if read_value is not None:
        value = read_value()
    if not hasattr(value, "numpy"):
        raise _refused(
            "a symbolic TensorFlow tensor, which has no numbers yet",
            "log it outside tf.function, from what it returns",
        )
    shape = tuple(int(size) for size in value.shape)
    nbytes = math.prod(shape) * int(getattr(value.dtype, "size", 4) or 4)
    return Snapshot(
        lambda: of_array(np.asarray(value.numpy())).fetch(),
        shape,
        nbytes,
        "tensorflow",
        floating=bool(value.dtype.is_floating),
    )


def _keras(value: Any) -> Snapshot:
    if not hasattr(value, "value"):
        raise _refused(
            "a symbolic Keras tensor, which has no numbers yet", "log what the model returns for data"
        )
    inner = value.value
    return snapshot(inner() if callable(inner) else inner)


def _numpy(value: Any) -> Snapshot:
    if getattr(value, "mask", None) is not None and np.any(value.mask):
        raise _refused("a masked array, whose masked elements have no number", _FILL)
    return of_array(np.array(value))


_FILL = "log its compressed() elements, or its filled(nan)"


def _refused(got: str, hint: str = "") -> RefusalError:
    return RefusalError("value", got, hint or "pass a numpy, torch, JAX or TensorFlow array of numbers")


_TAKERS: dict[str, Callable[[Any], Snapshot]] = {
    "numpy": _numpy,
    "torch": _torch,
    "jax": _jax,
    "jaxlib": _jax,
    "tensorflow": _tensorflow,
    "keras": _keras,
}
