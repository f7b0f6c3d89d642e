"""The differences between what tensorboardX and torch write."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from stepscope.compat import torch_values
from stepscope.record import messages
from stepscope.record.problems import RefusalError, shown
from stepscope.record.values import Pending, read

_ODD = re.compile(r"[^-/\w\.]")


@dataclass(frozen=True)
class Dialect:
    """One side of the differences between the two writers.

    Attributes:
        tag: Converts the name that the user gave to a scalar, histogram, image or video into its tag.
        pixels: Converts numbers to uint8.
        line: Returns the directory of one line of ``add_scalars``, given the run's directory and the tags of
            chart and line.
        stereo: Sounds are [frames, channels]; otherwise they have one channel.
        numbered_meshes: The tags of a mesh's parts end in numbers, not in words.
        real_booleans: Booleans among hyper-parameters stay booleans; otherwise they become numbers.
        whole_metrics: The step of ``add_hparams`` applies to the metrics alone, not to the records before
            them.
        profile_tag: Tag of the measurements beside a graph.
    """

    tag: Callable[[Any], Any]
    pixels: torch_values.Pixels
    line: Callable[[str, str, str], str]
    stereo: bool
    numbered_meshes: bool
    real_booleans: bool
    whole_metrics: bool
    profile_tag: str


def _same(tag: Any) -> Any:
    return tag


@lru_cache(maxsize=4096)
def _cleaned(tag: str) -> str:
    found = _ODD.sub("_", tag).lstrip("/")
    if found != tag:
        messages.log(logging.getLogger(__name__), "the tag %s is written as %s", tag, found)
    return found


def _clean(tag: Any) -> Any:
    return _cleaned(tag) if isinstance(tag, str) else tag


TORCH = Dialect(
    tag=_same,
    pixels=torch_values.clipped,
    line=lambda directory, main, tag: f"{directory}/{main.replace('/', '_')}_{tag}",
    stereo=False,
    numbered_meshes=False,
    real_booleans=False,
    whole_metrics=False,
    profile_tag="step1",
)
TENSORBOARDX = Dialect(
    tag=_clean,
    pixels=torch_values.run_over,
    line=lambda directory, main, tag: os.path.join(directory, main, tag),  # noqa: PTH118  as text
    stereo=True,
    numbered_meshes=True,
    real_booleans=True,
    whole_metrics=True,
    profile_tag="profiler",
)


def number(value: Any) -> float | Pending:
    """Return what the originals accept as a number, which includes text that spells one and a list of one.

    Raises:
        RefusalError: It is not a number.
    """
    if isinstance(value, list):
        value = np.array(value)
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "SU" and value.size == 1:
        value = value.item()
    if isinstance(value, str | bytes):
        try:
            return float(value)
        except ValueError:
            raise RefusalError("value", shown(value), "pass a number, or text that spells one") from None
    return read(value)


def whole(step: Any) -> Any:
    """Return a step as ``int()`` converts text and other numbers; what it refuses is returned unchanged."""
    try:
        return int(step)
    except (TypeError, ValueError, OverflowError):
        return step  # refused later, with the value
