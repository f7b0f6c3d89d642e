"""Overlap, idleness, launches and input: what devices did and why they did nothing."""

from __future__ import annotations

import pytest

from stepscope.analyze.idle import idle
from stepscope.analyze.input import input_waits
from stepscope.analyze.launch import launches, queue_series, synchronizing_calls
from stepscope.analyze.overlap import blocking, overlap, overlap_by_step
from stepscope.errors import EmptyTraceError


def device_events(make, *, offset=0):
    e, K = make.event, make.Kind
    return [
        e("gemm", K.KERNEL, offset + 0, 40, device=0, stream=1),
        e("nccl", K.COLLECTIVE, offset + 30, 30, device=0, stream=2),
        e("copy", K.MEMCPY, offset + 50, 20, device=0, stream=3),
        e("gemm", K.KERNEL, offset + 90, 10, device=0, stream=1),
    ]


def test_overlap(make):
    (found,) = overlap(make.build(device_events(make, offset=500)))
    assert (found.start_ns, found.end_ns) == (500, 600)
    assert (found.compute_ns, found.communication_ns, found.copy_ns) == (50, 30, 20)
    assert (found.exposed_communication_ns, found.exposed_copy_ns) == (20, 10)
    assert (found.busy_ns, found.idle_ns) == (80, 20)
    assert found.overlap_ratio == pytest.approx(1 / 3)
    assert found.compute_ns + found.exposed_communication_ns + found.exposed_copy_ns + found.idle_ns == 100


def test_overlap_of_each_device_and_step(make):
    e, K = make.event, make.Kind
    steps = [e("s", K.STEP, 0, 50, step=1), e("s", K.STEP, 50, 60, step=2)]
    other = [e("gemm", K.KERNEL, 0, 110, device=1)]
    found = overlap_by_step(make.build(steps + device_events(make) + other))
    assert [(f.device, f.step, f.idle_ns) for f in found] == [(0, 1, 0), (0, 2, 30), (1, 1, 0), (1, 2, 0)]
    assert found[2].overlap_ratio is None


def exchanging(make, host):
    """A collective of 100 us that a call launches, and what the host does beside it."""
    e, K = make.event, make.Kind
    return make.build(
        [
            e("s", K.STEP, 0, 400_000, step=1),
            e("aten::op", K.HOST_OP, 1_000, 5_000),
            e("cudaLaunchKernel", K.RUNTIME_CALL, 2_000, 2_000, correlation=1),
            e("ncclAllReduce", K.COLLECTIVE, 10_000, 100_000, device=0, stream=2, correlation=1),
            *(e(name, getattr(K, kind), start, length) for name, kind, start, length in host),
        ]
    )


@pytest.mark.parametrize(
    ("host", "blocks"),
    [
        (
            [
                ("cudaDeviceSynchronize", "RUNTIME_CALL", 20_000, 92_000),
                ("aten::next", "HOST_OP", 120_000, 200_000),
            ],
            True,
        ),
        ([("aten::next", "HOST_OP", 20_000, 300_000)], False),
    ],
)  # fmt: skip
def test_exposed_communication_that_nothing_waits_for_blocks_nothing(make, host, blocks):
    trace = exchanging(make, host)
    (found,) = blocking(trace, overlap_by_step(trace))
    assert found.exposed_communication_ns == 100_000
    assert found.blocking_communication_ns == pytest.approx(100_000 if blocks else 0, abs=8_000)


def test_without_the_hosts_operators_it_is_not_known_what_blocks(make):
    trace = make.build(device_events(make))
    (found,) = blocking(trace, overlap(trace))
    assert found.blocking_communication_ns is None


def test_no_device_is_an_answer_of_its_own(make):
    trace = make.build([make.event("op", make.Kind.HOST_OP, 0, 5)])
    for question in (overlap, idle, launches):
        with pytest.raises(EmptyTraceError, match="cannot tell"):
            question(trace)


@pytest.fixture
def launched(make):
    """Stream 1: a late launch, a short gap, a long gap with its work launched in time, one without launch."""
    e, K = make.event, make.Kind
    return make.build(
        [
            e("aten::first", K.HOST_OP, 0, 10_000),
            e("launch", K.RUNTIME_CALL, 0, 5_000, correlation=1),
            e("next", K.DATA_LOADING, 30_000, 40_000),
            e("aten::second", K.HOST_OP, 80_000, 9_000),
            e("launch", K.RUNTIME_CALL, 81_000, 2_000, correlation=2),
            e("launch", K.RUNTIME_CALL, 84_000, 1_000, correlation=3),
            e("launch", K.RUNTIME_CALL, 86_000, 1_000, correlation=4),
            e("a", K.KERNEL, 6_000, 14_000, device=0, stream=1, correlation=1),
            e("b", K.KERNEL, 90_000, 10_000, device=0, stream=1, correlation=2),
            e("c", K.KERNEL, 101_000, 9_000, device=0, stream=1, correlation=3),
            e("d", K.KERNEL, 200_000, 1_000, device=0, stream=1, correlation=4),
            e("e", K.KERNEL, 205_000, 1_000, device=0, stream=1),
        ]
    )


def test_idle_classes(launched):
    (stream,) = idle(launched).streams
    assert stream.by_reason_ns == {
        "host_wait": 70_000,
        "kernel_wait": 1_000,
        "other": 90_000,
        "unknown": 4_000,
    }
    assert stream.gaps_by_reason == {"host_wait": 1, "kernel_wait": 1, "other": 1, "unknown": 1}
    (device,) = idle(launched).devices
    assert device.idle_ns == stream.idle_ns == 165_000
    assert [gap.duration_ns for gap in device.gaps] == [90_000, 70_000, 4_000, 1_000]
    gap = device.gaps[1]
    assert (gap.before, gap.after, gap.host, gap.loading_ns) == ("a", "b", "aten::second", 40_000)
    assert len(idle(launched, longest=1).devices[0].gaps) == 1


def test_a_gap_on_one_stream_is_not_idleness_of_the_device(make):
    e, K = make.event, make.Kind
    found = idle(make.build([
        e("a", K.KERNEL, 0, 10, device=0, stream=1), e("b", K.KERNEL, 90, 10, device=0, stream=1),
        e("c", K.KERNEL, 5, 80, device=0, stream=2),
    ]))  # fmt: skip
    assert found.streams[0].idle_ns == 80
    assert found.devices[0].idle_ns == 5


def test_delays(launched):
    (delay,) = launches(launched).delays
    assert (delay.launches, delay.unlinked) == (4, 1)
    assert delay.max_ns == 200_000 - 87_000
    assert delay.call_ns == 9_000
    assert delay.late == 1
    assert delay.short == 0


def test_queue(launched):
    rows = launched.named("a").tolist() + [r for n in "bcde" for r in launched.named(n)]
    time, length = queue_series(launched, launched.device_work())
    assert list(zip(time.tolist(), length.tolist(), strict=True)) == [
        (0, 1), (6_000, 0), (81_000, 1), (84_000, 2), (86_000, 3), (90_000, 2), (101_000, 1), (200_000, 0),
    ]  # fmt: skip
    assert len(rows) == 5
    (queue,) = launches(launched).queues
    assert queue.max_length == 3
    assert queue.empty_ratio == 75_000 / 200_000
    assert queue.mean_length == (6_000 + 3_000 + 2 * 2_000 + 3 * 4_000 + 2 * 11_000 + 99_000) / 200_000
    assert queue.full_ns == 0


def test_a_start_before_its_launch_does_not_make_the_queue_negative(make):
    e, K = make.event, make.Kind
    trace = make.build([
        e("launch", K.RUNTIME_CALL, 10, 5, correlation=1), e("k", K.KERNEL, 8, 5, device=0, correlation=1),
    ])  # fmt: skip
    assert queue_series(trace, trace.device_work())[1].tolist() == [1, 0]


def test_calls_that_wait(make):
    e, K = make.event, make.Kind
    names = [
        "cudaDeviceSynchronize",
        "cudaStreamSynchronize",
        "hipMemcpy",
        "cudaMemcpyAsync",
        "cudaLaunchKernel",
    ]
    trace = make.build([e(name, K.RUNTIME_CALL, 10 * n, 5) for n, name in enumerate(names)])
    assert [trace.name_of(row) for row in synchronizing_calls(trace)] == names[:3]


def loading(make, busy_until, *, device=True):
    e, K = make.event, make.Kind
    events = [e("s", K.STEP, 0, 100, step=1), e("next", K.DATA_LOADING, 0, 40)]
    if device:
        events += [
            e("k", K.KERNEL, 0, busy_until, device=0, stream=1),
            e("Memcpy HtoD (Pageable -> Device)", K.MEMCPY, 42, 8, device=0, stream=1),
        ]
    return make.build(events)


def test_loading_behind_a_busy_device_costs_nothing(make):
    (rank,) = input_waits(loading(make, 40)).ranks
    assert (rank.loading_ratio, rank.waiting_ratio, rank.copy_ratio) == (0.4, 0.0, 0.08)
    assert rank.level == "moderate"
    assert rank.ratio == 0.08
    (rank,) = input_waits(loading(make, 10)).ranks
    assert rank.waiting_ratio == pytest.approx(0.3)
    assert (rank.level, rank.loaders) == ("high", ("next",))


def test_without_a_device_all_loading_is_waiting(make):
    (rank,) = input_waits(loading(make, 0, device=False)).ranks
    assert (rank.ratio, rank.waiting_ratio, rank.copy_ratio) == (0.4, None, None)


def test_no_loading_recorded_is_no_verdict(make):
    found = input_waits(make.build([make.event("op", make.Kind.HOST_OP, 0, 5)]))
    assert found.ranks == ()
    assert found.missing == "no event of data loading was recorded on rank 0"
