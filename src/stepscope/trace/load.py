"""From a path to a Trace: find the format by content, read, structure, cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from stepscope.errors import TraceError
from stepscope.kernels import nesting, objects, warn_if_uncompiled
from stepscope.trace import cache as cached
from stepscope.trace import pool
from stepscope.trace.formats import require_format
from stepscope.trace.merge import merge
from stepscope.trace.model import Trace
from stepscope.trace.ranks import load_directory, load_rank_set, with_rank_of
from stepscope.trace.set import set_files
from stepscope.trace.structure import build
from stepscope.urls import is_url

warn_if_uncompiled(objects)
warn_if_uncompiled(nesting)


def load_trace(path: str | os.PathLike[str], *, cache: bool = True) -> Trace:
    """Read a profile of any supported format, or a directory of them as a set of ranks and steps.

    Args:
        path: A file, plain or gzipped, a directory, or a name of :mod:`stepscope.trace.set`; or the
            URL of one, which is fetched first.
        cache: Keep the columns in the user's cache directory, and read them from there while the trace has
            not changed.

    Raises:
        TraceError: Not a profile, or a damaged one of which nothing could be read.
        EmptyTraceError: A profile without any event.
        LogDirectoryError: The URL cannot be read.
    """
    if is_url(path):
        from stepscope.mirror import fetched  # loads what speaks with stores, which a file needs none of

        path = fetched(path)
    place = Path(path)
    if place.is_dir():
        return load_directory(place, lambda files: load_files(files, cache=cache))
    if files := set_files(place):
        return load_rank_set(files, lambda files: load_files(files, cache=cache))
    return with_rank_of(load_file(place, cache=cache), place)


def load_files(paths: Sequence[Path], *, cache: bool = True) -> Iterator[Trace | TraceError]:
    """Yield each of many files in order, or why it cannot be read; many large ones by several processes."""
    known = (
        {path: trace for path in paths if (trace := cached.load_cached(path)) is not None} if cache else {}
    )
    new = [path for path in paths if path not in known]
    traces: Iterator[Trace | TraceError] = (
        pool.read_many(load_file, new, cache=cache)
        if pool.worth(new)
        else (_tried(path, cache=cache) for path in new)
    )
    for path in paths:
        yield known.pop(path) if path in known else next(traces)


def _tried(path: Path, *, cache: bool) -> Trace | TraceError:
    try:
        return load_file(path, cache=cache)
    except TraceError as error:
        return error


def load_file(path: Path, *, cache: bool = True) -> Trace:
    """Read one file; see :func:`load_trace`."""
    if not path.exists():
        raise TraceError("no such profile", hint="check the path", path=path)
    if cache and (trace := cached.load_cached(path)) is not None:
        return trace
    try:
        trace = merge([build(draft) for draft in require_format(path).read(path)])
    except TraceError as error:
        if error.path is None:
            raise type(error)(error.message, hint=error.hint, path=path) from error
        raise
    except MemoryError as error:
        raise TraceError(
            "reading the profile takes more memory than there is, or than is allowed",
            hint="record fewer steps, set STEPSCOPE_READ_BYTES to more (0: no bound); if the file is small, "
            "it is damaged",
            path=path,
        ) from error
    except (
        ValueError, LookupError, TypeError, ArithmeticError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        # Importers say what they expected wherever they can; whatever else damage leads to ends here.
        raise TraceError(
            f"the profile is damaged, or of a kind that cannot be read yet: {type(error).__name__}: {error}",
            hint="record it again; if it opens elsewhere, please report it with the file",
            path=path,
        ) from error
    except OSError as error:
        raise TraceError(
            f"cannot read the profile: {error.strerror or error}",
            path=path,
            hint="check whether this user may read the file",
        ) from error
    if cache:
        cached.store(path, trace)
    return trace
