"""Annotations of runs, kept beside them: names, notes, tags, meanings of tags, views, deleted runs.

They are in ``.stepscope`` of the log directory, one small JSON file per run and per view, so that several
servers and commands on one shared directory do not overwrite each other's changes. Event files are never
touched: recordings and annotations stay separate.
"""

from stepscope.store.annotations.metrics import correct
from stepscope.store.annotations.notes import Notes, RunNote, StepNote
from stepscope.store.annotations.trash import ThrownRun, Trash
from stepscope.store.annotations.views import SavedView, SavedViews

__all__ = ["Notes", "RunNote", "SavedView", "SavedViews", "StepNote", "ThrownRun", "Trash", "correct"]
