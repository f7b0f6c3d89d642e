import numpy as np
import pytest

from stepscope.events.messages import Shape, Tensor


def test_heads_and_rows_in_two_parts(kernel):
    data = np.frombuffer(b"..AAaabaab..BBccd.CC", np.uint8)
    starts, lengths = np.array([2, 12, 18]), np.array([8, 5, 2])
    heads, rows, tails = (np.zeros((3, size), np.uint8) for size in (2, 2, 1))
    kernel.split(data, starts, lengths, heads, rows, tails)
    assert heads.tobytes() == b"AABBCC"
    assert (rows.tobytes(), tails.tobytes()) == (b"aaaacc", b"bbd")


def test_nothing(kernel):
    none, empty = np.zeros(0, np.int64), np.zeros((0, 2), np.uint8)
    kernel.split(np.zeros(1, np.uint8), none, none, empty, empty, np.zeros((0, 0), np.uint8))
    kernel.texts(np.zeros(1, np.uint8), none, none)


def texts_of(kernel, *tensors):
    """Narrow some encoded tensors, and return the texts; None where there is none."""
    data = b"".join(tensors)
    lengths = np.array([len(tensor) for tensor in tensors])
    starts = np.cumsum(lengths) - lengths
    kernel.texts(np.frombuffer(data, np.uint8), starts, lengths)
    places = zip(starts.tolist(), lengths.tolist(), strict=True)
    return [None if length < 0 else data[start : start + length] for start, length in places]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 300, 20_000])
def test_the_text_of_a_tensor(kernel, size):
    text = b"x" * size
    tensors = [bytes(Tensor.of_texts(text)), bytes(Tensor.of_texts(b"no", text)), b"\x42\x01a"]
    assert texts_of(kernel, *tensors) == [text, text, b"a"]


@pytest.mark.parametrize(
    "tensor",
    [
        b"",
        bytes(Tensor(1, Shape.of(2), float_val=[1.0, 2.0])),
        bytes(Tensor.of_texts(b"abc"))[:-1],
        b"\x42",
        b"\x42\x80",
        b"\x42" + b"\xff" * 20,
        b"\x42" + b"\xff" * 8 + b"\x7f",
        b"\x08\x80",
    ],
)
def test_what_is_not_a_text_is_none(kernel, tensor):
    assert texts_of(kernel, tensor, bytes(Tensor.of_texts(b"next"))) == [None, b"next"]
