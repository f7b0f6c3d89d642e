"""A profile on disk as the commands need it: tfprof's own data if there is any, otherwise the trace."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.errors import TraceError, UsageError
from stepscope.urls import is_url

if TYPE_CHECKING:
    from stepscope.trace.model import Trace
    from stepscope.trace.tfprof import Profile


@dataclass
class ProfileSource:
    """The profiles at one path; nothing is read before it is needed.

    Attributes:
        path: File or directory.
        run_metadata: RunMetadata files, if ``path`` is a GraphDef and they are not beside it.
        op_log: OpLogProto file, likewise.
        cache: Whether the trace may be kept in a cache file.
        steps: The steps that count, as :func:`stepscope.analyze.chosen.keep_steps` reads them; empty is all.
    """

    path: Path
    run_metadata: tuple[Path, ...] = ()
    op_log: Path | None = None
    cache: bool = True
    steps: str = ""

    def __post_init__(self) -> None:
        from stepscope.trace.set import exists

        if not exists(self.path):
            raise TraceError(
                "no such profile", hint="pass a trace file or a directory of them", path=self.path
            )
        if self.path.exists() and not os.access(self.path, os.R_OK):
            raise TraceError(
                "cannot read the profile: permission denied",
                path=self.path,
                hint="chmod +r the file, or read it as its owner",
            )

    @cached_property
    def profile(self) -> Profile | None:
        """The profile as tfprof sees it, if the path is one of its sources, else None.

        Raises:
            UsageError: Some steps were chosen: tfprof's own profiles answer for one, or for all.
        """
        from stepscope.trace import tfprof

        if self.run_metadata or self.op_log:
            return tfprof.read_graph(self.path, self.run_metadata, self.op_log)
        read = tfprof.find_profile(self.path)
        if read is not None and self.steps:
            raise UsageError(
                f"steps {self.steps} of tfprof's own data", hint="-step N, or leave it out for all"
            )
        return read() if read is not None else None

    @cached_property
    def trace(self) -> Trace:
        """The profile as a trace, of which the chosen steps are marked."""
        from stepscope.analyze.chosen import keep_steps

        return keep_steps(self._whole, self.steps)

    @property
    def _whole(self) -> Trace:
        from stepscope.trace import load_trace
        from stepscope.trace.set import has_metadata
        from stepscope.trace.tfprof import profile_file

        if self.profile is not None and not self.path.is_dir() and profile_file(self.path) is None:
            from stepscope.trace.context import trace_of

            return trace_of(self.profile, str(self.path))
        own = None if has_metadata(self.path) else profile_file(self.path)
        return load_trace(own or self.path, cache=self.cache)


def open_source(path: str, **more: object) -> ProfileSource:
    """Return the source at a path.

    Raises:
        TraceError: There is nothing there, or it cannot be read.
        UsageError: The path is empty.
        LogDirectoryError: It is a URL that cannot be read.
    """
    if not path:
        raise UsageError("no profile given", hint="stepscope profile scope PATH")
    if is_url(path):
        from stepscope.mirror import fetched

        return ProfileSource(fetched(path), **more)  # type: ignore[arg-type]
    return ProfileSource(Path(path), **more)  # type: ignore[arg-type]
