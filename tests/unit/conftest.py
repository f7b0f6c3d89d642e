"""Small traces made by hand, structured the slow and obvious way."""

from types import SimpleNamespace

import numpy as np
import pytest

import stepscope as ss
from stepscope.trace.model import COLUMNS, DEVICE_WORK, Device, Kind, Lane, Source, Trace
from stepscope.trace.names import Paths, Strings
from stepscope.trace.tables import DTYPES, TABLES


def event(name, kind, start, duration, *, lane="main", rank=0, device=-1, stream=-1, **more):
    """One event; ``more`` are ``correlation bytes flops scope step forward``, an event's name."""
    return SimpleNamespace(
        name=name, kind=kind, start=start, duration=duration, lane=(rank, device, stream, lane), rank=rank,
        device=device, stream=stream, more=more,
    )  # fmt: skip


def build(events, *, recorded=None, tables=None, memory=(), **facts):
    """Make a Trace: sort, nest, number steps, link launches by correlation."""
    lanes = sorted({e.lane for e in events}, key=lambda k: (k[0], k[1] >= 0, k))
    events = sorted(events, key=lambda e: (e.rank, lanes.index(e.lane), e.start, -e.duration))
    n = len(events)
    names, scopes = {}, {}
    texts, path_parent, path_name = [], [], []

    def number(text):
        if text not in names:
            names[text] = len(texts)
            texts.append(text)
        return names[text]

    def path(text):
        if text is None:
            return -1
        if text not in scopes:
            head, _, tail = text.rpartition("/")
            above = path(head) if head else -1
            scopes[text] = len(path_parent)
            path_parent.append(above)
            path_name.append(number(tail))
        return scopes[text]

    columns = {key: np.full(n, -1, dtype) for key, dtype in COLUMNS.items() if dtype is not np.uint8}
    columns["kind"] = np.zeros(n, np.uint8)
    for i, e in enumerate(events):
        columns["name"][i] = number(e.name)
        columns["kind"][i] = e.kind
        columns["rank"][i], columns["device"][i], columns["lane"][i] = e.rank, e.device, lanes.index(e.lane)
        columns["start_ns"][i], columns["duration_ns"][i] = e.start, e.duration
        for key in ("correlation", "bytes", "flops", "step"):
            columns[key][i] = e.more.get(key, -1)
        columns["scope"][i] = path(e.more.get("scope"))
    nest(columns)
    rows = {(e.rank, e.more["correlation"]): i for i, e in enumerate(events)
            if e.more.get("correlation", -1) >= 0 and e.device < 0}  # fmt: skip
    for i, e in enumerate(events):
        if e.device >= 0 and e.kind in DEVICE_WORK:
            columns["launch"][i] = rows.get((e.rank, e.more.get("correlation", -1)), -1)
        if "forward" in e.more:
            columns["forward"][i] = next(j for j, f in enumerate(events) if f.name == e.more["forward"])
    steps = [i for i, e in enumerate(events) if e.kind == Kind.STEP]
    for i in range(n):
        at = columns["launch"][i] if columns["launch"][i] >= 0 else i
        for s in steps:
            start, end = columns["start_ns"][s], columns["start_ns"][s] + columns["duration_ns"][s]
            if columns["rank"][s] == columns["rank"][i] and start <= columns["start_ns"][at] < end:
                columns["step"][i] = events[s].more["step"]
    filled = {
        "steps": {
            "row": steps, "rank": [events[s].rank for s in steps],
            "number": [events[s].more["step"] for s in steps],
            "start_ns": [events[s].start for s in steps],
            "end_ns": [events[s].start + events[s].duration for s in steps],
        }
    }  # fmt: skip
    filled.update(tables or {})
    if memory:
        keys = (
            "rank", "time_ns", "device", "action", "address", "bytes", "allocated_bytes", "reserved_bytes",
            "row", "stack",
        )  # fmt: skip
        filled["memory"] = {
            key: [m.get(key, 0 if key in ("rank", "address") else -1) for m in memory] for key in keys
        }
    for table in ("operators", "kernels", "collectives", "syncs", "instructions"):
        for column in TABLES[table].names:
            if table in filled and column in filled[table]:
                filled[table][column] = [
                    number(v) if isinstance(v, str) else v for v in filled[table][column]
                ]
    made = {}
    for key, values in filled.items():
        length = max(len(v) for v in values.values())
        made[key] = TABLES[key](
            **{c: np.array(values.get(c, [-1] * length), DTYPES[c]) for c in TABLES[key].empty().columns()}
        )
    strings = Strings.of(texts)
    found = {"timeline"} | ({"steps"} if steps else set())
    if (columns["device"] >= 0).any():
        found |= {"device"}
    if (columns["launch"] >= 0).any():
        found |= {"launches"}
    ranks = sorted({e.rank for e in events})
    return Trace(
        **columns, strings=strings,
        scopes=Paths(np.array(path_parent, np.int32), np.array(path_name, np.int32), strings),
        stacks=Paths(np.zeros(0, np.int32), np.zeros(0, np.int32), strings),
        format=facts.pop("format", "kineto"),
        sources=tuple(Source(path=f"rank{r}.json", format="kineto", rank=r, events=n) for r in ranks),
        lanes=tuple(lane_of(*key) for key in lanes),
        devices=facts.pop("devices", tuple(device_of(e) for e in first_of_devices(events))),
        recorded=frozenset(recorded if recorded is not None else found), **made, **facts,
    )  # fmt: skip


def lane_of(rank, device, stream, thread):
    if device < 0:
        return Lane(rank=rank, process="python 1", thread=thread)
    return Lane(rank=rank, process=f"GPU {device}", thread=f"stream {stream}", device=device, stream=stream)


def first_of_devices(events):
    return {(e.rank, e.device): e for e in events if e.device >= 0}.values()


def device_of(e):
    return Device(rank=e.rank, index=e.device, name="Tesla V100-SXM2-32GB")


def nest(columns):
    """Fill parent, depth and self time lane by lane with a stack."""
    start, duration, lane = columns["start_ns"], columns["duration_ns"], columns["lane"]
    stack = []
    children = [[] for _ in start]
    for i in range(len(start)):
        while stack and not (
            lane[stack[-1]] == lane[i] and start[i] + duration[i] <= start[stack[-1]] + duration[stack[-1]]
        ):
            stack.pop()
        columns["parent"][i] = stack[-1] if stack else -1
        columns["depth"][i] = len(stack)
        if stack:
            children[stack[-1]].append(i)
        stack.append(i)
    for i, below in enumerate(children):
        covered, reach = 0, int(start[i])
        for child in below:
            end = int(start[child] + duration[child])
            covered += max(0, end - max(reach, int(start[child])))
            reach = max(reach, end)
        columns["self_ns"][i] = duration[i] - covered


@pytest.fixture
def make():
    """The two functions above, and the kinds."""
    return SimpleNamespace(event=event, build=build, Kind=Kind)


@pytest.fixture
def memory_store(tmp_path, monkeypatch):
    """fsspec's store in memory, empty, with a spool and a cache of this test alone."""
    import fsspec

    monkeypatch.setenv("STEPSCOPE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


@pytest.fixture
def run(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        yield run
