"""A profile at a glance: lanes, the time of each step by its use, findings, gaps in the recording."""

from __future__ import annotations

from pathlib import PurePosixPath

import numpy as np

from stepscope.analyze.advise import Abstain, Finding
from stepscope.analyze.breakdown import Breakdown
from stepscope.analyze.groups import Groups
from stepscope.analyze.operators import operator_table
from stepscope.analyze.views import losses
from stepscope.errors import EmptyTraceError
from stepscope.serve.encode import projection
from stepscope.serve.profiles.open_profiles import OpenProfile
from stepscope.serve.profiles.outline import lanes
from stepscope.serve.profiles.types import (
    FindingEvent,
    FindingPlace,
    ProfileAbstention,
    ProfileFinding,
    ProfileSummary,
    ProfileTop,
)
from stepscope.serve.routes import get
from stepscope.trace.model import Kind

TOP = 20


@get("profile")
def summary(profile: OpenProfile) -> ProfileSummary:
    """Return the first answer of the page about a profile."""
    trace, advice = profile.trace, profile.advice
    breakdown = breakdown_or_none(profile)
    return ProfileSummary(
        path=profile.path,
        title=PurePosixPath(profile.path).name,
        format=trace.format,
        events=len(trace),
        ranks=list(trace.ranks),
        start_ns=profile.start_ns,
        end_ns=profile.end_ns,
        devices=[f"{device.name} ({device.index})" for device in trace.devices],
        lanes=lanes(profile),
        steps=breakdown.steps if breakdown else (),
        missing_parts=breakdown.missing if breakdown else {},
        findings=[finding_of(one) for one in advice.findings],
        abstained=[ProfileAbstention(one.rule, one.missing) for one in advice.abstained],
        verdict=advice.verdict,
        device_top=device_top(profile),
        host_top=host_top(profile),
        recorded=sorted(trace.recorded),
        not_recorded=dict(trace.not_recorded),
        notes=[*losses(trace), *(breakdown.notes if breakdown else ())],
    )


def breakdown_or_none(profile: OpenProfile) -> Breakdown | None:
    """Return each step's time by its use; None if nothing took time, as in a log of messages."""
    try:
        return profile.facts.breakdown
    except Abstain:
        return None


def finding_of(one: Finding) -> ProfileFinding:
    """Return a finding in the form that the page gets."""
    return projection(
        ProfileFinding,
        one,
        evidence=one.evidence_lines,
        look=str(one.events[0]["name"]) if one.events else None,
        gain=one.gain_text,
        place=FindingPlace(**{name: one.place.get(name) for name in FindingPlace.__struct_fields__}),
        events=[FindingEvent(**event) for event in one.events],
    )


def device_top(profile: OpenProfile) -> list[ProfileTop] | None:
    """Return the device work that takes most time."""
    trace = profile.trace
    rows = trace.device_work()
    if not len(rows):
        return None
    groups = Groups.by_pair(trace.name[rows], trace.kind[rows])
    total, calls = groups.sum(trace.duration_ns[rows]), groups.count()
    every = int(total.sum()) or 1
    return [
        ProfileTop(
            trace.strings[int(groups.key[g]) >> 32],
            Kind(int(groups.key[g]) & 0xFFFFFFFF).name.lower(),
            int(calls[g]),
            int(total[g]),
            float(total[g] / every),
        )
        for g in np.argsort(-total, kind="stable")[:TOP].tolist()
    ]


def host_top(profile: OpenProfile) -> list[ProfileTop] | None:
    """Return the operators that take most time of their own on the host."""
    try:
        table = operator_table(profile.trace)
    except EmptyTraceError:
        return None
    every = sum(one.host_self_ns for one in table) or 1
    ordered = sorted(table, key=lambda one: -one.host_self_ns)[:TOP]
    return [
        ProfileTop(one.name, "host_op", one.calls, one.host_self_ns, one.host_self_ns / every)
        for one in ordered
    ]
