"""The four views, and the kernel table, of any trace.

They answer tfprof's questions with its options and without its defects: time on devices and on the host
are two numbers, never one sum; a value is the mean over the profiled steps, whose number is stated;
a peak is a peak, not a sum of peaks; data that was not recorded is missing, not 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy

if TYPE_CHECKING:
    from stepscope.analyze.views.answer import VIEWS as VIEWS
    from stepscope.analyze.views.answer import Answer as Answer
    from stepscope.analyze.views.answer import AnswerLine as AnswerLine
    from stepscope.analyze.views.answer import losses as losses
    from stepscope.analyze.views.answer import view as view

_HOMES = {"Answer": "answer", "AnswerLine": "answer", "VIEWS": "answer", "losses": "answer", "view": "answer"}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy.names(__name__, _HOMES)
