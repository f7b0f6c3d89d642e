"""The callback for ``fit``, ``evaluate`` and ``predict``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any, Literal

import keras

from stepscope.errors import RecordError, UsageError
from stepscope.integrations.guard import guarded
from stepscope.integrations.holder import RunHolder
from stepscope.integrations.keras import gradients, rates, weights
from stepscope.integrations.keras.arrays import number
from stepscope.integrations.keras.backends import KERAS3
from stepscope.integrations.keras.batches import TimedIterator, TrainFunction, examples, watched_by
from stepscope.integrations.keras.facts import facts_of
from stepscope.integrations.keras.graph import KERAS_TAG, description, nodes
from stepscope.integrations.keras.profiling import ProfileBatch, hook_of
from stepscope.integrations.keras.stages import BatchStages
from stepscope.integrations.keras.weights import Metadata
from stepscope.integrations.stepper import Stepper
from stepscope.record import Run
from stepscope.record.exits import outcome
from stepscope.record.problems import Reporter
from stepscope.record.statistics import ActivationHook

SCHEDULE_EVERY = 10
"""A schedule is asked at every so many recorded batches: it computes the learning rate on the device."""
END_OF_DATA = ("StopIteration", "OutOfRangeError")


class StepscopeCallback(keras.callbacks.Callback):  # type: ignore[misc, unused-ignore]
    """Records what ``fit``, ``evaluate`` and ``predict`` do, on any backend, without TensorFlow.

    ``model.fit(…, callbacks=[StepscopeCallback("runs/first")])``. Everything lands in one run, at the number
    of the batch, so ``train/loss`` and ``eval/loss`` share a chart. The metrics are Keras's: those of
    training are the mean since the epoch began. Values stay on the device; training never waits for them.

    Args:
        log_dir: The run's directory, or a ``Run``, which is then yours to close. In a directory each ``fit``
            is an attempt, which ends with it; the next goes on counting steps.
        update_freq: Of which batches metrics are recorded: "batch" for each, "epoch" for the last of each
            epoch, or every so many.
        histogram_freq: Every how many epochs the histograms of the weights are recorded; 0 for never.
        write_graph: Whether to record the graph of the layers.
        write_images: Whether to record the weights as images too, with the histograms.
        write_steps_per_second: Whether to record the batches per second of each epoch.
        profile_batch: A batch to profile, or the first and the last, counted from 1; 0 for none.
        embeddings_freq: Every how many epochs ``Embedding`` layers are recorded for the projector.
        embeddings_metadata: A file of labels, one line per row; or such files by the names of the layers.
        options: For ``Run``, where a directory is given.

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
        profile_batch: ProfileBatch = 0,
        embeddings_freq: int = 0,
        embeddings_metadata: Metadata = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._every = frequency(update_freq)
        self._speed, self._graph, self._images = write_steps_per_second, write_graph, write_images
        self._histograms = epochs("histogram_freq", histogram_freq)
        self._embeddings = epochs("embeddings_freq", embeddings_freq)
        self._metadata = embeddings_metadata
        self._profiler = hook_of(profile_batch)
        self._holder = RunHolder(log_dir, options)
        self._stepper: Stepper | None = None
        self._net: Any = None
        self._taps: list[Any] = []
        self._stages: BatchStages | None = None
        self._state: Any = None
        self._fitting = self._wrapped = self._evaluated = self._unbuilt = False
        self._base = self._next = self._updates = self._recorded = 0
        self._last: int | None = None
        self._done: int | None = None
        self._begun = self._epoch_begun = self._epoch_trained = 0.0

    @property
    def run(self) -> Run:
        """The run that is being recorded, to log more with; made if there is none."""
        return self._holder.opened or self._holder.run(start_step=max(self._next, self._iterations()))

    @property
    def reporter(self) -> Reporter:
        """The reporter that is told of problems."""
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
            self._holder.end("failed", "fit() was left by an exception")
        self._fitting, self._stepper = True, None
        train = getattr(self._net, "train_function", None)
        if callable(train) and not watched_by(train, self):
            self._net.train_function = train = TrainFunction(train, self)
        self._wrapped = watched_by(train, self)

    @guarded
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Begin to count: at the first epoch other callbacks have restored what they restore."""
        run = self.run
        if self._stepper is None:
            self._stepper, self._next = Stepper(run), run.step_counter.next
            self._describe(run, epoch)
            if gradients.meter_of(self._optimizer) is not None:
                gradients.watch(run, self._optimizer)
            self._tap(run)
            self._mark_stages(run)
        self._base, self._last, self._done, self._evaluated = self._next, None, None, False
        self._updates, self._epoch_begun = self._iterations(), run.clock.steady()
        self._ask()

    @guarded
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Begin a step."""
        stepper, number = self._stepper, self._base + batch
        if stepper is None:
            return
        self._finish()
        if self._last is None:
            self.run.scalars(rates.readings(self._optimizer), number)
        self._last, self._next = number, number + self._batches()
        stepper.begin(number)

    def watch(self, train: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Train one batch with ``train`` and record what it returns, values on the device as they are."""
        try:
            self._state = arguments[0] if arguments else None
            arguments = gradients.given(self._optimizer, self._timed(arguments) or arguments)
            with nullcontext() if self._stages is None else self._stages.open():
                result = gradients.taken(self._optimizer, train(*arguments))
            self._took(result)
            self._ended(result[0] if isinstance(result, tuple) else result)
        except BaseException as error:
            self._left(error)
            raise
        return result

    @guarded
    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Record a batch of a loop of the user's own; one of ``fit`` is recorded already.

        Keras 3 calls this on another thread, perhaps when the next batch has begun.
        """
        if not self._wrapped:
            self._record(self._base + batch, logs)

    @guarded
    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Record what belongs to the epoch, at its last batch."""
        self._finish()
        if self._done is None:
            return
        run, step, metrics = self.run, self._done, numbers(logs)
        if self._unbuilt and getattr(self._net, "built", False):
            self._describe_model(run)
        if self._recorded != step:
            run.scalars({f"train/{name}": value for name, value in metrics if name[:4] != "val_"}, step)
        if not self._evaluated:
            run.scalars({f"eval/{name[4:]}": value for name, value in metrics if name[:4] == "val_"}, step)
        if self._speed:
            speed = (self._next - self._base) / max(self._epoch_trained - self._epoch_begun, 1e-9)
            run.scalar("speed/batches_per_second", speed, step)
        run.scalars({**rates.readings(self._optimizer), "epoch": epoch + 1}, step)
        self._record_model(run, epoch, step)

    def _record_model(self, run: Run, epoch: int, step: int) -> None:
        if not run.role.writes:
            return
        if self._histograms and epoch % self._histograms == 0:
            weights.record_weights(run, self._net, step, images=self._images)
        if self._embeddings and epoch % self._embeddings == 0:
            weights.record_embeddings(run, self._net, step, self._metadata)

    @guarded
    def on_train_end(self, logs: Any = None) -> None:
        """Finish what ``fit`` began."""
        train, self._fitting = getattr(self._net, "train_function", None), False
        if isinstance(train, TrainFunction) and train.watched_by(self):
            self._net.train_function = train.inner
        self._close()

    @guarded
    def _timed(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Time the data of JAX, which is fetched inside; count the examples where they can be seen."""
        if self._stepper is None or not arguments or keras.backend.backend() == "tensorflow":
            return arguments
        *before, data = arguments
        if keras.backend.backend() == "jax":
            return (*before, TimedIterator(data, self.run.clock.steady, self._fetched))
        self.run.count(examples=examples(data))
        return arguments

    def _fetched(self, seconds: float, batch: Any) -> None:
        steps = self.run.step_counter
        steps.waited = (steps.waited or 0.0) + seconds
        self.run.count(examples=examples(batch))
        state, self._state = self._state, None
        if state is not None and batch is not None:
            for tap in self._taps:
                tap.given(state, batch)

    @guarded
    def _took(self, result: Any) -> None:
        """Show what watches layers what a batch has returned."""
        for tap in self._taps:
            tap.taken(result[0])

    def _ended(self, logs: Any) -> None:
        """Record a batch and end its step."""
        if self._last is not None:
            self._record(self._last, logs)
            self._end_step()

    @guarded
    def _record(self, step: int, logs: Any) -> None:
        run, self._done = self.run, step
        if self._every and step // self._every != (step - self._batches()) // self._every:
            self._recorded = step
            run.scalars({f"train/{name}": value for name, value in numbers(logs)}, step)
            if step // self._every % SCHEDULE_EVERY == 0 and self._optimizer is not None:
                run.scalars(rates.readings(self._optimizer, self._updates + step - self._base), step)

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
        """Note that ``fit`` now asks for data, where it does so between batches and not within."""
        if self._stepper is not None and keras.backend.backend() == "torch":
            self._stepper.asking()

    @guarded
    def _left(self, error: BaseException) -> None:
        """Drop the step that an exception cut short; where it ends the training, end the run."""
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

    def _iterations(self) -> int:
        return rates.updates(self._optimizer)

    def _batches(self) -> int:
        """Return how many batches one call of the model's function trains."""
        batches = getattr(self._net, "steps_per_execution", None)
        return 1 if batches is None else max(int(number(batches)), 1)

    def _tap(self, run: Run) -> None:
        """Have an ``ActivationHook`` of the run measure the model's layers."""
        if not any(isinstance(hook, ActivationHook) for hook in run.hooks):
            return
        if not KERAS3:
            raise RecordError(
                "activations are not measured in Keras 2", hint="pip install keras, for Keras 3"
            )
        from stepscope.integrations.keras.backends import measure_activations

        made = measure_activations(run, self._net)
        self._taps = [each for each in made if hasattr(each, "given")]
        train: Any = getattr(self._net, "train_function", None)
        if made and self._wrapped and not watched_by(train, self):  # traced anew, with what measures
            self._net.train_function = TrainFunction(train, self)

    def _mark_stages(self, run: Run) -> None:
        """Tell when the stages of each batch begin, on every rank."""
        if self._wrapped and run.step_counter.stages is not None:
            self._stages = BatchStages(run.step_counter.stages, self._net)

    def _describe(self, run: Run, epoch: int) -> None:
        params = self.params or {}
        self._describe_model(run)
        if params.get("steps") and params.get("epochs"):
            left = params["steps"] * (params["epochs"] - epoch)
            run.expect_steps(run.step_counter.next + left, estimate=True)
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            run.add_hook(profiler)

    def _describe_model(self, run: Run) -> None:
        """Record what the model is; again after its first epoch, where it was not built before."""
        facts = facts_of(self._net, self.params or {})
        run.describe({key: value for key, value in facts.items() if key not in run.config})
        self._unbuilt = not getattr(self._net, "built", False)
        self._draw(run)

    def _draw(self, run: Run) -> None:
        """Record the graph of the layers, and for TensorBoard what the model says of itself."""
        if not self._graph or not run.role.writes or not getattr(self._net, "built", False):
            return
        found = nodes(self._net)
        if found:
            run.graph(found, step=0)
        try:
            value = description(self._net)
        except Exception:  # noqa: BLE001  a model of the user's own need not say what it is made of
            return
        run.event(lambda: [value], 0, tag=KERAS_TAG)

    def _close(self) -> None:
        run, stages, self._stages = self._holder.opened, self._stages, None
        if stages is not None:
            stages.close()
        if run is not None:
            run.step_counter.next = max(run.step_counter.next, self._next)
            run.flush(timeout=5.0)
        self._holder.end()


def frequency(update_freq: object) -> int:
    """Return every how many batches something is done, 0 for never.

    Raises:
        UsageError: It says neither.
    """
    found = {"batch": 1, "epoch": 0}.get(str(update_freq), update_freq)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0 or update_freq == 0:
        raise UsageError(
            f"update_freq must be 'batch', 'epoch' or a number of batches, got {update_freq!r:.60}",
            hint="StepscopeCallback(log_dir, update_freq=100)",
        )
    return found


def epochs(name: str, value: object) -> int:
    """Return a number of epochs.

    Raises:
        UsageError: It is none.
    """
    if not isinstance(value, int) or value < 0:
        raise UsageError(
            f"{name} must be a number of epochs, got {value!r:.60}", hint="0 for never, 1 for each"
        )
    return int(value)


def numbers(logs: Any) -> list[tuple[str, Any]]:
    """Return the metrics of a batch, an epoch or an evaluation; of a metric with parts, each by its name."""
    found: list[tuple[str, Any]] = []
    for name, value in logs.items() if isinstance(logs, Mapping) else ():
        if isinstance(value, Mapping):
            found += [(f"{name}/{part}", number) for part, number in numbers(value)]
        else:
            found.append((str(name), value))
    return found
