"""Answers to annotations of runs: names, notes, tags, saved views, and the trash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from stepscope.errors import LogDirectoryError, UsageError
from stepscope.names.meanings import Described, meanings_at
from stepscope.serve.reply import run_of
from stepscope.serve.routes import Backend, get, post
from stepscope.store import Log
from stepscope.store.annotations import Notes, SavedView, SavedViews, ThrownRun, Trash, correct
from stepscope.store.annotations.throw import throw_run


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


class Annotations:
    """Answers for one log directory; each answer reads the present files.

    Args:
        log_dir: The log directory.
        log: Returns the open log, None before.
    """

    def __init__(self, log_dir: Path, log: Callable[[], Log | None]) -> None:
        self.log_dir, self.log = log_dir, log

    @classmethod
    def of_backend(cls, backend: Backend) -> Annotations:
        """Return those of a server."""
        return cls(backend.directory, backend.read)

    @post("run")
    def change(self, body: RunChange) -> RunChange:
        """Annotate a run; the answer is its annotations now."""
        self._known(body.run)
        changed = _given(body, ("title", "note", "tags", "archived", "colour"))
        note = Notes(self.log_dir).change(body.run, **changed)
        tags = None if note.tags is None else list(note.tags)
        return RunChange(body.run, note.title, note.note, tags, archived=note.archived, colour=note.colour)

    @post("run/step")
    def note_step(self, body: StepSaid) -> StepSaid:
        """Keep a note on a step of a run."""
        self._known(body.run)
        note = Notes(self.log_dir).note_step(body.run, body.step, body.text)
        text = next((known.text for known in note.steps if known.step == body.step), "")
        return StepSaid(body.run, body.step, text)

    @post("run/delete")
    def delete(self, body: RunDelete) -> TrashList:
        """Throw a run away."""
        if body.confirm != body.run:
            raise UsageError("not confirmed: nothing was deleted", hint="confirm must repeat the run's name")
        throw_run(self._known(body.run), body.run)
        return self.trash()

    @post("trash/restore")
    def restore(self, body: TrashRequest) -> TrashList:
        """Take a run back."""
        Trash(self.log_dir).restore(body.id)
        return self.trash()

    @post("trash/empty")
    def empty(self, body: TrashRequest) -> TrashList:
        """Delete a run of the trash for good."""
        Trash(self.log_dir).empty(body.id)
        return self.trash()

    @post("views/save")
    def save_view(self, body: ViewSave) -> ViewList:
        """Keep a view under a name."""
        SavedViews(self.log_dir).save(body.name, body.hash)
        return self.views()

    @post("views/forget")
    def delete_view(self, body: ViewDelete) -> ViewList:
        """Forget a view."""
        SavedViews(self.log_dir).remove(body.name)
        return self.views()

    @get("meaning")
    def meaning(self, tag: Annotated[str, Meta(description="name of a series")]) -> Described:
        """Return the meaning of a tag, and the evidence for it."""
        return meanings_at(self.log_dir).described(tag)

    @post("meaning/correct")
    def correct(self, body: MeaningChange) -> Described:
        """Correct the meaning of a tag; the answer is its meaning now."""
        self._writable()
        correct(self.log_dir, body.tag, **_given(body, ("kind", "role", "split")))
        return self.meaning(body.tag)

    @get("views")
    def views(self) -> ViewList:
        """Return the saved views."""
        return ViewList(SavedViews(self.log_dir).all())

    @get("trash")
    def trash(self) -> TrashList:
        """Return the contents of the trash."""
        return TrashList(Trash(self.log_dir).all())

    def _known(self, run: str) -> Log:
        self._writable()
        return run_of(self.log(), run)[0]

    def _writable(self) -> None:
        log = self.log()
        if log is not None and log.is_remote:
            raise LogDirectoryError(
                "this log directory is read over the network and cannot be changed from here",
                hint="change it where it is stored",
            )


def _given(body: msgspec.Struct, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the fields of a message that were sent."""
    return {name: value for name in names if (value := getattr(body, name)) is not msgspec.UNSET}
