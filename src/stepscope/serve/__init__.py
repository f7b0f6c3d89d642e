"""The page's server: an HTTP interface over a log directory that is being followed.

``run`` serves in the foreground, ``Server`` in a thread of its own. Both load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepscope.serve.server import Server as Server
    from stepscope.serve.server import run as run

__all__ = ["Server", "run"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")
    from stepscope.serve import server

    return getattr(server, name)
