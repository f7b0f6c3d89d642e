"""Embeddings as torch's ``add_embedding`` stores them: files in a folder per step and tag, not events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepscope.compat.torch_values import clipped
from stepscope.record.summaries import embedding
from stepscope.record.summaries.media import hold
from stepscope.record.summaries.snapshot import snapshot
from stepscope.record.summary_encoder import Made, Prepared, refused


def prepare(
    directory: str,
    tag: str,
    step: int,
    mat: Any,
    metadata: Any,
    header: Sequence[str] | None,
    label_img: Any,
) -> Prepared:
    """Return vectors whose files are written on the background thread.

    Args:
        directory: Directory of the run.
        tag: Part of the folder's name, escaped so that no two tags share one.
        step: Part of the folder's name.
        mat: [points, dimensions].
        metadata: A label per point, or several with ``header``.
        header: Names of several columns of labels.
        label_img: [points, channels, height, width].

    Raises:
        RefusalError: They do not fit.
    """
    held = snapshot(mat, "an array [points, dimensions]")
    if len(held.shape) != 2 or not held.size:
        raise refused(f"vectors of shape {held.shape}", "pass [points, dimensions]")
    rows = embedding.labels_of(metadata, header, held.shape[0])
    sprite = None if label_img is None else hold(label_img, "NCHW", batch=True, convert=_colours)
    folder = f"{str(step).zfill(5)}/{escaped(tag)}"

    def make(_: str) -> Made:
        embedding.write(Path(directory), folder, f"{tag}:{str(step).zfill(5)}", held, rows, sprite)
        return None

    return Prepared(make, held.nbytes + (sprite.nbytes if sprite else 0))


def _colours(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return pixels as RGB, also from grey ones."""
    found = clipped(array)
    return np.repeat(found, 3, -1) if found.shape[-1] == 1 else found


def escaped(tag: str) -> str:
    """Return a tag as the name of a folder."""
    for odd in "%/\\":
        tag = tag.replace(odd, f"%{ord(odd):02x}")
    return {".": "%2e", "..": "%2e%2e"}.get(tag, tag)
