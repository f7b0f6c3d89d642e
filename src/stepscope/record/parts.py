"""The parts of a run, made in the order in which they need each other."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from stepscope.errors import RecordError, StepscopeError
from stepscope.health.coverage import coverage
from stepscope.health.coverage import outcome as verdict_of
from stepscope.kernels.points import Points
from stepscope.kernels.steps import Stages, Steps
from stepscope.record import exits
from stepscope.record.card import (
    Card,
    Tally,
    announce,
    by_cost,
    claim,
    command_for,
    is_terminal,
    show,
)
from stepscope.record.clock import OPEN_SECS, Clock, Deadline
from stepscope.record.config import labels, plain
from stepscope.record.cost import EVERY, Cost
from stepscope.record.endings import outcome
from stepscope.record.event_log import EventLog
from stepscope.record.info import AttemptInfo, Status, attempt_number
from stepscope.record.intake import Gates, Intake
from stepscope.record.problems import Problems, strict, user_site
from stepscope.record.rank_values import RankValues, unrecorded_beside
from stepscope.record.roles import Role
from stepscope.record.roles.detect import RuntimeWatch
from stepscope.record.sink import LogWriter, Sink, no_answer
from stepscope.record.steps import Hooks, TrainingLoop
from stepscope.record.summaries.encoder import SummaryEncoder
from stepscope.record.telemetry import Telemetry, attempt_of, folder_of
from stepscope.record.uploader import Uploader, begin_upload
from stepscope.record.writer_loop import OnClose, WriterLoop, WriterTasks
from stepscope.text import counted

STRICT_PATIENCE = 20
"""Factor on waiting times in strict mode, in which a disk that does not answer is an error."""
RESERVE_SHARE, RESERVE_SECS = 0.2, 2.0
"""Share of that, and the most seconds, that the writer reserves for values that hooks log at their end."""


class RunParts:
    """The parts of a run, made by its methods, which are called in the order in which they are listed here.

    Args:
        steps: The steps of the run.
        clock: Readings of time.

    Attributes:
        directory: The run's directory; of a run in a store the one that it is recorded in first.
        url: The address of the run in its store; None if it is a directory.
        problems: Receives the failures to record.
        uploader: Sends the run to its store; None if it is a directory.
        info: The run's own facts.
        points: The points that wait.
        cost: The account of the cost of recording.
        summaries: Makes images, histograms and all that is not a number.
        intake: Takes logged values.
        values: Those that this rank keeps of its own.
        gates: Which of it is recorded.
        log: The event file.
        writer: The thread that writes.
        hooks: Those that take part.
        loop: Goes with the steps.
    """

    info: AttemptInfo
    points: Points
    cost: Cost
    summaries: SummaryEncoder
    intake: Intake
    values: RankValues
    gates: Gates
    log: EventLog
    writer: WriterLoop
    hooks: Hooks
    loop: TrainingLoop

    uploader: Uploader | None = None
    directory: str
    url: str | None

    def __init__(self, steps: Steps, clock: Clock) -> None:
        self._steps, self._clock = steps, clock
        steps.stages = Stages(clock.own_steady)
        self.problems = Problems(user_site())
        self._requests: SimpleQueue[Any] = SimpleQueue()
        """By it the training's threads wake the writer."""

    def find_place(self, place: str, storage_options: Mapping[str, Any]) -> None:
        """Begin to send the run to its store, if it has one.

        Args:
            place: The run's directory, or its URL in a store.
            storage_options: For the driver of the store.
        """
        self.uploader = begin_upload(place, storage_options, self.problems)
        self.directory = self.uploader.directory if self.uploader else place
        self.url = self.uploader.url if self.uploader else None

    def describe(
        self,
        role: Role,
        config: object,
        tags: Sequence[str],
        total_steps: int | None,
        parent: str | None,
        *,
        console: bool,
    ) -> None:
        """Collect the facts of this attempt; the arguments are those of ``Run``."""
        self.info = AttemptInfo(
            role=role,
            config=plain({} if config is None else config),
            tags=labels(tags),
            attempt=0,
            total_steps=total_steps,
            started=self._clock.wall(),
            parent=parent,
            keeps_console=console,
        )

    def make_intake(self, max_queue_bytes: int, max_summary_bytes: int) -> None:
        """Make the parts that the training's threads call."""
        steps, info, problems, clock = self._steps, self.info, self.problems, self._clock
        wake = partial(self._requests.put, None)
        self.points = Points(clock.own_wall, EVERY, clock.own_steady)
        self.cost = Cost(self.points, clock)
        self.summaries = SummaryEncoder(problems, max_summary_bytes, wake)
        self.intake = Intake(
            self.points,
            steps,
            info,
            self.summaries,
            self.cost,
            problems,
            clock,
            self.directory,
            max_queue_bytes=max_queue_bytes,
            wake=wake,
        )
        self.gates = self.intake.gates = Gates(self.points, steps, info, problems, clock)

    def make_writer(
        self,
        open_files: Callable[[str], LogWriter],
        watch: RuntimeWatch,
        flush_secs: float,
        *,
        every_value: bool,
    ) -> None:
        """Make the parts that the writer's thread runs: the event file, and this rank's own file."""
        steps, info, problems, role = self._steps, self.info, self.problems, self.info.role
        for problem in role.problems:
            problems.tell("role", problem)
        telemetry = None
        self.values = RankValues(
            everything=every_value, by_user=self.intake.tags_of_user, asked=self.intake.own_tags
        )
        if role.telemetry:
            place = self.directory, role, info.attempt, info.started
            telemetry = Telemetry(*place, steps, problems, self.values)
        sink = Sink(self.directory, open_files, problems)
        self.log = EventLog(sink, self.intake, steps, info, self.cost, problems, self._clock)
        if self.uploader is not None:
            self.log.more_costs, self.log.spool.room = self.uploader.costs, self.uploader.room
            self.uploader.ended_files = sink.ended
        writer = WriterTasks(
            self.log,
            self.intake,
            steps,
            info,
            self.cost,
            problems,
            self._clock,
            flush_secs=flush_secs,
            find_attempt=partial(_attempt, self.directory, role, self.uploader),
            telemetry=telemetry,
            watch=watch,
            uploader=self.uploader,
        )
        parts = self.log, self.intake, info, self.cost, problems
        self.writer = WriterLoop(writer, *parts, self._requests, uploader=self.uploader)

    def make_loop(self, run: weakref.ref[Any], flush_every_n_steps: int, *, total_given: bool) -> None:
        """Make the parts that follow the training loop, and pass them to the compiled counter."""
        steps = self._steps
        self.hooks = Hooks(run, self.problems, steps)
        log = self.log
        self.loop = TrainingLoop(
            steps,
            self.intake,
            self.hooks.withdraw,
            self.info,
            self.problems,
            total_given=total_given,
            logged=lambda: log.logged,
        )
        self.writer.left_loop = self.loop.left
        steps.points, steps.spent, steps.flush = self.points, self.cost, self.writer.flush_soon
        steps.owner, steps.every = weakref.ref(self.loop), flush_every_n_steps
        self.writer.on_close = _on_close(self.hooks, self.writer)

    def make_card(self, wanted: bool | None) -> None:
        """Have a card printed at the end, if one is wanted and this process is the one to print it.

        Args:
            wanted: None for a card on a terminal only.
        """
        if self.info.role.chief:
            announce(self.directory)
        shown = is_terminal(sys.stderr) if wanted is None else wanted
        if not shown or not self.info.role.chief or not claim():
            return
        tally = Tally(self.info.started)
        self.log.listeners.add(tally.take, None)
        self.writer.writer.tally(tally)
        self.writer.on_end = partial(
            _show_card, self.info, self.hooks, tally, self.url or self.directory, self.directory
        )

    def start(self, *, handle_sigterm: bool) -> None:
        """Begin to write, and wait a moment until the file is there."""
        writer = self.writer
        try:
            writer.start()
        except RuntimeError as error:
            # The interpreter is shutting down, or no thread can be had.
            self.problems.tell(
                "thread",
                RecordError(
                    f"nothing will be recorded: {error}",
                    hint="fix the cause; without STEPSCOPE_STRICT the training goes on",
                ),
                points=0,
            )
            return
        exits.register(writer, signals=handle_sigterm)
        try:
            if not writer.wait_until_open(OPEN_SECS * (STRICT_PATIENCE if strict() else 1)):
                self.problems.tell(
                    "disk", no_answer(self.url or self.directory, store=self.url is not None), points=0
                )
            self.problems.deliver()
        except StepscopeError:  # in strict mode; no caller will ever hold this run
            writer.end("failed", None, Deadline.after(0.0, self._clock))
            exits.release(writer)
            raise

    def cancel(self, error: BaseException) -> None:
        """End the started parts of a run whose creation failed, as by Ctrl-C: no thread goes on.

        Args:
            error: The exception.
        """
        writer: WriterLoop | None = getattr(self, "writer", None)
        if writer is None or not writer.alive:
            if self.uploader is not None:
                self.uploader.abandon()
            return
        self.intake.taking = not self.info.ended  # it may be that the thread has only just begun
        writer.end(*outcome(error), Deadline.after(exits.SIGNAL_SECS, self._clock))
        exits.release(writer)


def _show_card(info: AttemptInfo, hooks: Hooks, tally: Tally, place: str, directory: str) -> None:
    """Print the card of a run that has ended, if this process turned out to be the chief."""
    if not info.role.chief:
        return
    steps = tally.steps
    lasted = max((info.ended or info.started) - info.started, steps.seconds)
    judges = [hook for hook in hooks.last if hasattr(hook, "verdict")]
    verdicts = [hook.verdict for hook in judges]
    unknown = steps.unknown
    findings = [finding for verdict in verdicts for finding in verdict.findings]
    passed = [rule for verdict in verdicts for rule in verdict.passed]
    covered = coverage(
        findings, passed, [abstained for verdict in verdicts for abstained in verdict.abstained]
    )
    if not judges:
        unknown.append("the health of the training: Run(…, hooks=[HealthHook()])")
    if not info.role.alone and (lost := unrecorded_beside(folder_of(directory), info.attempt)):
        unknown.append(lost)
    show(
        Card(
            run=place,
            status=info.status,
            reason=info.reason,
            stack=info.stack,
            duration_s=lasted,
            steps=steps.steps,
            median_s=steps.median_s,
            slowest_s=steps.slowest_s,
            slowest_step=steps.slowest_step,
            parts_s=steps.parts_of(lasted, info.started),
            findings=by_cost(findings),
            best=tally.best(place),
            unknown=unknown,
            command=command_for(place),
            health=verdict_of(covered, findings, state=info.status).text if judges else "",
            covered=covered if judges else (),
            waited_s=tally.waited_s,
        )
    )


def unwritten(points: int, directory: str) -> RecordError:
    """Return the message about points that were not written when the run was closed."""
    return RecordError(
        f"the run was closed before {counted(points, 'point')} could be written",
        hint="see the earlier warning of this run for the cause",
        path=directory,
    )


def _attempt(directory: str, role: Role, uploader: Uploader | None) -> int:
    """Return the number of the attempt that begins; it reads the directory, or waits for the store."""
    if uploader is None:
        return attempt_number(directory) if role.alone or not role.telemetry else attempt_of(directory, role)
    uploader.wait_for_survey()
    if role.alone or not role.telemetry:
        return uploader.attempt()
    return attempt_of(directory, role, uploader.earlier.ranks)


def _on_close(hooks: Hooks, writer: WriterLoop) -> OnClose:
    """Return the function that ends the hooks of a run, or in a forked child drops them.

    Recorded values are written before: no slow hook can lose them.
    """

    def on_close(status: Status | None, deadline: Deadline) -> None:
        if status is None:
            hooks.forget()
        elif hooks:
            writer.write_now(deadline)
            reserve = min(RESERVE_SHARE * deadline.left(), RESERVE_SECS)
            hooks.end(status, deadline.earlier(reserve))

    return on_close
