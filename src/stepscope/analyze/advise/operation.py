"""operation: an operator has a faster form."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stepscope.analyze.advise.finding import Facts, Finding, top
from stepscope.analyze.tfprof.advise import CHANNELS_LAST, UNFUSED, operation_reports

RULE = "operation"
CONVERSION_RATIO = 0.02

_ACTIONS = {
    UNFUSED: "tf.nn.fused_batch_norm, or layers.batch_normalization(fused=True)",
    CHANNELS_LAST: "measure with data_format='channels_first' too; on tensor cores NHWC is the faster one",
}

_CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|nchw_to_nhwc|nhwc_to_nchw|TransposeNCHW|TransposeNHWC", re.IGNORECASE
)


def check(facts: Facts) -> Iterator[Finding]:
    """Look for tfprof's two wrong configurations, or for layouts that are converted on the device."""
    if facts.profile is not None:
        for report in operation_reports(facts.profile):
            yield Finding(RULE, "low", report, {"reports": [report]}, {}, _ACTIONS[report])
        return
    trace = facts.require("device")
    texts = trace.strings.texts()
    converting = np.array([bool(_CONVERSION.search(text)) for text in texts] + [False])[trace.name]
    rows = np.flatnonzero(converting & (facts.measures.device_ns > 0))
    spent = int(facts.measures.device_ns[rows].sum())
    total = int(facts.measures.device_ns.sum())
    if total and spent / total >= CONVERSION_RATIO:
        names = top(trace, rows, facts.measures.device_ns[rows])
        yield Finding(
            RULE,
            "medium",
            f"{spent / total:.0%} of the device's time converts tensor layouts",
            {
                "conversion_ns": spent,
                "conversion_ratio": spent / total,
                "kernels": [{"name": name, "total_ns": int(ns)} for name, ns in names],
            },
            {"conversion_ratio": CONVERSION_RATIO},
            "keep model and inputs in one layout: model.to(memory_format=torch.channels_last), or the "
            "layout that the "
            "framework's convolutions prefer",
        )
