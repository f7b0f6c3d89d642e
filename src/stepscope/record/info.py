"""Facts of a run, as JSON and as TensorBoard's hparams, and its ways back.

The facts are written under the tag ``stepscope/run``. The ways back are the checkpoints that were saved and
the inputs of the last steps, which a finding names.
"""

from __future__ import annotations

import json
import os
import platform
import re
import socket
import stat
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from stepscope.events import hparams
from stepscope.events.framing import FOOTER_BYTES, HEADER_BYTES, frame, payload_length
from stepscope.events.messages import Event, Summary, Tensor, Value
from stepscope.events.processes import own_start_ticks, pid_namespace, process_stat
from stepscope.events.writer import EVENTS, is_own_name
from stepscope.record.code import RunningCode
from stepscope.record.config import flat, plain, scrub_command
from stepscope.record.console import console
from stepscope.record.roles.role import Role
from stepscope.text import counted, scrub_text, utf8
from stepscope.version import __version__

TAG = "stepscope/run"
CHECKPOINTS = "checkpoint/saved"
"""Texts about the checkpoints that were saved."""
SCHEMA = 1
MAX_REASON = 1_000
MAX_UNMEASURED = 64
"""Most statements about ended measurements; beyond it they are only counted."""
HEAD_BYTES = 4096
"""The facts of a run are the second record of its file, and the attempt is among the first of them."""
_ATTEMPT = re.compile(rb'"attempt": (\d{1,9})')

Status = Literal["running", "finished", "failed", "stopped"]

_END: dict[str, hparams.Status] = {
    "running": hparams.Status.RUNNING,
    "finished": hparams.Status.SUCCESS,
    "failed": hparams.Status.FAILURE,
    "stopped": hparams.Status.UNKNOWN,
}
_FRAMEWORKS = ("torch", "jax", "tensorflow", "keras", "lightning", "transformers", "flax", "numpy")


@dataclass
class AttemptInfo:
    """The facts of one attempt of a run.

    Attributes:
        parent: The run that it belongs to: a path from its directory, beginning with a dot; or a name.
        stack: Of the exception that ended it; empty if none did.
        changed: The facts have to be written again.
        log_bytes: Length of each completed event file, by name.
        unmeasured: Intended measurements that are missing, each with its first step, the cause, and the step
            of its return.
        unmeasured_more: Number of further such statements.
        ended_series: The last step of each series that ended while the training went on.
        hooks: Names of the classes of the hooks that took part.
        code: The user's own code, as it runs.
        keeps_console: Whether the last lines of the console are recorded if the run fails or is stopped.
        console: Those lines.
    """

    role: Role
    config: dict[str, Any]
    tags: list[str]
    attempt: int
    total_steps: int | None
    started: float
    status: Status = "running"
    reason: str | None = None
    stack: str = ""
    parent: str | None = None
    ended: float | None = None
    problems: Mapping[str, int] = field(default_factory=dict)
    command: str = field(default_factory=lambda: scrub_command(command_line()))
    host: str = field(default_factory=socket.gethostname)
    changed: bool = False
    log_bytes: dict[str, int] = field(default_factory=dict)
    unmeasured: dict[str, dict[str, Any]] = field(default_factory=dict)
    unmeasured_more: int = 0
    ended_series: dict[str, int] = field(default_factory=dict)
    hooks: list[str] = field(default_factory=list)
    code: RunningCode = field(default_factory=RunningCode)
    keeps_console: bool = True
    console: str = ""

    def hooked(self, hook: object) -> None:
        """Note that a hook takes part, by the name of its class."""
        name = type(hook).__name__
        if name not in self.hooks:
            self.hooks, self.changed = [*self.hooks, name], True

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to the configuration of the run."""
        config = {**self.config, **facts}
        if config != self.config:
            self.config, self.changed = config, True

    def expect(self, total_steps: int) -> None:
        """Note how many steps the run will take."""
        if total_steps != self.total_steps:
            self.total_steps, self.changed = total_steps, True

    def lack(self, what: str, since: int, why: str) -> bool:
        """Note that a measurement is missing from a step on; return False if that is known."""
        known = self.unmeasured.get(what)
        if known is not None and known["until"] is None:
            return False
        if known is None and len(self.unmeasured) >= MAX_UNMEASURED:
            self.unmeasured_more, self.changed = self.unmeasured_more + 1, True
            return False
        fact = {"since": since, "why": scrub_text(why)[:MAX_REASON], "until": None}
        self.unmeasured, self.changed = {**self.unmeasured, what: fact}, True
        return True

    def have(self, what: str, step: int) -> None:
        """Note that something is measured again."""
        known = self.unmeasured.get(what)
        if known is not None and known["until"] is None:
            self.unmeasured = {**self.unmeasured, what: {**known, "until": step}}
            self.changed = True

    def interrupt(self, status: Status, reason: str | None) -> None:
        """Note how the run ends if the process does, which may be at any moment."""
        self._became(status, reason)
        self.changed = True

    def _became(self, status: Status, reason: str | None) -> None:
        self.status, self.stack = status, getattr(reason, "stack", "")
        self.reason = None if reason is None else scrub_text(reason)[:MAX_REASON]
        self.console = console.last() if self.keeps_console and status in ("failed", "stopped") else ""

    def resume(self) -> None:
        """Mark the run as running again; the interruption stays its reason."""
        self.status, self.changed = "running", True

    def as_json(self) -> str:
        """Return the facts as JSON, with room for the number of the attempt to be corrected in place."""
        text = json.dumps(
            {
                "schema": SCHEMA,
                "version": __version__,
                "status": self.status,
                "reason": self.reason,
                "attempt": self.attempt,
                "rank": self.role.rank,
                "world_size": self.role.world_size,
                "role": self.role.name,
                "config": self.config,
                "tags": self.tags,
                "parent": self.parent,
                "total_steps": self.total_steps,
                "host": self.host,
                "pid": os.getpid(),
                "pid_namespace": pid_namespace(),
                "start_ticks": own_start_ticks(os.getpid()),
                "python": platform.python_version(),
                "command": self.command,
                "started": self.started,
                "ended": self.ended,
                "frameworks": frameworks(),
                "problems": dict(self.problems),
                "log_bytes": self.log_bytes,
                "unmeasured": [{"what": what, **fact} for what, fact in self.unmeasured.items()],
                "unmeasured_more": self.unmeasured_more,
                "ended_series": self.ended_series,
                "hooks": self.hooks,
                "code": self.code.facts(),
                "stack": self.stack,
                "console": self.console,
            },
            ensure_ascii=False,
            allow_nan=False,
        )
        return text.replace(f'"attempt": {self.attempt},', f'"attempt": {self.attempt:<{DIGITS}},', 1)

    def end(self, status: Status, reason: str | None, ended: float) -> None:
        """Say how it ended."""
        self._became(status, reason)
        self.ended = ended

    def event(self, step: int, wall_time: float) -> Event:
        """Return the event that holds the facts."""
        return _event([Value.of(TAG, "stepscope", Tensor.of_texts(utf8(self.as_json())))], step, wall_time)

    def start_event(self, wall_time: float) -> Event:
        """Return the event by which TensorBoard knows the config."""
        return _event([hparams.start_value(flat(self.config), start_time_secs=self.started)], 0, wall_time)

    def end_event(self, wall_time: float) -> Event:
        """Return the event by which TensorBoard knows how the run ended."""
        ended = wall_time if self.ended is None else self.ended
        return _event([hparams.end_value(_END[self.status], end_time_secs=ended)], 0, wall_time)


def frameworks() -> dict[str, str]:
    """Return the version of each framework that the process has imported by itself."""
    versions = {}
    for name in _FRAMEWORKS:
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            versions[name] = version
    return versions


def command_line() -> list[str]:
    """Return the words that started this process, as the user typed them, if Python tells."""
    return list(getattr(sys, "orig_argv", None) or sys.argv)


def attempt_number(directory: str) -> int:
    """Return 1 + the highest attempt that a run in a directory has recorded of itself.

    Event files of other tools do not count as attempts.
    """
    try:
        names = [name for name in os.listdir(directory) if EVENTS in name or is_own_name(name)]  # noqa: PTH208  names only
    except OSError:
        return 1
    return 1 + max((_attempt_of(os.path.join(directory, name)) for name in names), default=0)  # noqa: PTH118


def renumber(path: str | os.PathLike[str], attempt: int) -> None:
    """Correct the number of the attempt at the head of a run's file, which others read.

    Raises:
        OSError: The file cannot be read or written.
    """
    with open(path, "r+b") as file:  # noqa: PTH123
        for _ in range(HEAD_RECORDS):
            at = file.tell()
            length = payload_length(file.read(HEADER_BYTES))
            if length is None:
                return
            payload = file.read(length)
            file.read(FOOTER_BYTES)
            if TAG.encode() in payload:
                number = b'"attempt": %-*d,' % (DIGITS, attempt)
                file.seek(at)
                file.write(frame(_PADDED.sub(number, payload, count=1)))
                return


HEAD_RECORDS = 4
DIGITS = 9
_PADDED = re.compile(rb'"attempt": [\d ]{%d},' % DIGITS)


def _attempt_of(path: str) -> int:
    """Return the attempt that a run recorded at the beginning of its event file, 0 in other files."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116  opening a pipe waits for who writes into it
            return 0
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(HEAD_BYTES)
    except OSError:
        return 0
    return attempt_in(head)


def recording_too(directory: str, role: Role) -> str | None:
    """Return which other process of this machine records the same rank into a directory now, None for none.

    Another job in the same directory, that is: their points are hard to tell apart afterwards.
    """
    try:
        names = [name for name in os.listdir(directory) if is_own_name(name)]  # noqa: PTH208  names only
    except OSError:
        return None
    for name in sorted(names)[-MAX_OTHERS:]:
        facts = _last_facts(os.path.join(directory, name))  # noqa: PTH118
        if facts is None or facts.get("ended") is not None or facts.get("pid_namespace") != pid_namespace():
            continue
        pid, same = facts.get("pid"), (facts.get("role"), facts.get("rank")) == (role.name, role.rank)
        stat = process_stat(pid) if same and isinstance(pid, int) and pid != os.getpid() else None
        if stat is not None and not stat.is_dead and stat.start_ticks == facts.get("start_ticks"):
            return f"process {pid}"
    return None


MAX_OTHERS = 8
"""The newest files that are looked at."""
TAIL_BYTES = 1 << 20


def _last_facts(path: str) -> dict[str, Any] | None:
    """Return the last facts of a run, None if they lie too far from the end of its file."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            file.seek(max(file.seek(0, os.SEEK_END) - TAIL_BYTES, 0))
            tail = file.read()
            begin = tail.rfind(b'{"schema": ')
            text = tail[begin:].decode("utf-8", "replace") if begin >= 0 else ""
        facts = json.JSONDecoder().raw_decode(text)[0]
    except (OSError, ValueError, RecursionError):
        return None
    return facts if isinstance(facts, dict) else None


def attempt_in(head: bytes) -> int:
    """Return the attempt that the beginning of an event file names, 0 if it names none."""
    match = _ATTEMPT.search(head, max(head.find(TAG.encode()), 0)) if TAG.encode() in head else None
    return int(match[1]) if match else 0


def _event(values: list[Value], step: int, wall_time: float) -> Event:
    return Event(wall_time=wall_time, step=step, summary=Summary(values))


# --- ways back -------------------------------------------------------------------------------------


MOST_BATCHES = 512
"""Steps whose batch is kept."""
MOST_CHECKPOINTS = 1000
MOST_INDICES = 4096
"""Facts of one batch that are written."""


class Checkpoint(NamedTuple):
    """A model that was saved.

    Attributes:
        done: Steps done by then, 0 for the model as it began.
        path: Its file or folder; None if nobody said.
    """

    done: int
    path: str | None


class Rewind:
    """Checkpoints and batches of one process. Safe for threads: a deque takes and gives whole items."""

    def __init__(self) -> None:
        self._checkpoints: deque[Checkpoint] = deque(maxlen=MOST_CHECKPOINTS)
        self._batches: deque[tuple[int, Mapping[str, Any]]] = deque(maxlen=MOST_BATCHES)

    def saved(self, done: int, path: str | os.PathLike[str] | None) -> None:
        """Note that a checkpoint was saved after so many steps."""
        self._checkpoints.append(Checkpoint(done, None if path is None else os.fsdecode(os.fspath(path))))

    def batch(self, step: int, facts: Mapping[str, Any]) -> None:
        """Remember the batch of a step; nothing is copied."""
        self._batches.append((step, facts))

    def last_good(self, first_bad: int) -> Checkpoint | None:
        """Return the newest checkpoint from which a step was computed that was still good.

        After ``done`` steps the step of that number comes next: good if before the first bad one.
        """
        return max(
            (checkpoint for checkpoint in list(self._checkpoints) if checkpoint.done < first_bad),
            default=None,
            key=_done,
        )

    def batches(self, steps: Iterable[int]) -> tuple[dict[str, Any], ...]:
        """Return the facts about the batches of some steps, as JSON types; the newest of a repeated step."""
        known = dict(list(self._batches))
        return tuple(
            {"step": step, **readable(known[step])} for step in dict.fromkeys(steps) if step in known
        )

    def recipe(self, first_bad: int, *, saves: bool = False) -> tuple[str, ...]:
        """Return how to go back to before a step, in sentences.

        Args:
            first_bad: The step.
            saves: Whether a hook of the run saves checkpoints.
        """
        good = self.last_good(first_bad)
        if good is None:
            do = (
                "the run's CheckpointHook had saved none by then: let it save more often"
                if saves
                else "add ss.CheckpointHook(save, every_n_steps=…), or call run.checkpoint_saved(path)"
            )
            return (f"no checkpoint from before step {first_bad:,} is known: {do}",)
        where = f"{good.path}, " if good.path else ""
        return (
            f"last good checkpoint: {where}after {counted(good.done, 'step')}; "
            "later ones may hold the broken model",
            f"to go back: load it, ss.Run(…, start_step={good.done}), then leave out the batches from step "
            f"{first_bad:,} on or lower the learning rate until past it",
        )


def _done(checkpoint: Checkpoint) -> int:
    return checkpoint.done


def readable(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return facts of a batch as JSON types; for long lists the first items and their number."""
    facts_: dict[str, Any] = {}
    for name, value in facts.items():
        try:
            items = value.tolist() if hasattr(value, "tolist") else value
        except Exception as error:  # noqa: BLE001  a tensor of any kind, on a device that may be broken
            items = f"not readable: {type(error).__name__}"
        if isinstance(items, list | tuple | range):
            facts_[name] = [
                one if isinstance(one, int | float | str) else str(one) for one in items[:MOST_INDICES]
            ]
            if len(items) > MOST_INDICES:
                facts_[f"{name}_in_all"] = len(items)
        else:
            facts_[name] = plain({name: items})[name]
    return facts_
