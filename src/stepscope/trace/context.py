"""tfprof's ProfileProto (``profile.context``) as a trace: the times, devices and code of its nodes.

Accelerator time is that of ``stream:all``, the only one that tfprof keeps; the host entry of an accelerator's
node is the time in which it was scheduled.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from stepscope.errors import EmptyTraceError
from stepscope.trace.draft import Draft
from stepscope.trace.model import Lane, Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.nodes import node_kind, pack, scope_parts, stream_of
from stepscope.trace.structure import build
from stepscope.trace.tfprof import Profile, ProfileNode, read_profile
from stepscope.trace.timeline import REASONS

_NOT_RECORDED = {
    "launches": "tfprof does not keep which kernel belongs to which of several launches",
    "bytes": "tfprof keeps the bytes of nodes, not of copies",
    "collectives": "tfprof keeps nodes of the graph, and no transfer between processes; the RunMetadata and "
    "timelines of the same steps have them",
    "memory": "tfprof keeps each node's memory, not when it was allocated; ask for bytes in its own views",
}


def read(path: Path) -> list[Draft]:
    """Read a ProfileProto file.

    Raises:
        TraceError: Not such a message.
        EmptyTraceError: A graph of which no step was run.
    """
    profile = read_profile(path)
    draft = draft_profile(profile, str(path))
    draft.file_bytes = path.stat().st_size
    return [draft]


def trace_of(profile: Profile, path: str) -> Trace:
    """Make a trace of a tfprof source that is not a file of its own, such as a GraphDef with its RunMetadata.

    Raises:
        EmptyTraceError: Nothing was run.
    """
    return build(draft_profile(profile, path))


def draft_profile(profile: Profile, path: str) -> Draft:
    """Make a draft of a tfprof source.

    Raises:
        EmptyTraceError: Nothing was run.
    """
    runs = [
        (device, start, duration, step, node)
        for node in profile.nodes.values()
        for step, execution in node.executions.items()
        for lane in (execution.accelerator, execution.cpu)
        for device, times in lane.items()
        for start, duration in times
    ]
    if not runs:
        raise EmptyTraceError(
            "the tfprof profile holds no executed node", hint="add a step's RunMetadata", path=path
        )
    runs.sort(key=lambda run: run[:3])
    return _draft(profile, path, runs)


def _draft(profile: Profile, path: str, runs: list[tuple[str, int, int, int, ProfileNode]]) -> Draft:
    lanes, lane = _lanes(runs)
    names: dict[str, int] = {}
    number = np.array([names.setdefault(node.op, len(names)) for *_, node in runs], np.int32)
    start = np.array([run[1] for run in runs], np.int64) * 1000
    duration = np.array([run[2] for run in runs], np.int64) * 1000
    origin = int(start.min())
    on_device = [lanes[place].device >= 0 for place in lane]
    scopes, scope = Paths.of(scope_parts(node.name) for *_, node in runs)
    stacks, stack = Paths.of([f"{f.file}({f.line}): {f.function}" for f in node.stack] for *_, node in runs)
    draft = Draft(
        format="tfprof",
        path=path,
        strings=Strings.of(names),
        lanes=lanes,
        name=number,
        kind=np.array(
            [node_kind(run[4].name, run[4].op, on) for run, on in zip(runs, on_device, strict=True)], np.uint8
        ),
        lane=np.array(lane, np.int32),
        start_ns=start - origin,
        duration_ns=duration,
        origin_ns=origin,
        clock="unix",
        resolution_ns=1000,
        scope=scope,
        scopes=scopes,
        stack=stack,
        stacks=stacks,
        recorded={"modules"} | ({"stacks"} if (stack >= 0).any() else set()),
        not_recorded=_reasons(profile),
    )
    if any(node.float_ops for *_, node in runs):
        # Once per execution: the accelerator's entry, else the host's.
        draft.flops = np.array(
            [_flops(node, on) for (*_, node), on in zip(runs, on_device, strict=True)], np.int64
        )
    _add_steps(draft, np.array([run[3] for run in runs], np.int64))
    return draft


def _flops(node: ProfileNode, on_device: bool) -> int:
    twice = any(execution.accelerator for execution in node.executions.values()) and not on_device
    return node.float_ops if node.float_ops and not twice else -1


def _lanes(runs: list[tuple[str, int, int, int, ProfileNode]]) -> tuple[list[Lane], list[int]]:
    lanes: list[Lane] = []
    place: list[int] = []
    for device in dict.fromkeys(run[0] for run in runs):
        mine = [run for run in runs if run[0] == device]
        rows = pack([run[1] for run in mine], [run[1] + run[2] for run in mine])
        number, stream = stream_of(device)
        place += [len(lanes) + row for row in rows]
        lanes += [
            Lane(rank=0, process=device, thread=f"row {row}", device=number, stream=stream)
            for row in range(max(rows) + 1)
        ]
    return lanes, place


def _add_steps(draft: Draft, step: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> None:
    draft.step = step
    numbers = np.unique(step)
    inside = [step == number for number in numbers]
    draft.steps = {
        "number": numbers,
        "start_ns": np.array([draft.start_ns[mine].min() for mine in inside]),
        "end_ns": np.array([(draft.start_ns[mine] + draft.duration_ns[mine]).max() for mine in inside]),
    }


def _reasons(profile: Profile) -> dict[str, str]:
    reasons = {name: reason for name, reason in REASONS.items() if name not in ("steps", "stacks", "flops")}
    if not profile.has_stacks:
        reasons["stacks"] = "the profile was written without Python stacks"
    return {**reasons, **_NOT_RECORDED}
