"""Images: one, or several of one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stepscope.events.kinds import image
from stepscope.events.kinds.media import Size
from stepscope.events.messages import Value
from stepscope.record.summaries.picture import Convert, Held, hold
from stepscope.record.summary_encoder import Prepared, bounded, refused


def prepare(
    picture: Any, dataformats: str | None = None, description: str = "", convert: Convert | None = None
) -> Prepared:
    """Return one image."""
    return of_held([hold(picture, dataformats, convert=convert)], description)


def prepare_batch(
    pictures: Any,
    dataformats: str | None = None,
    max_images: int | None = None,
    description: str = "",
    convert: Convert | None = None,
) -> Prepared:
    """Return several images of one step, the first ``max_images`` of them.

    Args:
        pictures: An array of four dimensions, or a list of images.
        dataformats: As ``NCHW``; of each image where it is a list.
        max_images: None for all.
        description: Markdown.
        convert: How numbers become uint8.
    """
    if isinstance(pictures, list | tuple):
        if not pictures:
            raise refused("no image", "log nothing where there are none")
        held = [hold(each, dataformats, convert=convert) for each in pictures[:max_images]]
    else:
        if (
            max_images is not None
            and (dataformats or "N")[:1].upper() == "N"
            and hasattr(pictures, "__getitem__")
        ):
            pictures = pictures[:max_images]
        held = [hold(pictures, dataformats, batch=True, convert=convert)]
    return of_held(held, description)


def of_held(held: Sequence[Held], description: str) -> Prepared:
    """Return images that were taken."""

    def make(tag: str) -> list[Value]:
        found = [each.pictures() for each in held]
        size = found[0][1] if found else Size(0, 0)
        pictures = [picture for several, _ in found for picture in several]
        return [image.value(tag, pictures, size.width, size.height, description=description)]

    return Prepared(make, bounded(sum(each.nbytes for each in held)))
