import numpy as np
import pytest
from tensorboard.compat.proto import tensor_pb2
from tensorboard.util import tensor_util

from stepscope.errors import EventFileError
from stepscope.events import Shape, Tensor
from stepscope.events.tensors import array, tensor
from stepscope.events.wire import LARGE_BYTES, decode, encode


def theirs(message: Tensor):
    return tensor_util.make_ndarray(tensor_pb2.TensorProto.FromString(encode(message)))


@pytest.mark.parametrize(
    "name", ["f4", "f8", "i4", "u1", "i2", "i1", "i8", "?", "u2", "c8", "c16", "f2", "u4", "u8"]
)
def test_arrays_round_trip_and_tensorboard_reads_them(name):
    given = np.arange(6).reshape(2, 3).astype(name)
    made = tensor(given)
    for read in (array(made), theirs(made)):
        assert read.dtype == given.dtype
        assert read.tolist() == given.tolist()


@pytest.mark.parametrize(
    "dtype",
    [np.float32, np.float64, np.int32, np.int64, np.bool_, np.complex64, np.complex128, np.float16, np.uint8],
)
def test_lists_as_tensorboard_writes_them(dtype):
    given = np.array([1, 0, 1], dtype)
    proto = tensor_util.make_tensor_proto(given)
    assert array(decode(Tensor, proto.SerializeToString())).tolist() == given.tolist()


def test_a_large_array_is_not_copied():
    given = np.arange(LARGE_BYTES // 8 + 1, dtype=np.float64).reshape(1, -1)
    made = tensor(given)
    assert isinstance(made.tensor_content, memoryview)
    assert array(decode(Tensor, encode(made))).tolist() == given.tolist()


def test_text_becomes_bytes():
    made = tensor(np.array([["é", "b"]]))
    assert array(made).tolist() == theirs(made).tolist() == [["é".encode(), b"b"]]


def test_every_list():
    cases = [
        (Tensor(1, Shape.of(2), float_val=[1, 2]), [1, 2]),
        (Tensor(2, Shape.of(2), double_val=[0.1, 2]), [0.1, 2]),
        (Tensor(5, Shape.of(2), int_val=[-1, 2]), [-1, 2]),
        (Tensor(7, Shape.of(2), string_val=[b"a", b"b"]), [b"a", b"b"]),
        (Tensor(8, Shape.of(1), scomplex_val=[1, 2]), [1 + 2j]),
        (Tensor(9, Shape.of(1), int64_val=[-(1 << 60)]), [-(1 << 60)]),
        (Tensor(10, Shape.of(2), bool_val=[True, False]), [True, False]),
        (Tensor(18, Shape.of(1), dcomplex_val=[0.1, 0.2]), [0.1 + 0.2j]),
        (Tensor(19, Shape.of(2), half_val=[0x3C00, 0xC000]), [1.0, -2.0]),
        (Tensor(22, Shape.of(1), uint32_val=[1 << 31]), [1 << 31]),
        (Tensor(23, Shape.of(1), uint64_val=[1 << 63]), [1 << 63]),
    ]
    for message, values in cases:
        assert array(message).tolist() == values
        if message.dtype not in (19, 22, 23):  # that TensorBoard reads in another way, or not
            assert theirs(message).tolist() == values


def test_bfloat16_becomes_float32():
    assert array(Tensor(14, Shape.of(2), half_val=[0x3F80, 0xC000])).tolist() == [1.0, -2.0]
    assert array(Tensor(14, Shape.of(1), tensor_content=b"\x80\x3f")).tolist() == [1.0]


def test_halves_that_torch_writes_as_float32():
    bits = np.array([1.5, -2.0], "f4").view("i4").tolist()
    found = array(Tensor(19, Shape.of(2), half_val=bits))
    assert (found.dtype, found.tolist()) == (np.float16, [1.5, -2.0])


def test_the_least_float32_that_is_no_half():
    found = array(Tensor(19, Shape.of(2), half_val=[0x10000, 0x3C00]))
    assert found.tolist() == [0.0, 0.0]  # both so small that a half does not tell them from 0
    assert array(Tensor(19, Shape.of(2), half_val=[0xFFFF, 0x3C00])).tolist()[1] == 1.0


@pytest.mark.parametrize(
    ("values", "expected"), [([], [[0, 0], [0, 0]]), ([7], [[7, 7], [7, 7]]), ([1, 2, 3], [[1, 2], [3, 3]])]
)
def test_a_short_list_is_filled_up(values, expected):
    assert array(Tensor(1, Shape.of(2, 2), float_val=values)).tolist() == expected


def test_one_value_fills_any_shape_without_memory():
    assert array(Tensor(1, Shape.of(1 << 40), float_val=[1.0])).shape == (1 << 40,)


def test_shapes():
    assert array(Tensor(1, None, float_val=[1.0])).shape == ()
    assert array(Tensor(1, Shape(unknown_rank=True), float_val=[1.0, 2.0])).shape == (2,)
    assert array(Tensor(1, Shape.of(0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (Tensor(24), "DataType 24"),
        (Tensor(1, Shape.of(2), tensor_content=b"abc"), "3 bytes"),
        (Tensor(7, Shape(), tensor_content=b"abc"), "3 bytes"),
        (Tensor(1, Shape.of(1), float_val=[1, 2]), "does not hold 2"),
        (Tensor(1, Shape.of(-1), float_val=[1]), "does not hold"),
        (Tensor(1, Shape.of(1 << 40), float_val=[1, 2]), "too large"),
    ],
)
def test_what_does_not_fit_is_refused(message, text):
    with pytest.raises(EventFileError, match=text):
        array(message)


def test_an_array_without_a_tensor_type_is_refused():
    with pytest.raises(EventFileError, match="datetime64"):
        tensor(np.array(["2020-01-01"], "datetime64[D]"))
