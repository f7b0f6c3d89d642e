"""The parameters of a model, which part of each this rank holds, and which part it measures.

Every element of a parameter is measured by exactly one rank. Ranks that hold the same part of it, whether as
replicas of DistributedDataParallel or HSDP or in a tensor-parallel group, share the work: each measures its
own stretch of the part. Parts are distinguished by the coordinates of a DTensor's shards and by a checksum of
their content, because replicas, and only they, begin with equal weights.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

CHECKED_ELEMENTS = 64
WRAPPERS = ("_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


@dataclass
class ParameterEntry:
    """A parameter on this rank.

    Attributes:
        name: Its first name in the model.
        parameter: The parameter.
        wanted: Whether its own statistics are wanted.
        content: Checksum of this rank's part.
        spread: Over how many ranks its gradient was seen to be a pending sum; 0 if it is none.
    """

    name: str
    parameter: Tensor
    wanted: bool
    content: int = 0
    spread: int = 0

    @property
    def facts(self) -> tuple[int, int, int, int]:
        """Facts that ranks exchange: number of the part, its elements, spread, and whether it is wanted."""
        key = (coordinates(self.parameter), self.content)
        elements = local_part(self.parameter).numel()
        return zlib.crc32(repr(key).encode()), elements, self.spread, int(self.wanted)


@dataclass
class ParameterShare:
    """The stretch of a parameter that this rank measures.

    Attributes:
        row: The parameter's row.
        entry: The parameter.
        index: This rank's number among those that hold the same part.
        holders: How many these are.
        offset: Place of the part among the raw gradients, in elements; -1 if it does not.
        spread: How many ranks a partial gradient is spread over.
    """

    row: int
    entry: ParameterEntry
    index: int = 0
    holders: int = 1
    offset: int = -1
    spread: int = 0


@dataclass
class TableLayout:
    """The rows of the tables, the same on all ranks.

    Attributes:
        names: Names of the rows.
        wanted: Which rows have statistics of their own.
        shares: This rank's shares.
        version: Number that all ranks compare.
        raw: Number of elements of the gradients that are exchanged as they are.
        raw_rows: For each of these parts its row, offset and number of elements.
        alone: Whether each rank holds every parameter whole, so that none needs the others.
    """

    names: list[str]
    wanted: npt.NDArray[np.bool_]
    shares: list[ParameterShare]
    version: int = 0
    raw: int = 0
    raw_rows: tuple[tuple[int, int, int], ...] = ()
    alone: bool = True


def entries(
    models: Mapping[str, nn.Module], wanted: Any, only: set[int] | None, *, check: bool = True
) -> list[ParameterEntry]:
    """Return the floating and complex parameters of models, tied ones once.

    Args:
        models: By the name that stands before those of their parameters; "" for none.
        wanted: Says of a name and a parameter whether its statistics are wanted.
        only: Identities of those to return; None for all.
        check: Whether to compute checksums, for which a device is waited for.
    """
    entries_: dict[int, ParameterEntry] = {}
    for prefix, model in models.items():
        for name, parameter in model.named_parameters():
            if id(parameter) in entries_ or not measurable(parameter):
                continue
            if only is None or id(parameter) in only:
                full = f"{prefix}.{clean(name)}" if prefix else clean(name)
                entry = ParameterEntry(full, parameter, bool(wanted(full, parameter)))
                entry.content = checksum(parameter) if check else 0
                entries_[id(parameter)] = entry
    return list(entries_.values())


def loose_entries(parameters: Iterable[Tensor], wanted: Any) -> list[ParameterEntry]:
    """Return an optimizer's parameters that no model names, by their numbers."""
    names = [(f"parameter{at}", parameter) for at, parameter in enumerate(parameters)]
    return [
        ParameterEntry(name, parameter, bool(wanted(name, parameter)))
        for name, parameter in names
        if measurable(parameter)
    ]


def clean(name: str) -> str:
    """Return a parameter's name without the additions of wrappers."""
    for wrapper in WRAPPERS:
        name = name.replace(wrapper, "")
    while name.startswith("module."):  # DistributedDataParallel, DataParallel
        name = name[len("module.") :]
    return name


def measurable(parameter: Tensor) -> bool:
    """Return whether a parameter holds floats or complex numbers, and has memory already."""
    if isinstance(parameter, nn.parameter.UninitializedParameter) or parameter.is_meta:
        return False
    return parameter.is_floating_point() or parameter.is_complex()


def single(entries: list[ParameterEntry]) -> TableLayout:
    """Return the layout of a job of one rank."""
    wanted = np.array([entry.wanted for entry in entries], bool)
    shares = [ParameterShare(row, entry) for row, entry in enumerate(entries)]
    return TableLayout([entry.name for entry in entries], wanted, shares)


# --- distributed tensors ----------------------------------------------------------------------------


def is_distributed(tensor: Any) -> bool:
    """Return whether a tensor is a DTensor."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def local_part(tensor: Any) -> Tensor:
    """Return this rank's part of a tensor, which is all of a plain one."""
    if is_distributed(tensor):
        tensor = tensor.to_local()
    if hasattr(tensor, "wait"):  # an AsyncCollectiveTensor: its collective may still run
        tensor = tensor.wait()
    return tensor.detach()  # type: ignore[no-any-return]


def coordinates(tensor: Any) -> tuple[object, ...]:
    """Return which shard of a DTensor this rank holds; the same for replicas, () for a whole one."""
    if not is_distributed(tensor):
        return ()
    where = tensor.device_mesh.get_coordinate()
    if where is None:
        return ("outside",)
    shape = tensor.device_mesh.shape
    return tuple(
        (at, shape[at], where[at])
        for at, placement in enumerate(tensor.placements)
        if not placement.is_replicate() and not placement.is_partial()
    )


def pending(gradient: Any) -> tuple[int, bool]:
    """Return over how many ranks a gradient is a pending sum, 0 for none; and whether it is a mean.

    Raises:
        TypeError: It is pending in another way.
    """
    if not is_distributed(gradient):
        return 0, False
    sizes, kinds = [], set()
    for at, placement in enumerate(gradient.placements):
        if placement.is_partial():
            sizes.append(gradient.device_mesh.shape[at])
            kinds.add(placement.reduce_op)
    if not kinds <= {"sum"} and not kinds <= {"avg"}:
        raise TypeError(f"a gradient whose {'/'.join(sorted(kinds))} over ranks is pending")
    return (int(np.prod(sizes)) if sizes else 0), kinds == {"avg"}


def checksum(parameter: Tensor) -> int:
    """Return a checksum of some elements of this rank's part."""
    part = local_part(parameter)
    if part.numel() == 0 or part.is_sparse:
        return 0
    try:
        flat = part.reshape(-1)
        some = flat[:: max(1, flat.numel() // CHECKED_ELEMENTS)][:CHECKED_ELEMENTS]
        some = torch.view_as_real(some) if some.is_complex() else some
        return zlib.crc32(some.to("cpu", torch.float64).numpy().tobytes())
    except (RuntimeError, NotImplementedError):  # a tensor of a subclass of its own
        return 0
