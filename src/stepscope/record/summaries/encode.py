"""Pixels, samples and rows become files that other programs open: PNG, GIF, WAV, TSV.

All of it runs on a background thread, and Pillow is imported there. The libraries hold the interpreter, so
that a thread beside the training would hold it up for as long as one call into them takes, and for half of
the time in between. Large values are therefore encoded by a process, which runs this module. It is started
with the first large array, ends when nothing has come for a while, and with this one. If it cannot be
started, the work is done in the thread after all.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import mmap
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from stepscope.child import Child

if TYPE_CHECKING:
    from PIL.Image import Image

Pixels = NDArray[np.uint8]
"""uint8 [height, width, channels]: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA."""
_LEVEL, _RUNS = 1, 3
"""zlib's strategy Z_RLE: after PNG's filters, the result is as small as with others, and faster."""
_COLORS = 256
_SAMPLE = 1 << 16
"""Pixels of a film from which its palette is made."""
_LONGEST = 65_535
"""The longest that GIF can show one frame, in hundredths of a second; equal frames become one."""
LINES = 256
"""Lines made at once: some tenths of a millisecond, in which training cannot run."""


def png(pixels: Pixels) -> bytes:
    """Return a picture as PNG; no pixel is changed."""
    data = OFFLOAD.run("png", pixels)
    return png_here(pixels) if data is None else data


def png_here(pixels: Pixels) -> bytes:
    """Return a picture as PNG, made in this process."""
    file = io.BytesIO()
    _image(pixels).save(file, "PNG", compress_level=_LEVEL, compress_type=_RUNS)
    return file.getvalue()


def gif(frames: Pixels, fps: float) -> bytes:
    """Return frames as a GIF that repeats for ever.

    Colours are exact if all frames together have at most 256, otherwise the nearest of 256. A frame that
    equals the one before becomes a longer showing of that.

    Args:
        frames: uint8 [frames, height, width, channels], at least one; alpha is drawn on white.
        fps: Frames per second; GIF counts in hundredths of a second, and viewers take 50 at most. All
            frames together are shown for 11 minutes at most.
    """
    data = OFFLOAD.run("gif", frames, fps=fps)
    return gif_here(frames, fps) if data is None else data


def gif_here(frames: Pixels, fps: float) -> bytes:
    """Return frames as a GIF, made in this process."""
    count, height, width, _ = frames.shape
    colors, indices = _palette(_opaque(frames).reshape(count * height, width, 3))
    images = [_image(frame[..., np.newaxis]) for frame in indices.reshape(count, height, width)]
    for image in images:
        image.putpalette(colors)
    shown_ms = 10 * min(max(round(100 / fps), 2), _LONGEST // count)
    file = io.BytesIO()
    images[0].save(
        file, "GIF", save_all=True, append_images=images[1:], duration=shown_ms, loop=0, optimize=False
    )
    return file.getvalue()


def wav(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return sound as WAV.

    Args:
        samples: int16 [frames, channels].
        rate: Frames per second.
    """
    data = OFFLOAD.run("wav", samples, rate=rate)
    return wav_here(samples, rate) if data is None else data


def wav_here(samples: NDArray[np.int16], rate: int) -> bytes:
    """Return sound as WAV, made in this process."""
    import wave

    file = io.BytesIO()
    with wave.open(file, "wb") as sound:
        sound.setnchannels(samples.shape[1])
        sound.setsampwidth(2)
        sound.setframerate(rate)
        sound.writeframes(np.ascontiguousarray(samples, "<i2").tobytes())
    return file.getvalue()


def as_int16(samples: NDArray[Any]) -> NDArray[np.int16]:
    """Return samples of -1 to 1 with 16 bits; values beyond are clipped, int16 stays unchanged."""
    if samples.dtype == np.int16:
        return samples
    return np.asarray(np.clip(samples, -1, 1) * np.iinfo(np.int16).max, np.int16)


def _image(pixels: Pixels) -> Image:
    from PIL import Image

    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))


def _palette(rgb: Pixels) -> tuple[list[int], Pixels]:
    """Return red, green and blue of each colour in turn, and which of them each pixel has."""
    wide = rgb.astype(np.uint32)
    packed = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    few = np.unique(packed) if len(np.unique(_some(packed.reshape(-1)))) <= _COLORS else None
    if few is not None and len(few) <= _COLORS:
        colors = np.stack([few >> 16, few >> 8 & 255, few & 255], 1)
        return colors.reshape(-1).tolist(), np.searchsorted(few, packed).astype(np.uint8)
    from PIL.Image import Dither

    some = _image(_some(rgb.reshape(-1, 3))[np.newaxis]).quantize(_COLORS, dither=Dither.NONE)
    return some.getpalette() or [], np.asarray(_image(rgb).quantize(palette=some, dither=Dither.NONE))


def _some(pixels: NDArray[Any]) -> NDArray[Any]:
    return pixels[:: max(1, len(pixels) // _SAMPLE)]


def _opaque(frames: Pixels) -> Pixels:
    if frames.shape[3] in (2, 4):
        alpha = frames[..., -1:].astype(np.uint16)
        mixed = frames[..., :-1] * alpha + np.uint16(255) * (255 - alpha)
        frames = (mixed // 255).astype(np.uint8)
    return np.broadcast_to(frames, (*frames.shape[:3], 3))


def write_rows(path: Path, matrix: NDArray[Any]) -> None:
    """Write a matrix as text, a line for each row.

    Raises:
        OSError: It could not be written.
    """
    if OFFLOAD.run("tsv", matrix, path=str(path)) is None:
        write_rows_here(matrix, str(path))


def write_rows_here(matrix: NDArray[Any], path: str) -> None:
    """Write a matrix in this process, some rows at a time: as Python numbers it takes much memory."""
    with Path(path).open("wb") as file:
        for start in range(0, len(matrix), LINES):
            rows = matrix[start : start + LINES].tolist()
            file.write("".join("\t".join(map(repr, row)) + "\n" for row in rows).encode())
            breathe()


def apart(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
    """Return an array, not filled, whose memory is let go of without the interpreter's lock.

    The C library gives dozens of megabytes back while it is held, which takes some milliseconds in which no
    other thread runs.
    """
    kind = np.dtype(dtype)
    flags = {} if os.name == "nt" else {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS}
    memory = mmap.mmap(-1, max(math.prod(shape) * kind.itemsize, 1), **flags)
    with contextlib.suppress(AttributeError, OSError):
        memory.madvise(mmap.MADV_HUGEPAGE)
    array: NDArray[Any] = np.ndarray(shape, kind, memory)
    return array


# --- the process for what is large -----------------------------------------------------------------


LARGE_BYTES = 32 << 10
"""Below this, encoding takes some 1 ms at most."""
PIPE_BYTES = 1 << 20
APART_BYTES = 4 << 20
"""From this size on memory takes long to be let go of."""
TRIES = 2
"""Processes that try one array: if two of them died, the array may be the cause."""


def breathe() -> None:
    """Let another thread have the interpreter now; otherwise it would get it in 5 ms at the earliest."""
    time.sleep(0)


class Offload:
    """The process, and the way to it. One request is under way at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._useless = False
        # It works without the training's signals, on one thread.
        self.child = Child(
            "stepscope.record.summaries.encode",
            stderr=subprocess.DEVNULL,
            pipe_bytes=PIPE_BYTES,
            OMP_NUM_THREADS="1",
            OPENBLAS_NUM_THREADS="1",
        )

    def run(self, name: str, array: NDArray[Any], **facts: Any) -> bytes | None:
        """Return the result of a function in ``FUNCTIONS`` for an array; None if it must be done here.

        Of many bytes it is a view.

        Args:
            name: The function.
            array: Its first argument.
            facts: Its other arguments.

        Raises:
            OSError: The function could not write its file.
        """
        if array.nbytes < LARGE_BYTES or self._useless:
            return None
        with self._lock:
            tries = 0
            while tries < TRIES:
                with contextlib.suppress(BrokenPipeError, EOFError, ValueError):
                    return self._exchange(name, np.ascontiguousarray(array), facts)
                tries += 1
                self.child.end()  # it died, or says what it should not
            return None

    def end(self) -> None:
        """End the process, because nothing has come for a while."""
        if self._lock.acquire(blocking=False):
            try:
                self.child.end()
            finally:
                self._lock.release()

    def forget(self) -> None:
        """Forget the process in a forked child: it belongs to the parent."""
        self._lock = threading.Lock()
        self.child.forget()

    def _exchange(self, name: str, array: NDArray[Any], facts: dict[str, Any]) -> bytes | None:
        try:
            stdin, stdout = self.child.pipes()
        except (OSError, RuntimeError, ValueError):  # no process can be had, or the interpreter ends
            self._useless = True
            return None
        head = {"name": name, "shape": array.shape, "dtype": array.dtype.str, "facts": facts}
        _write(stdin.fileno(), json.dumps(head).encode() + b"\n")
        _write(stdin.fileno(), array.reshape(-1).view(np.uint8).data)
        header = json.loads(stdout.readline() or b"null")
        if not isinstance(header, dict):
            raise EOFError
        if "errno" in header:
            raise OSError(header["errno"], header["strerror"])
        if "error" in header:
            return None  # done here it fails again, with its reason
        size = int(header["size"])
        data = _read(stdout, size)
        if len(data) != size:
            raise EOFError
        return data


def _write(target: int, data: bytes | memoryview) -> None:
    """Write all of it, a part at a time, without the interpreter's lock."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(target, rest[:PIPE_BYTES]) :]


def _read(source: IO[bytes], size: int) -> bytes:
    """Read so many bytes, fewer at the end; many into memory that holds up no thread."""
    if size < APART_BYTES:
        return source.read(size)
    whole = apart((size,), np.uint8).data
    at = 0
    while at < size:
        count = source.readinto(whole[at:])  # type: ignore[attr-defined]
        if not count:
            break
        at += count
    return cast("bytes", whole[:at].toreadonly())


OFFLOAD = Offload()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=OFFLOAD.forget)


# --- in that process -------------------------------------------------------------------------------


FUNCTIONS: dict[str, Any] = {
    "png": png_here,
    "gif": gif_here,
    "wav": wav_here,
    "tsv": write_rows_here,
}


def main() -> None:
    """Encode until there is nothing more; end quietly if the training has gone."""
    with contextlib.suppress(OSError):
        os.nice(5)  # behind the training, not so far that a full machine never lets it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    with contextlib.suppress(BrokenPipeError, EOFError):
        while line := sys.stdin.buffer.readline():
            answer(json.loads(line), sys.stdin.buffer, answers)


def answer(head: dict[str, Any], data: BinaryIO, answers: BinaryIO) -> None:
    """Encode one array."""
    array = np.empty(head["shape"], head["dtype"])
    view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
    at = 0
    while at < len(view):
        count = data.readinto(view[at:])  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        at += count
    body = b""
    try:
        body = FUNCTIONS[head["name"]](array, **head["facts"]) or b""
        header: dict[str, Any] = {"size": len(body)}
    except OSError as error:
        header = {"errno": error.errno, "strerror": error.strerror}
    except Exception as error:  # noqa: BLE001  the training's process finds out and says so
        header = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(header).encode() + b"\n")
    answers.write(body)
    answers.flush()


if __name__ == "__main__":
    main()
