"""The process that ``offload`` starts: it encodes one array after the other until its input ends."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from typing import Any, BinaryIO

import numpy as np

from stepscope.record.summaries import embedding, encode

FUNCTIONS: dict[str, Any] = {
    "png": encode.png_here,
    "gif": encode.gif_here,
    "wav": encode.wav_here,
    "tsv": embedding.write_rows_here,
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
        told: dict[str, Any] = {"size": len(body)}
    except OSError as error:
        told = {"errno": error.errno, "strerror": error.strerror}
    except Exception as error:  # noqa: BLE001  the training's process finds out and says so
        told = {"error": f"{type(error).__name__}: {error}"}
    answers.write(json.dumps(told).encode() + b"\n")
    answers.write(body)
    answers.flush()


if __name__ == "__main__":
    main()
