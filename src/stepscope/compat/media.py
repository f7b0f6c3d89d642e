"""Images, videos and sounds."""

from __future__ import annotations

import sys
from typing import Any

from stepscope.compat import encodings, torch_values
from stepscope.compat.base import Base
from stepscope.record.summaries.encoder import Prepared


class Media(Base):
    """The methods that record images, videos and sounds."""

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Record an image: uint8, or floats of 0 to 1."""
        self._add(
            self._dialect.tag(tag),
            global_step,
            walltime,
            lambda: torch_values.prepare_image(img_tensor, dataformats, self._dialect.pixels),
        )

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Record several images as one, eight in a row: an array, or a list with ``dataformats="CHW"``."""
        self._add(
            self._dialect.tag(tag),
            global_step,
            walltime,
            lambda: torch_values.prepare_images(img_tensor, dataformats, self._dialect.pixels),
        )

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float | str = 1,
        dataformats: Any = "CHW",
        labels: Any = None,
        **kwargs: Any,
    ) -> None:
        """Record an image with boxes drawn on it.

        Args:
            tag: Its series.
            img_tensor: The image.
            box_tensor: [n, 4]: left, top, right and bottom in pixels.
            global_step: Its step.
            walltime: Its time in seconds since the epoch.
            rescale: Factor of the size; tensorboardX has ``dataformats`` here.
            dataformats: Of the image; tensorboardX has ``labels`` here.
            labels: One per box.
            kwargs: Arguments of tensorboardX: ``rescale`` and ``dataformats`` are used, others ignored.
        """
        if isinstance(rescale, str):
            labels = labels if isinstance(dataformats, str) else dataformats
            rescale, dataformats = 1, rescale
        self._add(
            tag,
            global_step,
            walltime,
            lambda: torch_values.prepare_image_with_boxes(
                img_tensor, box_tensor, float(rescale), dataformats, labels, self._dialect.pixels
            ),
        )

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Record a matplotlib figure, or several as one image.

        Args:
            tag: Its series.
            figure: A figure or a list of figures.
            global_step: Its step.
            close: Close it afterwards.
            walltime: Its time in seconds since the epoch.
        """
        self._add(self._dialect.tag(tag), global_step, walltime, lambda: _figures(figure))
        pyplot = sys.modules.get("matplotlib.pyplot")
        if close and pyplot is not None:
            for each in figure if isinstance(figure, list) else [figure]:
                pyplot.close(each)

    def add_video(
        self,
        tag: str,
        vid_tensor: Any,
        global_step: Any = None,
        fps: float | None = 4,
        walltime: float | None = None,
        dataformats: str = "NTCHW",
    ) -> None:
        """Record videos, side by side, as a GIF; no other package is needed."""
        self._add(
            self._dialect.tag(tag),
            global_step,
            walltime,
            lambda: torch_values.prepare_video(vid_tensor, fps or 4, dataformats, self._dialect.pixels),
        )

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Record a sound: (1, L) or (L,), values of -1 to 1; tensorboardX's (L, channels)."""
        stereo = self._dialect.stereo
        self._add(tag, global_step, walltime, lambda: encodings.audio(snd_tensor, sample_rate, stereo=stereo))


def _figures(figure: Any) -> Prepared:
    """Draw figures immediately; without alpha, like the originals."""
    import numpy as np

    from stepscope.record.summaries.encoder import refused
    from stepscope.record.summaries.media import rendered

    several = figure if isinstance(figure, list) else [figure]
    if not several or not all(hasattr(each, "savefig") for each in several):
        raise refused(f"{type(figure).__name__}, expected a matplotlib figure", "pass the figure itself")
    drawn = [rendered(each)[:, :, :3] for each in several]
    if len({each.shape for each in drawn}) > 1:
        raise refused("figures of several sizes", "give them one figsize, or log them one by one")
    return torch_values.prepare_image(np.stack(drawn), "NHWC")
