"""What is logged stays what it was, whatever is done to it later, and no framework is imported for it."""

import os
import subprocess
import sys
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from stepscope.record.problems import RefusalError
from stepscope.record.summaries import snapshot as module
from stepscope.record.summaries.snapshot import snapshot


def changed(value):
    value += 1
    return value


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.arange(12.0).reshape(4, 3)[::2],
        torch.arange(6.0).reshape(2, 3),
        torch.arange(6.0).reshape(3, 2).t(),
        torch.arange(6, dtype=torch.bfloat16).reshape(2, 3),
        torch.arange(6, dtype=torch.float16).reshape(3, 2).t(),
        torch.arange(6).reshape(2, 3),
    ],
    ids=lambda value: f"{type(value).__name__}-{value.dtype}",
)
def test_later_changes_in_place_do_not_show(value):
    expected = value.float().numpy().copy() if isinstance(value, torch.Tensor) else value.copy()
    held = snapshot(value)
    changed(value)
    np.testing.assert_array_equal(held.fetch(), expected)
    assert held.shape == expected.shape
    assert held.size == expected.size


@pytest.mark.parametrize("value", [np.ones(1 << 18), torch.ones(1 << 18)], ids=["numpy", "torch"])
def test_the_caller_keeps_the_interpreter_while_it_copies(value):
    """Who lets go of it gets it back when the thread that encodes has done its next part."""
    turns, stop = [], threading.Event()

    def encode():
        while not stop.is_set():
            turns.append(None)
            os.sched_yield()  # lets go of the interpreter, and asks for it again

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=encode)
    try:
        sys.setswitchinterval(60)  # nobody loses it who does not let go of it
        thread.start()
        lost = 0
        for _ in range(50):
            array = value if isinstance(value, np.ndarray) else value.numpy()
            before = len(turns)
            held = module._copy(array)
            lost += len(turns) - before
            os.sched_yield()
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert turns
    assert lost == 0
    np.testing.assert_array_equal(held, array)


@pytest.mark.parametrize(
    "value",
    [np.array(2.5), np.zeros((0, 3)), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.ones(3, ">f4")],
    ids=["number", "empty", "columns", "big-endian"],
)
def test_odd_arrays_are_copied_as_they_are(value):
    found = snapshot(value).fetch()
    assert found is not value
    assert not np.shares_memory(found, value)
    assert (found.shape, found.dtype) == (value.shape, value.dtype)
    np.testing.assert_array_equal(found, value)
    assert found.flags.writeable


def test_tensors_that_are_only_marked_conjugate_or_negative():
    value = torch.tensor([1 + 2j, 3 - 4j])
    assert snapshot(value.conj()).fetch().tolist() == [1 - 2j, 3 + 4j]
    assert value.conj().imag.is_neg()
    assert snapshot(value.conj().imag).fetch().tolist() == [-2.0, 4.0]


def test_a_list_is_copied():
    value = [[1.0, 2.0]]
    held = snapshot(value)
    value[0][0] = 9.0
    assert held.fetch().tolist() == [[1.0, 2.0]]


def test_graphs_of_autograd_are_not_kept():
    assert snapshot(torch.ones(3, requires_grad=True) * 2).fetch().tolist() == [2.0, 2.0, 2.0]
    assert snapshot(torch.ones(2, requires_grad=True)).fetch().tolist() == [1.0, 1.0]


def test_lists_of_tensors():
    assert snapshot([torch.ones(2), torch.zeros(2)]).fetch().tolist() == [[1, 1], [0, 0]]
    assert snapshot([jnp.ones(2), np.zeros(2)]).fetch().tolist() == [[1, 1], [0, 0]]


def test_unusual_tensors():
    assert snapshot(torch.eye(2).to_sparse()).fetch().tolist() == [[1, 0], [0, 1]]
    assert snapshot(torch.tensor([1 + 2j]).conj()).fetch().tolist() == [1 - 2j]
    assert snapshot(torch.tensor([0.5], dtype=torch.float8_e4m3fn)).fetch().tolist() == [0.5]
    assert snapshot(jnp.array([0.5], jnp.float8_e4m3fn)).fetch().tolist() == [0.5]
    assert snapshot(jnp.array(3.0, jnp.bfloat16)).floating


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "None, expected an array"),
        ("path.png", "str 'path.png', expected"),
        ({"a": 1}, "dict of 1 item"),
        ([1, "x", None], "list of 3 items of unlike parts"),
        (np.array(["a"]), "an array of <U1"),
        (torch.ones(2, device="meta"), "meta device"),
        (object(), "object"),
    ],
)
def test_what_is_no_array_is_refused(value, found):
    with pytest.raises(RefusalError, match=found.replace("<", "<")) as refusal:
        snapshot(value)
    assert refusal.value.hint


def test_an_array_that_is_donated_afterwards_is_what_was_logged():
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    value = jnp.ones(3)
    held = snapshot(value)
    step(value)
    assert value.is_deleted()
    assert held.fetch().tolist() == [1, 1, 1]
    with pytest.raises(RefusalError, match="donated or deleted"):
        snapshot(value)


def test_a_traced_value_is_refused():
    seen = []

    @jax.jit
    def step(x):
        with pytest.raises(RefusalError, match="traced"):
            snapshot(x)
        seen.append(True)
        return x

    step(jnp.ones(2))
    assert seen


class Device:
    """What torch's accelerators offer, noting in which order it is used."""

    def __init__(self):
        self.log = []
        outer = self

        class Event:
            def record(self, stream):
                outer.log.append(f"record on {stream}")

            def synchronize(self):
                outer.log.append("synchronize")

        class Stream:
            def __init__(self, device=None):
                self.name = f"side of {device}"

        class within:
            def __init__(self, stream):
                self.stream = stream

            def __enter__(self):
                outer.log.append(f"enter {self.stream.name}")

            def __exit__(self, *exception):
                outer.log.append("leave")

        self.Event, self.Stream, self.stream = Event, Stream, within
        self.current_stream = lambda device: "current"
        self.is_current_stream_capturing = lambda: False


class DeviceTensor(torch.Tensor):
    """A tensor that says it lies on a device."""

    @property
    def device(self):
        return SimpleNamespace(type="fake", __str__=lambda self: "fake:0")

    def clone(self, *args, **kwargs):
        self.owner.log.append("clone")
        copy = torch.Tensor.clone(self.as_subclass(torch.Tensor)).as_subclass(DeviceTensor)
        copy.owner = self.owner
        return copy

    def cpu(self):
        self.owner.log.append(f"cpu in {threading.current_thread().name}")
        return self.as_subclass(torch.Tensor)


def test_a_tensor_on_a_device_is_cloned_behind_its_work_and_fetched_elsewhere(monkeypatch):
    device = Device()
    monkeypatch.setattr(torch, "fake", device, raising=False)
    monkeypatch.setattr(module, "_side_streams", {})
    value = torch.ones(3).as_subclass(DeviceTensor)
    value.owner = device
    held = snapshot(value)
    assert device.log == ["clone", "record on current"]
    found = []
    thread = threading.Thread(target=lambda: found.append(held.fetch()), name="background")
    thread.start()
    thread.join()
    assert device.log[2:] == ["synchronize", device.log[3], "cpu in background", "leave"]
    assert device.log[3].startswith("enter side of")
    assert found[0].tolist() == [1, 1, 1]
    device.is_current_stream_capturing = lambda: True
    with pytest.raises(RefusalError, match="CUDA graph capture"):
        snapshot(value)


def test_logging_arrays_imports_no_framework(tmp_path):
    program = f"""
import sys, numpy as np, stepscope as ss
with ss.Run({str(tmp_path)!r}) as run:
    run.histogram("h", np.ones(3)); run.image("i", np.ones((2, 2, 3))); run.video("v", np.ones((2, 2, 2, 3)))
    run.audio("a", np.ones(3)); run.table("t", [{{"a": 1}}]); run.mesh("m", np.ones((2, 3)))
print([name for name in ("torch", "jax", "tensorflow", "matplotlib", "polars") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
