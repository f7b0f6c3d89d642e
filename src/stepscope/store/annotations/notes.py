"""Annotations of a run: another name, a note, notes on its steps, tags, and whether it is archived."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from stepscope.errors import UsageError
from stepscope.files import STATE_FOLDER
from stepscope.store.annotations.folder import file_name, locked, read_json, remove, write_json

LONGEST_TITLE = 200
LONGEST_NOTE = 100_000
LONGEST_TAG = 60
MOST_TAGS = 50
MOST_COLOURS = 12
"""Number of colours that the page distinguishes, in both themes and for colour-blind readers."""


LONGEST_STEP_NOTE = 1_000
MOST_STEP_NOTES = 200
LARGEST_STEP = 2**53
"""Largest step: beyond it, the page's numbers are not exact."""


@dataclass(frozen=True, slots=True)
class StepNote:
    """A sentence about one step of a run."""

    step: int
    text: str


@dataclass(frozen=True, slots=True)
class RunNote:
    """The annotations of one run.

    Attributes:
        title: The user's name for it; None: its directory's name.
        note: Markdown; "" for none.
        tags: Tags that replace those that it recorded itself; None: as recorded.
        archived: Whether lists leave it out unless asked.
        colour: Number of the colour in which it is drawn, from 1; None: chosen by the page.
        steps: Notes on steps, in the order of the steps; one per step.
        changed: When this last changed, seconds since the epoch.
    """

    title: str | None = None
    note: str = ""
    tags: tuple[str, ...] | None = None
    archived: bool = False
    colour: int | None = None
    steps: tuple[StepNote, ...] = ()
    changed: float = 0.0

    @property
    def empty(self) -> bool:
        """True if there are no annotations."""
        return replace(self, changed=0.0) == RunNote()


NOTHING = RunNote()


class Notes:
    """The notes of a log directory. Safe for several processes; one thread at a time.

    Args:
        log_dir: The log directory.
    """

    def __init__(self, log_dir: Path) -> None:
        self.log_dir, self.folder = log_dir, log_dir / STATE_FOLDER / "runs"
        self._known: dict[str, tuple[tuple[int, int, int], str, RunNote]] = {}
        self._said: dict[str, RunNote] = {}

    def __getitem__(self, run: str) -> RunNote:
        return self._said.get(run, NOTHING)

    def refresh(self) -> set[str]:
        """Read changed files and return the runs whose annotations have changed."""
        before, notes = self._said, {}
        for path in self._files():
            stat = path.stat()
            stamp = stat.st_mtime_ns, stat.st_size, stat.st_ino
            known = self._known.get(path.name)
            if known is None or known[0] != stamp:
                facts = read_json(path)
                if facts is None or not isinstance(facts.get("run"), str):
                    continue  # being removed, or not ours
                known = stamp, facts["run"], note_of(facts)
            notes[path.name] = known
        self._known = notes
        self._said = after = {name: note for _, name, note in notes.values()}
        names = before.keys() | after.keys()
        return {name for name in names if before.get(name, NOTHING) != after.get(name, NOTHING)}

    def change(self, run: str, **changes: Any) -> RunNote:
        """Annotate a run; attributes that are not given stay as they are.

        Args:
            run: Its name, as the log has it.
            **changes: Attributes of ``RunNote``, apart from ``changed``.

        Raises:
            UsageError: Text that is too long, or invalid tags.
            LogDirectoryError: It cannot be written.
        """
        checked: dict[str, Any] = {name: CHECKS[name](value) for name, value in changes.items()}
        return self._replace(run, lambda note: replace(note, **checked))

    def note_step(self, run: str, step: int, text: str) -> RunNote:
        """Save a note on a step of a run, replacing the previous one; without text, remove it.

        Args:
            run: Its name, as the log has it.
            step: From 0.
            text: One sentence, on one line.

        Raises:
            UsageError: The step is invalid, the text is too long, or too many steps of this run have notes.
            LogDirectoryError: It cannot be written.
        """

        def noted(note: RunNote) -> RunNote:
            steps = [asdict(noted_step) for noted_step in note.steps if noted_step.step != step]
            return replace(
                note, steps=steps_of([*steps, {"step": step, "text": text}] if text.strip() else steps)
            )

        return self._replace(run, noted)

    def _replace(self, run: str, changed: Callable[[RunNote], RunNote]) -> RunNote:
        """Rewrite the annotations of a run, based on the newest file of all writers."""
        path = self.folder / file_name(run)
        with locked(self.log_dir, self.folder):
            note = replace(changed(note_of(read_json(path) or {})), changed=time.time())
            if note.empty:
                remove(self.log_dir, path)
            else:
                write_json(self.log_dir, path, {"run": run, **asdict(note)})
        return note

    def _files(self) -> list[Path]:
        try:
            return [path for path in self.folder.iterdir() if path.suffix == ".json"]
        except OSError:
            return []


def note_of(facts: dict[str, Any]) -> RunNote:
    """Return the annotations in a file, ignoring anything invalid."""
    values = {name: value for name in CHECKS if (value := said(name, facts)) is not None}
    changed = facts.get("changed")
    return RunNote(**values, changed=float(changed) if isinstance(changed, int | float) else 0.0)


def said(name: str, facts: dict[str, Any]) -> Any:
    """Return one value of a file; None if it is missing or invalid."""
    try:
        return CHECKS[name](facts[name])
    except (KeyError, UsageError):
        return None


def title_of(value: object) -> str | None:
    """Return a name on one line; None if there is none."""
    if value is not None and not isinstance(value, str):
        raise UsageError(f"title {value!r}: expected text", hint="a name in one line, or none")
    text = " ".join(value.split()) if value else ""
    return short(text, LONGEST_TITLE, "title") or None


def text_of(value: object) -> str:
    """Return a note."""
    if not isinstance(value, str):
        raise UsageError(f"note of type {type(value).__name__}: expected text", hint="Markdown")
    return short(value.strip(), LONGEST_NOTE, "note")


def tags_of(value: object) -> tuple[str, ...] | None:
    """Return tags, each once."""
    if value is None:
        return None
    if not isinstance(value, list | tuple) or not all(isinstance(tag, str) for tag in value):
        raise UsageError(f"tags {value!r}: expected a list of words", hint='["baseline", "paper"]')
    tags = tuple(
        dict.fromkeys(short(" ".join(tag.split()), LONGEST_TAG, "tag") for tag in value if tag.strip())
    )
    if len(tags) > MOST_TAGS:
        raise UsageError(f"{len(tags)} tags: expected at most {MOST_TAGS}", hint="a note holds more")
    return tags


def truth_of(value: object) -> bool:
    """Return whether a run is archived."""
    if not isinstance(value, bool):
        raise UsageError(f"archived {value!r}: expected true or false", hint="true archives the run")
    return value


def colour_of(value: object) -> int | None:
    """Return the number of a colour: each theme has its own colour of that number."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_COLOURS:
        raise UsageError(f"colour {value!r}: expected 1 to {MOST_COLOURS}", hint="or none for the page's own")
    return value


def steps_of(value: object) -> tuple[StepNote, ...]:
    """Return notes on steps, in the order of the steps; for each step the last one."""
    if not isinstance(value, list | tuple):
        raise UsageError(f"steps {value!r}: expected a list", hint='[{"step": 200, "text": "rate halved"}]')
    notes: dict[int, StepNote] = {}
    for entry in value:
        step, text = (entry.get("step"), entry.get("text")) if isinstance(entry, dict) else (None, None)
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step <= LARGEST_STEP:
            raise UsageError(f"step {step!r}: expected a whole number from 0", hint="the step of the note")
        if not isinstance(text, str):
            raise UsageError(f"note of type {type(text).__name__}: expected text", hint="one sentence")
        notes[step] = StepNote(step, short(" ".join(text.split()), LONGEST_STEP_NOTE, "note"))
    if len(notes) > MOST_STEP_NOTES:
        raise UsageError(
            f"notes on {len(notes)} steps: expected at most {MOST_STEP_NOTES}", hint="remove some"
        )
    return tuple(notes[step] for step in sorted(notes))


def short(text: str, most: int, what: str) -> str:
    """Return text that is not too long."""
    if len(text) > most:
        raise UsageError(f"{what} of {len(text)} characters: expected at most {most}", hint="shorten it")
    return text


CHECKS: dict[str, Callable[[object], Any]] = {
    "title": title_of,
    "note": text_of,
    "tags": tags_of,
    "archived": truth_of,
    "colour": colour_of,
    "steps": steps_of,
}
