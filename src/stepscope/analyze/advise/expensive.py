"""expensive-operation: where most of the time goes."""

from __future__ import annotations

from collections.abc import Iterator

from stepscope.analyze.advise.finding import Facts, Finding
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.advise import expensive_reports
from stepscope.analyze.views import view

RULE = "expensive-operation"
COUNT = 3


def check(facts: Facts) -> Iterator[Finding]:
    """Report the top three operators; the time is the device's where one was recorded."""
    if facts.profile is not None:
        reports = [report for report in expensive_reports(facts.profile) if report]
        if reports:
            yield Finding(
                RULE,
                "info",
                reports[0].splitlines()[0],
                {"reports": reports},
                {},
                "start with the first line",
            )
        return
    trace = facts.timeline
    order = "accelerator_micros" if "device" in trace.recorded else "cpu_micros"
    answer = view("op", trace, ViewOptions(order_by=order, max_depth=COUNT - 1, select=(order,)))
    rows = [row for row in answer.as_dict()["rows"][1:] if row["calls"]]
    stem = "device" if order == "accelerator_micros" else "host"
    if not rows or f"{stem}_ns" not in rows[0]:
        return
    first = rows[0]
    yield Finding(
        RULE,
        "info",
        f"{first['name']} takes {first[f'{stem}_ratio']:.0%} of the {stem}'s time",
        {
            "operators": [
                {
                    "name": row["name"],
                    f"{stem}_ns": row[f"{stem}_ns"],
                    f"{stem}_ratio": row[f"{stem}_ratio"],
                    "calls": row["calls"],
                }
                for row in rows
            ]
        },
        {},
        f"make this one faster first: stepscope profile graph PATH -show_name_regexes '.*{first['name']}.*'",
    )
