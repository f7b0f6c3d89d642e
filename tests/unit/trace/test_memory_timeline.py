"""PyTorch's memory timelines, as torch itself writes them and by hand."""

import gzip
import json

import numpy as np
import pytest

import stepscope as ss
from stepscope.analyze.memory import memory, memory_series
from stepscope.analyze.views.memory import memory_report
from stepscope.errors import EmptyTraceError, TraceError

PARAMETER, STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD, UNKNOWN = range(8)
BEFORE, MADE, WRITTEN, FREED = range(1, 5)
T = 1_771_595_639_000_000_000


def load(tmp_path, content, name="memory.raw.json.gz"):
    path = tmp_path / name
    data = json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    return ss.load_trace(path, cache=False)


STEP = [
    [-1, BEFORE, 1000, PARAMETER],
    [T + 10, MADE, 200, ACTIVATION],
    [T + 20, MADE, 300, GRADIENT],
    [T + 30, FREED, -200, ACTIVATION],
    [T + 40, WRITTEN, -300, GRADIENT],
    [T + 40, WRITTEN, 300, STATE],
]


def test_levels_and_what_was_there_before(tmp_path):
    trace = load(tmp_path, STEP)
    [device] = memory(trace)
    assert (trace.format, trace.clock, trace.origin_ns) == ("memory_timeline", "unix", T + 10)
    assert (device.baseline_bytes, device.peak.bytes, device.peak.before_bytes) == (1000, 1500, 1000)
    series = memory_series(trace, np.arange(len(trace.memory)))
    assert series.allocated_bytes.tolist() == [1000, 1200, 1500, 1300, 1000, 1300]


def test_what_holds_the_peak_is_as_the_recorder_says(tmp_path):
    [device] = memory(load(tmp_path, STEP))
    assert {each.name: each.bytes for each in device.peak.by_category} == {"activation": 200, "gradient": 300}
    assert "held at the peak, by category, as recorded" in memory_report(load(tmp_path, STEP)).text


def test_sizes_by_category_are_a_level_alone(tmp_path):
    times = [1_771_595_639_000_000, 1_771_595_639_000_500]
    trace = load(
        tmp_path, [times, [[0, 1000, 0, 0, 0, 0, 0, 0, 5], [0, 1000, 0, 0, 0, 70, 0, 0, 0]]], "m.json"
    )
    [device] = memory(trace)
    assert (device.peak.bytes, device.peak.before_bytes, device.peak.by_category) == (1070, None, None)
    text = memory_report(trace).text
    assert "as derived" not in text
    assert "matched by size" not in text


def test_torch_writes_what_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(64, 32)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        record_shapes=True,
        with_stack=True,
    ) as profiler:
        model(torch.ones(8, 64)).sum().backward()
    raw, sizes = tmp_path / "memory.raw.json.gz", tmp_path / "memory.json"
    for path in (raw, sizes):
        with pytest.warns(FutureWarning):
            profiler.export_memory_timeline(str(path), device="cpu")
    events, levels = (ss.load_trace(path, cache=False) for path in (raw, sizes))
    [mine], [other] = memory(events), memory(levels)
    assert mine.baseline_bytes == 4 * (64 * 32 + 32)
    assert mine.peak.bytes == other.peak.bytes > mine.baseline_bytes
    assert {each.name for each in mine.peak.by_category} >= {"gradient"}


def test_it_is_said_that_the_device_is_not_known(tmp_path):
    trace = load(tmp_path, STEP)
    assert trace.notes == ("the file does not say which device it describes; it is shown as device 0",)
    assert set(trace.recorded) == {"memory"}
    assert "export_chrome_trace" in trace.not_recorded["timeline"]


@pytest.mark.parametrize(
    "content",
    [
        [[1000, 2, 5, 0], [1, 9, 5, 0]],
        [[1000, 2, 5, 0], [1, 2, 5, 9]],
        [[1000, 2, 5, 0], [1, 2]],
        [[1000, 2, 5, 0], 7],
    ],
)
def test_what_only_begins_like_one_is_refused(tmp_path, content):
    with pytest.raises(TraceError, match="not a memory timeline"):
        load(tmp_path, content)


def test_no_change_at_all(tmp_path):
    with pytest.raises(EmptyTraceError, match="holds no allocation"):
        load(tmp_path, [[1000, 2, 0, 0]])
