"""operation: an operator has a faster form."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stepscope.analyze.advise.finding import WORTH, Case, Facts, Finding, judged, longest
from stepscope.analyze.advise.remedy import framework_of, show
from stepscope.analyze.tfprof.advise import CHANNELS_LAST, UNFUSED, operation_reports
from stepscope.attribute.named import named

RULE = "operation"

_ACTIONS = {
    UNFUSED: "tf.nn.fused_batch_norm, or layers.batch_normalization(fused=True)",
    CHANNELS_LAST: "measure with data_format='channels_first' too; on tensor cores NHWC is the faster one",
}

_CONVERSION = re.compile(
    r"nchwtonhwc|nhwctonchw|nchw_to_nhwc|nhwc_to_nchw|TransposeNCHW|TransposeNHWC", re.IGNORECASE
)


def check(facts: Facts) -> Iterator[Finding]:
    """Look for tfprof's two wrong configurations, or replay the steps without conversions of layouts."""
    if facts.profile is not None:
        for report in operation_reports(facts.profile):
            yield Finding(
                RULE,
                "low",
                report,
                {"reports": [report]},
                {},
                _ACTIONS[report],
                command=show(facts, "op", order="micros"),
                withdrawn="no operation of the graph is configured so",
            )
        return
    trace, cases = facts.require("device"), []
    converting = named(trace, _CONVERSION)
    for waited in facts.waited:
        inside = (
            waited.spans.within(trace.start_ns[waited.device_rows], trace.start_ns[waited.device_rows] + 1)
            > 0
        )
        every = waited.device_rows[inside]
        rows = every[converting[trace.name[every]]]
        if not len(rows):
            continue
        spent, total = int(trace.duration_ns[rows].sum()), int(trace.duration_ns[every].sum())
        evidence = {
            "conversion_ns": round(spent / waited.count),
            "conversion_ratio": spent / total,
            "kernels": longest(trace, rows),
        }
        lines = waited.launching_lines(rows)
        cases.append(Case(waited, waited.worth(device=rows), evidence, lines[0] if lines else None, rows))
    torch = "keep model and inputs in one layout: model.to(memory_format=torch.channels_last)"
    other = "keep model and inputs in the layout that the device's convolutions prefer"
    yield from judged(
        RULE,
        cases,
        of=len(facts.waited),
        say=lambda case: f"converting tensor layouts takes {case.cost_text}{case.where}",
        action=lambda case: torch if framework_of(trace) == "torch" else other,
        command=lambda case: show(facts, "kernel", trace.name_of(int(case.rows[0]))),
        least=WORTH,
        withdrawn=f"the steps without conversions would not be {WORTH:.0%} shorter",
    )
