"""The kernels that read and structure traces, compiled and as plain Python, against the obvious way."""

import numpy as np
import pytest
from support.modules import uncompiled
from support.protobuf import field

from stepscope.kernels import nesting, objects, rectangles, xline


def both(module):
    return pytest.mark.parametrize("kernel", [module, uncompiled(module)], ids=["compiled", "python"])


# --- objects -----------------------------------------------------------------------------------------


class Table:
    """The arrays that the kernel interns into."""

    def __init__(self, texts=64, arena=4096):
        self.arena, self.ends = np.zeros(arena, np.uint8), np.zeros(texts, np.int64)
        self.hashes, self.slots = np.zeros(texts, np.uint64), np.full(2 * texts, -1, np.int32)
        self.state = np.zeros(8, np.int64)

    def table(self, kernel):
        return kernel.Texts(self.arena, self.ends, self.hashes, self.slots)

    def add(self, kernel, text):
        data = text.encode()
        return self.table(kernel).add(data + bytes(8), len(data), self.state)

    def texts(self):
        data, start, found = self.arena.tobytes(), 0, []
        for end in self.ends[: self.state[objects.TEXTS]].tolist():
            found.append(data[start:end].decode("latin-1"))
            start = end
        return found


OUTER = {
    "ph": "CHARACTER",
    "name": "TOKEN",
    "cat": "TOKEN",
    "ts": "MILLI",
    "id": "IDENTITY",
    "args": "NESTED",
}
ARGS = {"size": "INTEGER", "share": "MICRO", "shape": "TOKEN"}


def scan(kernel, text, *, rows=16, sparse=64, skip=(), raw=b"", final=True, texts=64):
    """Scan a block; return why it stopped, the objects as dicts, and the table."""
    keys, table = Table(), Table(texts=texts)
    columns = np.full((2, 64), -1, np.int32)
    for column, key in enumerate([*OUTER, *ARGS]):
        columns[int(column >= len(OUTER)), keys.add(kernel, key)] = column
    for each in skip:
        table.add(kernel, each)
    types = np.array([getattr(objects, each) for each in [*OUTER.values(), *ARGS.values()]], np.uint8)
    flags, skipped = np.zeros(256, np.uint8), np.zeros(len(skip), np.int64)
    flags[list(raw)] = 1
    dense, wide = np.empty((3, rows), np.int32), np.empty((1, rows), np.int64)
    out = np.empty(sparse, np.int32), np.empty(sparse, np.uint8), np.empty(sparse, np.int64)
    data = text if isinstance(text, bytes) else text.encode()
    plan = kernel.Plan(keys.table(kernel), columns, types, flags, skipped, 2)
    room = kernel.Room(dense, wide, *out)
    scan = kernel.Scan(data + bytes(8), len(data), final, plan, room, table.table(kernel), table.state)
    why = scan.run()
    found = []
    for row in range(table.state[objects.ROWS]):
        entry = {}
        for number, key in enumerate(("ph", "name", "cat")):
            value = int(dense[number, row])
            if value >= 0:
                entry[key] = chr(value) if key == "ph" else table.texts()[value]
        if wide[0, row] != objects.MISSING:
            entry["ts"] = int(wide[0, row])
        for at in range(table.state[objects.SPARSE]):
            if out[0][at] == row:
                key, value = [*OUTER, *ARGS][out[1][at]], int(out[2][at])
                if key in ("args", "shape"):
                    value = table.texts()[value]
                entry[key] = value
        found.append(entry)
    return why, found, table, skipped


@both(objects)
def test_objects_become_columns(kernel):
    text = """ {"ph": "X", "name": "a \\"b\\"", "cat":"op","ts": 12.3456, "id": 7, "other": [1, {"x": "]"}],
      "args": {"size": -5, "share": 0.25, "shape": [[2, 3], "x,}"], "more": {"deep": [1]}}},
      {"name": "c", "ts": 1e3, "id": "0x1f", "args": {}} , {"ph": "C", "args": {"a": 1}} ] tail"""
    why, found, table, _ = scan(kernel, text, raw=b"C")
    assert why == objects.END
    assert found[0] == {
        "ph": "X", "name": 'a \\"b\\"', "cat": "op", "ts": 12346, "id": 7, "size": -5, "share": 250000,
        "shape": '[[2, 3], "x,}"]',
    }  # fmt: skip
    assert found[1]["ts"] == 1_000_000
    assert table.texts()[-2 - found[1]["id"]] == "0x1f"
    assert found[2] == {"ph": "C", "args": '{"a": 1}'}
    assert text[table.state[objects.AT] :] == " tail"
    assert table.state[objects.UNKNOWN] == 3


@both(objects)
@pytest.mark.parametrize(
    ("text", "value", "saturated"),
    [
        ("0", 0, 0),
        ("-0", 0, 0),
        ("9223372036854775807", 2**63 - 1, 0),
        ("18446744073709551615", -1, 0),  # a uint64 wraps around
        ("18446744073709551616", 2**63 - 1, 1),
        ("-99999999999999999999999", -(2**63 - 1), 1),
        ('"42"', 42, 0),
        ("1.5", 2, 0),
        ("2e2", 200, 0),
    ],
)
def test_integers(kernel, text, value, saturated):
    _, found, table, _ = scan(kernel, f'{{"args": {{"size": {text}}}}}]')
    assert found[0]["size"] == value
    assert table.state[objects.SATURATED] == saturated


@both(objects)
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1669783687464181", 1669783687464181000),  # absolute microseconds of old torch
        ("4458676522690.655", 4458676522690655),
        ("1700000000000000.123", 1700000000000000123),  # beyond what a double holds
        ("0.0005", 1),
        ("-3.25", -3250),
        ("1.25e-3", 1),
        ("99999999999999999999.5", 2**63 - 1),
    ],
)
def test_times_are_exact(kernel, text, value):
    assert scan(kernel, f'{{"ts": {text}}}]')[1][0]["ts"] == value


@both(objects)
@pytest.mark.parametrize("text", ["true", '"abc"', "[1]", '"12x"', '""', "{}"])
def test_values_of_a_wrong_type_are_counted(kernel, text):
    why, found, table, _ = scan(kernel, f'{{"args": {{"size": {text}, "share": 1}}}}]')
    assert (why, found) == (objects.END, [{"share": 1_000_000}])
    assert table.state[objects.MISTYPED] == 1


@both(objects)
def test_null_is_a_value_that_was_not_recorded(kernel):
    why, found, table, _ = scan(kernel, '{"args": {"size": null, "share": 1}}]')
    assert (why, found) == (objects.END, [{"share": 1_000_000}])
    assert table.state[objects.MISTYPED] == 0


@both(objects)
def test_a_cut_object_is_left_for_the_next_block(kernel):
    whole = '{"name": "abc", "args": {"shape": [1, 2], "size": 12}}, {"name": "def", "ts": 5}]'
    first = whole.index("}}") + 2
    for cut in range(1, len(whole)):
        why, found, table, _ = scan(kernel, whole[:cut], final=False)
        done = 0 if cut < first else (1 if cut < len(whole) - 1 else 2)
        assert len(found) == done, cut
        assert table.state[objects.AT] in (0, first, first + 1, first + 2, len(whole) - 1, len(whole))
        assert why == (objects.END if cut == len(whole) else objects.MORE)


@both(objects)
def test_it_asks_for_room_and_loses_nothing(kernel):
    text = ",".join(f'{{"name": "n{i}", "args": {{"size": {i}}}}}' for i in range(40)) + "]"
    assert scan(kernel, text, rows=8)[0] == objects.GROW
    assert len(scan(kernel, text, rows=8)[1]) == 8
    why, found, *_ = scan(kernel, text, rows=64, sparse=10)
    assert (why, len(found)) == (objects.GROW, 10)
    why, found, *_ = scan(kernel, text, rows=64, texts=16)
    assert (why, len(found)) == (objects.GROW, 16)


@both(objects)
def test_objects_are_dropped_by_text(kernel):
    text = '{"cat": "ac2g", "id": 1}, {"cat": "op", "id": 2}, {"id": 3, "cat": "ac2g"}]'
    _, found, _, skipped = scan(kernel, text, skip=("ac2g",))
    assert [entry["id"] for entry in found] == [2]
    assert skipped.tolist() == [2]


@both(objects)
def test_bad_bytes_do_no_harm(kernel):
    why, found, table, _ = scan(kernel, b'{"cat": "a\xff\x00\nb", "ts": 3}]')
    assert why == objects.END
    assert found[0]["ts"] == 3000
    assert table.arena[:5].tobytes() == b"a\xff\x00\nb"


@both(objects)
def test_malformed_objects_stop_it(kernel):
    for text in ('{"name" 1}', '{"name": "a" "b"}', "{name: 1}", "7]"):
        assert scan(kernel, text)[0] == objects.BAD


@both(objects)
def test_skip_value(kernel):
    text = b'{"a": [1, "}", {"b": "\\""}]} , 12 , "x"'
    data = text + bytes(8)
    assert kernel.skip_value(data, 0, len(text)) == text.index(b" ,")
    assert kernel.skip_value(data, text.index(b"12"), len(text)) == text.index(b"12") + 2
    assert kernel.skip_value(data, 0, 10) == -1


# --- nesting -----------------------------------------------------------------------------------------


def nest(kernel, lane, start, duration, slack=0, layer=None):
    n = len(start)
    parent, depth, own = np.empty(n, np.int32), np.empty(n, np.int16), np.empty(n, np.int64)
    closes = np.empty(n, np.int64)
    overlaps = kernel.nest(
        np.array(lane, np.int32),
        np.array(start, np.int64),
        np.array(duration, np.int64),
        slack,
        np.array(layer or [1] * n, np.uint8),
        parent,
        depth,
        own,
        closes,
        np.empty(n, np.int64),
    )
    return parent.tolist(), depth.tolist(), own.tolist(), overlaps, closes


@both(nesting)
def test_nesting(kernel):
    lane = [0, 0, 0, 0, 0, 1, 1]
    parent, depth, own, overlaps, _ = nest(kernel, lane, [0, 1, 1, 6, 10, 0, 5], [10, 5, 2, 3, 4, 5, 5])
    assert parent == [-1, 0, 1, 0, -1, -1, -1]
    assert depth == [0, 1, 2, 1, 0, 0, 0]
    assert own == [2, 3, 2, 3, 4, 5, 5]
    assert overlaps == 0


@both(nesting)
def test_overlapping_siblings_are_counted_and_subtracted_once(kernel):
    parent, depth, own, overlaps, _ = nest(kernel, [0] * 3, [0, 1, 3], [10, 4, 5])
    assert (parent, depth, overlaps) == ([-1, 0, 0], [0, 1, 1], 1)
    assert own == [3, 4, 5]  # 1 to 8 is covered, 3 to 5 twice


@both(nesting)
@pytest.mark.parametrize(
    ("layer", "counted"), [([1, 1, 1], 2), ([1, 0, 1], 0), ([0, 1, 0], 0), ([0, 1, 1], 1), ([1, 2, 2], 1)]
)
def test_rows_of_different_layers_may_overlap(kernel, layer, counted):
    # The second begins in the first and ends in the third.
    parent, _, own, overlaps, _ = nest(kernel, [0] * 3, [0, 8, 18], [10, 12, 5], layer=layer)
    assert (parent, own, overlaps) == ([-1, -1, -1], [10, 12, 5], counted)


@both(nesting)
def test_a_child_may_end_a_rounding_late(kernel):
    lane, start, duration = [0, 0], [0, 4000], [10_000, 7_000]
    parent, _, own, overlaps, closes = nest(kernel, lane, start, duration, slack=1000)
    assert parent == [-1, 0]
    assert (own, overlaps, closes.tolist()) == ([4000, 7000], 0, [10_000, 10_000])
    assert nest(kernel, lane, start, duration)[0] == [-1, -1]


@both(nesting)
def test_inherit_innermost_and_paths(kernel):
    parent = np.array([-1, 0, 1, 0, -1], np.int32)
    value = np.array([-1, 7, -1, -1, 3], np.int32)
    kernel.inherit(parent, value)
    assert value.tolist() == [-1, 7, 7, -1, 3]
    row = np.array([2, 3, -1], np.int32)
    kernel.innermost(np.array([4, 99, 1]), row, parent, np.array([50, 20, 3, 30, 60]))
    assert row.tolist() == [1, -1, -1]
    path, above, name = (np.full(5, -9, np.int32) for _ in range(3))
    member = np.array([1, 0, 1, 1, 1], np.uint8)
    names = np.array([5, 6, 8, 8, 5], np.int32)
    assert kernel.paths(parent, member, names, path, above, name, np.full(16, -1, np.int32)) == 2
    assert path.tolist() == [0, 0, 1, 1, 0]
    assert (above[:2].tolist(), name[:2].tolist()) == ([-1, 0], [5, 8])


# --- xline -------------------------------------------------------------------------------------------


def read_line(kernel, data, wanted):
    padded = data + bytes(8)
    kinds = [np.int64] * 4 + [np.int32, np.int32, np.uint8, np.int64, np.int64]
    none = [np.empty(0, kind) for kind in kinds]
    rows, stats, whole = kernel.events(padded, 0, len(data), 4, wanted, *none)
    room = [np.full(rows if i < 4 else stats, 99, kind) for i, kind in enumerate(kinds)]
    assert kernel.events(padded, 0, len(data), 4, wanted, *room) == (rows, stats, whole)
    return whole, [column.tolist() for column in room]


@both(xline)
def test_events_of_a_line(kernel):
    stat = field(1, 3) + field(4, -2 & (1 << 64) - 1)
    text = field(1, 5) + field(5, b"hello")
    real = field(1, 3) + field(2, 2.5)
    one = field(1, 9) + field(2, 1000) + field(3, 77) + field(4, stat) + field(4, text)
    two = field(1, 10) + field(5, 4) + field(4, field(1, 4) + field(3, 1)) + field(4, real)
    data = field(2, b"line") + field(4, one) + field(4, b"") + field(11, b"x") + field(4, two)
    wanted = np.array([0, 0, 0, 1, 0, 1], np.uint8)
    whole, (metadata, offset, duration, occurrences, row, name, kind, value, size) = read_line(
        kernel, data, wanted
    )
    assert whole
    assert (metadata, offset, duration, occurrences) == ([9, 0, 10], [1000, 0, 0], [77, 0, 0], [0, 0, 4])
    assert (row, name, kind) == ([0, 0, 2], [3, 5, 3], [4, 5, 2])
    assert value[0] == -2
    assert data[value[1] : value[1] + size[1]] == b"hello"
    assert np.int64(value[2]).view(np.float64) == 2.5


@both(xline)
def test_a_cut_line_says_so(kernel):
    data = field(4, field(1, 9) + field(2, 1000)) + field(4, field(1, 8))
    for cut in range(1, len(data)):
        whole, (metadata, *_) = read_line(kernel, data[:cut], np.zeros(1, np.uint8))
        assert whole == (cut == len(field(4, field(1, 9) + field(2, 1000))))
        assert metadata in ([], [9])


@both(xline)
def test_skip_fields(kernel):
    data = field(4, b"abc") + field(4, b"") + field(2, b"name") + field(4, b"x") + field(3, 5)
    padded = data + bytes(8)
    name = data.index(field(2, b"name"))
    assert kernel.skip(padded, 0, len(data), 4) == name
    assert kernel.skip(padded, name, len(data), 4) == name
    assert kernel.skip(padded, name + 6, len(data), 4) == len(data) - 2
    assert kernel.skip(padded, len(data), len(data), 4) == len(data)
    assert kernel.skip(padded, 0, 4, 4) == -1


# --- rectangles --------------------------------------------------------------------------------------


@both(rectangles)
def test_tracks_and_their_index(kernel):
    order, at = np.empty(5, np.int32), np.array([0, 2, 4])
    lane, depth = np.array([0, 0, 0, 1, 0], np.int32), np.array([0, 1, 5, 0, 0], np.int16)
    kernel.tracks(lane, depth, np.array([0, 2, 3], np.int32), 1, at, order)
    assert order.tolist() == [0, 4, 1, 2, 3]
    start, duration = np.array([0, 1, 2, 0, 20]), np.array([10, 3, 9, 4, 1])
    reach, busy = np.empty(5, np.int64), np.empty(5, np.int64)
    kernel.accumulate(order, start, duration, np.array([0, 2, 4, 5]), reach, busy)
    assert reach.tolist() == [10, 21, 4, 11, 4]
    assert busy.tolist() == [10, 11, 14, 23, 27]
    block, length = np.empty(1, np.int32), np.empty(1, np.int64)
    kernel.longest(order, duration, np.zeros(0, np.int32), block, length)
    assert (block.tolist(), length.tolist()) == ([0], [10])


def test_the_constants_are_those_of_the_compiled_module():
    plain = uncompiled(objects)
    for name in ("MORE", "END", "GROW", "BAD", "TOKEN", "IDENTITY", "NESTED", "AT", "TEXTS", "UNKNOWN"):
        assert getattr(plain, name) == getattr(objects, name)
