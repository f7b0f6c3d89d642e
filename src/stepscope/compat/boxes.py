"""Boxes drawn on an image, as torch's ``add_image_with_boxes`` draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.compat.torch_values import Pixels, clipped, layout, picture
from stepscope.events import messages
from stepscope.events.messages import Value
from stepscope.record.summaries import encode
from stepscope.record.summaries.snapshot import snapshot
from stepscope.record.summary_encoder import Prepared, refused


def prepare(
    image: Any,
    boxes: Any,
    rescale: float,
    dataformats: str,
    labels: Sequence[str] | None,
    pixels: Pixels = clipped,
) -> Prepared:
    """Return an image with boxes.

    Args:
        image: The image.
        boxes: [n, 4]: left, top, right and bottom in pixels.
        rescale: Factor of the size.
        dataformats: Of the image.
        labels: One per box.
        pixels: Converts numbers to uint8.
    """
    held, places = snapshot(image, "an image"), snapshot(boxes, "boxes")
    order = layout(held, dataformats)
    if len(places.shape) != 2 or places.shape[1] != 4:
        raise refused(f"boxes of shape {places.shape}", "pass [n, 4]: left, top, right, bottom")
    names = [labels] if isinstance(labels, str) else labels
    if names is not None and len(names) != places.shape[0]:
        names = None

    def make(tag: str) -> list[Value]:
        plain = pixels(picture(held.fetch(), order))
        height, width, channels = plain.shape
        drawn = draw(plain, places.fetch(), names, rescale)
        return [Value(tag, image=messages.Image(height, width, channels, encode.png(drawn)))]

    return Prepared(make, held.nbytes + places.nbytes)


def draw(
    pixels: NDArray[np.uint8], boxes: NDArray[Any], labels: Sequence[str] | None, rescale: float
) -> NDArray[np.uint8]:
    """Draw red frames two pixels wide, labelled in black on red."""
    from PIL import Image, ImageDraw, ImageFont

    picture = Image.fromarray(np.ascontiguousarray(pixels))
    brush, font = ImageDraw.Draw(picture), ImageFont.load_default()
    for number, (left, top, right, bottom) in enumerate(boxes.tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        brush.line(corners, width=2, fill="Red")
        if labels is not None:
            _label(brush, font, str(labels[number]), left, bottom)
    size = (int(picture.width * rescale), int(picture.height * rescale))
    if size != picture.size:
        picture = picture.resize(size, Image.Resampling.LANCZOS)
    return np.asarray(picture)


def _label(brush: Any, font: Any, text: str, left: float, bottom: float) -> None:
    x0, y0, x1, y1 = font.getbbox(text)
    margin = float(np.ceil(0.05 * (y1 - y0)))
    top = bottom - (y1 - y0) - 2 * margin
    brush.rectangle([(left, top), (left + x1 - x0, bottom)], fill="Red")
    brush.text((left + margin, bottom - (y1 - y0) - margin), text, fill="black", font=font)
