"""Sounds: encoded clips, each with a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepscope.errors import UNUSUAL_SUMMARY, EventFileError
from stepscope.events.kinds.image import EncodedImage, blob
from stepscope.events.messages import STRING, DataClass, Tensor, Value
from stepscope.events.wire import Message, encode, message, wire

PLUGIN = "audio"
WAV = 11


@message
class Content(Message):
    """AudioPluginData."""

    encoding: int = wire(2, "int32")


@dataclass(frozen=True)
class Clip:
    """One sound, and its name."""

    blob: EncodedImage
    label: str


def value(tag: str, clips: Sequence[bytes], labels: Sequence[str] = (), *, description: str = "") -> Value:
    """Return the value that records sounds.

    Args:
        tag: Their series.
        clips: Encoded.
        labels: Markdown, one per clip or none.
        description: Markdown.
    """
    texts = [text.encode() for text in labels] or [b""] * len(clips)
    pairs = [part for pair in zip(clips, texts, strict=True) for part in pair]
    tensor = Tensor.of_texts(*pairs, sizes=(len(clips), 2))
    content = encode(Content(WAV)) if all(clip[:4] == b"RIFF" for clip in clips) else b""
    # With a data class TensorBoard takes the labels for clips instead of leaving them out.
    return Value.of(tag, PLUGIN, tensor, content, data_class=DataClass.UNKNOWN, description=description)


def read(value: Value) -> tuple[Clip, ...]:
    """Return the sounds, whichever way they were written.

    Raises:
        EventFileError: There are none.
    """
    if value.audio is not None:
        old = value.audio
        return (Clip(blob(old.encoded_audio_string, old.content_type or "audio/wav"), ""),)
    if value.tensor is None:
        raise EventFileError("a sound without a tensor", hint=UNUSUAL_SUMMARY)
    if value.tensor.dtype != STRING:
        raise EventFileError(
            f"a sound whose tensor is of DataType {value.tensor.dtype}", hint=UNUSUAL_SUMMARY
        )
    texts, shape = value.tensor.string_val, value.tensor.tensor_shape
    step = 2 if shape is not None and len(shape.sizes) == 2 and shape.sizes[1] == 2 else 1
    return tuple(
        Clip(blob(texts[at]), texts[at + 1].decode("utf-8", "replace") if at + step - 1 > at else "")
        for at in range(0, len(texts) - step + 1, step)
    )
