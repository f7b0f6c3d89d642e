"""tfprof's four views and its adviser, identical to the character.

These modules reproduce the output of tfprof of TensorFlow 2.15 for its own profiles, its known defects
included, so that numbers from old notes, scripts and papers can be reproduced. Other sources get the views of
:mod:`stepscope.analyze.views`, which share the options and repair the defects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.analyze.tfprof.report import TfprofReport as TfprofReport
    from stepscope.analyze.tfprof.report import profile as profile

_HOMES = {
    "TfprofReport": "report",
    "profile": "report",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
