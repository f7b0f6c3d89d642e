"""The callback for ``fit``, ``evaluate`` and ``predict``."""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from threading import Lock
from typing import Any, Literal

import keras

from stepscope.capture import LambdaProfilerHook, ProfilerHook
from stepscope.errors import UsageError
from stepscope.integrations.guard import guarded
from stepscope.integrations.holder import RunHolder
from stepscope.integrations.keras import gradients
from stepscope.integrations.keras.batches import BatchParts, TrainFunction, watched_by
from stepscope.integrations.keras.model import Labels, ModelRecorder, batches_per_call, readings, updates
from stepscope.integrations.stepper import Stepper
from stepscope.names.settings import paths
from stepscope.record import Run
from stepscope.record.endings import outcome
from stepscope.record.problems import Reporter

END_OF_DATA = ("StopIteration", "OutOfRangeError")
ProfileBatch = int | str | tuple[int, int] | list[int]
SCHEDULE_EVERY = 10
"""Recorded batches between two reads of a schedule, which computes the learning rate on the device."""
POOL = 32
"""Threads that a pool has at most if nothing is said (Python's ``ThreadPoolExecutor``)."""


class StepscopeCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Records ``fit``, ``evaluate`` and ``predict``, on any backend, without TensorFlow.

    ``model.fit(…, callbacks=[StepscopeCallback("runs/first")])``. Everything is recorded in one run, at the
    number of the batch, so ``train/loss`` and ``eval/loss`` share a chart. The metrics are Keras's: those of
    training are the mean since the epoch began. Values stay on the device; training never waits for them.

    Args:
        log_dir: The run's directory, or a ``Run``, which is then yours to close. In a directory each ``fit``
            is an attempt, which ends with it; the next goes on counting steps.
        update_freq: The batches whose metrics are recorded: "batch" for each, "epoch" for the last of each
            epoch, or a number for every that many.
        histogram_freq: Every how many epochs the histograms of the weights are recorded; 0 for never.
        write_graph: Whether to record the graph of the layers.
        write_images: Whether to record the weights as images too, with the histograms.
        write_steps_per_second: Whether to record the batches per second of each epoch.
        batch_loss: Whether to record the loss of each batch, ``train/batch_loss``, beside that mean.
        profile_batch: A batch to profile, or the first and the last, counted from 1; 0 for none.
        embeddings_freq: Every how many epochs ``Embedding`` layers are recorded for the projector.
        embeddings_metadata: A file of labels, one line per row; or such files by the names of the layers.
        options: For ``Run``, if a directory is given.

    Raises:
        UsageError: An argument cannot be right.
    """

    async_safe = True  # Keras 3: what is done after a batch need not hold up the next one
    _supports_tf_logs = True  # Keras 2: the same, in its words

    def __init__(
        self,
        log_dir: Run | str | os.PathLike[str],
        *,
        update_freq: Literal["batch", "epoch"] | int = "batch",
        histogram_freq: int = 0,
        write_graph: bool = True,
        write_images: bool = False,
        write_steps_per_second: bool = False,
        batch_loss: bool = False,
        profile_batch: ProfileBatch = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Labels = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._metrics = BatchMetrics(frequency(update_freq), batch_loss=batch_loss)
        self._ended = InOrder(self._record_own)
        self._speed = write_steps_per_second
        self._recorder = ModelRecorder(
            graph=write_graph,
            histograms=epochs("histogram_freq", histogram_freq),
            images=write_images,
            embeddings=epochs("embeddings_freq", embeddings_freq),
            labels=embeddings_metadata,
        )
        self._profiler = hook_of(profile_batch)
        self._holder = RunHolder(log_dir, options)
        self._stepper: Stepper | None = None
        self._net: Any = None
        self._parts: BatchParts | None = None
        self._fitting = self._wrapped = self._evaluated = False
        self._base = self._next = self._updates = 0
        self._last: int | None = None
        self._done: int | None = None
        self._begun = self._epoch_begun = self._epoch_trained = 0.0

    @property
    def run(self) -> Run:
        """The run that is being recorded, to log more with; made if there is none."""
        return self._holder.opened or self._holder.run(start_step=max(self._next, updates(self._optimizer)))

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return self._holder.reporter

    def set_model(self, model: Any) -> None:
        """Take the model that is trained next."""
        super().set_model(model)
        self._net = getattr(model, "module", model) if type(model).__name__.endswith("Parallel") else model

    # --- training -----------------------------------------------------------------------------------

    @guarded
    def on_train_begin(self, logs: Any = None) -> None:
        """Watch the function that trains a batch."""
        if self._fitting and self._holder.own:
            self._ended.finish()
            self._holder.end("failed", "fit() was left by an exception")
        self._fitting, self._stepper = True, None
        train = getattr(self._net, "train_function", None)
        if callable(train) and not watched_by(train, self):
            self._net.train_function = train = TrainFunction(train, self)
        self._wrapped = watched_by(train, self)

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin to count: at the first epoch other callbacks have restored their state."""
        if self._stepper is None:
            self._resume(epoch)
        run = self.run
        if self._stepper is None:
            self._stepper, self._next = Stepper(run), run.step_counter.next
            self._describe(run, epoch)
            if gradients.meter_of(self._optimizer) is not None:
                gradients.watch(run, self._optimizer)
            self._watch_inside(run)
        self._ended.finish()
        self._base, self._last, self._done, self._evaluated = self._next, None, None, False
        self._updates, self._epoch_begun = updates(self._optimizer), run.clock.steady()
        self._metrics.begin()
        self._ask()

    def _resume(self, epoch: int) -> None:
        """Find the number of the first batch, if a training goes on.

        ``initial_epoch`` says it if the data have a length, also if only the weights were restored; otherwise
        the optimizer's count does.
        """
        before = epoch * int((self.params or {}).get("steps") or 0)
        done = updates(self._optimizer)
        if self._holder.opened is None:
            self._next = max(self._next, before, done)
        elif self.run.current_step is None and self.run.step_counter.next == 0:
            self.run.step_counter.next = max(before, done)
        if epoch and not max(self._next, before, done) and not self.run.step_counter.next:
            self.run.warn(
                f"fit() begins at epoch {epoch + 1}, and neither the data nor the optimizer says how many "
                "batches came before: steps are numbered from 0. StepscopeCallback(…, start_step=…) says it"
            )

    @guarded
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a step."""
        stepper, number = self._stepper, self._base + batch
        if stepper is None:
            return
        self._finish()
        if self._last is None:
            self.run.scalars(readings(self._optimizer), number)
        self._last, self._next = number, number + batches_per_call(self._net)
        if not self._wrapped:
            self._ended.begin(batch)
        stepper.begin(number)

    def watch(self, train: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Train one batch with ``train`` and record its results, values on the device as they are."""
        parts = self._parts
        try:
            arguments = gradients.given(
                self._optimizer, arguments if parts is None else parts.given(arguments)
            )
            with nullcontext() if parts is None else parts.open():
                result = gradients.taken(self._optimizer, train(*arguments))
            if parts is not None:
                parts.taken(result)
            if self._last is not None:
                self._record(self._last, result[0] if isinstance(result, tuple) else result)
                self._end_step()
        except BaseException as error:
            self._left(error)
            raise
        return result

    @guarded
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Record a batch of a loop of the user's own; one of ``fit`` is recorded already.

        Keras 3 calls this on one of several threads, perhaps when the next batch has ended.
        """
        if not self._wrapped:
            self._ended.end(batch, logs)

    def _record_own(self, batch: int, logs: Any) -> None:
        self._record(self._base + batch, logs)

    @guarded
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record the epoch's values, at its last batch."""
        self._finish()
        self._ended.finish()
        if self._done is None:
            return
        run, step, metrics = self.run, self._done, numbers(logs)
        self._recorder.describe_built(run, self._net, self.params or {})
        if self._metrics.recorded != step:
            run.scalars({f"train/{name}": value for name, value in metrics if name[:4] != "val_"}, step)
        if not self._evaluated:
            run.scalars({f"eval/{name[4:]}": value for name, value in metrics if name[:4] == "val_"}, step)
        if self._speed:
            speed = (self._next - self._base) / max(self._epoch_trained - self._epoch_begun, 1e-9)
            run.scalar("speed/batches_per_second", speed, step)
        run.scalars({**readings(self._optimizer), "epoch": epoch + 1}, step)
        self._recorder.epoch_ended(run, self._net, epoch, step)

    @guarded
    def on_train_end(self, logs: Any = None) -> None:
        """Finish the training of ``fit``."""
        train, self._fitting = getattr(self._net, "train_function", None), False
        if isinstance(train, TrainFunction) and train.watched_by(self):
            self._net.train_function = train.inner
        self._close()

    @guarded
    def _record(self, step: int, logs: Any) -> None:
        run, self._done = self.run, step if self._done is None else max(self._done, step)
        done, per_call = step - self._base, batches_per_call(self._net)
        if self._metrics.record(run, step, done + per_call, per_call, logs) and self._optimizer is not None:
            run.scalars(readings(self._optimizer, self._updates + done), step)

    @guarded
    def _end_step(self) -> None:
        stepper, run = self._stepper, self.run
        if stepper is None:
            return
        stepper.end()
        self._epoch_trained = run.clock.steady()
        if run.should_stop:
            self._net.stop_training = True
        self._ask()

    def _finish(self) -> None:
        """End the step of a loop of the user's own, which lasts until something else begins."""
        if not self._wrapped and self._stepper is not None and self._stepper.running:
            self._end_step()

    def _ask(self) -> None:
        """Note that ``fit`` now asks for data, if it does so between batches and not within."""
        if self._stepper is not None and keras.backend.backend() == "torch":
            self._stepper.asking()

    @guarded
    def _left(self, error: BaseException) -> None:
        """Drop the step that an exception cut short; if it ends the training, end the run."""
        if self._stepper is not None:
            self._stepper.abandon()
        if type(error).__name__ in END_OF_DATA:
            self._next = self._next if self._last is None else self._last
        else:
            self._fitting = False
            self._holder.end(*outcome(error))

    # --- evaluation and prediction ------------------------------------------------------------------

    @guarded
    def on_test_begin(self, logs: Any = None) -> None:
        """Note when it begins."""
        self._finish()
        self._begun = self.run.clock.steady()

    @guarded
    def on_test_end(self, logs: Any = None) -> None:
        """Record metrics at the last batch trained: within ``fit`` under eval/, from ``evaluate`` test/."""
        split = "eval" if self._fitting else "test"
        metrics = {f"{split}/{name}": value for name, value in numbers(logs)}
        self._evaluated = self._fitting
        self._after_training(metrics, "evaluation")

    @guarded
    def on_predict_begin(self, logs: Any = None) -> None:
        """Note when it begins."""
        self._begun = self.run.clock.steady()

    @guarded
    def on_predict_end(self, logs: Any = None) -> None:
        """Record how long it took."""
        self._after_training({}, "prediction")

    def _after_training(self, metrics: Mapping[str, Any], what: str) -> None:
        run = self.run
        step = max(run.step_counter.next - 1, 0) if self._done is None else self._done
        run.scalars({**metrics, f"speed/time_in_{what}_s": run.clock.steady() - self._begun}, step)
        if not self._fitting:
            self._close()

    # --- parts --------------------------------------------------------------------------------------

    @property
    def _optimizer(self) -> Any:
        return getattr(self._net, "optimizer", None)

    def _watch_inside(self, run: Run) -> None:
        """Observe the parts of each batch: its data, its stages, its layers."""
        if self._parts is not None:  # of a fit that was left by an exception
            self._parts.close()
        self._parts = BatchParts(run, self._net, wrapped=self._wrapped)
        train: Any = getattr(self._net, "train_function", None)
        if self._parts.retrace and self._wrapped and not watched_by(train, self):
            self._net.train_function = TrainFunction(train, self)

    def _describe(self, run: Run, epoch: int) -> None:
        params = self.params or {}
        self._recorder.describe(run, self._net, params)
        if params.get("steps") and params.get("epochs"):
            left = params["steps"] * (params["epochs"] - epoch)
            run.expect_steps(run.step_counter.next + left, estimate=True)
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            run.add_hook(profiler)

    def _close(self) -> None:
        self._ended.finish()
        run, parts, self._parts = self._holder.opened, self._parts, None
        if parts is not None:
            parts.close()
        if self._stepper is not None:
            self._stepper.abandon()
        if run is not None:
            run.step_counter.next = max(run.step_counter.next, self._next)
            run.flush(timeout=5.0)
        self._holder.end()


def frequency(update_freq: object) -> int:
    """Return every how many batches something is done, 0 for never.

    Raises:
        UsageError: It is neither.
    """
    every = {"batch": 1, "epoch": 0}.get(str(update_freq), update_freq)
    if not isinstance(every, int) or isinstance(every, bool) or every < 0 or update_freq == 0:
        raise UsageError(
            f"update_freq must be 'batch', 'epoch' or a number of batches, got {update_freq!r:.60}",
            hint="StepscopeCallback(log_dir, update_freq=100)",
        )
    return every


def epochs(name: str, value: object) -> int:
    """Return a number of epochs.

    Raises:
        UsageError: It is not one.
    """
    if not isinstance(value, int) or value < 0:
        raise UsageError(
            f"{name} must be a number of epochs, got {value!r:.60}", hint="0 for never, 1 for each"
        )
    return int(value)


class InOrder:
    """Gives results of batches on in the order in which the batches began, whichever thread brings them.

    A batch is waited for until as many later ones have begun as a pool has threads: it may never end, and
    nothing is held back for long. If it ends after all, its results are given on then.

    Args:
        record: Receives the number of a batch and its results, by one thread at a time.
    """

    def __init__(self, record: Callable[[int, Any], None]) -> None:
        self._record, self._lock = record, Lock()
        self._begun: deque[int] = deque(maxlen=POOL)
        self._results: dict[int, Any] = {}

    def begin(self, batch: int) -> None:
        """Note that a batch begins."""
        with self._lock:
            self._begun.append(batch)
            self._give()

    def end(self, batch: int, logs: Any) -> None:
        """Take the results of a batch, and give on those whose turn it is."""
        with self._lock:
            if batch in self._begun:
                self._results[batch] = logs
                self._give()
            else:
                self._record(batch, logs)

    def finish(self) -> None:
        """Give on what still waits for others: none of them is waited for any more."""
        with self._lock:
            while self._begun:
                self._give()
                if self._begun:
                    self._begun.popleft()

    def _give(self) -> None:
        while self._begun and self._begun[0] in self._results:
            batch = self._begun.popleft()
            self._record(batch, self._results.pop(batch))


class BatchLoss:
    """Takes the running mean apart: if m(n) is the mean of n batches, batch n has n·m(n) - (n-1)·m(n-1).

    That holds for batches of one size. The last batch of an epoch may be smaller, so each loss is given only
    when another batch has followed. Values stay on the device. They are differences of
    float32: after n batches the error is about 1e-7 · n of the mean.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin an epoch: the mean starts over."""
        self._batches, self._total = 0, 0.0
        self._waiting: tuple[int, Any] | None = None

    def next(self, step: int, batches: int, mean: Any) -> tuple[int, Any] | None:
        """Take the mean after a batch and return step and loss of the batch before it.

        Args:
            step: The step of this batch.
            batches: How many there were in this epoch, this one included.
            mean: The mean of all of them. The returned loss is a mean, too, if it is not given every time.
        """
        if batches <= self._batches:  # a batch that ended after a later one
            return None
        ready, total = self._waiting, mean * batches
        self._waiting = step, (total - self._total) / (batches - self._batches)
        self._batches, self._total = batches, total
        return ready


class BatchMetrics:
    """Records the metrics of batches at an interval.

    Args:
        every: How many; 0 for none.
        batch_loss: Whether also the loss of the batches themselves.

    Attributes:
        recorded: The last step of the epoch that was recorded; None before the first.
    """

    def __init__(self, every: int, *, batch_loss: bool) -> None:
        self._every, self._loss = every, BatchLoss() if batch_loss else None
        self.begin()

    def begin(self) -> None:
        """Begin an epoch."""
        self.recorded: int | None = None
        if self._loss is not None:
            self._loss.begin()

    def record(self, run: Run, step: int, batches: int, per_call: int, logs: Any) -> bool:
        """Record the results of a call of the training function, if its step is recorded.

        Args:
            run: The run.
            step: The step of the call.
            batches: How many there were in this epoch, those of this call included.
            per_call: Batches of this call.
            logs: Their metrics.

        Returns:
            Whether the schedule of the learning rate is to be asked, too.
        """
        if not self._every or step // self._every == (step - per_call) // self._every:
            return False
        self.recorded = step if self.recorded is None else max(self.recorded, step)
        metrics = dict(numbers(logs))
        run.scalars({f"train/{name}": value for name, value in metrics.items()}, step)
        mean = metrics.get("loss")
        if self._loss is not None and mean is not None:
            before = self._loss.next(step, batches, mean)
            if before is not None:
                run.scalar("train/batch_loss", before[1], before[0])
        return step // self._every % SCHEDULE_EVERY == 0


def numbers(logs: Any) -> list[tuple[str, Any]]:
    """Return the metrics of a batch, an epoch or an evaluation.

    A metric with parts, such as all that were compiled, gives each by its own name, as Keras does. Names that
    occur twice stand after that of their metric.
    """
    metrics = list(paths(logs)) if isinstance(logs, Mapping) else []
    times = Counter(path[-1] for path, _ in metrics)
    return [(path[-1] if times[path[-1]] == 1 else "/".join(path), value) for path, value in metrics]


def hook_of(profile_batch: ProfileBatch) -> ProfilerHook | None:
    """Return a hook that captures these batches once, counted from 1 as Keras does; None for none.

    Args:
        profile_batch: A batch; or the first and the last, also as text: "10,20". 0 for none.

    Raises:
        UsageError: It says neither.
    """
    first, last = batches_to_profile(profile_batch)
    if first == last == 0:
        return None
    return LambdaProfilerHook(lambda step: first <= step + 1 <= last)


def batches_to_profile(profile_batch: ProfileBatch) -> tuple[int, int]:
    """Return the first and the last batch."""
    parts: list[int] = []
    if isinstance(profile_batch, str):
        text = profile_batch.split(",")
        parts = [int(part) for part in text] if all(part.strip().isdigit() for part in text) else []
    elif isinstance(profile_batch, int):
        parts = [profile_batch]
    elif isinstance(profile_batch, tuple | list) and all(isinstance(part, int) for part in profile_batch):
        parts = list(profile_batch)
    first, last = (parts * 2)[:2] if len(parts) in (1, 2) else (-1, -1)
    if first < 0 or last < first or (first == 0 and last != 0):
        raise UsageError(
            f"profile_batch must be a batch, or the first and the last, got {profile_batch!r:.60}",
            hint="profile_batch=(10, 12) captures the batches 10, 11 and 12; 0 none",
        )
    return first, last
