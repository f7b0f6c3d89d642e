"""The operation of a communication kernel or host event, and how many bytes it moves.

The rules are data. A name that no rule knows is not communication; nothing is guessed from a vendor prefix
(HTA takes every name that begins with "hip" for communication).
"""

from __future__ import annotations

import re

from stepscope.trace.model import Kind

_LIBRARIES = ("nccl", "rccl", "mscclpp", "msccl", "ncclsymk", "nvshmem", "oneccl", "hccl", "c10d::")
"""Beginnings of the names of device work that libraries of collectives launch."""
_PARTS = (
    "nccldevkernel", "ncclkernel", "ncclsymdevkernel", "rccloneshot", "deep_ep::", "cross_device_reduce",
    "one_shot_all_reduce", "one_shot_allreduce", "two_shot_all_reduce", "two_shot_allreduce",
    "multimem_all_reduce", "multimem_all_gather", "multimem_one_shot",
)  # fmt: skip
"""Parts of the names of kernels that communicate, in lower case."""
_HLO = re.compile(
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"
    r"|ragged-all-to-all)(-start|-done)?([.\d]|$)"
)
"""Names of XLA's instructions that communicate."""

HOST = re.compile(r"^(gloo|mpi|ucc|nccl|xccl|rccl|hccl|c10d):+", re.IGNORECASE)
"""Names of host events that stand for a collective: annotations ``nccl:all_reduce``, operators ``c10d::``."""

_OPERATIONS = (
    (r"all_?to_?all|alltoall|a2a|dispatch|combine", "all_to_all"),
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?gather", "all_gather"),
    (r"all_?reduce|cross_device_reduce", "all_reduce"),
    (r"broadcast|bcast", "broadcast"),
    (r"send_?recv|collective_?permute", "send_recv"),
    (r"send", "send"),
    (r"recv|receive", "recv"),
    (r"barrier", "barrier"),
    (r"gather", "gather"),
    (r"scatter", "scatter"),
    (r"reduce", "reduce"),
)
_COMPILED = tuple((re.compile(pattern, re.IGNORECASE), operation) for pattern, operation in _OPERATIONS)

PAIRWISE = ("send", "recv", "send_recv")
"""Operations between two ranks."""


def communicates(name: str) -> bool:
    """Return whether device work of this name is communication.

    Names of kernels may be templates of a thousand characters: looking for texts in them takes a
    twentieth of the time of one expression with all alternatives.
    """
    plain = name.lower()
    return (
        plain.removeprefix("void ").startswith(_LIBRARIES)
        or any(part in plain for part in _PARTS)
        or _HLO.match(plain) is not None
    )


def operation(name: str) -> str:
    """Return the operation that a name indicates, ``"unknown"`` if there is none."""
    plain = name.replace("(anonymous namespace)", "").split("(", 1)[0].replace("-", "_")
    for pattern, label in _COMPILED:
        if pattern.search(plain):
            return label
    return "unknown"


def kind_of(kernel: str) -> Kind:
    """Return the kind of a device's work by its kernel: communication, ROCm's own copy, else compute."""
    if communicates(kernel):
        return Kind.SEND_RECV if operation(kernel) in PAIRWISE else Kind.COLLECTIVE
    if kernel.startswith("__amd_rocclr_copyBuffer"):
        return Kind.MEMCPY
    return Kind.MEMSET if kernel.startswith("__amd_rocclr_fillBuffer") else Kind.KERNEL


_DTYPE_BYTES = {
    "float": 4,
    "float32": 4,
    "int": 4,
    "int32": 4,
    "uint32": 4,
    "double": 8,
    "float64": 8,
    "long": 8,
    "long int": 8,
    "int64": 8,
    "uint64": 8,
    "half": 2,
    "float16": 2,
    "bfloat16": 2,
    "short": 2,
    "int16": 2,
    "char": 1,
    "int8": 1,
    "uint8": 1,
    "byte": 1,
    "unsigned char": 1,
    "signed char": 1,
    "bool": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2fnuz": 1,
    "complexfloat": 8,
    "complexdouble": 16,
    "complex64": 8,
    "complex128": 16,
}


def dtype_bytes(name: str) -> int:
    """Return the bytes of one element, -1 if the type is not known.

    Takes torch's names (``Float``, ``c10::BFloat16``, ``at::Half``).
    """
    plain = name.strip().lower().removeprefix("c10::").removeprefix("at::").removeprefix("torch.")
    return _DTYPE_BYTES.get(plain, -1)


def message_bytes(kind: str, elements_in: int, elements_out: int, element_bytes: int) -> int:
    """Return a collective's size by the usual convention, -1 if it is not known.

    The output for all_gather and recv, the input for all others (nccl-tests; TraceLens does the same).
    """
    elements = elements_out if kind in ("all_gather", "recv") else elements_in
    if elements < 0:
        elements = max(elements_in, elements_out)
    return elements * element_bytes if elements >= 0 and element_bytes > 0 else -1
