"""Formats are told by content; what is not a profile gets a clear answer."""

import gzip
import json
import os
import sqlite3
import zipfile
from contextlib import closing, suppress

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import EmptyTraceError, StepscopeError, TraceError
from stepscope.events import EventWriter
from stepscope.trace.formats import find_format
from stepscope.trace.model import Kind
from stepscope.trace.names import Paths, Strings
from stepscope.trace.schema import message

EVENT = {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}


def load(path):
    return ss.load_trace(path, cache=False)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b'{"schemaVersion": 1, "traceEvents": []}', "chrome"),
        (b' \n[{"ph": "X"}]', "chrome"),
        (b'{"displayTimeUnit": "ms", "x": "' + b"y" * 100_000 + b'", "traceEvents": []}', "chrome"),
        (b'[{"attr": {}, "cname": "rail", "ph": "X", "ts": 1}]', "chrome"),
        (b'[{"args": {"x": "' + b"y" * 100_000 + b'"}, "ph" : "X"}]', "chrome"),
        (b'{"metadata": {"pad": "' + b"y" * 2_000_000 + b'"}, "traceEvents": []}', "chrome"),
        (b'[{"name": "a", "value": 3}]', None),
        (b'[{"ph": 7.4, "name": "sample"}]', None),
        (b'{"pad": "' + b"y" * 100_000 + b'"}', None),
        (b'{"schema": "1.0.1", "pid": 1, "nodes": []}', "execution_trace"),
        (b'{"version": "2.9", "pg_config": {}, "entries": []}', "flight_recorder"),
        (b"\x80\x04}.", "pickle"),
        (b"SQLite format 3\0", "nsys"),
        (b'{"a": 1}', None),
        (b"[1, 2]", None),
        (b"hello", None),
        (b"", None),
        (bytes(100), None),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_formats_are_told_by_content(tmp_path, content, found, compressed):
    path = tmp_path / "any.name"
    path.write_bytes(gzip.compress(content) if compressed else content)
    format_ = find_format(path)
    assert (format_.name if format_ else None) == found


def test_a_search_ends_in_a_directory_and_not_for_a_file_that_was_named(tmp_path):
    path = tmp_path / "t.json"
    pad = "y" * 5_000_000
    path.write_text(json.dumps({"pad": pad, "more": {"pad": pad}, "traceEvents": [EVENT]}))
    assert find_format(path, most_bytes=1 << 20) is None
    assert len(load(path)) == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the profile is empty"),
        ("[]".encode("utf-16"), "found text in UTF-16, and JSON is UTF-8"),
        (b"hello world", "begins with b'hello world'"),
        (b'{"a": 1}', "not a profile of a known format"),
        (
            b'{"displayTimeUnit": "ms", "events": []}',
            r"expected an array at \$.traceEvents, got displayTimeUnit, events",
        ),
        (b'{"traceEvents": [', "found the end of the file"),
        (b'{"schemaVersion": 1, "traceEvents": []}', "holds no events"),
    ],
)
def test_what_is_no_profile(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=message) as caught:
        load(path)
    assert caught.value.path == str(path)
    assert caught.value.hint


def test_no_such_file(tmp_path):
    with pytest.raises(TraceError, match="no such profile"):
        load(tmp_path / "none.json")


def test_a_zip_archive(tmp_path):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(TraceError, match="zip archive"):
        load(path)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.99])
def test_a_truncated_gzip_is_read_as_far_as_it_goes(tmp_path, share):
    events = [{**EVENT, "name": f"n{i}", "ts": i * 7919 % 10007} for i in range(2000)]
    data = gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode())
    path = tmp_path / "cut.json.gz"
    path.write_bytes(data[: int(len(data) * share)])
    trace = load(path)
    assert 0 < len(trace) < 2000
    assert trace.dropped["cut_short"] == 1
    assert any("ends before its end marker" in note for note in trace.notes)


def test_a_gzip_cut_before_the_first_event(tmp_path):
    path = tmp_path / "cut.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": [EVENT] * 1000}).encode())[:20])
    with pytest.raises(TraceError, match=r"ends before its end marker|empty"):
        load(path)


@pytest.mark.slow
def test_every_cut_is_an_answer_and_never_a_traceback(tmp_path):
    """Whatever is cut off, there is a trace or an error of ours."""
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [], "traceEvents": [EVENT] * 3}).encode()
    path = tmp_path / "cut.json"
    for cut in range(len(text)):
        path.write_bytes(text[:cut])
        with suppress(StepscopeError):
            assert len(load(path)) <= 3


def run_metadata(start=1_700_000_000_000_000):
    run = message("RunMetadata")()
    device = run.step_stats.dev_stats.add(device=b"/job:localhost/replica:0/task:0/device:CPU:0")
    for number, (name, label) in enumerate(
        [
            ("net/MatMul", "net/MatMul = MatMul(a, b)"),
            ("RecvTensor", "[4B] [16MB/s] edge from /job:ps to /job:worker"),
        ]
    ):
        node = device.node_stats.add(
            node_name=name.encode(),
            timeline_label=label.encode(),
            all_start_micros=start + number,
            all_end_rel_micros=5,
            op_end_rel_micros=4,
        )
        output = node.output.add()
        output.tensor_description.allocation_description.requested_bytes = 4
        if name != "RecvTensor":  # whose tensor TensorFlow does not describe
            output.tensor_description.dtype = 1
            for size in (8, -1):
                output.tensor_description.shape.dim.add(size=size)
            other = node.output.add(slot=1)
            other.tensor_description.dtype = 9
            other.tensor_description.shape.unknown_rank = True
        memory = node.memory.add(allocator_name=b"cpu")
        memory.allocation_records.add(alloc_micros=start + 2, alloc_bytes=64)
    return run.SerializeToString()


def test_run_metadata_from_a_file_and_from_event_files(tmp_path):
    path = tmp_path / "run_metadata_step3.pb"
    path.write_bytes(run_metadata())
    trace = load(path)
    assert (trace.format, trace.steps.number.tolist()) == ("step_stats", [3])
    assert [(trace.name_of(r), trace.scopes.text(int(trace.scope[r]))) for r in range(2)] == [
        ("MatMul", "net/MatMul"),
        ("RecvTensor", "RecvTensor"),
    ]
    assert trace.lane.tolist() == [0, 1]  # they overlap in time, so they are on two rows
    assert trace.bytes.tolist() == [-1, 4]
    assert trace.operators.row.tolist() == [0]
    assert trace.strings[int(trace.operators.outputs[0])] == '["float[8,?]", "int64[?]"]'
    assert trace.memory.bytes.tolist() == [64, 64]
    assert trace.duration_ns.tolist() == [5000, 5000]
    writer = EventWriter(tmp_path / "logs")
    from stepscope.events import Event, TaggedRunMetadata

    writer.scalar("loss", 1.0, 1, 1.0)
    for step in (400, 800):
        tagged = TaggedRunMetadata(
            tag=f"step_{step}", run_metadata=run_metadata(1_700_000_000_000_000 + step)
        )
        writer.event(Event(wall_time=1.0, step=step, tagged_run_metadata=tagged))
    writer.close()
    trace = load(writer.path)
    assert trace.steps.number.tolist() == [400, 800]
    assert (trace.step.tolist(), trace.start_ns.tolist()) == (
        [400, 800, 400, 800],
        [0, 400_000, 1000, 401_000],
    )


def gpu_run_metadata(*, streams=True, everything=True):
    """Write two kernels of 1 and 2 ms and a copy of 0.5 ms as TensorFlow 1's tracer of GPUs does."""
    run = pytest.importorskip("tensorboard.compat.proto.config_pb2").RunMetadata()
    kernels, copies = [("a", 0, 1000), ("b", 1000, 2000)], [("c", 3000, 500)]
    devices = {"/job:localhost/replica:0/task:0/device:GPU:0": [("a", 0, 100), ("b", 100, 100)]}
    if everything:
        devices |= {"/device:GPU:0/stream:all": kernels, "/device:GPU:0/memcpy": copies}
    if streams:
        devices |= {"/device:GPU:0/stream:13": kernels, "/device:GPU:0/stream:14": copies}
    for name, nodes in devices.items():
        device = run.step_stats.dev_stats.add(device=name)
        for node, start, length in nodes:
            device.node_stats.add(
                node_name=node, timeline_label=f"{node}:Conv2D", all_start_micros=1000 + start,
                op_end_rel_micros=length, all_end_rel_micros=length,
            )  # fmt: skip
    return run.SerializeToString()


@pytest.mark.parametrize(
    ("options", "streams"), [({}, {13, 14}), ({"everything": False}, {13, 14}), ({"streams": False}, {-1})]
)
def test_work_that_tensorflow_1_writes_several_times_counts_once(tmp_path, options, streams):
    path = tmp_path / "run_metadata_step3.pb"
    path.write_bytes(gpu_run_metadata(**options))
    trace = load(path)
    device = np.flatnonzero(trace.device >= 0)
    assert int(trace.duration_ns[device].sum()) == 3_500_000
    kinds = {trace.scopes.text(int(trace.scope[row])): Kind(trace.kind[row]).name for row in device}
    copied = "KERNEL" if options == {"everything": False} else "MEMCPY"  # nothing else says that c is a copy
    assert kinds == {"a": "KERNEL", "b": "KERNEL", "c": copied}
    assert {trace.lanes[lane].stream for lane in trace.lane[device]} == streams
    assert len([lane for lane in trace.lanes if lane.device >= 0]) == len(set(trace.lane[device].tolist()))


def test_an_event_file_without_profiles(tmp_path):
    writer = EventWriter(tmp_path)
    writer.scalar("loss", 1.0, 1, 1.0)
    writer.close()
    with pytest.raises(EmptyTraceError, match="no RunMetadata in it"):
        load(writer.path)


def test_empty_run_metadata(tmp_path):
    path = tmp_path / "x.pb"
    run = message("RunMetadata")()
    run.step_stats.dev_stats.add(device=b"/device:CPU:0")
    path.write_bytes(run.SerializeToString())
    with pytest.raises(EmptyTraceError, match="no executed nodes"):
        load(path)


def test_strings():
    strings = Strings.of(["a", "", "é\u20ac", "b"])
    assert strings.texts() == ["a", "", "é\u20ac", "b"]
    fresh = Strings(strings.data, strings.ends)
    assert (fresh[2], fresh[0], fresh[-1], len(fresh)) == ("é\u20ac", "a", "", 4)
    assert (fresh.find("b"), fresh.find("none"), list(fresh)) == (3, -1, strings.texts())
    assert len(Strings.of([])) == 0


def test_paths():
    paths, numbers = Paths.of([["a", "b"], ["a"], [], ["a", "b", "c"], ["b"]])
    assert numbers.tolist() == [1, 0, -1, 2, 3]
    assert paths.texts() == ["a", "a/b", "a/b/c", "b"]
    assert paths.parts(2) == ["a", "b", "c"]
    assert (paths.text(-1), paths.depths().tolist()) == ("", [1, 2, 3, 1])
    assert (paths.parent < np.arange(4)).all()


def test_damage_that_no_importer_foresaw_is_still_an_answer(tmp_path):
    """A time that fits no column, in a format that is read with Python's integers."""
    path = tmp_path / "dump.json"
    entry = {"profiling_name": "nccl:all_reduce", "time_created_ns": 10**30}
    path.write_text(json.dumps({"version": "2.9", "pg_config": {}, "entries": [entry]}))
    with pytest.raises(TraceError, match="damaged, or of a kind that cannot be read yet: OverflowError"):
        load(path)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_is_an_answer(tmp_path, seed):
    """Bytes changed, lost and put in anywhere: a trace or an error of ours, never another exception."""
    random = np.random.default_rng(seed)
    events = [
        {**EVENT, "name": f"n{i}", "ts": i, "args": {"correlation": i, "Input Dims": [[i]]}}
        for i in range(30)
    ]
    for source in (json.dumps({"schemaVersion": 1, "traceEvents": events}).encode(), run_metadata()):
        data = bytearray(source)
        for _ in range(int(random.integers(1, 12))):
            at = int(random.integers(len(data)))
            kind = random.integers(3)
            if kind == 0:
                data[at] = int(random.integers(256))
            elif kind == 1:
                del data[at : at + int(random.integers(1, 30))]
            else:
                data[at:at] = bytes(random.choice(list(b'{}[]",:\\e-0'), 3).tolist())
        path = tmp_path / "damaged"
        path.write_bytes(bytes(data))
        with suppress(StepscopeError):
            load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in its file system")
def test_a_pipe_is_refused_at_once(tmp_path):
    """Opening one that nobody writes to would wait for ever."""
    os.mkfifo(tmp_path / "trace.json")
    with pytest.raises(TraceError, match="not a regular file"):
        ss.load_trace(tmp_path / "trace.json", cache=False)


@pytest.mark.parametrize(
    "start", [b'{"pg_config": {}, "entries": ', b'{"schema": "1.0", "nodes": ', b'{"traceEvents": ']
)
def test_json_nested_without_end(tmp_path, start):
    path = tmp_path / "trace.json"
    path.write_bytes(start + b"[" * 200_000)
    with pytest.raises(TraceError):
        ss.load_trace(path, cache=False)


def test_a_view_in_a_database_is_not_run(tmp_path):
    """One that calls itself has no end."""
    path = tmp_path / "report.sqlite"
    with closing(sqlite3.connect(path)) as database:
        database.execute(
            "create view CUPTI_ACTIVITY_KIND_KERNEL as with recursive n(start) as "
            "(select 1 union all select start + 1 from n) select start, start as end from n"
        )
    with pytest.raises(TraceError, match="not an export of Nsight Systems"):
        ss.load_trace(path, cache=False)
