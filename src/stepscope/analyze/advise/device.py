"""Work of a device that could take less time: products in 32 bit, conversions of layouts, pageable copies."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from stepscope.analyze.advise.cause import Cause
from stepscope.analyze.advise.finding import WORTH, Abstain, Case, Facts, Finding, first, longest
from stepscope.analyze.advise.remedy import framework_of, show
from stepscope.analyze.tfprof.advise import CHANNELS_LAST, UNFUSED, operation_reports
from stepscope.attribute.device import rows_spans
from stepscope.attribute.named import named, of_names
from stepscope.attribute.spans import Ints
from stepscope.trace.distinct import distinct
from stepscope.trace.model import DEVICE_WORK, Kind, Trace


def _show_kernel(facts: Facts, case: Case) -> str:
    return show(facts, "kernel", case.waited.trace.name_of(int(case.rows[0])))


# --- precision ------------------------------------------------------------------------------------------

FP32_RATIO = 0.3
FASTER = 0.5
"""Share of their time that such products can save: every device of the table is at least twice as fast."""

_PRODUCT = re.compile(r"gemm|conv|wgrad|dgrad|cudnn|cutlass|xmma|winograd|Cijk_", re.IGNORECASE)
_TENSOR_CORE = re.compile(
    r"tf32|bf16|bfloat16|fp16|f16|half|hmma|h884|h1688|h16816|s884|s1688|s16816|i8816|fp8|e4m3|tensorop"
    r"|_HB_|_BB_|_H_|_B_|_HS_|_BS_|_BBS_|_HHS_|_HSS_|_BSS_|_F8\w*_|_I8\w*_|mfma|nvjet",
    re.IGNORECASE,
)
_FP32 = re.compile(r"sgemm|scudnn|simt|ffma|fp32|f32f32|gemmSN|winograd.*f32|_SB_|_SS_", re.IGNORECASE)
_SHORT_TYPES = re.compile(r"bfloat16|half|float16|float8|int8|e4m3|e5m2|bf16|fp16", re.IGNORECASE)
_FULL_TYPES = re.compile(r"\bfloat\b|float32|\bdouble\b|float64", re.IGNORECASE)
_TENSOR_CORES_FROM, _TF32_FROM = 7.0, 8.0


def _products(facts: Facts) -> Iterator[Case]:
    """Compare the 32-bit share of matrix products: by recorded input types, else by kernels' names."""
    trace, seen = facts.require("device"), False
    capability = _capability(trace)
    for waited in facts.waited:
        rows = waited.work_in_steps(Kind.KERNEL)
        rows = rows[named(trace, _PRODUCT)[trace.name[rows]]]
        seen = seen or len(rows) > 0
        slow = rows[_full_precision(trace, rows)]
        spent, total = int(trace.duration_ns[slow].sum()), int(trace.duration_ns[rows].sum())
        if not spent or spent < FP32_RATIO * total or 0 < capability < _TENSOR_CORES_FROM:
            continue
        evidence = {
            "fp32_ns": round(spent / waited.count),
            "fp32_ratio": spent / total,
            "fp32_step_ratio": spent / waited.wall_ns,
            "capability": capability or None,
            "told_by": "input types" if _typed(trace, slow) else "kernel names",
            "kernels": longest(trace, slow),
        }
        worth = waited.worth(device=slow, device_share=FASTER)
        yield Case(waited, worth, evidence, first(waited.launching_lines(slow)), slow)
    if not seen:
        raise Abstain("no kernels of matrix products or convolutions")


def is_full_precision(kernel: str) -> bool:
    """Return whether a matrix kernel's name says 32-bit arithmetic on the plain cores."""
    return bool(_FP32.search(kernel)) and not _TENSOR_CORE.search(kernel)


def _full_precision(trace: Trace, rows: Ints) -> npt.NDArray[np.bool_]:
    """Return which matrix kernels are 32-bit: operators' input types decide, or else names."""
    by_name = of_names(trace, is_full_precision, np.bool_)[trace.name[rows]]
    # 32-bit inputs may still run as TF32, which only names tell.
    return np.asarray(by_name & (operator_types(trace, rows) != 0))


def _typed(trace: Trace, rows: Ints) -> bool:
    return bool((operator_types(trace, rows) == 1).any())


def operator_types(trace: Trace, rows: Ints) -> npt.NDArray[np.int8]:
    """Return 0 for kernels whose operator's inputs are below 32 bit, 1 if not, -1 unknown."""
    types = trace.derived("precision of inputs", lambda: _types(trace))
    of_row = np.full(len(rows), -1, np.int8)
    at = trace.launch[rows].copy()
    while (looking := (at >= 0) & (of_row < 0)).any():
        of_row[looking] = types[at[looking]]
        at[looking] = trace.parent[at[looking]]
    return of_row


def _types(trace: Trace) -> npt.NDArray[np.int8]:
    """Return the same for each row by its own inputs; the last element stands for no row."""
    table, texts = trace.operators, trace.strings
    types, of_text = np.full(len(trace) + 1, -1, np.int8), np.full(len(texts) + 1, -1, np.int8)
    for number in distinct(table.types[table.types >= 0]).tolist():
        text = texts[number]
        of_text[number] = 0 if _SHORT_TYPES.search(text) else 1 if _FULL_TYPES.search(text) else -1
    types[table.row] = of_text[table.types]
    return types


def _capability(trace: Trace) -> float:
    versions = [re.match(r"\d+\.\d+", device.capability) for device in trace.devices]
    return min((float(match[0]) for match in versions if match), default=0.0)


def _faster(facts: Facts, case: Case) -> str:
    capability, framework = _capability(facts.timeline), framework_of(facts.timeline)
    if framework == "jax":
        return "compute in bfloat16, or jax.config.update('jax_default_matmul_precision', 'tensorfloat32')"
    if framework in ("keras", "tensorflow"):
        kind = "mixed_float16" if capability and capability < _TF32_FROM else "mixed_bfloat16"
        return f"keras.mixed_precision.set_global_policy('{kind}')"
    if capability and capability < _TF32_FROM:
        return "use mixed precision: torch.autocast with float16 and a GradScaler; this device has no TF32"
    return (
        "allow TF32: torch.set_float32_matmul_precision('high'); or use mixed precision: torch.autocast "
        "with bfloat16"
    )


PRECISION = Cause(
    rule="dtype-hints",
    cases=_products,
    say=lambda case: (
        f"{case.evidence['fp32_ratio']:.0%} of the time in matrix products is 32-bit arithmetic without "
        f"tensor cores, {case.per_step(case.evidence['fp32_ns'] * case.waited.count)}{case.where}"
    ),
    left=lambda case: f"at twice the rate {case.left_text()}",
    remedies=_faster,
    command=_show_kernel,
    limits={"fp32_ratio": FP32_RATIO},
    withdrawn=f"less than {FP32_RATIO:.0%} of their time is 32-bit, or the steps with these products at "
    f"twice the rate would not be {WORTH:.0%} shorter",
)


# --- layouts --------------------------------------------------------------------------------------------

_ACTIONS = {
    UNFUSED: "tf.nn.fused_batch_norm, or layers.batch_normalization(fused=True)",
    CHANNELS_LAST: "measure with data_format='channels_first' too; on tensor cores NHWC is the faster one",
}

_CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|nchw_to_nhwc|nhwc_to_nchw|TransposeNCHW|TransposeNHWC", re.IGNORECASE
)


def _conversions(facts: Facts) -> Iterator[Case]:
    trace = facts.require("device")
    converting = named(trace, _CONVERSION)
    for waited in facts.waited:
        every = waited.work_in_steps(*DEVICE_WORK)
        rows = every[converting[trace.name[every]]]
        if not len(rows):
            continue
        spent, total = int(trace.duration_ns[rows].sum()), int(trace.duration_ns[every].sum())
        evidence = {
            "conversion_ns": round(spent / waited.count),
            "conversion_ratio": spent / total,
            "kernels": longest(trace, rows),
        }
        yield Case(waited, waited.worth(device=rows), evidence, first(waited.launching_lines(rows)), rows)


LAYOUTS = Cause(
    rule="operation",
    cases=_conversions,
    say=lambda case: f"converting tensor layouts takes {case.cost}",
    remedies={
        "torch": "keep model and inputs in one layout: model.to(memory_format=torch.channels_last)",
        "": "keep model and inputs in the layout that the device's convolutions prefer",
    },
    command=_show_kernel,
    withdrawn=f"the steps without conversions would not be {WORTH:.0%} shorter",
)


def operation(facts: Facts) -> Iterator[Finding]:
    """Look for tfprof's two wrong configurations, or replay the steps without conversions of layouts."""
    if facts.profile is not None:
        for report in operation_reports(facts.profile):
            yield Finding(
                "operation",
                "low",
                report,
                {"reports": [report]},
                {},
                _ACTIONS[report],
                command=show(facts, "op", order="micros"),
                withdrawn="no operation of the graph is configured so",
            )
    else:
        yield from LAYOUTS.check(facts)


# --- copies ---------------------------------------------------------------------------------------------


_PINNED_OR_NOT, _PAGEABLE = (re.compile(words, re.IGNORECASE) for words in ("pageable|pinned", "pageable"))


def _copies(facts: Facts) -> Iterator[Case]:
    """Replay the steps without copies between the device and pageable memory, which also block the host."""
    trace = facts.require("device")
    telling = False
    for waited in facts.waited:
        rows = waited.work_in_steps(Kind.MEMCPY)
        telling = telling or not len(rows) or bool(named(trace, _PINNED_OR_NOT)[trace.name[rows]].any())
        rows = rows[named(trace, _PAGEABLE)[trace.name[rows]]]
        if not len(rows):
            continue
        calls = distinct(trace.launch[rows][trace.launch[rows] >= 0]).astype(np.int64)
        spent, moved = int(trace.duration_ns[rows].sum()), trace.bytes[rows]
        evidence = {
            "pageable_ns": round(spent / waited.count),
            "pageable_ratio": spent / waited.wall_ns,
            "copies_per_step": len(rows) / waited.count,
            "moved_bytes": int(moved[moved > 0].sum()) if (moved >= 0).any() else None,
            "copies": longest(trace, rows),
        }
        lines = waited.lines(rows_spans(trace, calls)) if len(calls) else []
        yield Case(waited, waited.worth(device=rows, waits=calls), evidence, first(lines), rows)
    if not telling:
        raise Abstain("the names of the copies do not say whether memory is pageable")


PAGEABLE = Cause(
    rule="pageable-copies",
    cases=_copies,
    say=lambda case: f"copies from or to pageable memory take {case.cost}",
    remedies={
        "torch": "DataLoader(pin_memory=True) and tensor.to(device, non_blocking=True)",
        "": "copy from pinned host memory, ahead of time",
    },
    command=_show_kernel,
    withdrawn=f"the steps without these copies would not be {WORTH:.0%} shorter",
)
