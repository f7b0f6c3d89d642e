"""Nesting and documents against the slow and obvious way, on whatever Hypothesis thinks of."""

import json
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepscope.trace.chrome import unescape
from stepscope.trace.document import MISSING, read_document
from stepscope.trace.draft import Draft
from stepscope.trace.model import Lane
from stepscope.trace.names import Paths, Strings
from stepscope.trace.structure import build

SPANS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(0, 12)), max_size=30)


def trace_of(spans):
    lane, start, duration = (
        (np.array(column, np.int64) for column in zip(*spans, strict=True))
        if spans
        else [np.zeros(0, np.int64)] * 3
    )
    return build(
        Draft(
            format="test",
            path="",
            strings=Strings.of(["a"]),
            lanes=[Lane(rank=0, process="p", thread=str(i)) for i in range(3)],
            name=np.zeros(len(spans), np.int32),
            kind=np.zeros(len(spans), np.uint8),
            lane=lane.astype(np.int32),
            start_ns=start,
            duration_ns=duration,
        )
    )


@given(SPANS)
def test_order_and_parents(spans):
    trace = trace_of(spans)
    rows = list(zip(trace.lane.tolist(), trace.start_ns.tolist(), trace.duration_ns.tolist(), strict=True))
    assert sorted(rows) == sorted(spans)
    assert rows == sorted(rows, key=lambda row: (row[0], row[1], -row[2]))
    for row, parent in enumerate(trace.parent.tolist()):
        if parent < 0:
            assert trace.depth[row] == 0
            continue
        assert parent < row
        assert trace.lane[parent] == trace.lane[row]
        assert trace.start_ns[parent] <= trace.start_ns[row]
        assert trace.end_ns[parent] >= trace.end_ns[row]
        assert trace.depth[row] == trace.depth[parent] + 1


@given(SPANS)
def test_self_time_is_what_children_leave_uncovered(spans):
    trace = trace_of(spans)
    for row in range(len(trace)):
        free = set(range(trace.start_ns[row], trace.end_ns[row]))
        for child in np.flatnonzero(trace.parent == row).tolist():
            free -= set(range(trace.start_ns[child], trace.end_ns[child]))
        assert trace.self_ns[row] == len(free)


@st.composite
def forests(draw):
    """Properly nested spans, and the parent of each by construction."""
    spans, parents = [], []

    def grow(parent, begin, end, depth):
        at = begin
        while at < end and draw(st.booleans()):
            start = draw(st.integers(at, end - 1))
            stop = draw(st.integers(start + 1, end))
            number = len(spans)
            spans.append((0, start, stop - start))
            parents.append(parent)
            if depth < 4:
                grow(number, start, stop, depth + 1)
            at = stop

    grow(-1, 0, 40, 0)
    return spans, parents


@given(forests())
def test_what_is_properly_nested_is_found_so(forest):
    spans, parents = forest
    trace = trace_of(spans)
    assert "overlapping_siblings" not in trace.dropped
    # Equal spans may trade places, so compare by span.
    found = sorted((row(trace, i), row(trace, int(trace.parent[i]))) for i in range(len(trace)))
    expected = sorted(
        (spans[i], spans[parent] if parent >= 0 else (-1, -1, -1)) for i, parent in enumerate(parents)
    )
    assert found == expected


def row(trace, number):
    if number < 0:
        return -1, -1, -1
    return int(trace.lane[number]), int(trace.start_ns[number]), int(trace.duration_ns[number])


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
TIMES = st.decimals(-(10**12), 10**12, places=4) | st.integers(0, 2 * 10**15).map(Decimal)


@st.composite
def events(draw):
    event = {"ph": draw(st.sampled_from("XiBEC"))}
    if draw(st.booleans()):
        event["name"] = draw(st.text(max_size=12))
    if draw(st.booleans()):
        event["ts"] = draw(TIMES)
    event |= draw(st.dictionaries(st.sampled_from(["other", "sf", "", "é", "tts"]), VALUES, max_size=2))
    args = draw(
        st.dictionaries(st.sampled_from(["correlation", "Input Dims", "unknown"]), VALUES, max_size=3)
    )
    if args:
        event["args"] = args
    return event


def dump(value):
    """Write JSON with decimals digit by digit, as Kineto does."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {dump(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dump, value)) + "]"
    return json.dumps(value)


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.lists(events(), max_size=6),
    st.dictionaries(st.text("abc", max_size=3), VALUES, max_size=3),
    st.integers(1, 40),
    st.booleans(),
)
def test_documents_are_read_as_json_reads_them(found, metadata, block, before):
    outer = {**metadata, "traceEvents": found} if before else {"traceEvents": found, **metadata}
    data = dump(outer).encode()
    document = read_document(data[at : at + block] for at in range(0, len(data), block))
    assert document.metadata == json.loads(dump(metadata))
    assert "malformed_events" not in document.dropped
    assert bytes(document.phase) == "".join(event["ph"] for event in found).encode()
    for number, event in enumerate(found):
        name = document.name[number]
        assert (unescape(document.strings[int(name)]) if name >= 0 else None) == event.get("name")
        expected = MISSING
        if "ts" in event:
            expected = int((event["ts"] * 1000).quantize(Decimal(1), ROUND_HALF_UP))
        assert document.start_ns[number] == expected
        correlation = event.get("args", {}).get("correlation")
        if type(correlation) is int and abs(correlation) < 2**63:
            assert document.column("correlation", -7)[number] == correlation
        shape = event.get("args", {}).get("Input Dims")
        if isinstance(shape, (list, dict)):
            assert json.loads(document.strings[int(document.column("Input Dims")[number])]) == shape


@given(st.lists(st.text(max_size=6), unique=True, max_size=20))
def test_string_tables(texts):
    texts = [text.encode("utf-8", "replace").decode() for text in texts]
    table = Strings.of(texts)
    assert table.texts() == texts
    assert [Strings(table.data, table.ends)[n] for n in range(len(texts))] == texts


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=20))
def test_paths_come_back(chains):
    paths, numbers = Paths.of(chains)
    assert [paths.parts(int(number)) for number in numbers] == chains
    assert len({tuple(chain) for chain in chains if chain}) <= len(paths)
