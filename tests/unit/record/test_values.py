from __future__ import annotations

import decimal
import fractions
import gc
import math
import sys
import types
import weakref
from typing import NamedTuple

import numpy as np
import pytest
from support.errors import raises

from stepscope.record.problems import RefusalError
from stepscope.record.values import Delayed, as_step, as_tag, read

ml_dtypes = pytest.importorskip("ml_dtypes")


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1.5, 1.5),
        (7, 7.0),
        (True, 1.0),
        (decimal.Decimal("0.25"), 0.25),
        (fractions.Fraction(1, 4), 0.25),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.float16(0.5), 0.5),
        (np.int64(-3), -3.0),
        (np.uint8(255), 255.0),
        (np.bool_(True), 1.0),
        (np.array(2.5), 2.5),
        (np.array([[2.5]]), 2.5),
        (np.array([3], np.int32), 3.0),
        (ml_dtypes.bfloat16(1.5), 1.5),
        (np.array(1.5, ml_dtypes.bfloat16), 1.5),
        (-math.inf, -math.inf),
        (np.float32("inf"), math.inf),
    ],
    ids=repr,
)
def test_numbers_of_every_kind(value, number):
    found = read(value)
    assert type(found) is float
    assert found == number


@pytest.mark.parametrize("value", [math.nan, np.float32("nan"), np.array([np.nan]), decimal.Decimal("NaN")])
def test_nan_is_a_number_to_record(value):
    assert math.isnan(read(value))


@pytest.mark.parametrize(
    ("value", "found", "hint"),
    [
        ("1.5", "str '1.5'", "Python, numpy"),
        (b"1", "bytes b'1'", "Python, numpy"),
        (None, "None", "log nothing"),
        ({"a": 1, "b": 2}, "dict of 2 items", "run.scalars"),
        ([1.0], "list of 1 item", "Python, numpy"),
        (object, "type", "Python, numpy"),
        pytest.param(10**400, "a number beyond the range of a float", "scale it", id="10**400"),
        (decimal.Decimal("1e999999"), "a number beyond the range of a float", "scale it"),
        (decimal.Decimal("-1e-999999"), "a number beyond the range of a float", "scale it"),
        (fractions.Fraction(1, 10**400), "a number beyond the range of a float", "scale it"),
        (np.ma.masked, "a masked value, which has no number", "filled(nan)"),
        (np.ma.array([2.0], mask=[True]), "a masked value, which has no number", "filled(nan)"),
        (np.zeros((2, 3)), "an array of shape (2, 3)", "mean()"),
        (np.array([]), "an array of shape (0,)", "mean()"),
        (np.str_("1.5"), "str_ np.str_('1.5')", "Python, numpy"),
        (np.array("1.5"), "a numpy value of type <U3", "Python, numpy"),
        (np.datetime64(1, "s"), "a numpy value", "Python, numpy"),
        (np.array(None), "a numpy value of type object", "Python, numpy"),
    ],
    ids=repr,
)
def test_what_is_no_number_is_refused_with_what_it_is(value, found, hint):
    with pytest.raises(RefusalError) as caught:
        read(value)
    assert caught.value.reason == "value"
    assert found in caught.value.found
    assert hint in caught.value.hint


@pytest.mark.parametrize("value", [1j, np.complex64(1j), np.timedelta64(1, "s")])
def test_what_is_no_number_at_all_is_refused_or_raises(value):
    with pytest.raises((RefusalError, TypeError)):
        read(value)


def test_a_long_text_is_shown_in_part():
    with pytest.raises(RefusalError) as caught:
        read("x" * 10_000)
    assert len(caught.value.found) < 80


def test_any_object_with_float_is_a_number():
    class Metric:
        def __float__(self) -> float:
            return 0.75

    assert read(Metric()) == 0.75


# Values on devices: torch and JAX on the CPU for real, a device that computes later as a stand-in.


# --- torch on the CPU -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_torch_values_of_every_type(torch, dtype, shape):
    assert read(torch.ones(shape, dtype=getattr(torch, dtype))) == 1.0


def test_torch_parameters_and_results_with_a_graph(torch):
    weight = torch.nn.Parameter(torch.tensor(2.0))
    assert read(weight) == 2.0
    assert read(weight * 3) == 6.0


def test_torch_values_are_immune_to_later_changes(torch):
    value = torch.tensor(1.0)
    found = read(value)
    value.add_(1.0)
    assert found == 1.0


def test_no_autograd_graph_is_kept(torch):
    hidden = torch.ones(4, requires_grad=True) * 2
    loss = hidden.sum()
    left = weakref.ref(hidden)
    kept = read(loss)
    del hidden, loss
    gc.collect()
    assert left() is None
    assert kept == 8.0


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 2)])
def test_torch_tensors_of_several_elements_are_refused(torch, shape):
    with pytest.raises(RefusalError, match="a tensor of shape"):
        read(torch.ones(shape))


@pytest.mark.parametrize(
    "make", [lambda torch: torch.ones((), device="meta"), lambda torch: torch.tensor(1j)]
)
def test_torch_values_without_a_number_do_not_become_one(torch, make):
    with pytest.raises((RuntimeError, TypeError, RefusalError, NotImplementedError)):
        read(read(make(torch)).read())


# --- a stand-in for a CUDA device -------------------------------------------------------------------


class Device:
    """A device that computes only when told to, and refuses to be waited for in the caller's thread."""

    def __init__(self) -> None:
        self.queue: list[object] = []
        self.capturing = False
        self.streams_asked: list[object] = []

    def run(self, steps: int | None = None) -> None:
        for _ in range(len(self.queue) if steps is None else steps):
            self.queue.pop(0)()


class Where(NamedTuple):
    type: str
    index: int = 0


class FakeTensor:
    """What ``read_torch`` needs of a tensor; its number exists once the device has run."""

    is_cpu = False
    device = Where("cuda")
    dtype = "float32"

    def __init__(self, gpu: Device, number: float) -> None:
        self.gpu, self.number, self.graph = gpu, 0.0, object()
        gpu.queue.append(lambda: setattr(self, "number", number))

    def numel(self) -> int:
        return 1

    def dim(self) -> int:
        return 0

    def is_complex(self) -> bool:
        return False

    def detach(self) -> FakeTensor:
        view = FakeTensor.__new__(FakeTensor)
        view.gpu, view.base = self.gpu, self
        return view

    def add_(self, more: float) -> None:
        self.gpu.queue.append(lambda: setattr(self, "number", self.number + more))

    def item(self) -> float:
        raise AssertionError("the caller's thread waited for the device")

    __float__ = item


class FakePlace:
    def __init__(self) -> None:
        self.number = float("nan")

    def copy_(self, source: FakeTensor, *, non_blocking: bool) -> None:
        assert non_blocking
        source.gpu.queue.append(lambda: setattr(self, "number", source.base.number))

    def item(self) -> float:
        return self.number


class FakeBlock(list):
    def __getitem__(self, key):
        return FakePlace()


@pytest.fixture
def gpu(monkeypatch):
    gpu = Device()

    class Event:
        passed = True

        def record(self, stream) -> None:
            self.passed = False
            gpu.queue.append(lambda: setattr(self, "passed", True))

        def query(self) -> bool:
            return self.passed

        def synchronize(self) -> None:
            assert self.passed, "waited for the device"

    def current_stream(where):
        gpu.streams_asked.append(where)
        return "stream"

    def empty(count, *, dtype, pin_memory):
        assert pin_memory
        gpu.blocks = getattr(gpu, "blocks", 0) + 1
        return FakeBlock()

    class InferenceMode:
        def __init__(self, on: bool) -> None:
            assert on is False

        def __enter__(self) -> None: ...
        def __exit__(self, *arguments: object) -> None: ...

    cuda = types.SimpleNamespace(
        Event=Event, current_stream=current_stream, is_current_stream_capturing=lambda: gpu.capturing
    )
    stand_in = types.SimpleNamespace(cuda=cuda, empty=empty, inference_mode=InferenceMode)
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    monkeypatch.setattr(FakeTensor, "__module__", "torch")
    monkeypatch.setattr("stepscope.record.values._all_slots", {})
    return gpu


def test_a_device_value_is_not_waited_for(gpu):
    value = read(FakeTensor(gpu, 0.5))
    assert not value.ready()
    gpu.run()
    assert value.ready()
    assert value.read() == 0.5


def test_a_device_value_is_immune_to_later_changes(gpu):
    tensor = FakeTensor(gpu, 0.5)
    value = read(tensor)
    tensor.add_(1.0)
    gpu.run()
    assert tensor.number == 1.5
    assert value.read() == 0.5


def test_no_reference_to_a_device_value_stays(gpu):
    tensor = FakeTensor(gpu, 0.5)
    left = weakref.ref(tensor)
    value = read(tensor)
    gpu.run()
    del tensor
    gc.collect()
    assert left() is None
    assert value.read() == 0.5


def test_the_stream_of_the_tensors_own_device_is_used(gpu):
    read(FakeTensor(gpu, 0.5))
    assert gpu.streams_asked == [FakeTensor.device]


def test_places_are_used_again_and_grow_when_all_are_taken(gpu, monkeypatch):
    monkeypatch.setattr("stepscope.record.values.SLOTS", 4)
    for turn in range(10):
        value = read(FakeTensor(gpu, float(turn)))
        gpu.run()
        assert value.read() == turn
    assert gpu.blocks == 1
    values = [read(FakeTensor(gpu, float(i))) for i in range(9)]
    gpu.run()
    assert [value.read() for value in values] == list(range(9))
    assert gpu.blocks == 3


def test_a_value_inside_a_graph_capture_is_refused(gpu):
    gpu.capturing = True
    with pytest.raises(RefusalError, match="CUDA graph capture"):
        read(FakeTensor(gpu, 0.5))
    assert len(gpu.queue) == 1, "nothing was recorded into the graph"


def test_a_sharded_tensor_is_refused_and_a_replicated_one_read(gpu):
    class Placement:
        def __init__(self, replicated: bool) -> None:
            self.is_replicate = lambda: replicated

    class DTensor(FakeTensor):
        placements = (Placement(True), Placement(False))

        def to_local(self) -> FakeTensor:
            return FakeTensor(gpu, 0.5)

    DTensor.__module__ = "torch.distributed.tensor"
    with raises(RefusalError, match="DTensor", hint_has="full_tensor"):
        read(DTensor(gpu, 0.25))
    DTensor.placements = (Placement(True),)
    value = read(DTensor(gpu, 0.25))
    gpu.run()
    assert value.read() == 0.5


def test_a_device_without_streams_is_cloned(gpu, monkeypatch):
    tensor = FakeTensor(gpu, 0.5)
    tensor.device = Where("mps")
    copy = types.SimpleNamespace(item=lambda: 0.25)
    view = tensor.detach()
    view.device, view.clone = tensor.device, lambda: copy
    monkeypatch.setattr(tensor, "detach", lambda: view, raising=False)
    value = read(tensor)
    assert value.ready()
    assert value.read() == 0.25


# --- JAX --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "bool"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_jax_values_of_every_type(jax, dtype, shape):
    assert read(jax.numpy.ones(shape, dtype)).read() == 1.0


def test_a_jax_value_is_read_later_and_nothing_is_waited_for(jax):
    class Array:
        shape = ()
        is_fully_addressable = True
        done = False

        def is_deleted(self):
            return False

        def is_ready(self):
            return self.done

        def item(self):
            assert self.done, "waited for the device"
            return 0.5

    Array.__module__ = "jaxlib._jax"
    array = Array()
    value = read(array)
    assert not value.ready()
    array.done = True
    assert value.ready()
    assert value.read() == 0.5


def test_a_donated_jax_value_is_lost_with_a_reason(jax):
    loss = jax.numpy.float32(1.0) + 1
    value = read(loss)
    loss.delete()
    assert value.ready()
    with raises(RefusalError, match="donated or deleted", hint_has="jnp.copy"):
        value.read()
    with pytest.raises(RefusalError, match="donated"):
        read(loss)


def test_a_traced_jax_value_is_refused(jax):
    seen = []

    def step(x):
        with pytest.raises(RefusalError, match="traced") as caught:
            read(x)
        seen.append(caught.value.hint)
        return x

    jax.jit(step)(1.0)
    assert "return it" in seen[0]


def test_a_jax_array_of_several_elements_is_refused(jax):
    with pytest.raises(RefusalError, match=r"an array of shape \(3,\)"):
        read(jax.numpy.ones(3))


@pytest.mark.parametrize("replicated", [True, False])
def test_jax_arrays_of_several_processes(jax, replicated):
    class Array:
        shape = ()
        is_fully_addressable = False
        is_fully_replicated = replicated

        def is_deleted(self):
            return False

        def addressable_data(self, index):
            return jax.numpy.float32(0.5)

    Array.__module__ = "jaxlib._jax"
    value = read(Array())
    if replicated:
        assert value.read() == 0.5
    else:
        with pytest.raises(RefusalError, match="sharded over processes"):
            value.read()


# --- TensorFlow and Keras, as stand-ins: tests/tensorflow has the real ones ----------------------------


def tensorflow_class(**attributes):
    return type("EagerTensor", (), {"__module__": "tensorflow.python.framework.ops", **attributes})


def shape(elements):
    return types.SimpleNamespace(num_elements=lambda: elements)


def test_an_eager_tensor_is_read_later():
    import numpy as np

    value = read(tensorflow_class(shape=shape(1), numpy=lambda self: np.float32(0.5))())
    assert value.ready()
    assert value.read() == 0.5


def test_a_variable_is_read_into_a_tensor_at_once():
    import numpy as np

    eager = tensorflow_class(shape=shape(1), numpy=lambda self: np.float32(0.5))()
    assert read(tensorflow_class(read_value=lambda self: eager)()).read() == 0.5


def test_a_symbolic_tensor_is_refused():
    with pytest.raises(RefusalError, match="symbolic TensorFlow"):
        read(tensorflow_class(shape=shape(1))())


def test_a_tensor_of_several_elements_is_refused():
    with pytest.raises(RefusalError, match="shape"):
        read(tensorflow_class(shape=shape(3), numpy=None)())


def test_keras_variables_are_their_backends(jax):
    variable = type("Variable", (), {"__module__": "keras.src.backend.common.variables"})()
    with pytest.raises(RefusalError, match="symbolic Keras"):
        read(variable)
    variable.value = jax.numpy.float32(0.5)
    assert read(variable).read() == 0.5


# --- no framework is imported -----------------------------------------------------------------------


def test_reading_numbers_imports_nothing(monkeypatch):
    for name in ("torch", "jax", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, None)
    assert read(1.5) == 1.5
    assert read(type("X", (), {"__float__": lambda self: 2.0})()) == 2.0


def test_a_real_dtensor_is_read_only_where_this_rank_holds_all_of_it(torch):
    distributed = pytest.importorskip("torch.distributed")
    if not distributed.is_available():
        pytest.skip("this torch has no torch.distributed")
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        mesh = distributed.device_mesh.init_device_mesh("cpu", (1,))
        assert read(DTensor.from_local(torch.tensor(1.5), mesh, [Replicate()])) == 1.5
        for part in (
            DTensor.from_local(torch.tensor(1.5), mesh, [Partial()]),
            distribute_tensor(torch.ones(4), mesh, [Shard(0)]).sum(),
        ):
            with pytest.raises(RefusalError, match="this rank holds a part"):
                read(part)
            assert read(part.full_tensor()) in (1.5, 4.0)
    finally:
        distributed.destroy_process_group()


class Later:
    """A value on a device, there once ``there`` is set."""

    def __init__(self, number: float, *, there: bool = True) -> None:
        self.number, self.there = number, there

    def ready(self) -> bool:
        return self.there

    def read(self) -> float:
        return self.number


@pytest.mark.parametrize("tag", ["loss", "train/loss", "Verlust/süß", "a b", "x" * 1024, np.str_("n")])
def test_text_is_a_tag(tag):
    assert as_tag(tag) == tag
    assert type(as_tag(tag)) is str


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        (3, "text, got int 3"),
        (None, "text, got None"),
        (b"loss", "text, got bytes"),
        (["a"], "text, got list"),
        ("", "1 to 1024 characters, got 0"),
        ("x" * 1025, "1 to 1024 characters, got 1025"),
        ("\ud800", "Unicode text"),
    ],
)
def test_what_is_no_tag_is_refused(tag, found):
    with pytest.raises(RefusalError) as caught:
        as_tag(tag)
    assert caught.value.reason == "tag"
    assert found in caught.value.found


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (0, 0),
        (-5, -5),
        (True, 1),
        (np.int64(7), 7),
        (np.uint8(7), 7),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
    ],
)
def test_integers_are_steps(step, number):
    assert as_step(step) == number
    assert type(as_step(step)) is int


@pytest.mark.parametrize("step", [1.0, 1.5, "1", None, math.nan, np.float32(1), [1], 2**63, -(2**63) - 1])
def test_what_is_no_integer_is_refused(step):
    with raises(RefusalError, reason="step"):
        as_step(step)


def test_a_torch_integer_is_a_step():
    torch = pytest.importorskip("torch")
    assert as_step(torch.tensor(12)) == 12
    with pytest.raises(RefusalError, match=r"integer, got 1\.5"):
        as_step(torch.tensor(1.5))


def test_a_jax_integer_is_a_step_later():
    assert as_step(pytest.importorskip("jax.numpy").int32(12)).read() == 12


def test_a_delayed_point_knows_its_step_once_it_is_read():
    value, step = Later(0.5, there=False), Later(7.0, there=False)
    point = Delayed(value, step)
    assert not point.ready()
    value.there = True
    assert not point.ready()
    step.there = True
    assert point.ready()
    assert (point.read(), point.step) == (0.5, 7)
    assert (Delayed(0.25, step).read()) == 0.25


def test_a_delayed_step_that_is_no_integer_is_refused():
    with pytest.raises(RefusalError, match="integer"):
        Delayed(0.5, Later(1.5)).read()
