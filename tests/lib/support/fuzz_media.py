"""Encoded images and sounds of others, taken, measured and read back: a target of ``make fuzz``."""

import io
import wave
from pathlib import Path


def seeds() -> list[bytes]:
    """Return small files of each kind that is taken as it is."""
    from PIL import Image

    found = []
    picture = Image.new("RGB", (9, 5), (200, 30, 60))
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        file = io.BytesIO()
        more = {"save_all": True, "append_images": [Image.new("RGB", (9, 5))]} if kind == "GIF" else {}
        picture.save(file, kind, **more)
        found.append(file.getvalue())
    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setparams((1, 2, 8_000, 0, "NONE", ""))
        sound.writeframes(bytes(200))
    return [*found, file.getvalue()]


def records(data: bytes, _: Path) -> None:
    """Take bytes as an image, and as a sound; read back the summary of each."""
    from stepscope.events.kinds import audio, image, media
    from stepscope.record.problems import RefusalError
    from stepscope.record.summaries.media import hold

    width, height = media.size(data)
    assert width >= 0 <= height
    clips = audio.read(audio.value("x", [data]))
    assert clips[0].blob.data == data
    try:
        (held,), (width, height) = hold(data, None).pictures()
    except RefusalError:
        return
    assert image.read(image.value("x", [held], width, height)).blobs[0].data == held
