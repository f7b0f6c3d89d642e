"""HealthHook: says while a run trains whether it is healthy, and acts on its findings."""

from __future__ import annotations

import math
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import NDArray

from stepscope.errors import RecordError, UsageError
from stepscope.events.rank_file import RankFile
from stepscope.events.telemetry import FOLDER, parse_name
from stepscope.health import RULES, SEVERITIES, Abstention, Alert, Finding, Monitor, Verdict
from stepscope.health.alert import Own
from stepscope.health.finding import NONFINITE, Severity
from stepscope.health.monitor import Choice
from stepscope.health.origins import SPIKES
from stepscope.health.rules import NO_LIFE, SaturatedActivation, StalledTraining
from stepscope.kernels.frames import line_of, stack
from stepscope.names.meanings import Meanings, meanings_at
from stepscope.names.roles import RANKS_LOSS
from stepscope.record.clock import NO_DEADLINE, SYSTEM, Deadline
from stepscope.record.config import word
from stepscope.record.findings import TAG, Notifier, Webhook, finding_facts, finding_values
from stepscope.record.hooks.functions import CheckpointHook, callable_or_none
from stepscope.record.problems import pass_on, shown
from stepscope.record.protocol import Hook
from stepscope.record.steps import STEP_TIME
from stepscope.text import scrub_text

if TYPE_CHECKING:
    from stepscope.record.run import Run

EVERY_S = 1.0
"""How often points are judged, in seconds: rarely enough to cost next to nothing."""
HOLD_S = 0.5
"""How long to wait for a value on a device, which arrives later than others of its time."""
QUIET_S = 2.0
"""Seconds without the end of a step after which no more points from before are expected."""
RANKS_HOLD_S = 4.0
"""How often the ranks' losses are read: each rank writes them once a second."""
READING_SHARE = 0.02
"""Share of its time that the thread that reads the ranks' losses may work: many files on a slow disk mean a
long pause."""
FLUSH_S = 10.0
BROKEN = (*NONFINITE, *SPIKES, "exploding-gradient")
"""Rules after which one may want to go back."""
LOOK_BACK = 3
"""Number of steps before a spike whose batches are reported as well."""
LINES = 40
"""Innermost lines of a stack that are kept."""
DEEPEST = 10_000
"""Calls of a thread that are compared from one look to the next."""


class HealthHook(Hook):
    """Applies the health rules to everything that is recorded, while it is recorded.

    It receives numbers on the writer's thread and judges them there about once a second: the training
    does not wait. A finding is written to the run when it opens and when it closes; ``docs/guides/health.md``
    has all rules. The actions run when the finding opens or becomes severe enough: ``call`` on the writer's
    thread, ``checkpoint`` in the training thread after the current step.

    Args:
        rules: Rules to switch off, ``{"plateau": False}``, and thresholds, ``{"loss-spike": {"ratio": 2}}``.
        roles: Corrections of what tags mean, by tag or by pattern with ``*``, as
            ``{"objective": "loss", "held/*": "metric eval"}``. Those that are stored with the log directory
            when the run begins hold too; these count before them.
        severity: The lowest severity at which actions run. A capture explains much and costs little, so it
            is requested from "medium" on.
        call: Called with each such ``Finding``.
        checkpoint: Called with the number of steps done, to save a checkpoint. Not called for values that are
            not finite, because then the model is broken; the finding's ``rewind`` names the last good one.
        stop: Whether to ask the run to stop, or the ids of the rules that may.
        capture: Whether to have the run's ``ProfilerHook`` capture steps, or a function to call with a
            reason.
        webhook: An address to which findings are posted as JSON, or a ``Webhook``; by default nothing is
            sent.
        notify: Addresses in apprise's notation (``slack://…``, ``ntfy://…``), or a ``Notifier``, to which
            findings are sent with a picture of the series; by default nothing is sent.
        alerts: Rules of your own: conditions over tags, such as ``"mean(train/loss, 50) > 3"``, or ``Alert``.
        stall: Whether a separate thread watches that steps go on.
        ranks: "chief", or "all" to judge and act on every rank separately; only the chief writes findings.

    Attributes:
        findings: Everything found so far, the newest state of each.

    Raises:
        UsageError: An unknown rule, threshold, role or severity, or a malformed condition.
    """

    def __init__(
        self,
        rules: Choice | None = None,
        *,
        roles: Mapping[str, str] | None = None,
        severity: Severity = "high",
        call: Callable[[Finding], Any] | None = None,
        checkpoint: Callable[[int], Any] | None = None,
        stop: bool | Collection[str] = False,
        capture: bool | Callable[[str], Any] = False,
        webhook: str | Webhook | None = None,
        notify: str | Sequence[str] | Notifier | None = None,
        alerts: Iterable[str | Alert] = (),
        stall: bool = True,
        ranks: Literal["chief", "all"] = "chief",
    ) -> None:
        if severity not in SEVERITIES:
            known = ", ".join(SEVERITIES)
            raise UsageError(
                f"severity must be one of {known}, got {shown(severity)}", hint="severity='high'"
            )
        self.ranks = word("ranks", ranks, "chief", "all", hint="ranks='all'")
        self._monitor = Monitor(rules, Meanings(roles), single=True, alerts=alerts)
        self._config: Mapping[str, Any] = {}
        self._failures = 0
        self._severity = SEVERITIES.index(severity)
        self._call = callable_or_none("call", call)
        own = any(isinstance(rule, Own) for rule in self._monitor.rules)
        self.calls_user_code = own or callable(capture) or (call, checkpoint) != (None, None)
        self._save = callable_or_none("checkpoint", checkpoint)
        self._stop = stop if isinstance(stop, bool) else checked_rules(stop)
        self._capture = capture if isinstance(capture, bool) else callable_or_none("capture", capture)
        self._webhook = Webhook(webhook) if isinstance(webhook, str) else webhook
        self._notifier = notify if isinstance(notify, Notifier) else Notifier(notify) if notify else None
        self._watched = stall and "stalled-training" in {rule.id for rule in self._monitor.rules}
        self._lock = threading.Lock()
        self._judged_to = self._heard = float("-inf")
        self._save_asked = False
        self._captured: set[tuple[str, int]] = set()
        self._acted: set[tuple[str, int]] = set()
        self._own: dict[tuple[str, int], tuple[tuple[dict[str, Any], ...], tuple[str, ...]]] = {}
        self._trainer = 0
        self._place: tuple[tuple[int, int], ...] = ()
        self._moved = float("-inf")
        self._over = threading.Event()
        self._watcher: threading.Thread | None = None
        self._ranks: RankLosses | None = None
        self._run: weakref.ref[Run]
        if self._save is not None:
            self.after_step = self._save_if_asked  # type: ignore[method-assign]

    @property
    def findings(self) -> list[Finding]:
        """Everything found so far, the severest first."""
        return self.verdict.findings

    @property
    def verdict(self) -> Verdict:
        """The verdict of the rules so far: findings, and the questions left open."""
        with self._lock:
            verdict = self._monitor.verdict
            return replace(
                verdict,
                findings=list(map(self._with_own, verdict.findings)),
                abstained=list(map(with_afterwards, verdict.abstained)),
            )

    @classmethod
    def of_alerts(cls, alerts: Iterable[str | Alert]) -> HealthHook:
        """Return a hook that judges the user's own rules and no others."""
        return cls(dict.fromkeys(RULES, False), alerts=alerts, severity="info")

    def alert(self, when: str | Alert) -> None:
        """Also judge by a rule of your own from now on.

        Args:
            when: A condition over tags, or an ``Alert``.

        Raises:
            ExpressionError: The text is not a condition; with the column.
        """
        with self._lock:
            self._monitor.add(when)

    # --- the training's thread ------------------------------------------------------------------------

    def begin(self, run: Run) -> None:
        """Begin to listen and to watch."""
        self._run = weakref.ref(run)
        self._trainer = threading.get_ident()
        self._heard = run.clock.wall()
        self._monitor.meanings = meanings_at(run.log_dir).corrected(self._monitor.meanings.corrections)
        if run.role.writes and run.role.telemetry and not run.role.alone:
            self._ranks = RankLosses(run.log_dir, run.clock.steady)
        run.listen(self._take)
        for sender in (self._webhook, self._notifier):
            if sender is not None:
                sender.start(run)
        self._over.clear()
        self._watcher = threading.Thread(target=self._watch, name="stepscope-health", daemon=True)
        self._watcher.start()

    def end(self, run: Run, status: str, deadline: Deadline = NO_DEADLINE) -> None:
        """Judge the last steps too, and write the findings."""
        self._over.set()
        run.flush(timeout=deadline.left(FLUSH_S))
        with self._lock:
            self._hear_ranks(last=True)
            self._configure(run)
            self._monitor.finish()
            self._tell(run)
        for sender in (self._webhook, self._notifier):
            if sender is not None:
                sender.end(deadline.left(FLUSH_S))
        self._save_if_asked(run.current_step or 0)
        if self._watcher is not None and self._watcher is not threading.current_thread():
            self._watcher.join(1.0)

    def _save_if_asked(self, step: int) -> None:
        run = self._run()
        if not self._save_asked or self._save is None or run is None:
            return
        self._save_asked = False

        run.cost.call(self._save, step + 1)

    # --- the writer's thread --------------------------------------------------------------------------

    def _take(self, tag: str, steps: Any, values: Any, walls: Any) -> None:
        run = self._run()
        if run is None:
            return
        rank = run.role.rank if run.role.world_size > 1 else None
        if self._notifier is not None:
            self._notifier.hear(tag, steps, values)
        with self._lock:
            self._monitor.take(tag, steps, values, walls, rank=rank)
            if not tag.startswith(NO_LIFE):
                self._heard = max(self._heard, float(walls[-1]))
            # Of each portion the times of steps are told last: all before them is known then.
            newest = self._monitor.newest
            if tag == STEP_TIME and newest - self._judged_to >= EVERY_S:
                self._judge(run, newest - self._hold)

    def _judge(self, run: Run, wall: float) -> None:
        self._judged_to = max(self._judged_to, wall)
        self._configure(run)
        self._monitor.advance(wall)
        self._tell(run)

    def _configure(self, run: Run) -> None:
        if self._config is not run.config:  # settings that are known only once the model exists
            self._config = run.config
            self._monitor.configured(self._config)

    def _tell(self, run: Run) -> None:
        for finding_ in self._monitor.news():
            finding = self._located(run, finding_)
            write(run, finding)
            if not finding.is_open:
                continue
            # One that costs little when it opens may cost much later: an action waits for that.
            name, rank = (finding.rule, finding.number), SEVERITIES.index(finding.severity)
            if name not in self._captured and rank <= max(self._severity, SEVERITIES.index("medium")):
                self._captured.add(name)
                self._ask_capture(run, finding)
            if name not in self._acted and rank <= self._severity:
                self._acted.add(name)
                self._act(run, finding)

        failures = self._monitor.failures
        for failure in failures[self._failures :]:
            error = RecordError(f"alert {failure}", hint="fix the function; it will not be called again")
            run.report("alert", error, later=True)
        self._failures = len(failures)

    def _located(self, run: Run, finding: Finding) -> Finding:
        """Return a finding with facts that only this process knows: batches, and the last good checkpoint."""
        broken = finding.rule in BROKEN and not (finding.rule in NONFINITE and finding.severity != "high")
        if not broken or not finding.is_open:
            return finding
        if (finding.rule, finding.number) not in self._own:
            ours = finding.rank is None or finding.rank == run.role.rank
            # A step's update shows in the next one's loss.
            steps = range(max(finding.step - 1, 0), finding.step + 1)
            if finding.rule in SPIKES:
                steps = range(max(finding.step - LOOK_BACK, finding.first_step), finding.step + 1)
            batches = run.rewind.batches(steps) if ours else ()
            first_bad = finding.first_step if finding.rule in SPIKES else finding.step
            saves = any(isinstance(hook, CheckpointHook) for hook in run.hooks)
            recipe = run.rewind.recipe(first_bad, saves=saves)
            self._own[finding.rule, finding.number] = batches, recipe
        return self._with_own(finding)

    def _with_own(self, finding: Finding) -> Finding:
        batches, rewind = self._own.get((finding.rule, finding.number), ((), ()))
        return replace(finding, batches=batches, rewind=rewind) if batches or rewind else finding

    def _ask_capture(self, run: Run, finding: Finding) -> None:
        reason = f"{finding.rule}: {finding.summary}"
        if self._capture is True:
            for hook in run.hooks:
                request = getattr(hook, "request_capture", None)
                if callable(request):
                    self._try(run, "capture", request, reason, finding_facts(finding))
        elif callable(self._capture):
            self._try(run, "capture", self._capture, reason)

    def _act(self, run: Run, finding: Finding) -> None:
        reason = f"{finding.rule}: {finding.summary}"
        if self._webhook is not None:
            self._webhook.put({"log_dir": scrub_text(run.log_dir), **finding_facts(finding)})
        if self._notifier is not None:
            self._notifier.put(finding, scrub_text(run.log_dir))
        if self._save is not None and finding.rule not in NONFINITE:  # a broken model is not worth saving
            self._save_asked = True
        if self._call is not None:
            self._try(run, "call", self._call, finding)
        if self._stop is True or (not isinstance(self._stop, bool) and finding.rule in self._stop):
            run.request_stop(reason, alone=True)

    def _try(self, run: Run, what: str, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001  the user's own code must not end the writer's thread
            pass_on(error)
            message = f"HealthHook: {what} raised {type(error).__name__}: {error}"
            hint = "the finding is written into the run all the same"
            run.report("hook", RecordError(message, hint=hint), later=True)

    # --- a thread of its own --------------------------------------------------------------------------

    def _watch(self) -> None:
        """Check now and then whether steps go on, until the run is over or gone."""
        while not self._over.wait(self._pace()):
            run = self._run()
            if run is None or not run.recording:
                return
            self.look(run.clock.wall())
            del run

    def _hear_ranks(self, *, last: bool = False) -> None:
        """Take the losses that all ranks have written."""
        run = self._run()
        if self._ranks is None or run is None:
            return
        for rank, steps, losses, walls in self._ranks.news(run.attempt, last=last):
            self._monitor.take(RANKS_LOSS, steps, losses, walls, rank=rank)

    @property
    def _hold(self) -> float:
        """How long points wait for others of the same time."""
        return HOLD_S if self._ranks is None else RANKS_HOLD_S

    def _pace(self) -> float:
        rule = self._stalled
        return EVERY_S if rule is None else min(EVERY_S, rule.limits["floor_s"] / 4)

    @property
    def _stalled(self) -> StalledTraining | None:
        if not self._watched:
            return None
        return next(rule for rule in self._monitor.rules if isinstance(rule, StalledTraining))

    def look(self, now: float) -> None:
        """Judge the waiting steps when nothing new comes, and whether the training stalls.

        Args:
            now: Seconds since the epoch, by the run's clock.
        """
        run = self._run()
        if run is None:
            return
        rule = self._stalled
        with self._lock:
            self._hear_ranks()
            quiet = max(QUIET_S, self._hold)
            if now - self._heard >= quiet or now - self._judged_to >= 2 * quiet:
                self._judge(run, now - quiet)
            if rule is None or is_done(run):
                return
            before = len(rule.found)
            rule.ask(now, max(self._heard, self._moved_at(now)))
            if len(rule.found) > before:
                rule.found[-1] = with_stack = replace(rule.found[-1], stack=stack_of(self._trainer))
                rule.changed[-1] = with_stack
                self._tell(run)
                run.flush_soon()

    def _moved_at(self, now: float) -> float:
        """Return when the training thread was last seen to move on, from one look to the next."""
        if threading.get_ident() != self._trainer:
            before, self._place = self._place, place_of(self._trainer)
            if before and self._place != before:
                self._moved = now
        return self._moved


def with_afterwards(abstention: Abstention) -> Abstention:
    """Return an abstention that says if more can be judged afterwards: histograms are no numbers."""
    if abstention.rule != SaturatedActivation.id or not abstention.missing.startswith("not recorded"):
        return abstention
    return replace(
        abstention, missing=f"{abstention.missing}; histograms of activations are judged afterwards only"
    )


def write(run: Run, finding: Finding) -> None:
    """Write a finding into the run, from whatever thread."""
    if not run.role.writes:
        return
    step = finding.step if finding.closed_step is None else finding.closed_step
    wall = finding.wall if finding.closed_wall is None else finding.closed_wall
    nbytes = len(finding.summary) + 2_000
    run.event(lambda: finding_values(finding), step, nbytes=nbytes, tag=TAG, wall=wall, background=True)


def stack_of(thread: int) -> tuple[str, ...]:
    """Return the stack of a thread, innermost call last; empty if it is gone."""
    return tuple(
        scrub_text(f"{code.co_filename}:{line_of(code, instruction)} {code.co_name}")
        for code, instruction in reversed(stack(thread, most=LINES))
    )


def place_of(thread: int) -> tuple[tuple[int, int], ...]:
    """Return which instruction each call of a thread is at, innermost first; empty if it is gone."""
    return tuple((id(code), instruction) for code, instruction in stack(thread, most=DEEPEST))


def is_done(run: Run) -> bool:
    """Return whether the run has taken all its steps: later silence is not a stall."""
    steps, total = run.step_counter, run.total_steps
    return total is not None and not steps.running and steps.next >= total


def checked_rules(names: Collection[str]) -> frozenset[str]:
    """Return ids of rules.

    Raises:
        UsageError: One is none.
    """
    unknown = sorted(set(names) - set(RULES))
    if unknown:
        raise UsageError(f"no health rule {unknown[0]!r}", hint=f"the rules: {', '.join(RULES)}")
    return frozenset(names)


class News(NamedTuple):
    """New losses of one rank: steps, losses, and times in seconds since the epoch."""

    rank: int
    step: NDArray[Any]
    loss: NDArray[Any]
    wall: NDArray[Any]


class RankLosses:
    """Follows the files of one attempt's ranks; rows are forgotten once read. Not safe for threads.

    Args:
        log_dir: The run's directory.
        steady: Gives the steady time in seconds, by which reading pauses.
    """

    def __init__(self, log_dir: str, steady: Callable[[], float] = SYSTEM.steady) -> None:
        self._steady = steady
        self._folder = os.path.join(log_dir, FOLDER)  # noqa: PTH118  may be a URL
        self._files: dict[str, RankFile | None] = {}
        self._pause_until = -math.inf

    def news(self, attempt: int, *, last: bool = False) -> Iterator[News]:
        """Yield the rows that ranks have written since the last call; nothing if the disk does not answer.

        Args:
            attempt: Which attempt; 0 if it is not known yet.
            last: Read in a pause, too, because no further call comes.
        """
        if not attempt:
            return
        begun = self._steady()
        if begun < self._pause_until and not last:
            return
        for file in self._followed(attempt):
            steps = file.take()
            there = steps.has_loss
            if there.any():
                yield News(file.name.rank, steps.step[there], steps.loss[there], steps.wall[there])
        took = self._steady() - begun
        self._pause_until = begun + took / READING_SHARE if took > READING_SHARE else -math.inf

    def _followed(self, attempt: int) -> Iterator[RankFile]:
        try:
            entries = list(os.scandir(self._folder))
        except OSError:
            return
        for entry in entries:
            if entry.name not in self._files:
                name = parse_name(entry.name)
                ours = name is not None and name.kind == "rank" and name.attempt == attempt
                self._files[entry.name] = RankFile(entry.path, name) if ours and name else None
            file = self._files[entry.name]
            if file is not None and file.follow():
                yield file
