"""Lightning: a logger and a callback. The names below load on first use.

They fit ``lightning`` and ``pytorch_lightning``: the one that the program has imported, ``lightning`` if it
has imported neither or both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.integrations.lightning.callback import StepscopeCallback as StepscopeCallback
    from stepscope.integrations.lightning.logger import StepscopeLogger as StepscopeLogger

_HOMES = {"StepscopeCallback": "callback", "StepscopeLogger": "logger"}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
