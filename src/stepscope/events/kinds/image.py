"""Pictures and moving pictures: encoded bytes with their size, one or several of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.kinds.media import OTHER, mime
from stepscope.events.messages import STRING, DataClass, Tensor, Value
from stepscope.events.wire import Message, encode, message, wire
from stepscope.text import counted

PLUGIN = "images"
VIDEO_PLUGIN = "stepscope_video"
"""Videos that no ``<img>`` plays: TensorBoard leaves them out instead of showing a broken image."""


@message
class Content(Message):
    """ImagePluginData, with a field that TensorBoard does not know."""

    moves: bool = wire(15, "bool")


VIDEO = encode(Content(moves=True))
"""These pictures move."""


@dataclass(frozen=True)
class EncodedImage:
    """Encoded bytes and their type."""

    mime: str
    data: bytes


@dataclass(frozen=True)
class Images:
    """The pictures of one step.

    Attributes:
        width: In pixels, 0 if it was not recorded.
        height: Likewise.
        blobs: One per picture.
    """

    width: int
    height: int
    blobs: tuple[EncodedImage, ...]


def value(
    tag: str,
    pictures: Sequence[bytes],
    width: int,
    height: int,
    *,
    video: bool = False,
    description: str = "",
) -> Value:
    """Return the value that records pictures.

    Args:
        tag: Their series.
        pictures: Encoded.
        width: Of each, in pixels.
        height: Likewise.
        video: They move.
        description: Markdown.
    """
    shown = not video or all(mime(picture).startswith("image/") for picture in pictures)
    texts = [b"%d" % width, b"%d" % height, *pictures]
    return Value.of(
        tag,
        PLUGIN if shown else VIDEO_PLUGIN,
        Tensor.of_texts(*texts, sizes=(len(texts),)),
        VIDEO if video else b"",
        data_class=DataClass.BLOB_SEQUENCE,
        description=description,
    )


def read(value: Value) -> Images:
    """Return the pictures, whichever way they were written.

    Raises:
        EventFileError: There are none.
    """
    if value.image is not None:
        old = value.image
        return Images(old.width, old.height, (blob(old.encoded_image_string),))
    texts = value.tensor.string_val if value.tensor and value.tensor.dtype == STRING else []
    if len(texts) < 2:
        raise EventFileError(
            f"pictures with {counted(len(texts), 'string')}: expected width, height and pictures",
            hint=UNUSUAL_SUMMARY,
        )
    width, height = (int(text) if text.isdigit() and len(text) < 10 else 0 for text in texts[:2])
    return Images(width, height, tuple(blob(data) for data in texts[2:]))


def blob(data: bytes, otherwise: str = OTHER) -> EncodedImage:
    """Return encoded bytes with the type that their first ones tell."""
    kind = mime(data)
    return EncodedImage(otherwise if kind == OTHER else kind, data)
