"""The four views, and the kernel table, of any trace.

They answer tfprof's questions with its options and without its defects: time on devices and on the host
are two numbers, never one sum; a value is the mean over the profiled steps, and how many those are is said;
a peak is a peak, not a sum of peaks; what was not recorded is missing, not 0.
"""

from __future__ import annotations

from stepscope.analyze.views.answer import VIEWS, Answer, AnswerLine, losses, view

__all__ = ["VIEWS", "Answer", "AnswerLine", "losses", "view"]
