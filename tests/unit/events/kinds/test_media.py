"""Sizes of pictures by their first bytes, of each layout that their writers choose."""

import io

import pytest
from PIL import Image

from stepscope.events.kinds import media


@pytest.mark.parametrize(
    ("mode", "options", "layout"),
    [
        ("RGB", {"format": "WEBP"}, b"VP8 "),
        ("RGB", {"format": "WEBP", "lossless": True}, b"VP8L"),
        ("RGBA", {"format": "WEBP"}, b"VP8X"),
        ("RGB", {"format": "PNG"}, b""),
        ("P", {"format": "GIF"}, b""),
        ("RGB", {"format": "JPEG"}, b""),
        ("RGB", {"format": "JPEG", "progressive": True}, b""),
    ],
)
@pytest.mark.parametrize("size", [(1, 1), (3, 700), (300, 2)])
def test_a_picture_says_its_size(mode, options, layout, size):
    out = io.BytesIO()
    Image.new(mode, size, 100 if mode == "P" else (200, 10, 30, 100)[: len(mode)]).save(out, **options)
    data = out.getvalue()
    assert layout in data[12:16]
    assert tuple(media.size(data)) == size
    assert tuple(media.size(data[:11])) in {(0, 0), size}
