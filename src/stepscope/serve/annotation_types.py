"""Types sent when people name, note, archive and delete runs, and save views."""

from __future__ import annotations

import msgspec

from stepscope.store.annotations import SavedView, ThrownRun


class RunChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/run``: annotations of a run. What is left out stays as it is."""

    run: str
    title: str | msgspec.UnsetType | None = msgspec.UNSET
    note: str | msgspec.UnsetType = msgspec.UNSET
    tags: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    """None: those that the run recorded."""
    archived: bool | msgspec.UnsetType = msgspec.UNSET
    colour: int | msgspec.UnsetType | None = msgspec.UNSET
    """Number of the colour that it is drawn in, from 1; None: chosen by the page."""


class StepSaid(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/run/step``: a note on a step; answered as it was taken."""

    run: str
    step: int
    text: str
    """In one line; "" removes the note."""


class RunDelete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/run/delete``: move a run to the trash."""

    run: str
    confirm: str
    """The run's name once more."""


class TrashRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/trash/restore`` and ``trash/empty``."""

    id: str


class TrashList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/trash``, and of what changes it."""

    runs: list[ThrownRun]


class ViewSave(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/views/save``: keep a view under a name."""

    name: str
    hash: str


class MeaningChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/meaning/correct``. Facts that are left out stay; null: as the name says."""

    tag: str
    """A tag, or a pattern in which ``*`` stands for any characters."""
    kind: str | msgspec.UnsetType | None = msgspec.UNSET
    role: str | msgspec.UnsetType | None = msgspec.UNSET
    split: str | msgspec.UnsetType | None = msgspec.UNSET


class ViewDelete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Body of ``POST api/v1/views/forget``: delete a saved view."""

    name: str


class ViewList(msgspec.Struct, frozen=True):
    """Answer of ``GET api/v1/views``, and of what changes them."""

    views: list[SavedView]
