"""expensive-operation: the operation that takes most of the time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from stepscope.analyze.advise.finding import WORTH, Facts, Finding, events_of, place_of, place_of_rank
from stepscope.analyze.advise.remedy import show
from stepscope.analyze.advise.waited import Waited
from stepscope.attribute.activity import WRAPPERS
from stepscope.attribute.device import COMMUNICATION, rows_spans
from stepscope.attribute.named import named
from stepscope.attribute.source_lines import leading
from stepscope.attribute.spans import Ints, Times
from stepscope.health.worth import is_worth
from stepscope.text import most
from stepscope.trace.distinct import distinct
from stepscope.trace.model import Kind, Trace, among

RULE = "expensive-operation"
COUNT = 3
HALF = 0.5
"""Share of the work under a name from which on it counts as an exchange between ranks."""


def check(facts: Facts) -> Iterator[Finding]:
    """Report the top three by device time, or else by their part of the steps."""
    if facts.profile is not None:
        from stepscope.analyze.tfprof.advise import expensive_reports  # of tfprof's own profiles alone

        reports = [report for report in expensive_reports(facts.profile) if report]
        if reports:
            yield Finding(
                RULE,
                "info",
                reports[0].splitlines()[0],
                {"reports": reports},
                {},
                "start with the first line",
                command=show(facts, "op", order="micros"),
                withdrawn="another operation takes more",
            )
        return
    trace = facts.timeline
    on_device = any(waited.has_device for waited in facts.waited)
    if on_device:
        rows, amount, whole = _device_time(trace, facts.waited)
        names = _culprits(trace, rows)
    else:
        rows, amount, whole = _host_time(facts)
        names = trace.name[rows].astype(np.int64)
    if not len(rows) or whole <= 0:
        return
    total = np.bincount(names, weights=amount, minlength=len(trace.strings))
    calls = np.bincount(names, minlength=len(trace.strings))
    first = [number for number in np.argsort(-total, kind="stable")[:COUNT].tolist() if total[number] > 0]
    steps = sum(waited.count for waited in facts.waited)
    if not first or not is_worth(1e-9 * total[first[0]], 1e-9 * whole, ratio=WORTH, steps=steps):
        return
    places = [_place(facts, trace, rows[names == number]) for number in first]
    stem = "device" if on_device else "host"
    name = str(trace.strings[first[0]])
    what = "of the time in which devices worked"
    if not on_device:
        what = "of the steps" if any(waited.marked for waited in facts.waited) else "of the recording"
    yield Finding(
        RULE,
        "info",
        f"{name} takes {most(total[first[0]] / whole)} {what}"
        + (f" in {places[0]['file']}:{places[0]['line']}" if "line" in places[0] else ""),
        {
            "operators": [
                {
                    "name": str(trace.strings[number]),
                    f"{stem}_ns": round(total[number] / steps),
                    f"{stem}_ratio": total[number] / whole,
                    "launches" if on_device else "calls": int(calls[number]),
                    **({"line": f"{place['file']}:{place['line']}"} if "line" in place else {}),
                }
                for number, place in zip(first, places, strict=True)
            ],
            f"all_{stem}_ns": round(whole / steps),
        },
        {},
        _action(trace, rows[names == first[0]]),
        command=show(
            facts, _view(trace, first[0]), name, order="accelerator_micros" if on_device else "micros"
        ),
        place=places[0],
        events=events_of(trace, rows[names == first[0]]),
        withdrawn="another operation takes more",
    )


def largest_parts(finding: Finding) -> list[str]:
    """Return the largest operations with their shares and lines, for a sentence."""
    return [
        f"{most(part)} is {one['name']}" + (f" at {one['line']}" if "line" in one else "")
        for one in finding.evidence.get("operators", ())
        for part in (one.get("device_ratio", one.get("host_ratio", 0.0)),)
        if part >= WORTH
    ]


def largest_ratio(finding: Finding) -> float:
    """Return the largest operation's share of the steps, 0 if only that of a device's time is known."""
    return max((one.get("host_ratio", 0.0) for one in finding.evidence.get("operators", ())), default=0.0)


QUESTIONS = {
    r"(?:arg)?sort|msort": "if only the largest or the smallest values are used, topk finds them without "
    "sorting all",
    r"(?:add|b)?mm|(?:add)?baddbmm|matmul|linear|dot(?:_general)?|einsum|batchmatmul\w*": "if a factor is "
    "mostly zeros, as of a graph, keep it as a sparse matrix; else 16-bit types, on a device that is faster "
    "with them",
    r"\w*attention\w*": "it grows with the square of the length: pad a batch to its own longest sequence, no "
    "further",
    r"(?:linalg_)?(?:eigh?|eigvalsh?|svd|qr|inv(?:_ex|erse)?|cholesky\w*|lu\w*|solve\w*|pinv)": "decompose "
    "less often, or solve instead of inverting",
    r"i?r?fft\w*|stft|fft_\w+": "lengths whose prime factors are small are fastest: pad to one",
    r"cat|stack|concatenate\w*|concatv2": "write into an array that is made once, instead of joining parts "
    "in each step",
    r"mul|add|sub|div|exp|pow|sqrt|where|multiply|subtract": "if broadcasting makes an array larger than its "
    "inputs that is then summed, einsum or a matrix product needs no such intermediate; several in a row "
    "pass over memory once if compiled",
}
"""Changes that make an operation cheaper in some programs; a profile does not show in which."""
_AROUND_NAME = re.compile(r"^aten::_?|(?:_backward|_for_cpu|_)+$|[._]\d+$")


def question_of(name: str) -> str:
    """Return what to ask about an operation, ``""`` if nothing is known of it."""
    plain = _AROUND_NAME.sub("", name).lower()
    return next((ask for names, ask in QUESTIONS.items() if re.fullmatch(names, plain)), "")


def _action(trace: Trace, rows: Ints) -> str:
    """Return the remedy: no faster form ends an exchange in which its rank waits for others."""
    if among(*COMMUNICATION)[trace.kind[rows]].mean() <= HALF:
        return question_of(trace.name_of(int(rows[0]))) or (
            "the operation that takes most is where a faster version gains most; other findings say whether "
            "the step waits for it"
        )
    if len(distinct(trace.rank)) > 1:
        return "the time of an exchange includes waiting for other ranks: stepscope ranks says how much"
    return (
        "the time of an exchange includes waiting for other ranks, which one rank's profile cannot show: "
        "stepscope ranks can, with the profiles of all ranks"
    )


def _place(facts: Facts, trace: Trace, rows: Ints) -> dict[str, Any]:
    """Return the rank on which it takes most time, with a line if that makes up a quarter of it."""
    rank = int(np.argmax(np.bincount(trace.rank[rows], weights=trace.duration_ns[rows])))
    waited = next((one for one in facts.waited if one.rank == rank), None)
    if waited is None:
        return place_of_rank(trace, rank)
    mine = rows[trace.rank[rows] == rank]
    on_device = bool((trace.device[mine] >= 0).all())
    lines = waited.compiled_lines(mine) or (
        waited.launching_lines(mine)
        if on_device
        else waited.origin_lines(mine, lambda some: rows_spans(trace, some))
    )
    return place_of(waited, leading(lines, sum(one.time_ns for one in lines)))


def _view(trace: Trace, name: int) -> str:
    """Return the view that lists a name: operators, or kernels whose operator is unknown."""
    shown = (trace.name == name) & among(Kind.HOST_OP, Kind.PYTHON_FRAME, Kind.DATA_LOADING)[trace.kind]
    return "op" if shown.any() else "kernel"


def _device_time(trace: Trace, every: list[Waited]) -> tuple[Ints, Times, int]:
    """Return work launched in steps, its durations, and their sum."""
    parts = []
    for waited in every:
        rows = waited.device_rows
        if waited.marked:
            rows = rows[np.isin(trace.step[rows], waited.steps.number)]
        parts.append(rows)
    rows = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    return rows, trace.duration_ns[rows].astype(np.int64), int(trace.duration_ns[rows].sum())


def _culprits(trace: Trace, rows: Ints) -> Ints:
    """Return the name under which each piece of device work is listed: its operator's, else its own."""
    held = named(trace, WRAPPERS)
    wanted = (trace.kind == Kind.HOST_OP) & ~held[trace.name]
    launch = trace.launch[rows]
    owner = np.where(launch >= 0, trace.nearest(wanted)[launch], -1)
    # An exchange is what it is, whichever operator started it.
    owner = np.where(among(Kind.COLLECTIVE, Kind.SEND_RECV)[trace.kind[rows]], -1, owner)
    return np.where(owner >= 0, trace.name[owner], trace.name[rows]).astype(np.int64)


def _host_time(facts: Facts) -> tuple[Ints, Times, int]:
    """Return operators and frames of the host, their part of the steps, and the steps' length.

    The parts are those that the other views show: an instant goes to one event, of whichever thread.
    """
    trace, parts = facts.timeline, facts.step_tree
    held = named(trace, WRAPPERS)
    wanted = among(Kind.HOST_OP, Kind.DATA_LOADING, Kind.PYTHON_FRAME)[trace.kind]
    owner = trace.nearest(wanted)[parts.row]
    shares = np.bincount(
        np.maximum(owner, 0), weights=np.where(owner >= 0, parts.length_ns, 0), minlength=len(trace)
    )
    within, whole = [], 0
    for waited in facts.waited:
        whole += waited.wall_ns
        rows = np.flatnonzero(wanted & (trace.rank == waited.rank) & ~held[trace.name] & (trace.name >= 0))
        rows = rows[~waited.activities.waits[trace.name[rows]]]
        within.append(rows[waited.spans.within(trace.start_ns[rows], trace.end_ns[rows]) > 0])
    rows = np.concatenate(within) if within else np.zeros(0, np.int64)
    return rows, shares[rows].astype(np.int64), whole
