"""The operator table against PyTorch's own averages of the same profile."""

from collections import Counter

import pytest

from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.memory import memory
from stepscope.analyze.operators import operator_table
from stepscope.analyze.shapes import shape_table
from stepscope.trace.load import load_trace

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Train two layers for three steps; give PyTorch's averages and our trace."""
    from torch.profiler import ProfilerActivity, profile, schedule

    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.utils.data.TensorDataset(torch.randn(80, 64))
    path = tmp_path_factory.mktemp("torch") / "trace.json"
    averages = []

    def ready(profiler):
        profiler.export_chrome_trace(str(path))
        averages.extend(profiler.key_averages())

    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=3),
        on_trace_ready=ready, profile_memory=True, record_shapes=True, acc_events=True,
    ) as profiler:  # fmt: skip
        for (batch,) in torch.utils.data.DataLoader(data, batch_size=16):
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
            profiler.step()
    return averages, load_trace(path, cache=False)


def test_host_times_are_pytorchs(recorded):
    averages, trace = recorded
    theirs = {row.key: row for row in averages}
    table = operator_table(trace)
    assert {"aten::addmm", "aten::mm", "aten::linear"} <= {row.name for row in table}
    for row in table:
        other = theirs[row.name]
        # PyTorch takes an operator that only calls its own name again for one call.
        assert row.calls >= other.count
        # The trace rounds each time to a nanosecond, PyTorch's averages are of the unrounded ones.
        tolerance = 0.002 * row.calls + 0.01
        assert row.host_self_ns / 1000 == pytest.approx(other.self_cpu_time_total, abs=tolerance)
        assert row.host_total_ns / 1000 == pytest.approx(other.cpu_time_total, abs=tolerance)


def test_each_step_has_its_phases(recorded):
    _, trace = recorded
    steps = breakdown(trace).steps
    assert len(steps) == 3
    for step in steps:
        for part in ("forward", "backward", "optimizer"):
            assert step.parts_ns[part] > 0
    assert any(step.parts_ns["data_loading"] for step in steps)


def test_per_step_numbers_state_their_denominator(recorded):
    _, trace = recorded
    row = next(row for row in operator_table(trace) if row.name == "aten::addmm")
    assert (row.host_per_step.steps, row.host_per_step.of_steps) == (3, 3)
    assert row.host_per_step.min_ns <= row.host_per_step.median_ns <= row.host_per_step.max_ns


def test_memory_of_the_host(recorded):
    _, trace = recorded
    (host,) = memory(trace)
    assert host.device == -1
    assert host.peak.bytes > 0
    assert host.peak.by_phase


def test_operations_are_those_of_pytorchs_counter(tmp_path):
    """Convolutions and products, forward and backward, strided, dilated, padded and transposed.

    Not grouped: PyTorch counts the gradient of a grouped convolution's weight as if it were not grouped.
    """
    from torch.profiler import ProfilerActivity, profile
    from torch.utils.flop_counter import FlopCounterMode

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.one = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
            self.two = torch.nn.Conv2d(8, 16, 3, dilation=2)
            self.up = torch.nn.ConvTranspose2d(16, 8, 2, stride=2)
            self.out = torch.nn.Linear(8, 32)

        def forward(self, image):
            image = self.up(self.two(self.one(image)).relu())
            tokens = self.out(image.flatten(2).transpose(1, 2))[:, None]
            mixed = torch.nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)
            return (mixed @ mixed.transpose(-1, -2)).mean()

    model, image = Model(), torch.randn(2, 3, 20, 20)
    model(image).backward()  # the first call also sets threads and memory up
    with FlopCounterMode(display=False) as counter:
        model(image).backward()
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, acc_events=True) as profiler:
        model(image).backward()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    found = shape_table(load_trace(tmp_path / "trace.json", cache=False))
    theirs = {str(op): flops for op, flops in counter.get_flop_counts()["Global"].items()}
    mine = Counter()
    for row in found.rows:
        mine[row.name.removeprefix("aten::")] += row.calls * row.flops
    for name in ("convolution", "convolution_backward", "addmm", "mm", "bmm"):
        if f"aten.{name}" in theirs:
            assert mine[name] == theirs[f"aten.{name}"], name
    assert found.peak is None
    assert found.counted_ratio is None
    assert found.steps[0].utilisation_ratio is None
