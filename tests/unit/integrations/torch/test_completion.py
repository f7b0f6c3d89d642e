"""Stages as a device comes to their ends: read without waiting, and right where the host runs ahead."""

from types import SimpleNamespace

import pytest
import torch

import stepscope as ss
from stepscope.integrations.torch.completion import BLOCK, SHARE, DeviceStages, device_stages
from stepscope.integrations.torch.stages import StageMarks
from stepscope.kernels.steps import Stages, Steps
from stepscope.record.problems import Problems
from stepscope.store.ranks import FEWEST_TIMED, Ranks


class Device:
    """A device that works off what it is handed in order, and a host with a clock that is told the time."""

    def __init__(self):
        self.now = self.free = 100.0
        self.capturing = self.broken = False
        self.made = 0
        device = self

        class Event:
            def __init__(self, *, enable_timing):
                assert enable_timing
                device.made += 1

            def record(self, stream):
                if device.broken:
                    raise RuntimeError("the device is gone")
                self.at = device.free = max(device.free, device.now)

            def query(self):
                return device.now >= self.at

            def elapsed_time(self, other):
                assert self.query(), "waited for the device"
                assert other.query(), "waited for the device"
                return 1e3 * (other.at - self.at)

        self.Event = Event

    def current_stream(self, place):
        return "stream"

    def is_current_stream_capturing(self):
        return self.capturing

    def work(self, seconds):
        self.free = max(self.free, self.now) + seconds

    def catch_up(self):
        self.now = max(self.now, self.free)


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def counter(device):
    made = Steps(0, lambda: device.now)
    made.stages = Stages(lambda: device.now)
    made.stages.keep = True
    made.stages.device = DeviceStages(device, "place", Problems())
    return made


def a_step(counter, device, *, load=0.0, forward=0.0, backward=0.0, launch=0.001):
    """One step of which the host launches each stage in no time to speak of."""
    asked = device.now
    device.now += load
    counter.begin(asked, load)
    for name, work in (("forward", forward), ("backward", backward)):
        counter.stages.mark(counter.stages.number(name))
        device.work(work)
        device.now += launch
    counter.end(device.now)


def test_a_stage_lasts_until_the_device_has_come_to_its_end(counter, device):
    for _ in range(5):
        a_step(counter, device, forward=0.010, backward=0.020)
    device.catch_up()
    taken = dict(counter.stages.device.take())
    assert taken[4] == pytest.approx((0.0, 0.0, 0.010, 0.020))
    host = dict(counter.stages.take())
    assert host[4] == pytest.approx((0.0, 0.001, 0.001))


def test_a_loader_behind_the_devices_back_costs_nothing_and_the_rest_of_it_is_data(counter, device):
    for _ in range(3):
        a_step(counter, device, forward=0.010, backward=0.020)
    a_step(counter, device, load=0.050, forward=0.010, backward=0.020)
    device.catch_up()
    taken = dict(counter.stages.device.take())
    behind = 3 * 0.030 - 3 * 0.002  # what the device still had to do when the loader was asked
    assert behind > 0.050
    assert taken[3] == pytest.approx((0.0, 0.0, 0.010, 0.020))
    a_step(counter, device, load=0.050, forward=0.010, backward=0.020)
    device.catch_up()
    assert dict(counter.stages.device.take())[4] == pytest.approx((0.050, 0.0, 0.010, 0.020))


def test_what_lies_between_two_loops_is_no_waiting_for_data(counter, device):
    a_step(counter, device, forward=0.010)
    device.now += 5.0  # evaluation
    a_step(counter, device, load=0.002, forward=0.010)
    device.catch_up()
    assert dict(counter.stages.device.take())[1] == pytest.approx((0.002, 0.0, 0.010, 0.001), abs=2e-3)


def test_a_wait_within_the_step_is_data_as_far_as_the_device_had_nothing_to_do(counter, device):
    a_step(counter, device)
    device.catch_up()
    counter.begin(device.now)
    device.now += 0.030
    counter.waited = 0.030
    counter.stages.mark(counter.stages.number("forward"))
    device.work(0.010)
    counter.end(device.now)
    device.catch_up()
    assert dict(counter.stages.device.take())[1] == pytest.approx((0.030, 0.0, 0.010))


def test_nothing_is_taken_before_the_device_has_come_by(counter, device):
    a_step(counter, device, forward=0.010, backward=0.020)
    timer = counter.stages.device
    assert timer.take() == []
    assert timer.waits(0)
    device.catch_up()
    assert [step for step, _ in timer.take()] == [0]
    assert not timer.waits(0)


def test_events_are_used_again(counter, device):
    for _ in range(50):
        a_step(counter, device, forward=0.001)
        device.catch_up()
        counter.stages.device.take()
    assert device.made < 15


def test_a_dropped_step_and_one_that_is_captured_as_a_graph_are_not_timed(counter, device):
    a_step(counter, device, forward=0.010)
    counter.begin(device.now)
    counter.abandon()
    device.capturing = True
    a_step(counter, device, forward=0.010)
    device.capturing = False
    a_step(counter, device, forward=0.010)
    device.catch_up()
    assert [step for step, _ in counter.stages.device.take()] == [0, 3]


def test_a_device_that_is_gone_is_told_once_and_training_goes_on(device):
    said: list[object] = []
    counter = Steps(0, lambda: device.now)
    counter.stages = Stages(lambda: device.now)
    counter.stages.keep = True
    reporter = SimpleNamespace(report=lambda *told, **more: said.append(told))
    counter.stages.device = DeviceStages(device, "place", reporter)
    device.broken = True
    for _ in range(3):
        a_step(counter, device, forward=0.010)
    assert len(said) == 1
    assert counter.done == 3


def test_where_nobody_takes_them_no_events_are_made(counter, device):
    counter.stages.keep = False
    a_step(counter, device, forward=0.010)
    assert device.made == 0


def test_where_events_cost_more_than_they_may_fewer_blocks_are_timed(counter, device, monkeypatch):
    """Each event takes a microsecond, by a clock that counts how often it is asked."""
    ticks = iter(range(1 << 30))
    monkeypatch.setattr("stepscope.integrations.torch.completion.perf_counter", lambda: 1e-6 * next(ticks))
    for _ in range(40 * BLOCK):  # of 2 ms: four events of a microsecond are 0.2 %
        a_step(counter, device)
        device.catch_up()
    timed = [step for step, _ in counter.stages.device.take()]
    late = [step for step in timed if step >= 20 * BLOCK]
    assert SHARE < 4e-6 / 0.002
    assert 0 < len(late) <= 10 * BLOCK
    assert all(step + 1 in timed for step in late if (step + 1) % BLOCK), "blocks are whole"


def test_a_model_on_the_processor_has_none(device):
    assert device_stages(torch.nn.Linear(2, 2), Problems()) is None
    assert device_stages(None, Problems()) is None


def test_a_model_on_a_device_with_events_has_one():
    place = SimpleNamespace(type="cuda")
    model = SimpleNamespace(parameters=lambda: iter([SimpleNamespace(device=place)]))
    assert isinstance(device_stages(model, Problems()), DeviceStages)


def train(folder, rank, forward, steps=40, timed=True):
    """A rank whose device takes so long for each forward pass, while its host takes no time to speak of."""
    device = Device()
    device.now = device.free = 0.0

    class Slow(torch.nn.Linear):
        def forward(self, x):
            device.work(forward)
            return super().forward(x)

    model = Slow(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with ss.Run(folder, rank=rank, world_size=2) as run:
        timer = DeviceStages(device, "place", run) if timed else None
        marks = StageMarks(run.step_counter, model, [optimizer], timer, run)
        run.flush()  # from here on stages are kept
        for _ in run.steps(torch.randn(steps, 8, 4)):
            model(torch.randn(8, 4)).sum().backward()
            device.work(0.005)
            optimizer.step()
            device.now = device.free + 1.0
        marks.remove()


def test_what_waits_when_timing_stops_is_still_taken(counter, device):
    a_step(counter, device, forward=0.010)
    counter.stages.device.stop()
    a_step(counter, device, forward=0.010)
    device.catch_up()
    assert counter.stages.device.stopped
    assert [step for step, _ in counter.stages.device.take()] == [0]


def test_ranks_are_compared_by_what_their_devices_took(tmp_path):
    for rank, forward in enumerate((0.010, 0.050)):
        train(tmp_path, rank, forward)
    table = Ranks(str(tmp_path)).stages()
    assert table.clock == "device"
    forward = table.durations_s[5:, :, table.stages.index("forward")]
    assert forward[:, 0] == pytest.approx(0.010, rel=0.01)
    assert forward[:, 1] == pytest.approx(0.050, rel=0.01)
    job = ss.load_ranks(tmp_path)
    assert job.stage_clock == "device"
    assert any("devices' time" in note for note in job.notes)
    grid = Ranks(str(tmp_path)).grid("stage/forward")
    assert grid.maximum[1, -1] == pytest.approx(0.050, rel=0.01)


@pytest.mark.parametrize(("steps", "timed"), [(FEWEST_TIMED - 2, True), (40, False)])
def test_where_not_all_devices_timed_enough_the_hosts_time_counts(tmp_path, steps, timed):
    train(tmp_path, 0, 0.010, steps)
    train(tmp_path, 1, 0.050, steps, timed)
    table = Ranks(str(tmp_path)).stages()
    assert table.clock == "host"
    total = table.durations_s.sum(axis=2)
    took = Ranks(str(tmp_path)).grid("step_time_s", columns=steps).mean.T
    assert total == pytest.approx(took, rel=0.01)
