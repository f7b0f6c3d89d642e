"""Floating point operations and least memory traffic of operators, from the shapes of their inputs.

One multiply and one add are two operations. Counted are matrix products, convolutions and attention, as in
model FLOPs; the rest is below a few per cent of a training step. The formulas are those of
``torch.utils.flop_counter``, except that the gradient of a grouped convolution's weight is that of its
groups, which PyTorch ignores. The least traffic is every input and output once.

If the recorder gives operations of its own (``Trace.flops``), those are taken instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from stepscope.text import counted
from stepscope.trace.model import Kind, Trace

Shapes = list[Any]
"""Shapes of the inputs as recorded: a list of lists; scalars and absent ones are empty."""

FORMATS = {
    "double": "float64", "float": "float32", "c10::Half": "float16", "half": "float16",
    "c10::BFloat16": "bfloat16", "bfloat16": "bfloat16", "c10::Float8_e4m3fn": "float8",
    "c10::Float8_e5m2": "float8",
}  # fmt: skip
"""Number formats by the names that PyTorch records."""

_OF_XLA = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}

ITEM_BYTES = {"float64": 8, "float32": 4, "tf32": 4, "float16": 2, "bfloat16": 2, "float8": 1}


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one call of an operator."""

    flops: int
    elements: int
    """Elements of all inputs and outputs, each once."""


@dataclass(frozen=True, slots=True)
class OperatorWork:
    """Every operator's call whose work is known, one entry each; nested ones are counted once, outermost."""

    rows: npt.NDArray[np.int64]
    flops: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]
    """-1 = not known."""
    number_format: tuple[str, ...]
    """Number format of the inputs, ``""`` if it was not recorded."""
    unknown: dict[str, int]
    """Calls of counted operators whose work is unknown from the recorded data, by name."""


def calls_of(unknown: Mapping[str, int]) -> str:
    """Return the calls of a mapping by name, for a sentence."""
    return ", ".join(f"{counted(count, 'call')} of {name}" for name, count in sorted(unknown.items()))


def operator_work(trace: Trace) -> OperatorWork:
    """Return operations and traffic of each call whose recorded shapes or operations suffice."""
    work_of: dict[int, tuple[int, int, str]] = {}
    cache: dict[tuple[int, int, int, int], tuple[int, int, str] | None] = {}
    table = trace.operators
    for row, shapes, types, values in zip(
        table.row.tolist(), table.shapes.tolist(), table.types.tolist(), table.values.tolist(), strict=True
    ):
        key = (int(trace.name[row]), shapes, types, values)
        if key not in cache:
            cache[key] = _work(*(trace.strings[number] for number in key))
        if (work := cache[key]) is not None:
            work_of[row] = work
    table_of_xla = trace.instructions
    for row, kind, moved in zip(
        table_of_xla.row.tolist(),
        table_of_xla.number_format.tolist(),
        table_of_xla.bytes.tolist(),
        strict=True,
    ):
        if trace.flops[row] > 0:
            name = trace.strings[kind]
            work_of[row] = (0, moved, _OF_XLA.get(name, "float8" if name.startswith("f8") else ""))
    for row in np.flatnonzero(trace.flops > 0).tolist():
        known = work_of.get(row, (0, -1, ""))
        work_of[row] = (int(trace.flops[row]), known[1], known[2])
    label = np.full(len(trace), -1, np.int32)
    label[list(work_of)] = 0
    rows = np.flatnonzero(trace.outermost(label))
    unknown = _unknown(trace, work_of)
    picked = [work_of[row] for row in rows.tolist()]
    return OperatorWork(
        rows,
        np.array([work[0] for work in picked], np.int64),
        np.array([work[1] for work in picked], np.int64),
        tuple(work[2] for work in picked),
        unknown,
    )


def credited(trace: Trace) -> tuple[npt.NDArray[np.int64], dict[str, int]]:
    """Return i8[rows]: operations of each event, -1 for none; those that were recorded, else by the shapes.

    Also return, by name, the calls whose operations cannot be determined from the recorded data.

    The operations of a call belong to the operator in it that launched most device time, without a device to
    the one with most time of its own: they were done there.
    """
    flops = np.full(len(trace), -1, np.int64)
    if (trace.flops > 0).any() or "shapes" not in trace.recorded:
        return np.array(trace.flops, np.int64), {}
    work = operator_work(trace)
    if not len(work.rows):
        return flops, work.unknown
    known = np.zeros(len(trace), bool)
    known[work.rows] = True
    call, operator = trace.nearest(known), trace.operator
    doer = np.arange(len(trace), dtype=np.int32)
    inside = np.flatnonzero((call >= 0) & (trace.kind == Kind.HOST_OP))
    inside = inside[np.argsort(trace.self_ns[inside], kind="stable")]
    doer[call[inside]] = inside
    device = trace.device_work()
    device = device[trace.launch[device] >= 0]
    device = device[call[trace.launch[device]] >= 0]
    device = device[np.argsort(trace.duration_ns[device], kind="stable")]
    doer[call[trace.launch[device]]] = operator[trace.launch[device]]
    place = doer[work.rows]
    flops[place] = 0
    np.add.at(flops, place, work.flops)
    return flops, work.unknown


def _unknown(trace: Trace, known: dict[int, tuple[int, int, str]]) -> dict[str, int]:
    numbers = {trace.strings.find(name): name for name in (*FORMULAS, *_UNTOLD)}
    rows = np.flatnonzero(np.isin(trace.name, [number for number in numbers if number >= 0]))
    missing = [row for row in rows.tolist() if row not in known]
    counts: dict[str, int] = {}
    for row in missing:
        name = numbers[int(trace.name[row])]
        counts[name] = counts.get(name, 0) + 1
    return counts


def _work(name: str, shapes: str, types: str, values: str) -> tuple[int, int, str] | None:
    """Return operations, bytes (-1 = unknown) and number format of a call, None if they are unknown."""
    formula = FORMULAS.get(name)
    if formula is None:
        return None
    try:
        work = formula(decoded(shapes), decoded(values))
    except (IndexError, TypeError, ValueError, KeyError):
        return None  # a shape that the formula does not know, such as a nested tensor's
    recorded = [FORMATS[kind] for kind in decoded(types) if kind in FORMATS]
    number_format = recorded[0] if recorded else ""
    moved = work.elements * ITEM_BYTES[number_format] if number_format else -1
    return work.flops, moved, number_format


def decoded(text: str) -> list[Any]:
    """Return a list that was recorded as JSON, an empty one if it is no list."""
    if not text:
        return []
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return []
    return value if isinstance(value, list) else []


# --- formulas ---------------------------------------------------------------------------------------------


def product(left: list[int], right: list[int]) -> Work:
    """``[…, m, k] @ […, k, n]``: 2 · batch · m · k · n."""
    *batch, m, k = left
    if right[-2] != k or right[:-2] != batch:
        raise ValueError("not a matrix product")
    many, n = math.prod(batch), right[-1]
    return Work(2 * many * m * k * n, many * (m * k + k * n + m * n))


def convolution(
    batch: int, weight: list[int], out_size: list[int], in_elements: int, *, transposed: bool = False
) -> Work:
    """2 · batch · weights · output positions; of a transposed one, input positions."""
    channels = weight[1] if transposed else weight[0]
    positions = math.prod(out_size)
    return Work(
        2 * batch * math.prod(weight) * positions,
        in_elements + math.prod(weight) + batch * channels * positions,
    )


def _convolution(shapes: Shapes, values: list[Any]) -> Work:
    image, weight = shapes[0], shapes[1]
    transposed = str(values[6]).lower() == "true"
    size = image[2:]
    if not transposed:
        stride, padding, dilation = (_numbers(values[n], len(size)) for n in (3, 4, 5))
        size = [
            (length + 2 * pad - dil * (kernel - 1) - 1) // step + 1
            for length, kernel, step, pad, dil in zip(
                size, weight[2:], stride, padding, dilation, strict=True
            )
        ]
    return convolution(image[0], weight, size, math.prod(image), transposed=transposed)


def _convolution_backward(shapes: Shapes, values: list[Any]) -> Work:
    gradient, image, weight = shapes[0], shapes[1], shapes[2]
    transposed = str(values[7]).lower() == "true"
    once = convolution(gradient[0], weight, (image if transposed else gradient)[2:], math.prod(image))
    wanted = _flags(values[10]) if len(values) > 10 else [True, True]
    passes = sum(wanted[:2])
    return Work(once.flops * passes, math.prod(gradient) + passes * (math.prod(image) + math.prod(weight)))


def _numbers(text: Any, count: int) -> list[int]:
    numbers = [int(part) for part in str(text).strip("[]() ").split(",") if part.strip()]
    return numbers * count if len(numbers) == 1 else numbers


def _flags(text: Any) -> list[bool]:
    return [part.strip().lower() in ("true", "1") for part in str(text).strip("[]() ").split(",")]


def attention(query: list[int], key: list[int], value: list[int], *, causal: bool = False) -> Work:
    """Scores, and their product with the values: 2 · batch · heads · pairs · (depth + width).

    Pairs are queries · keys; if attention is causal, those of a query and the keys up to its own place.
    """
    batch, heads, queries, depth = query
    keys, width = key[2], value[3]
    moved = math.prod(query) + math.prod(key) + math.prod(value) + batch * heads * queries * width
    return Work(2 * batch * heads * _pairs(queries, keys, causal=causal) * (depth + width), moved)


def _pairs(queries: int, keys: int, *, causal: bool) -> int:
    if not causal:
        return queries * keys
    square = min(queries, keys)
    return square * (square + 1) // 2 + (queries - square) * keys


def _is_causal(values: list[Any], place: int) -> bool:
    return len(values) > place and str(values[place]).lower() in ("true", "1")


def _attention(place: int) -> Callable[[Shapes, list[Any]], Work]:
    """Return the formula of an attention whose argument at this place says that it is causal."""
    return lambda shapes, values: attention(*shapes[:3], causal=_is_causal(values, place))


def _attention_backward(place: int) -> Callable[[Shapes, list[Any]], Work]:
    """Return the formula of the gradient, whose argument at this place says that it is causal.

    It has five products of the forward's two: the scores again, and two gradients of each.
    """

    def work(shapes: Shapes, values: list[Any]) -> Work:
        query, key, value = shapes[1], shapes[2], shapes[3]
        batch, heads, queries, depth = query
        keys, width = key[2], value[3]
        pairs = _pairs(queries, keys, causal=_is_causal(values, place))
        flops = 2 * batch * heads * pairs * (3 * depth + 2 * width)
        return Work(flops, 2 * attention(query, key, value).elements)

    return work


_UNTOLD = ("aten::cudnn_convolution_backward", "aten::mkldnn_convolution_backward", "aten::_grouped_mm")
"""Counted operators without a formula: old names, and shapes that do not tell the work."""

_CAUSAL = {
    "flash_attention": (4, 11),
    "efficient_attention": (6, 11),
    "cudnn_attention": (6, 14),
    "flash_attention_for_cpu": (4, 7),
}
"""Place of the argument ``is_causal`` of each attention and of its gradient."""

FORMULAS: dict[str, Callable[[Shapes, list[Any]], Work]] = {
    "aten::mm": lambda shapes, _: product(shapes[0], shapes[1]),
    "aten::bmm": lambda shapes, _: product(shapes[0], shapes[1]),
    "aten::_scaled_mm": lambda shapes, _: product(shapes[0], shapes[1]),
    "aten::addmm": lambda shapes, _: product(shapes[1], shapes[2]),
    "aten::addmm_": lambda shapes, _: product(shapes[1], shapes[2]),
    "aten::_addmm_activation": lambda shapes, _: product(shapes[1], shapes[2]),
    "aten::baddbmm": lambda shapes, _: product(shapes[1], shapes[2]),
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    **{f"aten::_scaled_dot_product_{kind}": _attention(forward) for kind, (forward, _) in _CAUSAL.items()},
    **{
        f"aten::_scaled_dot_product_{kind}_backward": _attention_backward(backward)
        for kind, (_, backward) in _CAUSAL.items()
    },
}
"""By the operator's name."""
