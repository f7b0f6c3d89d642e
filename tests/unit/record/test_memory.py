from types import SimpleNamespace as Module

import pytest

from stepscope.record import memory


def test_resident_bytes_are_those_of_this_process():
    psutil = pytest.importorskip("psutil")
    assert memory.resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_a_system_that_does_not_tell(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_STATM", tmp_path / "none")
    assert memory.resident_bytes() != memory.resident_bytes()


def cuda(**facts):
    facts = {
        "is_initialized": lambda: True,
        "device_count": lambda: 2,
        "memory_allocated": lambda device: 100 + device,
        "memory_reserved": lambda device: device,
        "get_device_name": lambda device: f"GPU {device}",
        **facts,
    }
    return {"torch.cuda": Module(**facts)}


def jax(*devices):
    return {"jax._src.xla_bridge": Module(_backends={"x": Module(local_devices=lambda: list(devices))})}


CPU = Module(platform="cpu", device_kind="cpu", memory_stats=lambda: None)
TPU = Module(platform="tpu", device_kind="TPU v5", memory_stats=lambda: {"bytes_in_use": 7})


@pytest.mark.parametrize(
    ("modules", "count", "names"),
    [
        ({}, None, []),
        (cuda(), 201, ["GPU 1"]),
        (cuda(is_initialized=lambda: False), None, []),
        (cuda(memory_allocated=lambda device: 1 / 0), None, ["GPU 1"]),
        (jax(CPU), None, []),
        (jax(TPU, TPU), 14, ["TPU v5", "TPU v5"]),
        ({**cuda(), **jax(TPU)}, 208, ["GPU 1", "TPU v5"]),
        ({"torch.cuda": None, "jax._src.xla_bridge": Module()}, None, []),
    ],
)
def test_devices_are_asked_only_where_they_are_started(modules, count, names):
    found = memory.device_bytes(modules)
    assert (None if found != found else found) == count
    assert memory.device_names(modules) == names
