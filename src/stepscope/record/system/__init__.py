"""What the machine and this process are doing: one module per source, each a few files or one library.

A source's ``read`` returns readings by tag. What cannot be read is left out: it is not 0. Nothing here is
called by a training thread.
"""

from __future__ import annotations

from stepscope.record.system.sources import Source as Source
from stepscope.record.system.sources import sources as sources

__all__ = ["Source", "sources"]
