import importlib.util
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from stepscope.integrations.torch import device, measure
from stepscope.record.edges import BUCKETS
from stepscope.record.statistics.table import StatisticsTable

INTERPRETED = """
import numpy as np
import torch
from stepscope.integrations.torch import device, fused
from stepscope.record.edges import BUCKETS, counts
fused.STRETCH = 4 * fused.BLOCK
assert device.is_right(fused.measure, torch.device("cpu"))
wide = [torch.tensor([1e300, -1e300, 2.0, float("inf")], dtype=torch.float64)]
assert torch.equal(device.by_torch(wide, True)[1], fused.measure(wide, True)[1])
random = torch.Generator().manual_seed(1)
some = torch.randn(20_003, generator=random) * torch.randn(20_003, generator=random).mul(4).exp()
some = [some, some.bfloat16(), some.half().clamp(-6e4, 6e4), some.double()]
moments, found = fused.measure(some, True)
for row, each in enumerate(some):
    array = each.float().numpy() if each.element_size() == 2 else each.numpy()
    exact = array.astype(np.float64)
    assert found[row, :BUCKETS].tolist() == counts(array).tolist()
    truth = [exact.size, exact.sum(), exact @ exact, (exact == 0).sum(), 0, exact.min(), exact.max()]
    np.testing.assert_allclose(moments[row].numpy(), truth, rtol=1e-12, atol=1e-9 * np.abs(exact).sum())
"""


def tensors():
    generator = torch.Generator().manual_seed(0)
    wide = torch.randn(30_011, generator=generator) * torch.randn(30_011, generator=generator).mul(5).exp()
    special = torch.tensor([0.0, -0.0, 1e-45, 3e38, float("inf"), -float("inf"), float("nan")])
    return [
        wide,
        wide.bfloat16(),
        wide.half().clamp(-6e4, 6e4),
        wide.double(),
        special,
        special[:0],
        special[4:6],
    ]


def by_kernel(some):
    table = StatisticsTable(len(some), histograms=True)
    measure.measure(table, list(enumerate(some)))
    return table


def test_torchs_operations_give_what_the_compiled_loop_gives(monkeypatch):
    monkeypatch.setattr(device, "STRETCH", 10_000)
    expected = by_kernel(tensors())
    found = StatisticsTable(len(expected), histograms=True)
    device.measure(found, torch.device("cpu"), list(enumerate(tensors())), False)()
    np.testing.assert_array_equal(found.counts[:, :BUCKETS], expected.counts[:, :BUCKETS])
    exact = [0, 3, 4, 5, 6]
    np.testing.assert_array_equal(found.moments[:, exact], expected.moments[:, exact])
    np.testing.assert_allclose(found.moments[:, 1:3], expected.moments[:, 1:3], rtol=1e-9)


def test_squares_alone():
    some = [torch.randn(1000), torch.zeros(0), torch.tensor([float("nan")]), torch.randn(10).bfloat16()]
    found, expected = StatisticsTable(4), by_kernel(some)
    device.measure(found, torch.device("cpu"), list(enumerate(some)), True)()
    np.testing.assert_allclose(found.moments[:, [0, 2, 4]], expected.moments[:, [0, 2, 4]], rtol=1e-6)


def test_a_wrong_kernel_is_found_out():
    def wrong(some, histograms):
        moments, counts = device.by_torch(some, histograms)
        counts[0, 3] += 1
        return moments, counts

    def off(some, histograms):
        moments, counts = device.by_torch(some, histograms)
        moments[1, 2] *= 1.00001
        return moments, counts

    here = torch.device("cpu")
    assert device.is_right(device.by_torch, here)
    assert not device.is_right(wrong, here)
    assert not device.is_right(off, here)


def test_no_kernel_is_looked_for_where_triton_has_none():
    assert device.fused_kernel(torch.device("cpu")) is None


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_fused_kernel_is_right_in_tritons_interpreter():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", INTERPRETED], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_divide_the_work_exactly(monkeypatch, threads):
    some = [torch.randn(n) for n in (10, 70_000, 1, 0, 40_000)] + [torch.randn(30_000).bfloat16()]
    expected = by_kernel(some)
    monkeypatch.setattr(measure, "WORTH_A_THREAD", 1000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    found = by_kernel(some)
    np.testing.assert_array_equal(found.counts, expected.counts)
    np.testing.assert_allclose(found.moments, expected.moments, rtol=1e-12)


def test_layouts_of_memory():
    base = torch.randn(6, 4, 3, 5)
    for tensor in (
        base,
        base.transpose(0, 2),
        base.to(memory_format=torch.channels_last),
        base[::2],
        base[:, 1:, ::2],
    ):
        table = by_kernel([tensor])
        assert table.moments[0, 0] == tensor.numel()
        assert table.moments[0, 1] == pytest.approx(float(tensor.double().sum()))
        parts = [measure.stretch(tensor, at, 3) for at in range(3)]
        assert torch.equal(torch.cat(parts), tensor.reshape(-1))
    assert by_kernel([torch.ones(3).expand(5, 3)]).moments[0, 1] == 15


def test_sparse_complex_and_narrow_tensors():
    dense = torch.zeros(5, 4)
    dense[1], dense[3, 0] = 2, -1
    rows = torch.sparse_coo_tensor(
        torch.tensor([[1, 3, 1]]),
        torch.tensor([[1.0, 1, 1, 1], [-1, 0, 0, 0], [1, 1, 1, 1]]),
        (5, 4),
        check_invariants=True,
    )
    table, expected = by_kernel([rows]), by_kernel([dense])
    np.testing.assert_array_equal(table.moments, expected.moments)
    np.testing.assert_array_equal(table.counts, expected.counts)
    total = sum(by_kernel([measure.stretch(rows, at, 3)]).moments[0, :5] for at in range(3))
    np.testing.assert_array_equal(total, expected.moments[0, :5])
    numbers = torch.tensor([3 + 4j, 0j])
    assert by_kernel([numbers]).moments[0].tolist() == [4, 7, 25, 2, 0, 0, 4]
    assert by_kernel([numbers.conj()]).moments[0, 1] == -1
    assert by_kernel([torch.ones(3).to(torch.float8_e4m3fn)]).moments[0, 1] == 3
