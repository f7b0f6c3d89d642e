"""Answers to annotations of runs: names, notes, tags, saved views, and the trash."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec

from stepscope.errors import LogDirectoryError, UnknownRunError, UsageError
from stepscope.serve.annotation_types import (
    MetricSaid,
    RunChange,
    RunDelete,
    StepSaid,
    TrashList,
    TrashRequest,
    ViewDelete,
    ViewList,
    ViewSave,
)  # fmt: skip
from stepscope.serve.encode import encoded
from stepscope.serve.reply import refusing
from stepscope.store.annotations import MetricKinds, Notes, SavedViews, Trash
from stepscope.store.annotations.throw import throw_run

if TYPE_CHECKING:
    from stepscope.store import Log

Body = TypeVar("Body", bound=msgspec.Struct)


class Annotations:
    """Answers for one log directory; each answer reads what is there now.

    Args:
        log_dir: The log directory.
        log: Returns what has been read of it, None before.
    """

    def __init__(self, log_dir: Path, log: Callable[[], Log | None]) -> None:
        self.log_dir, self.log = log_dir, log
        self._posts = {
            "run": self.change,
            "run/step": self.note_step,
            "run/delete": self.delete,
            "trash/restore": self.restore,
            "trash/empty": self.empty,
            "views/save": self.save_view,
            "views/forget": self.delete_view,
            "metric": self.say_metric,
        }

    def post(self, name: str, body: bytes) -> bytes:
        """Do what a request asks for and return the answer.

        Raises:
            Refusal: It cannot be done.
        """
        with refusing():
            return encoded(self._posts[name](body))

    def get(self, name: str) -> bytes:
        """Return the views or the trash."""
        return encoded(self.views() if name == "views" else self.trash())

    def change(self, body: bytes) -> RunChange:
        """Annotate a run; the answer is its annotations now."""
        wanted = read(body, RunChange)
        self._known(wanted.run)
        told = {name: getattr(wanted, name) for name in ("title", "note", "tags", "archived", "colour")}
        said = {name: value for name, value in told.items() if value is not msgspec.UNSET}
        note = Notes(self.log_dir).change(wanted.run, **said)
        tags = None if note.tags is None else list(note.tags)
        return RunChange(wanted.run, note.title, note.note, tags, archived=note.archived, colour=note.colour)

    def note_step(self, body: bytes) -> StepSaid:
        """Keep a note on a step of a run."""
        wanted = read(body, StepSaid)
        self._known(wanted.run)
        note = Notes(self.log_dir).note_step(wanted.run, wanted.step, wanted.text)
        kept = next((each.text for each in note.steps if each.step == wanted.step), "")
        return StepSaid(wanted.run, wanted.step, kept)

    def delete(self, body: bytes) -> TrashList:
        """Throw a run away."""
        wanted = read(body, RunDelete)
        if wanted.confirm != wanted.run:
            raise UsageError("not confirmed: nothing was deleted", hint="confirm must repeat the run's name")
        throw_run(self._known(wanted.run), wanted.run)
        return self.trash()

    def restore(self, body: bytes) -> TrashList:
        """Take a run back."""
        Trash(self.log_dir).restore(read(body, TrashRequest).id)
        return self.trash()

    def empty(self, body: bytes) -> TrashList:
        """Delete a run of the trash for good."""
        Trash(self.log_dir).empty(read(body, TrashRequest).id)
        return self.trash()

    def save_view(self, body: bytes) -> ViewList:
        """Keep a view under a name."""
        wanted = read(body, ViewSave)
        SavedViews(self.log_dir).save(wanted.name, wanted.hash)
        return self.views()

    def delete_view(self, body: bytes) -> ViewList:
        """Forget a view."""
        SavedViews(self.log_dir).remove(read(body, ViewDelete).name)
        return self.views()

    def say_metric(self, body: bytes) -> MetricSaid:
        """Save the kind of a tag's metric."""
        wanted = read(body, MetricSaid)
        self._writable()
        MetricKinds(self.log_dir).say(wanted.tag, wanted.kind)
        return wanted

    def views(self) -> ViewList:
        """Return the saved views."""
        return ViewList(SavedViews(self.log_dir).all())

    def trash(self) -> TrashList:
        """Return what was thrown away."""
        return TrashList(Trash(self.log_dir).all())

    def _known(self, run: str) -> Log:
        log = self.log()
        if log is None:
            raise UnknownRunError(f"no run {run!r}", hint="nothing has been read yet")
        self._writable()
        log.run(run)
        return log

    def _writable(self) -> None:
        log = self.log()
        if log is not None and log.is_remote:
            raise LogDirectoryError(
                "this log directory is read over the network and cannot be changed from here",
                hint="change it where it is stored",
            )


def read(body: bytes, kind: type[Body]) -> Body:
    """Return a request's body.

    Raises:
        UsageError: It is not one.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UsageError(f"not a {kind.__name__}: {error}", hint="see docs/reference/http-api.md") from None
