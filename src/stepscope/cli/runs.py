"""``stepscope runs``: name, note, tag, archive, delete and restore the runs of a log directory."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from stepscope.cli.output import Output, aligned, put
from stepscope.errors import UsageError
from stepscope.text import counted, size

if TYPE_CHECKING:
    from stepscope.store import Log

ACTIONS = {
    "rename": "give a run another name; without words, the name of its directory",
    "note": "attach a note in Markdown to a run; - reads it from stdin, no words remove it",
    "step": "attach a note to a step of a run, as RUN 200 halved the rate; without words it is removed",
    "tag": "add words to a run, or with a leading minus remove them, as -tried (after --)",
    "meaning": "correct kind, role or split of a tag, as objective loss eval; * is any characters, "
    "without words the name counts again",
    "archive": "hide a run: the page leaves it out unless asked",
    "unarchive": "show it again",
    "delete": "move a run to the trash of the log directory",
    "trash": "list what is in the trash",
    "restore": "restore a run from the trash, by its id or name",
    "empty": "delete one run in the trash, or all of them, for good",
}
ASKED_TWICE = ("delete", "empty")
TAKES_RUN = ("rename", "note", "step", "tag", "archive", "unarchive", "delete")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``stepscope runs``."""
    lines = "; ".join(f"{name}: {text}" for name, text in ACTIONS.items())
    parser.add_argument("log_dir", metavar="LOGDIR", help="directory that holds the runs")
    parser.add_argument("action", metavar="ACTION", choices=list(ACTIONS), help=lines)
    parser.add_argument("words", nargs="*", metavar="WORD", help="the run, then the name, note or tags")
    parser.add_argument("--yes", action="store_true", help="delete and empty without asking for confirmation")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")


def run(arguments: argparse.Namespace) -> None:
    """Do one thing with a run.

    Raises:
        UsageError: Words that are missing or too many, a run that is being written, no confirmation.
        UnknownRunError: No such run.
        LogDirectoryError: It cannot be changed.
    """
    from stepscope import store

    action, words = arguments.action, list(arguments.words)
    if action in TAKES_RUN and not words:
        raise UsageError(f"{action}: which run?", hint=f"stepscope runs {arguments.log_dir} {action} RUN …")
    with store.open(arguments.log_dir) as log:
        if log.is_remote:
            raise UsageError(
                "a directory that is read over the network cannot be changed from here",
                hint="run the command where the directory is",
            )
        if action in TAKES_RUN:
            log.run(words[0])
        if action in ASKED_TWICE and not arguments.yes:
            ask_again(action, words[0] if words else None)
        annotations = ACTS[action](log, words)
    put(Output(f"{text_of(action, annotations)}\n", annotations), as_json=arguments.json)


def ask_again(action: str, name: str | None) -> None:
    """Let the user type the name of the run to delete; a program must pass ``--yes``.

    Raises:
        UsageError: Something else was typed, or nobody is there to type.
    """
    wanted = name or "all"
    if not sys.stdin.isatty():
        raise UsageError(f"{action} asks for confirmation, and this is not a terminal", hint="add --yes")
    print(f"{action} {wanted}: type {wanted!r} to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().rstrip("\n") != wanted:
        raise UsageError("not confirmed: nothing was changed", hint=f"type {wanted!r}, or use --yes")


def change(log: Log, words: list[str], **changes: Any) -> dict[str, Any]:
    """Say something of a run."""
    from stepscope.store.annotations import Notes

    return {"run": words[0], **asdict(Notes(log.path).change(words[0], **changes))}


def rename(log: Log, words: list[str]) -> dict[str, Any]:
    """Give a run another name."""
    return change(log, words, title=" ".join(words[1:]) or None)


def note(log: Log, words: list[str]) -> dict[str, Any]:
    """Keep a note with a run."""
    return change(log, words, note=sys.stdin.read() if words[1:] == ["-"] else " ".join(words[1:]))


def step(log: Log, words: list[str]) -> dict[str, Any]:
    """Keep a note on a step of a run."""
    from stepscope.store.annotations import Notes

    if len(words) < 2 or not words[1].isdecimal():
        raise UsageError("step: which step?", hint="stepscope runs LOGDIR step RUN STEP WORDS")
    note = Notes(log.path).note_step(words[0], int(words[1]), " ".join(words[2:]))
    return {"run": words[0], **asdict(note)}


def tag(log: Log, words: list[str]) -> dict[str, Any]:
    """Add tags and take some away."""
    from stepscope.store.annotations import Notes

    notes = Notes(log.path)
    notes.refresh()
    labels = notes[words[0]].tags
    tags = list(log.run(words[0]).info.labels if labels is None else labels)
    away = {word[1:] for word in words[1:] if word.startswith("-")}
    more = [word for word in words[1:] if not word.startswith("-")]
    return change(log, words, tags=[tag for tag in tags if tag not in away] + more)


def meaning(log: Log, words: list[str]) -> dict[str, Any]:
    """Correct the meaning of a tag."""
    from stepscope.names.meanings import Correction, correction_of, meanings_at
    from stepscope.store.annotations import correct

    if not words:
        raise UsageError("meaning: of which tag?", hint="stepscope runs LOGDIR meaning TAG loss")
    tag, *facts = words
    correct(log.path, tag, **asdict(correction_of(tag, " ".join(facts)) if facts else Correction()))
    about = meanings_at(log.path).described(tag)
    return {**asdict(about), "because": about.because}


def delete(log: Log, words: list[str]) -> dict[str, Any]:
    """Move a run into the trash."""
    from stepscope.store.annotations.throw import throw_run

    only(words, 1, "delete RUN")
    return asdict(throw_run(log, words[0]))


def trash(log: Log, words: list[str]) -> dict[str, Any]:
    """List the trash."""
    from stepscope.store.annotations import Trash

    only(words, 0, "trash")
    return {"runs": [asdict(thrown) for thrown in Trash(log.path).all()]}


def restore(log: Log, words: list[str]) -> dict[str, Any]:
    """Restore a run, the newest of that name."""
    from stepscope.store.annotations import Trash

    only(words, 1, "restore ID")
    trash = Trash(log.path)
    ids = [thrown.id for thrown in trash.all() if words[0] in (thrown.id, thrown.run)]
    return {"run": trash.restore(ids[0] if ids else words[0])}


def empty(log: Log, words: list[str]) -> dict[str, Any]:
    """Delete for good."""
    from stepscope.store.annotations import Trash

    if len(words) > 1:
        only(words, 1, "empty [ID]")
    return {"freed_bytes": Trash(log.path).empty(words[0] if words else None)}


def only(words: list[str], count: int, form: str) -> None:
    """Check how many words there are.

    Raises:
        UsageError: There are others.
    """
    if len(words) != count:
        raise UsageError(
            f"{form.split()[0]} with {counted(len(words), 'word')}", hint=f"stepscope runs LOGDIR {form}"
        )


ACTS: dict[str, Callable[[Log, list[str]], dict[str, Any]]] = {
    "rename": rename,
    "note": note,
    "step": step,
    "tag": tag,
    "meaning": meaning,
    "archive": lambda log, words: change(log, words, archived=True),
    "unarchive": lambda log, words: change(log, words, archived=False),
    "delete": delete,
    "trash": trash,
    "restore": restore,
    "empty": empty,
}


def text_of(action: str, answer: dict[str, Any]) -> str:
    """Return the outcome as a person reads it."""
    if action == "trash":
        rows = [["ID", "RUN", "DELETED", "SIZE", "FILES"]]
        rows += [
            [
                thrown["id"],
                thrown["run"],
                clock(thrown["when"]),
                size(thrown["nbytes"]),
                f"{thrown['files']:,}",
            ]
            for thrown in answer["runs"]
        ]
        return aligned(rows, right={3, 4}) if answer["runs"] else "the trash is empty"
    if action == "meaning":
        facts = ", ".join(f"{name} {answer[name]}" for name in ("kind", "role", "split") if answer[name])
        return f"{answer['tag']}: {facts}" + (f" ({answer['because']})" if answer["because"] else "")
    if action == "delete":
        return (
            f"{answer['run']} is in the trash as {answer['id']}: stepscope runs LOGDIR restore {answer['id']}"
        )
    if action == "restore":
        return f"{answer['run']} is back"
    if action == "empty":
        return f"freed {size(answer['freed_bytes'])}"
    tags = ", ".join(answer["tags"] or ())
    rows_ = [("title", answer["title"]), ("note", answer["note"]), ("tags", tags)]
    steps = [f"step {note['step']:,}: {note['text']}" for note in answer["steps"]]
    away = ["archived"] if answer["archived"] else []
    return "; ".join([answer["run"], *(f"{name}: {text}" for name, text in rows_ if text), *steps, *away])


def clock(when: float) -> str:
    """Return a time of this machine's clock."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(when))
