"""Which process of a distributed job this is, how that is known, and which files it writes.

``detect`` asks, in this order: the arguments, runtimes that are initialised, the environments of launchers;
``docs/guides/ranks.md`` has the table. Nothing is imported and nothing is sent: it reads variables and
looks at modules that are loaded already.
"""

from __future__ import annotations

from stepscope.record.roles.detect import detect
from stepscope.record.roles.role import Chief, Role

__all__ = ["Chief", "Role", "detect"]
