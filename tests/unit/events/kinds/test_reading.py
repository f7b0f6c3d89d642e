"""Which kind a value is, and where the numbers of a tensor begin."""

import pytest

from stepscope.events import Shape, Tensor
from stepscope.events.kinds import image
from stepscope.events.kinds.reading import kind_of, numbers_at
from stepscope.events.wire import encode


@pytest.mark.parametrize(
    ("plugin", "content", "kind"),
    [
        (image.PLUGIN, b"", "image"),
        (image.PLUGIN, image.VIDEO, "video"),
        ("text", image.VIDEO, "text"),
        ("somebody's", b"", "other"),
    ],
)
def test_an_image_is_a_video_only_where_its_content_says_so(plugin, content, kind):
    assert kind_of(plugin, content) == kind


@pytest.mark.parametrize("field", ["tensor_content", "float_val", "double_val"])
def test_the_numbers_of_a_tensor_are_its_end(field):
    numbers = bytes(24) if field == "tensor_content" else [0.0] * 3
    data = encode(Tensor(1, Shape.of(3), **{field: numbers}))
    size = {"tensor_content": 24, "float_val": 12, "double_val": 24}[field]
    assert numbers_at(data) == len(data) - size


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08\x01",  # a type alone
        b"\x08\x01\x12\x00",  # it ends with a shape
        b"\x0d\x00\x00\x00\x00",  # a field of four bytes, which a tensor has not
        b"\x22\x09\x00",  # content that is cut off
    ],
)
def test_a_tensor_that_ends_otherwise_has_no_place_of_numbers(data):
    assert numbers_at(data) == 0
