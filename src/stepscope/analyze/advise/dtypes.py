"""dtype-hints: matrix products run in full 32-bit precision on hardware that has something faster."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Abstain, Facts, Finding, top
from stepscope.trace.model import Kind, Trace

RULE = "dtype-hints"
FP32_RATIO, STEP_RATIO = 0.3, 0.1

_PRODUCT = re.compile(r"gemm|conv|wgrad|dgrad|cudnn|cutlass|xmma|winograd|Cijk_", re.IGNORECASE)
_TENSOR_CORE = re.compile(
    r"tf32|bf16|fp16|f16|half|hmma|h884|h1688|h16816|s884|s1688|s16816|i8816|fp8|e4m3|tensorop|_HB_|_BB_|_H_",
    re.IGNORECASE,
)
_FP32 = re.compile(r"sgemm|scudnn|simt|ffma|fp32|f32f32|_S_|gemmSN|winograd.*f32", re.IGNORECASE)
_TENSOR_CORES_FROM, _TF32_FROM = 7.0, 8.0


def check(facts: Facts) -> Iterator[Finding]:
    """Compare the share of matrix-product time whose kernels' names say 32-bit and no tensor core."""
    trace = facts.require("device")
    rows = np.flatnonzero((trace.kind == Kind.KERNEL) & (trace.device >= 0))
    texts = trace.strings.texts()
    numbers = np.unique(trace.name[rows])
    products = numbers[[bool(_PRODUCT.search(texts[number])) for number in numbers]]
    if not len(products):
        raise Abstain("no kernels of matrix products or convolutions")
    rows = rows[np.isin(trace.name[rows], products)]
    full = products[[is_full_precision(texts[number]) for number in products]]
    slow = rows[np.isin(trace.name[rows], full)]
    spent, total = int(trace.duration_ns[slow].sum()), int(trace.duration_ns[rows].sum())
    ratio, of_step = spent / max(total, 1), spent / facts.wall_ns
    capability = _capability(trace)
    if ratio < FP32_RATIO or of_step < STEP_RATIO or (capability and capability < _TENSOR_CORES_FROM):
        return
    names = top(trace, slow, trace.duration_ns[slow])
    yield Finding(
        RULE,
        "medium",
        f"{ratio:.0%} of the time in matrix products is 32-bit arithmetic without tensor cores",
        {
            "fp32_ns": spent,
            "fp32_ratio": ratio,
            "fp32_step_ratio": of_step,
            "capability": capability or None,
            "kernels": [{"name": name, "total_ns": int(ns)} for name, ns in names],
        },
        {"fp32_ratio": FP32_RATIO, "fp32_step_ratio": STEP_RATIO},
        _action(capability),
    )


def is_full_precision(kernel: str) -> bool:
    """Whether a matrix kernel's name says 32-bit arithmetic on the plain cores."""
    return bool(_FP32.search(kernel)) and not _TENSOR_CORE.search(kernel)


def _capability(trace: Trace) -> float:
    found = [re.match(r"\d+\.\d+", device.capability) for device in trace.devices]
    return min((float(match[0]) for match in found if match), default=0.0)


def _action(capability: float) -> str:
    if capability and capability < _TF32_FROM:
        return (
            "use mixed precision: torch.autocast with float16 and a GradScaler, Keras' mixed_float16; "
            "this device has no TF32"
        )
    return (
        "allow TF32: torch.set_float32_matmul_precision('high'); or use mixed precision: torch.autocast with "
        "bfloat16, Keras' mixed_bfloat16"
    )
