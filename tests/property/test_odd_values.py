"""Values of every plugin, type and shape: each is read as what it is, or left out and counted."""

import itertools
import math
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.records import write_events

import stepscope as ss
from stepscope.events.messages import (
    Audio,
    Event,
    Histogram,
    Image,
    Metadata,
    Shape,
    Summary,
    Tensor,
    Value,
)
from stepscope.serve.records.answers import blobs_of, value_of

PLUGINS = (
    "scalars", "histograms", "images", "audio", "text", "pr_curves", "mesh", "hparams", "custom_scalars",
    "graphs", "graph_keras_model", "graph_run_metadata", "graph_tagged_run_metadata", "tensor", "stepscope",
    "stepscope_table", "stepscope_embedding", "stepscope_video", "made up", "",
)  # fmt: skip
TYPES = (0, 1, 2, 3, 7, 8, 10, 14, 19, 20, 23, 99, -1)
SHAPES = (
    None, (), (0,), (1,), (3,), (2, 3), (3, 2), (0, 3), (6, 4), (1, 2, 3), (2, 3, 3), (1,) * 70, (-1, 3),
    (1 << 40, 3), (6, 1 << 40), (1 << 40, 1, 3), (0, 1 << 62, 3), (1 << 62, 1 << 62),
)  # fmt: skip
DEEP = b"[" * 2_000
LISTS = (
    {}, {"tensor_content": b"abc"}, {"tensor_content": struct.pack("<6d", *range(6))}, {"float_val": [0.5]},
    {"double_val": [1.0, math.nan, 2.0]}, {"int_val": [-1, 7]}, {"int64_val": [1 << 62]},
    {"bool_val": [True]}, {"half_val": [1, 70000]}, {"uint32_val": [4]}, {"uint64_val": [1 << 63]},
    {"scomplex_val": [1.0, 2.0, 3.0]}, {"dcomplex_val": [1.0, 2.0]}, {"string_val": [b"x"]},
    {"string_val": [b"1" * 5000, b"-2", b"\x89PNG"]},
    {"string_val": [b"4", b"5", b"\xff\xd8\xff"]}, {"string_val": [DEEP]}, {"string_val": [b"\xff\xfe"]},
    {"string_val": [b'{"columns": 3, "rows": [[1]]}']}, {"resource_handle_val": [b"x"]},
)  # fmt: skip


def tensor(kind, shape, lists):
    return Tensor(kind, None if shape is None else Shape.of(*shape), **lists)


def write(directory, values):
    events = [Event(1.0 + step, step, summary=Summary([value])) for step, value in enumerate(values)]
    write_events(directory, events)


def looked_at(directory):
    """Number of points, of other values, and of what was counted; every value is read and made an answer."""
    with ss.open(directory, cache=False) as log:
        run = log.run(".")
        points = sum(len(series) for tag in run.tags() for series in run.columns(tag))
        assert len(log.frame()) == points
        others = 0
        for record in run.records():
            for series in run.record(record.tag):
                for at in range(len(series)):
                    blobs_of(series[at])
                    answer = value_of(series, at, at)
                    assert getattr(answer, "error", None) is None, (record, answer)
                    others += 1
        assert isinstance(run.info.config, dict)
        assert isinstance(run.experiment, dict)
        assert run.findings == []
        counted = {problem.kind: problem.count for problem in run.problems}
        assert set(counted) <= {"malformed", "undecodable"}, counted
        return points, others, sum(counted.values())


@pytest.mark.slow
@pytest.mark.parametrize("plugin", PLUGINS)
def test_no_value_of_any_type_and_shape_raises_and_none_is_lost(plugin, tmp_path):
    bodies = [tensor(*each) for each in itertools.product(TYPES, SHAPES, LISTS)]
    values = [Value(f"t{at}", tensor=body, metadata=Metadata.of(plugin)) for at, body in enumerate(bodies)]
    assert len(values) > 4_000
    write(tmp_path, values)
    points, others, counted = looked_at(tmp_path)
    assert points + others + counted == len(values)
    assert counted or plugin == "hparams"  # these stand in the metadata
    if plugin in ("scalars", "histograms", "pr_curves", "mesh"):
        assert counted > len(values) / 2


metadata = st.builds(
    Metadata.of, st.sampled_from(PLUGINS), st.binary(max_size=12) | st.just(b"\x1a\x02\x0a\x01")
)
bodies = st.one_of(
    st.builds(tensor, st.sampled_from(TYPES), st.sampled_from(SHAPES), st.sampled_from(LISTS)).map(
        lambda body: {"tensor": body}
    ),
    st.just({}),
    st.just({"simple_value": 1.0}),
    st.builds(lambda data: {"image": Image(3, 3, 3, data)}, st.binary(max_size=9)),
    st.builds(lambda data: {"audio": Audio(1.0, 1, 1, data, "x")}, st.binary(max_size=9)),
    st.builds(
        lambda limits, counts: {"histo": Histogram(0, 1, 1, 1, 1, limits, counts)},
        st.lists(st.floats(), max_size=2),
        st.lists(st.floats(), max_size=2),
    ),
)
several = st.lists(
    st.tuples(st.sampled_from(["a", "b", "=c", "stepscope/run", "_hparams_/experiment"]), metadata, bodies),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow
@settings(
    deadline=None,
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(several)
def test_plugins_that_do_not_go_with_their_values(tmp_path, found):
    values = [Value(tag, metadata=about, **body) for tag, about, body in found]
    write(tmp_path, values)
    assert sum(looked_at(tmp_path)) == len(values)


def test_a_damaged_tensor_after_whole_ones_is_counted(tmp_path):
    """What begins as the tensors before it is not looked at again: that is enough only for whole ones."""
    about = Metadata.of("histograms")
    whole = Tensor(2, Shape.of(2, 3), tensor_content=struct.pack("<6d", 0, 1, 2, 1, 2, 3))
    short = Tensor(2, Shape.of(2, 3), tensor_content=struct.pack("<7d", *range(7)))
    other = Tensor(2, Shape.of(3, 2), tensor_content=whole.tensor_content)
    tensors = [whole, short, whole, other, Tensor(7, Shape.of(2, 3), string_val=[b"x"]), whole]
    write(tmp_path, [Value("h", tensor=each, metadata=about) for each in tensors])
    assert looked_at(tmp_path) == (0, 3, 3)
    with ss.open(tmp_path, cache=False) as log:
        assert log.run(".").record("h")[0].step.tolist() == [0, 2, 5]
