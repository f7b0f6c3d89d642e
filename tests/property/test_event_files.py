"""Event files: what is written is read, through any damage, in any portions."""

import math
import struct
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepscope.errors import EventFileError
from stepscope.events import (
    Audio,
    Event,
    EventFile,
    EventWriter,
    Histogram,
    Image,
    Metadata,
    SessionLog,
    Shape,
    Summary,
    TaggedRunMetadata,
    Tensor,
    Value,
    decode_event,
    encode_event,
    frame,
    unframe,
)
from stepscope.events.kinds.reading import kind_of, read_value
from stepscope.events.tensors import array
from stepscope.events.wire import varint

settings.register_profile(
    "files",
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
settings.load_profile("files")

floats32 = st.floats(width=32)
finite32 = st.floats(width=32, allow_nan=False)
doubles = st.floats()
int64s = st.integers(-(1 << 63), (1 << 63) - 1)
int32s = st.integers(-(1 << 31), (1 << 31) - 1)
texts = st.text(max_size=20)
blobs = st.binary(max_size=40)
tags = st.sampled_from(["loss", "train/loss", "train/accuracy", "", "a" * 200, "été", "x", "y"])
steps = st.one_of(st.integers(0, 5), int64s)
walls = st.one_of(st.floats(1.6e9, 1.8e9), doubles)

tensors = st.builds(
    Tensor,
    dtype=st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 14, 17, 19, 22, 23, 99]),
    tensor_shape=st.none() | st.lists(st.integers(-1, 3), max_size=3).map(lambda sizes: Shape.of(*sizes)),
    tensor_content=st.just(b"")
    | st.sampled_from([1, 2, 4, 8, 3]).flatmap(lambda n: st.binary(min_size=n, max_size=n)),
    float_val=st.lists(floats32, max_size=2),
    double_val=st.lists(doubles, max_size=2),
    int_val=st.lists(int32s, max_size=2),
    string_val=st.lists(blobs, max_size=2),
    int64_val=st.lists(int64s, max_size=2),
    bool_val=st.lists(st.booleans(), max_size=2),
    half_val=st.lists(st.integers(0, 65535), max_size=2),
    uint32_val=st.lists(st.integers(0, (1 << 32) - 1), max_size=2),
    uint64_val=st.lists(st.integers(0, (1 << 64) - 1), max_size=2),
)
scalar_tensors = st.one_of(
    st.builds(lambda v: Tensor(1, Shape(), tensor_content=struct.pack("<f", v)), floats32),
    st.builds(lambda v: Tensor(1, Shape(), float_val=[v]), floats32),
    st.builds(lambda v: Tensor(1, Shape.of(1), float_val=[v]), floats32),
    st.builds(lambda v: Tensor(2, None, double_val=[v]), doubles),
    st.builds(lambda v: Tensor(9, Shape(), int64_val=[v]), int64s),
    st.builds(lambda v: Tensor(3, Shape(), int_val=[v]), int32s),
)
metadata = st.none() | st.builds(
    Metadata.of,
    st.sampled_from(["scalars", "histograms", "text", "", "scalarz"]),
    blobs,
    display_name=texts,
    summary_description=texts,
    data_class=st.integers(0, 3),
)
bodies = st.one_of(
    st.fixed_dictionaries({"simple_value": floats32}),
    st.fixed_dictionaries({"simple_value": floats32}),
    st.fixed_dictionaries({"tensor": scalar_tensors}),
    st.fixed_dictionaries({"tensor": tensors}),
    st.fixed_dictionaries({"image": st.builds(Image, int32s, int32s, int32s, blobs)}),
    st.fixed_dictionaries({"audio": st.builds(Audio, floats32, int64s, int64s, blobs, texts)}),
    st.fixed_dictionaries(
        {"histo": st.builds(Histogram, doubles, doubles, bucket_limit=st.lists(doubles, max_size=3))}
    ),
    st.fixed_dictionaries({"obsolete_old_style_histogram": blobs}),
    st.just({}),
)
values = st.builds(lambda tag, body, found: Value(tag, metadata=found, **body), tags, bodies, metadata)
unknown = st.just(b"") | blobs.map(lambda data: varint(100 << 3 | 2) + varint(len(data)) + data)
contents = st.one_of(
    st.lists(values, min_size=1, max_size=3).map(lambda found: {"summary": Summary(found)}),
    st.lists(values, min_size=1, max_size=1).map(lambda found: {"summary": Summary(found)}),
    st.fixed_dictionaries({"file_version": texts}),
    st.fixed_dictionaries({"graph_def": blobs}),
    st.fixed_dictionaries({"meta_graph_def": blobs}),
    st.fixed_dictionaries({"session_log": st.builds(SessionLog, st.integers(0, 3), texts, texts)}),
    st.fixed_dictionaries({"tagged_run_metadata": st.builds(TaggedRunMetadata, texts, blobs)}),
    st.just({}),
)
events = st.builds(
    lambda wall, step, content, rest: Event(wall, step, unknown=rest, **content),
    walls,
    steps,
    contents,
    unknown,
)


@pytest.mark.slow
def test_events_round_trip() -> None:
    @given(events)
    def check(event: Event) -> None:
        data = encode_event(event)
        assert encode_event(decode_event(data)) == data
        if "nan" not in repr(event):
            assert decode_event(data) == event

    check()


@given(st.binary(max_size=60))
def test_any_bytes_decode_to_themselves_or_are_refused(data: bytes) -> None:
    try:
        event = decode_event(data)
    except EventFileError:
        return
    again = encode_event(event)
    assert encode_event(decode_event(again)) == again


@given(st.binary(max_size=300))
def test_records_round_trip(payload: bytes) -> None:
    assert unframe(frame(payload)) == payload


@given(st.binary(max_size=40), st.integers(0, 1 << 16), st.integers(1, 255))
def test_no_changed_byte_goes_unnoticed(payload: bytes, at: int, flip: int) -> None:
    record = bytearray(frame(payload))
    record[at % len(record)] ^= flip
    with pytest.raises(EventFileError):
        unframe(bytes(record))


# --- the reader against a decoder that is plainly right ----------------------------------------------


def naive_number(value: Value, plugin: str) -> float | None:
    if value.simple_value is not None:
        return value.simple_value
    tensor = value.tensor
    if plugin in ("histograms", "text"):
        return None
    if tensor is None or tensor.dtype not in (1, 2, 3, 4, 5, 6, 9, 10, 14, 17, 19, 22, 23):
        return None
    shape = tensor.tensor_shape or Shape()
    if (
        math.prod(shape.sizes) != 1
        or any(size != 1 for size in shape.sizes)
        or (shape.dim and plugin != "scalars")
    ):
        return None
    return tensor


def is_readable(value: Value, plugin: str) -> bool:
    old = {"image": "images", "histo": "histograms", "audio": "audio"}
    said = next((name for field, name in old.items() if getattr(value, field) is not None), "")
    try:
        read_value(kind_of(plugin or said, b""), value)
    except EventFileError:
        return False
    return True


def naive(records: list[tuple[int, bytes]]):
    """Decode records one by one with the general codec: points by tag, and the other values."""
    points, others, plugins, sessions = defaultdict(list), [], {}, []
    for position, payload in records:
        event = decode_event(payload)
        if event.session_log is not None:
            sessions.append((position, event.session_log.status))
        for index, value in enumerate(event.values):
            if value.metadata is not None and value.tag not in plugins:
                plugins[value.tag] = value.metadata.plugin_name
            if value.histo is not None and len(value.histo.bucket_limit) != len(value.histo.bucket):
                continue  # counted as malformed: its counts belong to no limits
            plugin = plugins.get(value.tag, "")
            number = naive_number(value, plugin)
            if isinstance(number, Tensor):
                number = naive_tensor(number)
            if number is None and value.tensor is not None and plugin == "scalars":
                continue  # counted as malformed: a scalar that is not a number
            if number is None and not is_readable(value, plugin):
                continue  # counted as malformed: not what its plugin says
            if number is None:
                others.append((value.tag, event.step, position, index))
            else:
                points[value.tag].append((event.wall_time, event.step, number, position))
        if (
            event.graph_def is not None
            or event.meta_graph_def is not None
            or event.tagged_run_metadata is not None
        ):
            others.append((None, event.step, position, 0))
    return points, others, sessions


def naive_tensor(tensor: Tensor) -> float | None:
    """The number in a tensor of one element, None where it does not hold one in a field of its type."""
    lists = {
        1: "float_val",
        2: "double_val",
        9: "int64_val",
        10: "bool_val",
        22: "uint32_val",
        23: "uint64_val",
    }
    lists |= dict.fromkeys((3, 4, 5, 6, 17), "int_val") | dict.fromkeys((14, 19), "half_val")
    if not tensor.tensor_content:
        filled = [
            name
            for name in (
                "float_val",
                "double_val",
                "int_val",
                "string_val",
                "int64_val",
                "bool_val",
                "half_val",
                "uint32_val",
                "uint64_val",
            )
            if getattr(tensor, name)
        ]
        if filled and (filled != [lists[tensor.dtype]] or len(getattr(tensor, filled[0])) > 1):
            return None
        tensor = Tensor(tensor.dtype, **{lists[tensor.dtype]: getattr(tensor, lists[tensor.dtype])[:1]})
        if tensor.dtype in (4, 5, 6, 17) and tensor.int_val:
            return float(tensor.int_val[0])
        return float(array(tensor).reshape(-1)[0])
    width = {1: 4, 2: 8, 3: 4, 4: 1, 5: 2, 6: 1, 9: 8, 10: 1, 14: 2, 17: 2, 19: 2, 22: 4, 23: 8}[tensor.dtype]
    if len(tensor.tensor_content) != width:
        return None
    if tensor.dtype == 10:
        return float(tensor.tensor_content[0])
    return float(array(Tensor(tensor.dtype, tensor_content=tensor.tensor_content))[()].reshape(-1)[0])


def assert_reads(batches, expected) -> None:
    points, others, sessions = expected
    found = defaultdict(list)
    for batch in batches:
        for columns in batch.scalars:
            rows = zip(columns.wall, columns.step, columns.value, columns.position, strict=True)
            found[columns.tag] += [(float(w), int(s), float(v), int(p)) for w, s, v, p in rows]
    assert {tag: repr(rows) for tag, rows in found.items()} == {
        tag: repr([(w, s, float(v), p) for w, s, v, p in rows]) for tag, rows in points.items()
    }
    rows = [
        row
        for b in batches
        for row in zip(
            b.records.tag,
            b.records.step.tolist(),
            b.records.position.tolist(),
            b.records.index.tolist(),
            strict=True,
        )
    ]
    assert len(rows) == len(others)
    for row, other in zip(rows, others, strict=True):
        assert row[1:] == other[1:]
        assert other[0] is None or row[0] == other[0]
    assert [(s.position, s.status) for b in batches for s in b.sessions] == sessions


def write(path, list_of_events) -> list[tuple[int, bytes]]:
    """Write events as a file; return where each is and its payload."""
    records, at = [], 0
    with path.open("wb") as file:
        for event in list_of_events:
            payload = encode_event(event)
            records.append((at, payload))
            at += file.write(frame(payload))
    return records


@pytest.mark.slow
@given(st.lists(events, max_size=12), st.integers(1, 200))
def test_reader_equals_the_plain_decoder(tmp_path, found: list[Event], portion: int) -> None:
    path = tmp_path / "events.out.tfevents.1"
    records = write(path, found)
    whole = EventFile(path)
    assert_reads([whole.read()], naive(records))
    assert whole.status.records == len(records)
    if records:
        assert whole.status.torn_bytes == whole.status.skipped_bytes == whole.status.zero_bytes == 0
    portions = EventFile(path)
    assert_reads([portions.read(max_bytes=portion) for _ in range(2 * len(records) + 1)], naive(records))
    assert not portions.read()


@pytest.mark.slow
@given(
    st.lists(st.tuples(tags, bodies), min_size=1, max_size=4),
    st.lists(st.tuples(walls, st.integers(0, 300), finite32), max_size=60),
)
def test_repeated_patterns_are_read_like_the_first_time(tmp_path, kinds, numbers) -> None:
    path = tmp_path / "events.out.tfevents.1"
    found = []
    for wall, step, number in numbers:
        for tag, body in kinds:
            if "simple_value" in body:
                body = {"simple_value": number}
            elif "tensor" in body and body["tensor"].float_val:
                body = {"tensor": Tensor(1, body["tensor"].tensor_shape, float_val=[number])}
            found.append(Event(wall, step, summary=Summary([Value(tag, **body)])))
    records = write(path, found)
    assert_reads([EventFile(path).read()], naive(records))


@pytest.mark.slow
@given(st.data())
def test_following_in_any_portions_loses_nothing(tmp_path, data) -> None:
    path = tmp_path / "events.out.tfevents.1"
    records = write(path, data.draw(st.lists(events, min_size=1, max_size=8)))
    content = path.read_bytes()
    path.write_bytes(b"")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    file, batches = EventFile(path), []
    for end in [*cuts, len(content)]:
        path.write_bytes(content[:end])
        batches.append(file.read())
    assert not any(batch.replaced for batch in batches)
    assert_reads(batches, naive(records))


@pytest.mark.slow
@given(st.data())
def test_damage_costs_only_what_is_damaged(tmp_path, data) -> None:
    path = tmp_path / "events.out.tfevents.1"
    records = write(path, data.draw(st.lists(events, min_size=2, max_size=10)))
    content = bytearray(path.read_bytes())
    ends = [position for position, _ in records[1:]] + [len(content)]
    start = data.draw(st.integers(0, len(content) - 1))
    junk = data.draw(st.one_of(st.binary(min_size=1, max_size=80), st.integers(1, 80).map(bytes)))
    junk = junk[: len(content) - start]
    intact = bytes(content)
    content[start : start + len(junk)] = junk
    hit = [intact[p:e] != content[p:e] for (p, _), e in zip(records, ends, strict=True)]
    path.write_bytes(content)
    file = EventFile(path)
    batch = file.read()
    left = [record for record, is_hit in zip(records, hit, strict=True) if not is_hit]
    assert_reads([batch], naive(left))
    status = file.status
    lost = sum(
        end - position for (position, _), end, is_hit in zip(records, ends, hit, strict=True) if is_hit
    )
    assert status.skipped_bytes + status.zero_bytes + status.torn_bytes == lost
    assert lost or status.malformed or not status.problem
    assert status.problem or lost == status.torn_bytes
    # What was damaged is repaired: the rest is read, unless it was given up as broken.
    path.write_bytes(intact)
    later = file.read()
    if status.zero_bytes == lost:
        points, others, _ = naive(records)
        assert sum(map(len, points.values())) == sum(len(c) for b in (batch, later) for c in b.scalars)
        assert len(others) == len(batch.records) + len(later.records)
        assert file.status.zero_bytes == 0


plain_events = st.builds(
    lambda wall, step, tag, number: Event(wall, step, summary=Summary([Value(tag, simple_value=number)])),
    st.floats(1.6e9, 1.8e9),
    st.integers(0, 1000),
    tags,
    finite32,
)


@pytest.mark.slow
@given(st.data())
def test_holes_filled_in_any_order_lose_nothing(tmp_path, data) -> None:
    path = tmp_path / "events.out.tfevents.1"
    records = write(path, data.draw(st.lists(plain_events, min_size=4, max_size=30)))
    intact = path.read_bytes()
    page = data.draw(st.sampled_from([64, 128, 512]))
    pages = data.draw(st.permutations(range(0, len(intact), page)))
    present = data.draw(st.integers(0, len(pages)))
    content = bytearray(len(intact))
    for at in pages[:present]:
        content[at : at + page] = intact[at : at + page]
    path.write_bytes(content)
    file = EventFile(path)
    batches = [file.read()]
    for at in pages[present:]:
        content[at : at + page] = intact[at : at + page]
        path.write_bytes(content)
        batches.append(file.read())
    rows = sorted((p, c.tag) for b in batches for c in b.scalars for p in c.position.tolist())
    assert rows == sorted((row[3], tag) for tag, found in naive(records)[0].items() for row in found)
    status = file.status
    assert (status.records, status.zero_bytes, status.torn_bytes, status.problem) == (
        len(records),
        0,
        0,
        None,
    )


@given(st.lists(st.tuples(tags, finite32 | doubles, steps, st.floats(0, 2e9)), max_size=30))
def test_writer_and_reader_agree(tmp_path, rows) -> None:
    writer = EventWriter(tmp_path)
    for tag, value, step, wall in rows:
        writer.scalar(tag, value, step, wall)
    writer.scalars([(tag, value) for tag, value, _, _ in rows], 7, 1.5e9)
    writer.close()
    found = defaultdict(list)
    for columns in EventFile(writer.path).read().scalars:
        found[columns.tag] += zip(
            columns.wall.tolist(), columns.step.tolist(), columns.value.tolist(), strict=True
        )
    expected = defaultdict(list)
    for tag, value, step, wall in rows + [(tag, value, 7, 1.5e9) for tag, value, _, _ in rows]:
        expected[tag].append((wall, step, value))
    assert found.keys() == expected.keys()
    for tag, points in expected.items():
        for (wall, step, value), (found_wall, found_step, found_value) in zip(
            points, found[tag], strict=True
        ):
            assert (wall, step) == (found_wall, found_step)
            with np.errstate(over="ignore"):
                narrow = float(np.float32(value))
            wide = math.isfinite(value) and (not math.isfinite(narrow) or abs(value) < 2.0**-126)
            assert repr(found_value) == repr(value if wide else narrow)
