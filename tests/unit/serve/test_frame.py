import numpy as np
import pytest

from stepscope.serve.frame import FrameArrays, array_of, pack, unpack
from stepscope.serve.types import ChartAnswer, SeriesHeader


def header_with(columns):
    return SeriesHeader(
        [
            ChartAnswer("ü" * len(columns), "step", None, None, "raw", 1, 0, 0, column, [], [])
            for column in columns
        ]
    )


def test_arrays_come_back_bit_for_bit():
    given = [
        np.array([1.5, np.nan, np.inf, -np.inf], "f4"),
        np.array([], "f8"),
        np.arange(3, dtype="u4"),
        np.array([-1], "i4"),
        np.arange(10, dtype="f8")[::2],
        np.arange(3, dtype=">f8"),
    ]
    arrays = FrameArrays()
    header, body = unpack(pack(header_with([arrays.add(array) for array in given]), arrays))
    for array, answer in zip(given, header.charts, strict=True):
        np.testing.assert_array_equal(array_of(body, answer.x_column), array)


@pytest.mark.parametrize("charts", range(9))
def test_header_and_arrays_lie_on_multiples_of_eight(charts):
    arrays = FrameArrays()
    frame = pack(header_with([arrays.add(np.ones(count + 1, "f4")) for count in range(charts)]), arrays)
    assert len(frame) % 8 == 0
    header, body = unpack(frame)
    assert (len(frame) - len(body)) % 8 == 0
    assert all(answer.x_column.offset % 8 == 0 for answer in header.charts)


def test_the_magic_spells_sss1():
    assert pack(SeriesHeader([]), FrameArrays())[:4] == b"SSS1"


def test_no_other_types_travel():
    with pytest.raises(TypeError, match="int64"):
        FrameArrays().add(np.arange(3))


def test_another_format_is_refused():
    with pytest.raises(ValueError, match="not a series answer"):
        unpack(b"PAR1" + bytes(12))
