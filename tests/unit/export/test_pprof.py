"""pprof profiles, read back with protobuf and profile.proto's field numbers."""

import gzip
from pathlib import Path
from types import SimpleNamespace

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from stepscope.analyze.options import ViewOptions
from stepscope.analyze.tfprof.report import profile
from stepscope.analyze.views import view
from stepscope.errors import UsageError
from stepscope.export.pprof import StackEntry, StackSample, encode, write_pprof
from stepscope.trace.model import Kind
from stepscope.trace.tfprof import Execution, Profile, ProfileNode

# https://github.com/google/pprof/blob/main/proto/profile.proto
PROTO = """
Profile: sample_type 1 *ValueType, sample 2 *Sample, mapping 3 *Mapping, location 4 *Location,
  function 5 *Function, string_table 6 *string, drop_frames 7 int64, keep_frames 8 int64, time_nanos 9 int64,
  duration_nanos 10 int64, period_type 11 ValueType, period 12 int64, comment 13 *int64,
  default_sample_type 14 int64
ValueType: type 1 int64, unit 2 int64
Sample: location_id 1 *uint64, value 2 *int64, label 3 *Label
Label: key 1 int64, str 2 int64, num 3 int64, num_unit 4 int64
Mapping: id 1 uint64
Location: id 1 uint64, mapping_id 2 uint64, address 3 uint64, line 4 *Line, is_folded 5 bool
Line: function_id 1 uint64, line 2 int64
Function: id 1 uint64, name 2 int64, system_name 3 int64, filename 4 int64, start_line 5 int64
""".replace("\n  ", " ")
TYPES = {"int64": 3, "uint64": 4, "bool": 8, "string": 9}


@pytest.fixture(scope="module")
def message():
    file = descriptor_pb2.FileDescriptorProto(
        name="profile.proto", package="perftools.profiles", syntax="proto3"
    )
    for line in filter(None, PROTO.splitlines()):
        name, fields = line.split(":")
        declared = file.message_type.add(name=name)
        for part in fields.split(","):
            field, number, kind = part.split()
            base = kind.lstrip("*")
            added = declared.field.add(name=field, number=int(number), label=3 if kind[0] == "*" else 1)
            added.type = TYPES.get(base, 11)
            if base not in TYPES:
                added.type_name = f".perftools.profiles.{base}"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("perftools.profiles.Profile"))


def read(message, raw: bytes) -> SimpleNamespace:
    """Decode, hold what pprof's own checks hold, and name everything."""
    decoded = message.FromString(raw)
    texts = decoded.string_table
    assert texts[0] == ""
    functions = {one.id: one for one in decoded.function}
    locations = {one.id: one for one in decoded.location}
    assert 0 not in functions
    assert 0 not in locations
    assert len(functions) == len(decoded.function)
    assert len(locations) == len(decoded.location)
    samples = []
    for sample in decoded.sample:
        assert len(sample.value) == len(decoded.sample_type)
        lines = [locations[number].line[0] for number in sample.location_id]
        stack = [(texts[functions[line.function_id].name], line.line) for line in lines]
        samples.append((stack, list(sample.value)))
    kinds = [(texts[kind.type], texts[kind.unit]) for kind in decoded.sample_type]
    return SimpleNamespace(
        kinds=kinds, samples=samples, comments=[texts[number] for number in decoded.comment],
        default=texts[decoded.default_sample_type], files={texts[one.filename] for one in decoded.function},
    )  # fmt: skip


def cumulative(samples, name: str, value: int) -> int:
    return sum(values[value] for stack, values in samples if name in [frame for frame, _ in stack])


@pytest.fixture
def source() -> Profile:
    device = "/device:cpu:0"
    nodes = [
        ProfileNode(
            name, op=op, types={op}, executions={0: Execution(1, 10, 10 + t, cpu={device: [(10, t)]})}
        )
        for name, op, t in (("a", "MatMul", 1), ("a/b", "Add", 2), ("c", "Add", 4))
    ]
    return Profile(nodes={node.name: node for node in nodes}, steps=[0])


def test_cumulative_values_are_the_views_totals(message, source: Profile, tmp_path: Path) -> None:
    report = profile("scope", source, ViewOptions(select=("micros", "bytes")))
    write_pprof(report, tmp_path / "scope.pb.gz")
    found = read(message, gzip.decompress((tmp_path / "scope.pb.gz").read_bytes()))
    assert found.kinds == [("count", "count"), ("micros", "microseconds"), ("bytes", "bytes")]
    assert cumulative(found.samples, "a", 1) == 3
    assert cumulative(found.samples, "c", 1) == 4
    assert sum(values[1] for _, values in found.samples) == 7
    assert found.comments == ["tfprof scope view"]


def test_what_is_hidden_stays_in_the_sums(message, source: Profile, tmp_path: Path) -> None:
    write_pprof(profile("scope", source, ViewOptions(hide_name_regexes=("a/b",))), tmp_path / "p")
    assert cumulative(read(message, gzip.decompress((tmp_path / "p").read_bytes())).samples, "a", 1) == 3


def test_running_sums_of_the_op_view_are_not_summed_again(message, source: Profile, tmp_path: Path) -> None:
    write_pprof(profile("op", source, ViewOptions(order_by="micros")), tmp_path / "p")
    found = read(message, gzip.decompress((tmp_path / "p").read_bytes()))
    assert [(stack[0][0], values[1]) for stack, values in found.samples] == [("Add", 6), ("MatMul", 1)]


@pytest.mark.parametrize("name", ["scope", "graph", "op", "kernel"])
def test_views_of_a_trace(message, make: SimpleNamespace, tmp_path: Path, name: str) -> None:
    event = make.event
    trace = make.build(
        [
            event("linear", Kind.HOST_OP, 0, 100, scope="net"),
            event("mm", Kind.HOST_OP, 10, 50, scope="net"),
            event("cudaLaunchKernel", Kind.RUNTIME_CALL, 20, 10, correlation=1, scope="net"),
            event("gemm", Kind.KERNEL, 200, 70, lane="gpu", device=0, stream=7, correlation=1, scope="net"),
        ]
    )
    answer = view(name, trace)
    write_pprof(answer, tmp_path / "p")
    found = read(message, gzip.decompress((tmp_path / "p").read_bytes()))
    assert ("device", "nanoseconds") in found.kinds
    place = found.kinds.index(("device", "nanoseconds"))
    assert sum(values[place] for _, values in found.samples) == 70
    for index, line in enumerate(answer.lines):
        column = next(c for c in answer.columns if c.key in ("device_total_ns", "device_ns"))
        assert cumulative(found.samples, line.name, place) == column.values[index]


def test_secrets_do_not_leave(message, make: SimpleNamespace, tmp_path: Path) -> None:
    trace = make.build([make.event("load /home/ann/data?token=abcdef123456", Kind.HOST_OP, 0, 10)])
    write_pprof(view("op", trace), tmp_path / "p")
    raw = gzip.decompress((tmp_path / "p").read_bytes())
    assert b"ann" not in raw
    assert b"abcdef123456" not in raw


def test_a_line_of_python_is_a_place(message) -> None:
    raw = encode([("n", "count")], [StackSample((StackEntry("train:main", "train.py", 12),), (3,))])
    found = read(message, raw)
    assert found.samples == [([("train:main", 12)], [3])]
    assert found.files == {"train.py"}


def test_something_countable_must_be_selected(source: Profile, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="pprof needs a number, not device"):
        write_pprof(profile("scope", source, ViewOptions(select=("device",))), tmp_path / "p")


def test_a_place_that_cannot_be_written_is_said(source: Profile, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write the profile"):
        write_pprof(profile("scope", source), tmp_path / "no" / "p")


values = st.integers(-(2**63), 2**63 - 1)
places = st.builds(StackEntry, st.text(max_size=5), st.text(max_size=5), st.integers(0, 2**31))


@given(st.lists(st.tuples(st.lists(places, min_size=1, max_size=4), values), max_size=6))
def test_everything_encoded_comes_back(message, drawn) -> None:
    samples = [StackSample(tuple(stack), (value,)) for stack, value in drawn]
    found = read(message, encode([("n", "count")], samples))
    assert found.samples == [
        ([(place.name, place.line) for place in stack], [value]) for stack, value in drawn
    ]
