"""Tensors of layers: which tensor of which layer a histogram shows, by its tag."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal, get_args

from stepscope.names.roles import MOST_NAME

TensorKind = Literal["gradients", "updates", "weights", "activations"]
_KINDS = get_args(TensorKind)
_END = "/histogram"
_OUTPUTS = re.compile(
    r"(?:^|[/_.-])(?:activations?|sigmoid|tanh|softmax|outputs?)(?:[/_.-]|$)", re.IGNORECASE
)
_BOUNDED = re.compile(r"sigmoid|tanh", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Tensor:
    """The tensor of a histogram.

    Attributes:
        kind: None if the tag begins with none of them.
        layer: The layer, the parameter, or another name below the first part of the tag.
        outputs: Whether it is named as outputs of a layer, whose values may lie in a fixed range.
        bounded: Whether its values are of a function that ends at 1, such as a sigmoid.
        counts: The scalars of the run that count its values which are not finite, as ``ss.Run.histogram`` and
            ``ss.GradientHook`` record them.
    """

    kind: TensorKind | None
    layer: str
    outputs: bool
    bounded: bool
    counts: tuple[str, ...] = ()


def tensor_of(tag: str, scalars: Container[str]) -> Tensor:
    """Return the tensor of a histogram.

    Args:
        tag: The tag of the histogram.
        scalars: The tags of the run's scalars: the saturation is measured of bounded functions alone.
    """
    counts = f"{tag}/nonfinite", f"{tag.removesuffix(_END)}/nonfinite_count"
    first, slash, rest = tag.partition("/")
    name = tag[:MOST_NAME]
    return Tensor(
        kind=next((kind for kind in _KINDS if slash and rest and kind == first), None),
        layer=(rest if slash else tag).removesuffix(_END) or tag,
        outputs=_OUTPUTS.search(name) is not None,
        bounded=_BOUNDED.search(name) is not None or f"{tag.removesuffix(_END)}/saturation_ratio" in scalars,
        counts=tuple(count for count in counts if count in scalars),
    )
