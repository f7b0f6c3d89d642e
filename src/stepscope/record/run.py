"""Run: the object with which a training script logs."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from stepscope.errors import HaltError, StepscopeError, UsageError
from stepscope.kernels.steps import HotCalls, Steps
from stepscope.record import exits
from stepscope.record.clock import SYSTEM, Clock, Deadline
from stepscope.record.config import directory, integer, parent_from, plain, positive, seconds
from stepscope.record.endings import outcome
from stepscope.record.info import CHECKPOINTS, Rewind, Status
from stepscope.record.intake import Condition, Gate
from stepscope.record.parts import RunParts, unwritten
from stepscope.record.protocol import Hook, StepFacts, StopRequest, Take, Wanted
from stepscope.record.rank_values import Values, check_values
from stepscope.record.roles import Chief, Role, detect
from stepscope.record.roles.detect import RuntimeWatch
from stepscope.record.roles.role import EVALUATOR, check_chief, evaluator_directory
from stepscope.record.sink import LogFiles, LogWriter
from stepscope.record.steps import Pause, Stage
from stepscope.record.summaries import SummaryMethods
from stepscope.record.summaries.encoder import Made
from stepscope.text import counted

if TYPE_CHECKING:
    from stepscope.health.alert import Alert
    from stepscope.record.summaries.encoder import Prepared

T = TypeVar("T")
SUMMARY_BYTES = 512 << 20


class Run(HotCalls, SummaryMethods):
    """One attempt to train, recorded in a directory.

    Logging puts a point into a queue and returns: it never waits for a device, a disk or a lock, and never
    raises. A failure to record is one warning at your line, then a count in ``problems``, in the run
    itself and on the page. With ``STEPSCOPE_STRICT=1`` in the environment it is raised instead.

    A thread encodes and writes. A point reaches the operating system, and every reader, within
    ``flush_secs`` of being logged, even if nothing is logged after it; sooner with
    ``flush_every_n_steps`` or ``flush()``.

    The run ends with ``close()``, the end of its ``with`` block or of the process. It is then *finished*;
    *failed* if an exception left the block or ended the program; *stopped* after SIGTERM or Ctrl-C.

    In a distributed job only the chief writes logged values; each rank, including the chief, writes a small
    telemetry file of its own: step times, memory, loss. An evaluator writes event files below the run.
    A process that opens a directory again is a new attempt beside the earlier ones: nothing is overwritten.

    A run is made of ``RunParts``: an ``Intake`` takes logged values, a ``TrainingLoop`` follows the steps, a
    ``SummaryEncoder`` makes images and histograms, a ``WriterLoop`` writes through an ``EventLog``. Hooks and
    integrations use the names of ``record/protocol.py``, and nothing with an underscore.

    Args:
        log_dir: The run's own directory, created if it is missing; or the URL of one in a store, such as
            ``s3://bucket/runs/first``: the run is recorded on this machine and sent from there, by a thread
            that training never waits for.
        config: The run's configuration: a mapping, dataclass or namespace. Secrets are taken out.
        tags: Labels.
        parent: The run that this one belongs to, such as the sweep of a trial: a ``Run``, its directory, or
            its name in the log directory. Lists of runs show the two as a tree.
        hooks: Called at the run's steps, in this order.
        alerts: Rules of your own, as for ``alert``.
        total_steps: How many steps it is meant to take; by default the ``len()`` of the data that ``steps``
            loops over.
        start_step: Number of the first step, for a run that resumes: the number of steps done so far.
        flush_secs: The longest that a point waits, in seconds.
        flush_every_n_steps: Also write after every so many steps.
        max_queue_bytes: Memory limit for waiting points. Beyond it points are dropped and counted;
            training never waits.
        max_summary_bytes: The same for images, histograms and everything else that waits to be encoded.
        rank: This process's number, from 0; by default from an initialised runtime or the launcher, see
            ``stepscope whoami``.
        world_size: Number of processes that train.
        role: "evaluator", "ps", or another name for this process; by default "chief" or "worker".
        chief: Which rank writes: "first", "last", a rank, or a function of the world size that returns one.
            Every rank must be given the same.
        eval_name: An evaluator's own name; it writes into ``eval_<name>`` instead of ``eval``.
        values: Whose logged values are recorded in a job of several ranks: "chief", or "all": then every
            rank keeps what it logs in its own file, as with ``scalar(…, rank="own")`` everywhere.
        handle_sigterm: Whether to write everything out when the process is told to end. An earlier handler
            runs next.
        own_file: Whether the run's own facts (state, cost, findings) go into a separate file
            beside the event file, so that TensorBoard shows only logged values; otherwise they go into
            the event file.
        card: Whether to print a card at the end of the run, on the standard error: its state, its speed,
            where its time went, the worst findings and the best values. By default on a terminal only. Of
            a tree of processes, the first to make a run prints it, and of several ranks the chief.
        console: Whether a run that fails or is stopped records the last lines that Python wrote to the
            standard streams, without secrets.
        storage_options: For the driver of a store, as fsspec takes them. They are neither recorded nor shown.

    Attributes:
        log_dir: The run's directory; for a run in a store, the spool on this machine.
        url: The address of the run in its store, without a secret; None if it is a directory.
        clock: Readings of time.
        step_counter: Counts and times the steps.
        cost: The cost of recording.
        rewind: The checkpoints that were saved, and the batches of the last steps.
        examples: Examples counted so far, those before a resume not included.
        tokens: The same for tokens.

    Raises:
        UsageError: An argument cannot be right.
        LogDirectoryError: In strict mode, the directory cannot be written.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        *,
        config: object = None,
        tags: Sequence[str] = (),
        parent: Run | str | os.PathLike[str] | None = None,
        hooks: Iterable[Hook] = (),
        alerts: Iterable[str | Alert] = (),
        total_steps: int | None = None,
        start_step: int = 0,
        flush_secs: float = 1.0,
        flush_every_n_steps: int | None = None,
        max_queue_bytes: int = 64 << 20,
        max_summary_bytes: int = SUMMARY_BYTES,
        rank: int | None = None,
        world_size: int | None = None,
        role: str | None = None,
        chief: Chief = "first",
        eval_name: str | None = None,
        values: Values = "chief",
        handle_sigterm: bool = True,
        own_file: bool = True,
        card: bool | None = None,
        console: bool = True,
        storage_options: Mapping[str, Any] | None = None,
        _clock: Clock = SYSTEM,
        _open_writer: Callable[[str], LogWriter] | None = None,
    ) -> None:
        place_given = directory(log_dir)
        find = partial(detect, rank=rank, world_size=world_size, name=role, chief=check_chief(chief))
        place = find(environ=os.environ, modules=sys.modules)
        if place.name == EVALUATOR:
            place_given = evaluator_directory(place_given, eval_name)
        every_value = check_values(values)
        every = positive("flush_every_n_steps", flush_every_n_steps)
        total_given = positive("total_steps", total_steps) is not None
        self.clock, self.examples, self.tokens, self.rewind = _clock, 0, 0, Rewind()
        self._made_in = sys._getframe(1).f_code
        self.step_counter = Steps(integer("start_step", start_step), _clock.own_steady)
        bounds = integer("max_queue_bytes", max_queue_bytes), integer("max_summary_bytes", max_summary_bytes)
        flush_s = seconds("flush_secs", flush_secs)
        watch = RuntimeWatch(place, partial(find, environ=os.environ, modules=sys.modules))
        open_files = _open_writer or partial(LogFiles, own_file=own_file)
        parts = RunParts(self.step_counter, _clock)
        try:
            parts.find_place(place_given, storage_options or {})
            parts.describe(
                place, config, tags, total_steps, parent_from(place_given, parent), console=console
            )
            parts.make_intake(*bounds)
            parts.make_writer(open_files, watch, flush_s, every_value=every_value)
            parts.make_loop(weakref.ref(self), every or 0, total_given=total_given)
            parts.make_card(card)
            self.log_dir, self.url, self.cost = parts.directory, parts.url, parts.cost
            self._problems, self._info, self._intake, self._gates = (
                parts.problems, parts.info, parts.intake, parts.gates
            )  # fmt: skip
            self._log, self._writer, self._hooks, self._loop = (
                parts.log,
                parts.writer,
                parts.hooks,
                parts.loop,
            )
            self._summaries, self._uploader, self._values = parts.summaries, parts.uploader, parts.values
            super().__init__(parts.points, self.step_counter, self._intake.log)
            parts.start(handle_sigterm=handle_sigterm)
            for hook in hooks:
                self.add_hook(hook)
            for alert in alerts:
                self.alert(alert)
        except BaseException as error:  # no caller will ever hold this run
            parts.cancel(error)
            raise

    # --- numbers and events -------------------------------------------------------------------------

    if TYPE_CHECKING:  # compiled, with wider types: a wrong one is reported, not raised

        def scalar(  # type: ignore[override]
            self, tag: str, value: Any, step: int | None = None, rank: Literal["own"] | None = None
        ) -> None:
            """Record one number."""

    def scalars(
        self, numbers: Mapping[str, Any], step: int | None = None, rank: Literal["own"] | None = None
    ) -> None:
        """Record several numbers of one step, each as by ``scalar``.

        Args:
            numbers: Values by tag.
            step: As for ``scalar``.
            rank: As for ``scalar``.
        """
        self._intake.log_many(numbers, step, rank=rank)

    def event(
        self,
        make: Callable[[], Made],
        step: int | None = None,
        *,
        nbytes: int = 0,
        tag: str = "",
        wall: float | None = None,
        background: bool = False,
    ) -> None:
        """Record the product of a function later, on another thread: any summary, a graph, run metadata.

        Args:
            make: Returns an event, or the values of one, or None for nothing. It runs once, in order, not on
                the training thread; the objects that it uses must not change after this call.
            step: As for ``scalar``; if no steps are counted, the events of a tag are numbered from 0.
            nbytes: The memory that ``make`` keeps alive, counted against ``max_summary_bytes``.
            tag: Its name in messages.
            wall: Its time in seconds since the epoch; by default now.
            background: Whether the calling thread is not the training's: then its time is not a cost of the
                training, and problems are reported at the user's next call.
        """
        take = self._intake.background_event if background else self._intake.event
        take(make, step, nbytes, tag, wall)

    def summary(
        self, tag: Any, step: Any, prepare: Callable[[], Prepared], wall: float | None = None
    ) -> None:
        """Record a summary of a kind of its own, as all of the methods for kinds do.

        Args:
            tag: Name of the series.
            step: As for ``scalar``.
            prepare: Called at once, if the summary is recorded at all; copies the given values and returns
                the function that makes the summary later.
            wall: Its time in seconds since the epoch; by default now.
        """
        self._intake.summary(tag, step, prepare, wall)

    def record(
        self,
        numbers: Mapping[str, Any],
        step: Any = None,
        *,
        wall: float | None = None,
        background: bool = False,
    ) -> None:
        """Record numbers for a hook or an integration.

        Args:
            numbers: Values by tag.
            step: As for ``scalar``.
            wall: Their time in seconds since the epoch; by default now.
            background: The calling thread does not train: its time is not a cost of the training, and
                problems are reported at the user's next call.
        """
        if background:
            self._intake.record_readings(numbers, step, wall)
        else:
            self._intake.log_many(numbers, step, wall, by_user=False)

    def note_loss(self, loss: float, step: int) -> None:
        """Give the loss of a step to this rank's telemetry only, for an integration.

        It is for cases in which another writer records the loss in the run's directory, so that it is not
        there twice.

        Args:
            loss: A number that is known.
            step: The step that it belongs to.
        """
        self._writer.writer.note_loss(step, loss)

    def rank_facts(self, source: Callable[[], dict[str, Any]]) -> None:
        """Have facts written to this rank's own file, for a hook.

        Args:
            source: Returns JSON types by name, some kB together; it is called on the writer's thread, now and
                then and at the end, and what it returned last counts.
        """
        self._writer.writer.rank_facts(source)

    def listen(self, take: Take, tags: Wanted = None) -> None:
        """Register a function to be called with every recorded number once its value is known.

        That includes values on devices.

        Args:
            take: Called as ``take(tag, steps, values, walls)`` with numpy arrays (int64, float64, float64 in
                seconds), in the order of recording, on the writer's thread: if it takes long, it delays
                the log but not the training.
            tags: Names, or a function that takes a name and returns whether it is wanted; None for all.
        """
        self._log.listeners.add(take, tags)

    def record_if(
        self,
        condition: Condition | None = None,
        *,
        every_n_steps: int | None = None,
        every_secs: float | None = None,
        probability: float | None = None,
    ) -> Gate:
        """Record only some of the logged values, as a context: ``with run.record_if(every_secs=60):``.

        As a condition, ``if run.record_if(every_n_steps=100):``, it also spares computing the values. It
        decides once per step, so that the summaries of a step stay together. Of nested contexts the innermost
        counts, as with ``tf.summary.record_if``; each applies to its own thread. The calling line keeps its
        state, such as the time of the last summary, for the next round of a loop.

        Args:
            condition: A truth value, or a function that returns one, with no argument or with the step.
            every_n_steps: At steps that are multiples of it.
            every_secs: When this many seconds have passed since the last time.
            probability: At random, from 0 to 1; the random state of the program is left alone.

        Raises:
            UsageError: Not exactly one is given.
        """
        frame = sys._getframe(1)
        line = frame.f_code, frame.f_lineno
        return self._gates.gate(line, condition, every_n_steps, every_secs, probability)

    # --- steps --------------------------------------------------------------------------------------

    def steps(self, iterable: Iterable[T], *, start: int | None = None) -> Iterator[T]:
        """Loop over data, each item being one step; measure the step and how long it waited for its data.

        ``len()`` of the iterable, if it has one, gives ``total_steps``. Step numbers continue across
        loops. A step that ``break`` or an exception cuts short is counted, but its time is not recorded. The
        loop ends early if the run was asked to stop.

        Args:
            iterable: A data loader, for instance.
            start: Number of this loop's first step; by default the one after the last.
        """
        return self._loop.steps(self, iterable, start)

    @property
    def current_step(self) -> int | None:
        """Number of the step that is running or ran last; None before the first."""
        return self.step_counter.current

    @property
    def last_step(self) -> StepFacts | None:
        """Times of the last step that ended; None before the first."""
        last = self.step_counter.last
        return None if last is None else StepFacts(*last)

    @property
    def total_steps(self) -> int | None:
        """How many steps the run will take; None if that is not known."""
        return self._info.total_steps

    def expect_steps(self, total_steps: int, *, estimate: bool = False) -> None:
        """Set how many steps the run will take, unless the user has set it.

        Args:
            total_steps: Their number, those before a resume included.
            estimate: Whether a later call may replace it.
        """
        self._loop.expect(total_steps, estimate=estimate)

    def count(self, examples: int = 0, tokens: int = 0) -> None:
        """Count the units that the running step processes, for examples and tokens per second.

        Args:
            examples: To add to ``examples``.
            tokens: To add to ``tokens``.
        """
        self.examples += examples
        self.tokens += tokens

    def alert(self, when: str | Alert) -> None:
        """Report a finding when a condition of your own holds.

        The run's ``HealthHook`` judges it, with its actions; if there is none, one is added that judges
        only your own rules.

        Args:
            when: A condition over tags, as ``"ema(train/loss, 50) > 2 * min(train/loss)"``, or an ``Alert``.

        Raises:
            ExpressionError: The text is not a condition; it names the column.
        """
        hook = next((hook for hook in self.hooks if hasattr(hook, "alert")), None)
        if hook is None:  # by its name: hooks are built on runs, not runs on hooks
            made = import_module("stepscope.record.hooks.health").HealthHook.of_alerts([when])
            self.add_hook(made)
        else:
            hook.alert(when)

    def batch(self, indices: Any = None, *, step: int | None = None, **facts: Any) -> None:
        """Name the data of the running step, so that a finding can name the batch in which it began.

        Kept in memory for the last 512 steps and written only with a finding of the health rules. Nothing is
        copied or read until then: the given objects must not change.

        Args:
            indices: Of the examples in the data set: a list, array or tensor.
            step: By default the running step; between two steps, the next one.
            facts: Such as ``epoch=3``, ``shard="train-0007"``, or the state of a sampler.
        """
        counter = self.step_counter
        if step is None:
            step = counter.current if counter.running and counter.current is not None else counter.next
        self.rewind.batch(step, facts if indices is None else {"indices": indices, **facts})

    def stage(self, name: str) -> Stage:
        """Mark a block as a stage of the step, to see which ranks of a job wait for which.

        As in::

            with run.stage("rollout"):
                ...

        Its time is taken with the host's clock, without waiting for a device. The stages of frameworks
        (``copy``, ``forward``, ``backward``, ``optimizer``) may be named too. Outside of a step, and on other
        threads than the step's, nothing is recorded. At most 15 stages are distinguished.

        Args:
            name: Its name, the same on all ranks.

        Raises:
            UsageError: The name is empty, is not text, or is that of a stage recorded anyway.
        """
        assert self.step_counter.stages is not None
        return Stage(self.step_counter.stages, stage_name(name))

    def pause(self, name: str = "pause") -> Pause:
        """Mark a block within the loop that is no part of the step: an evaluation, a checkpoint.

        As in::

            for batch in run.steps(loader):
                train(batch)
                if run.current_step % 1000 == 999:
                    with run.pause("evaluation"):
                        evaluate()

        Its time counts as ``speed/time_in_<name>_s``, not as the step's; in the telemetry of ranks it is a
        stage of the step, since other ranks may wait for it.

        Args:
            name: Its name, the same on all ranks.

        Raises:
            UsageError: As for ``stage``.
        """
        tag = f"speed/time_in_{stage_name(name)}_s"
        return Pause(self.step_counter, name, lambda seconds: self.scalar(tag, seconds))

    def rank_group(self, name: str | None) -> None:
        """Name the part of the model or data that this rank works on, if ranks do different work.

        Ranks are compared only within a group: the ranks of one stage of a pipeline, or of one group of
        experts. ``watch`` sets it for models whose tensors are in a PyTorch ``DeviceMesh`` with such a
        dimension.

        Args:
            name: The same on all ranks with the same work, such as "pipeline 2"; None for all ranks.

        Raises:
            UsageError: The name is empty or not text.
        """
        if name is not None and (not isinstance(name, str) or not name):
            raise UsageError(
                f"no group of ranks can be called {name!r:.60}", hint="a name such as 'pipeline 2'"
            )
        assert self.step_counter.stages is not None
        self.step_counter.stages.group = name

    def checkpoint_saved(self, path: str | os.PathLike[str] | None, steps_done: int | None = None) -> None:
        """Say that a checkpoint was saved: a finding names the last good one, and the change log has all.

        ``CheckpointHook`` does this for its own.

        Args:
            path: Directory or file of the checkpoint.
            steps_done: How many steps the saved model has done; by default all up to the running one.
        """
        counter = self.step_counter
        running = counter.running and counter.current is not None
        done = (counter.current if running else counter.next) if steps_done is None else steps_done
        self.rewind.saved(done or 0, path)
        where = "saved" if path is None else os.fsdecode(os.fspath(path))
        self.text(CHECKPOINTS, f"{done or 0} steps done: {where}", max((done or 0) - 1, 0))

    # --- stopping -----------------------------------------------------------------------------------

    def request_stop(self, reason: str, *, error: HaltError | None = None, alone: bool = False) -> None:
        """Ask for the training to end, from any thread: ``steps()`` ends its loop after the running step.

        If you mark steps with ``step()``, check ``should_stop``.

        Args:
            reason: Why, for the page; of several requests the first counts.
            error: Raised in the training's own thread at the next boundary of a step, or by ``close()``.
            alone: Whether other ranks do not know of it. As they would wait for this one for ever, in a job
                of several ranks ``steps()`` then goes on until ``StopTogetherHook`` has told them;
                ``should_stop`` is true at once.
        """
        self._loop.request_stop(reason, error, alone=alone)

    @property
    def should_stop(self) -> bool:
        """True if the training was asked to end."""
        return self._loop.stop is not None

    @property
    def stop_reason(self) -> str | None:
        """Why the training was asked to end; None if it was not."""
        return None if self._loop.stop is None else self._loop.stop.reason

    @property
    def stop_request(self) -> StopRequest | None:
        """The request to stop; None before one."""
        return self._loop.stop

    def share_stops(self) -> None:
        """Have ``steps()`` leave it to a hook to let the other ranks know of a request to stop."""
        self._loop.shares_stop = True

    def stop_together(self) -> None:
        """Stop, as every rank does at this step."""
        self._loop.stop_together()

    # --- hooks --------------------------------------------------------------------------------------

    def add_hook(self, hook: Hook) -> None:
        """Add a hook from now on; on ranks that it is not meant for, nothing happens.

        Args:
            hook: Its ``begin`` is called at once.

        Raises:
            UsageError: It is not a ``Hook``.
        """
        given: object = hook
        if not isinstance(given, Hook):
            hint = "subclass stepscope.Hook; an instance is needed, not the class"
            raise UsageError(f"a hook must be a Hook, got {given!r:.60}", hint=hint)
        if self.role.writes or hook.ranks == "all":
            self._info.hooked(hook)
            self._hooks.add(hook, self)

    @property
    def hooks(self) -> list[Hook]:
        """The hooks of the run, in the order of their calls."""
        return list(self._hooks)

    @property
    def config(self) -> dict[str, Any]:
        """The configuration of the run, without secrets."""
        return self._info.config

    @property
    def role(self) -> Role:
        """Which process of its job this is. A runtime initialised later may still change it."""
        return self._info.role

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1; 0 while a disk that hangs has not said which there were."""
        return self._info.attempt

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Add to the configuration, for instance facts that are known only once the model exists.

        Args:
            facts: Merged into ``config``; existing keys are replaced. Secrets are taken out.
        """
        if facts:
            self._info.describe(plain(dict(facts)))

    # --- the end ------------------------------------------------------------------------------------

    def flush(self, *, timeout: float = 30.0, sync: bool = False) -> bool:
        """Wait until everything logged so far is with the operating system, values on devices included.

        Args:
            timeout: Seconds after which it gives up waiting.
            sync: Also wait until it is on the disk.

        Returns:
            Whether all of it is.
        """
        if not self.recording:
            return False
        done = self._writer.flush(Deadline.after(timeout, self.clock), sync=sync)
        self._problems.deliver()
        return done

    def flush_soon(self) -> None:
        """Write everything logged so far as soon as possible, without waiting for it."""
        self._writer.flush_soon()

    def close(
        self, status: Status = "finished", reason: str | None = None, *, timeout: float = exits.END_SECS
    ) -> None:
        """Write everything and end the run. Closing twice does nothing.

        Args:
            status: "finished", "failed" or "stopped".
            reason: Why, for the page.
            timeout: Seconds after which it gives up waiting for hooks, devices and disk.
        """
        if status not in ("finished", "failed", "stopped"):
            raise UsageError(
                f"a run ends as finished, failed or stopped, not {status!r:.60}", hint="run.close('failed')"
            )
        deadline = Deadline.after(timeout, self.clock)
        self._writer.close_hooks(status, deadline)
        stop, failure = self._loop.stop, None
        if stop is not None:
            # The error that a request to stop carries and no boundary of a step has raised.
            failure = stop.take_error()
        if status != "finished" or not self.recording:
            failure = None
        if failure is not None:
            status, reason = "failed", f"{type(failure).__name__}: {failure.message}"
        if self.recording:
            missing = self._writer.end(status, self.stop_reason if reason is None else reason, deadline)
            exits.release(self._writer)
            self._problems.deliver()
            if missing:
                self._problems.tell("unwritten", unwritten(missing, self.log_dir), points=missing)
        if failure is not None:
            raise failure

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close(*outcome(error))

    def __del__(self, at_exit: Callable[[], bool] = sys.is_finalizing) -> None:
        writer = getattr(self, "_writer", None)
        # Then the names of modules may be gone, and every run has been ended before.
        if writer is not None and not at_exit():
            exits.end_collected(writer, self._made_in)

    def __reduce__(self) -> str:
        raise UsageError(
            "a Run cannot be pickled or copied: it belongs to the process that created it",
            hint="create a Run in each process that logs; worker processes of a data loader need none",
            path=self.log_dir,
        )

    def report(self, reason: str, error: StepscopeError, *, points: int = 1, later: bool = False) -> None:
        """Count a failure in a hook or an integration, and warn once, at the user's line.

        Args:
            reason: The word under which it is counted in ``problems``.
            error: The text or, in strict mode, the exception to raise.
            points: The number of points lost to it.
            later: Whether to warn at the user's next call; for calls from any thread but theirs.
        """
        self._problems.report(reason, error, points=points, later=later)

    def unmeasured(self, what: str, why: str, since: int | None = None) -> None:
        """State that something that was to be measured is not, once, in the run and as a warning.

        Args:
            what: In the plural: "gradients of encoder".
            why: The cause, and the remedy.
            since: The first step without it; by default the present one.
        """
        step = (self.current_step or 0) if since is None else since
        if self._info.lack(what, step, why):
            self._problems.warn(f"{what} are not measured since step {step}: {why}")

    def measured_again(self, what: str, step: int) -> None:
        """State that something is measured again.

        Args:
            what: As given to ``unmeasured``.
            step: The first step with it.
        """
        self._info.have(what, step)

    def warn(self, text: str, *, later: bool = False) -> None:
        """Warn of something that the run shows, rather than of a failure to record: nothing is counted.

        Args:
            text: Words of the message.
            later: Whether to warn at the user's next call; for calls from any thread but theirs.
        """
        (self._problems.post_warning if later else self._problems.warn)(text)

    def __repr__(self) -> str:
        return f"Run({self.url or self.log_dir!r}, {self.state})"

    @property
    def recording(self) -> bool:
        """True if the run accepts values: it has a thread, and nothing has ended it."""
        return self._intake.taking

    @property
    def state(self) -> str:
        """The state of the run, in words: "recording", "not recording: …" or how it ended."""
        if self._intake.forked:
            return "not recording: forked child"
        if self.recording:
            role = self.role
            chief = f"; rank {role.chief_rank} writes what is logged"
            lost = self._values.unrecorded
            values = counted(lost, "value that was", "values that were")
            more = f"; {values} logged here {'is' if lost == 1 else 'are'} not recorded" if lost else ""
            return "recording" if role.writes else f"recording telemetry only: {role}{chief}{more}"
        return self._info.status if self._info.ended else "not recording: no thread"

    @property
    def problems(self) -> dict[str, int]:
        """Points that were not recorded, counted by reason."""
        return dict(self._problems.counts)


def stage_name(name: str) -> str:
    """Return the name of a stage.

    Raises:
        UsageError: The name is empty, is not text, or is that of a stage recorded anyway.
    """
    if not isinstance(name, str) or not name or name in ("data", "rest"):
        raise UsageError(
            f"no stage can be called {name!r:.60}",
            hint="a name such as 'rollout'; data and rest are recorded",
        )
    return name
