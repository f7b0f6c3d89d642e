"""The page's server: an HTTP interface over a log directory that is being followed.

``run`` serves in the foreground, ``Server`` in a thread of its own. Both load on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.serve.server import Server as Server
    from stepscope.serve.server import run as run

__all__ = ["Server", "run"]

__getattr__, __dir__ = lazy.names(__name__, {"Server": "server", "run": "server"})
