"""From a path to a Trace: find the format by content, read, structure, cache."""

from __future__ import annotations

import os

from stepscope.errors import TraceError
from stepscope.trace.model import Trace


def load_trace(path: str | os.PathLike[str], *, cache: bool = True) -> Trace:
    """Read a profile of any supported format, or a directory of them as a set of ranks and steps.

    Args:
        path: A file, plain or gzipped, or a directory.
        cache: Keep the columns in a cache file beside the trace, or in the user's cache directory where that
            cannot be written, and read from it while the trace has not changed.

    Raises:
        TraceError: Not a profile, or a damaged one of which nothing could be read.
    """
    raise TraceError("cannot read a profile yet", path=path)
