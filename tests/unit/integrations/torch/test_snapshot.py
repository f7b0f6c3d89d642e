"""Snapshots of the CUDA allocator, with PyTorch's calls played: there is no such device here."""

import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import stepscope as ss
from stepscope.capture.backend import CaptureOptions
from stepscope.integrations.torch import profiler, snapshot
from stepscope.integrations.torch.profiler import TorchProfiler

CONTENT = {"segments": [], "device_traces": []}


@pytest.fixture
def allocator(monkeypatch):
    """PyTorch's private calls, as torch 2.13 has them."""
    told, observers = [], []

    def record(enabled="all", max_entries=0):
        told.append(enabled)

    def write(filename="dump.pickle"):
        Path(filename).write_bytes(pickle.dumps(CONTENT))

    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", record)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", write)
    monkeypatch.setattr(torch._C, "_cuda_attach_out_of_memory_observer", observers.append, raising=False)
    monkeypatch.setattr(snapshot, "out_of_memory", snapshot.OutOfMemory())
    return SimpleNamespace(told=told, observers=observers)


def test_a_snapshot_lies_beside_the_profile_and_the_history_ends_with_it(allocator, tmp_path, monkeypatch):
    backend = TorchProfiler()
    monkeypatch.setattr(profiler, "cuda_in_use", lambda: True)
    monkeypatch.setattr(profiler, "activities", lambda: [torch.profiler.ProfilerActivity.CPU])
    monkeypatch.setattr(profiler, "synchronize", lambda: None)
    backend.start(CaptureOptions(memory_snapshot=True))
    assert allocator.told == ["all"]
    path = tmp_path / "chief_rank0_step00000005.pt.trace.json.gz"
    path.touch()
    exported = backend.stop()(path)
    assert exported.extra == {"memory_snapshot": "chief_rank0_step00000005.memory.pickle"}
    assert pickle.loads((tmp_path / exported.extra["memory_snapshot"]).read_bytes()) == CONTENT
    assert allocator.told == ["all", None]


def test_without_a_device_it_is_said(allocator, tmp_path):
    backend = TorchProfiler()
    backend.start(CaptureOptions(memory_snapshot=True))
    path = tmp_path / "a.pt.trace.json.gz"
    path.touch()
    exported = backend.stop()(path)
    assert exported.extra == {}
    assert "the program uses no CUDA device" in exported.notes[-1]
    assert allocator.told == []


def test_out_of_memory_leaves_a_snapshot_and_the_run_points_to_it(allocator, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.cuda", SimpleNamespace(is_initialized=lambda: True))
    with ss.Run(tmp_path, hooks=[ss.ProfilerHook(analyse=False, backend="torch")]) as run:
        for number in run.steps(range(4)):
            if number == 2:
                allocator.observers[0](0, 1 << 30, 1 << 31, 0)
    allocator.observers[0](0, 1 << 30, 1 << 31, 0)
    assert len(allocator.observers) == 1
    (path,) = (tmp_path / "profiles").glob("*.pickle")
    assert path.name == "chief_rank0_step00000002.oom.memory.pickle"
    assert pickle.loads(path.read_bytes()) == CONTENT
    with ss.open(tmp_path, cache=False) as log:
        from stepscope.store.captures import captures

        (capture,) = captures(log.run("."), tmp_path, log)
    assert (capture.facts["cause"], capture.facts["steps"]) == ("out of memory", [2])
    assert capture.facts["path"] == f"profiles/{path.name}"


def test_a_snapshot_that_cannot_be_written_does_not_hide_the_users_error(allocator):
    def nowhere():
        raise OSError(28, "No space left on device")

    snapshot.out_of_memory.watch("me", nowhere, pytest.fail)
    allocator.observers[0](0, 1, 2, 3)


def test_a_version_without_the_observer_is_left_alone(allocator, monkeypatch):
    monkeypatch.delattr(torch._C, "_cuda_attach_out_of_memory_observer")
    assert not snapshot.OutOfMemory().watch("me", pytest.fail, pytest.fail)
