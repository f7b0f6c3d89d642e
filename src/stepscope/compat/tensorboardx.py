"""``SummaryWriter`` of tensorboardX, which writes other bytes than torch's (``docs/guides/compat.md``)."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from stepscope.compat.dialect import TENSORBOARDX
from stepscope.compat.file_writer import OwnFile
from stepscope.compat.writer import SummaryWriter as _Writer

__all__ = ["FileWriter", "GlobalSummaryWriter", "SummaryWriter"]


class SummaryWriter(_Writer):
    """Records as ``tensorboardX.SummaryWriter`` does.

    Args:
        logdir: The run's directory; by default ``runs/<time>_<host><comment>``.
        comment: End of the default directory's name.
        purge_step: Records of earlier attempts from this step on become void.
        max_queue: Accepted and not needed: no call waits for a queue.
        flush_secs: The longest that a value waits, at most 1 s.
        filename_suffix: End of the event file's name.
        write_to_disk: Whether anything is written.
        log_dir: As ``logdir``.
        comet_config: Not supported; anything but disabled leads to one warning.
        kwargs: Other arguments, which are ignored with one warning.
    """

    _dialect = TENSORBOARDX

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
        comet_config: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            logdir or log_dir,
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            write_to_disk,
            comet_config=comet_config,
            **kwargs,
        )

    def add_onnx_graph(self, onnx_model_file: str | os.PathLike[str]) -> None:
        """Record the graph of an ONNX file."""
        super().add_onnx_graph(onnx_model_file)


class FileWriter(OwnFile):
    """Writes protocol buffers into an event file.

    Args:
        logdir: The run's directory.
        max_queue: Accepted and not needed: no call waits for a queue.
        flush_secs: The longest that an event waits, at most 1 s.
        filename_suffix: End of the file's name.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._writer = writer = SummaryWriter(logdir, "", None, max_queue, flush_secs, filename_suffix)
        put, flush, close = writer._put_event, writer.flush, writer.close
        super().__init__(writer.get_logdir(), TENSORBOARDX.profile_tag, put=put, flush=flush, close=close)

    @contextmanager
    def use_metadata(self, *, global_step: Any = None, walltime: float | None = None) -> Iterator[FileWriter]:
        """Set step and time of what is added in this block without them."""
        with self._writer.use_metadata(global_step=global_step, walltime=walltime):
            yield self


_made: GlobalSummaryWriter | None = None
_making = threading.Lock()


class GlobalSummaryWriter:
    """The one writer of a process, which counts the steps of each tag by itself; for code in many places.

    Args:
        logdir: The run's directory; other arguments are those of ``SummaryWriter``.
        comment: As for ``SummaryWriter``, like those that follow.
        purge_step: Likewise.
        max_queue: Likewise.
        flush_secs: Likewise.
        filename_suffix: Likewise.
        write_to_disk: Likewise.
        log_dir: Likewise.
        coalesce_process: Accepted; a forked child has to make a writer of its own, as with ``SummaryWriter``.
        kwargs: As for ``SummaryWriter``.
    """

    def __init__(
        self,
        logdir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
        write_to_disk: bool = True,
        log_dir: str | os.PathLike[str] | None = None,
        coalesce_process: bool = True,
        **kwargs: Any,
    ) -> None:
        self.smw = SummaryWriter(
            logdir,
            comment,
            purge_step,
            max_queue,
            flush_secs,
            filename_suffix,
            write_to_disk,
            log_dir,
            **kwargs,
        )
        self.lock = threading.Lock()
        self.scalar_tag_to_step: dict[str, int] = {}
        self.image_tag_to_step: dict[str, int] = {}
        self.histogram_tag_to_step: dict[str, int] = {}
        self.audio_tag_to_step: dict[str, int] = {}
        self.text_tag_to_step: dict[str, int] = {}

    def add_scalar(self, tag: str, scalar_value: Any, walltime: float | None = None) -> None:
        """Record a number at the next step of its tag."""
        self._next(
            self.scalar_tag_to_step, tag, lambda step: self.smw.add_scalar(tag, scalar_value, step, walltime)
        )

    def add_image(
        self, tag: str, img_tensor: Any, walltime: float | None = None, dataformats: str = "CHW"
    ) -> None:
        """Record an image at the next step of its tag."""
        self._next(
            self.image_tag_to_step,
            tag,
            lambda step: self.smw.add_image(tag, img_tensor, step, walltime, dataformats),
        )

    def add_histogram(
        self,
        tag: str,
        values: Any,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Record a histogram at the next step of its tag."""
        self._next(
            self.histogram_tag_to_step,
            tag,
            lambda step: self.smw.add_histogram(tag, values, step, bins, walltime, max_bins),
        )

    def add_audio(
        self, tag: str, snd_tensor: Any, sample_rate: int = 44100, walltime: float | None = None
    ) -> None:
        """Record a sound at the next step of its tag."""
        self._next(
            self.audio_tag_to_step,
            tag,
            lambda step: self.smw.add_audio(tag, snd_tensor, step, sample_rate, walltime),
        )

    def add_text(self, tag: str, text_string: str, walltime: float | None = None) -> None:
        """Record a text at the next step of its tag."""
        self._next(
            self.text_tag_to_step, tag, lambda step: self.smw.add_text(tag, text_string, step, walltime)
        )

    @staticmethod
    def getSummaryWriter() -> GlobalSummaryWriter:  # noqa: N802  the original's name
        """Return the writer of this process, which the first call creates."""
        global _made
        with _making:
            if _made is None or _made.smw is None:
                _made = GlobalSummaryWriter()
            return _made

    @property
    def file_writer(self) -> OwnFile:
        """The object that accepts protocol buffers."""
        return self.smw._get_file_writer()

    def close(self) -> None:
        """Write everything and end the run."""
        self.smw.close()

    def _next(self, steps: dict[str, int], tag: str, log: Callable[[int], None]) -> None:
        with self.lock:
            step = steps[tag] = steps.get(tag, -1) + 1
            log(step)
