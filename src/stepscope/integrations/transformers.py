"""Hugging Face Transformers: ``StepscopeCallback`` for its Trainer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from stepscope.integrations.guard import guarded
from stepscope.integrations.holder import RunHolder
from stepscope.integrations.torch.training import Training
from stepscope.record import Run
from stepscope.record.problems import Problems, Reporter

__all__ = ["StepscopeCallback"]

MAX_LABELS = 32
"""Most label names of a model that become part of the configuration."""


class StepscopeCallback(TrainerCallback):  # type: ignore[misc]
    """Records a training of the Trainer: ``Trainer(…, callbacks=[StepscopeCallback("runs/first")])``.

    Tags are those of the Trainer's own TensorBoard callback: ``train/loss``, ``eval/loss``,
    ``train/learning_rate`` and so on, at the same steps: the first step of the optimizer is 1. Steps are
    measured, call the run's hooks, and are continued when a checkpoint is resumed. The configuration contains
    the training arguments and the model's configuration, without secrets.

    Add it on every rank; Stepscope's rules assign the files to ranks.

    Args:
        run: The run's directory, or a run, which you then close; by default the Trainer's ``output_dir``.
            The trials of a hyper-parameter search go to directories of their own in it.
        watching: For ``stepscope.integrations.torch.watch``: further records of the model.
        options: For ``stepscope.Run``: ``tags``, ``hooks`` and so on.

    Raises:
        UsageError: Options that cannot be right.
    """

    def __init__(
        self,
        run: Run | str | os.PathLike[str] | None = None,
        *,
        watching: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self._run, self._options = run, options
        self._watching = dict(watching or {})
        self._holder = None if run is None else RunHolder(run, options)
        self._trial: str | None = None
        self.before = 0
        """Steps of the run before the training's first one, if another Trainer took them."""
        self._alone = Problems()
        self._training: Training | None = None
        self._tokens = 0
        self._examples, self._ranks = 0, 1

    @property
    def reporter(self) -> Reporter:
        """The reporter that receives problems."""
        return self._alone if self._holder is None else self._holder.reporter

    @property
    def run(self) -> Run | None:
        """The run, None before the first training or evaluation."""
        return None if self._holder is None else self._holder.opened

    # --- the Trainer's events -------------------------------------------------------------------------

    @guarded
    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Begin the run, or an attempt of it."""
        if self._training is not None and self._holder is not None:
            self._take_off()
            self._holder.end("failed", "the training was left by an exception")
        holder = self._home(args, state)
        # The Trainer numbers steps from 1.
        run = holder.run(start_step=state.global_step + 1)
        if state.max_steps > 0:
            run.expect_steps(state.max_steps)
        holder.describe(_facts(args, more.get("model")))
        self._tokens = state.num_input_tokens_seen
        # These ask which devices there are, too much for every step.
        self._examples = args.train_batch_size * args.gradient_accumulation_steps
        self._ranks = max(args.world_size, 1)
        self._training = Training(run, state.logging_steps)
        self._training.attach(more.get("model"), more.get("optimizer"), self._watching)

    @guarded
    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Begin a step; all its batches have arrived."""
        if self._training is not None:
            self._training.stepper.begin(self.before + state.global_step + 1)

    @guarded
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the step, and the training if the run was asked to stop."""
        training = self._training
        if training is None:
            return
        run, tokens = training.run, state.num_input_tokens_seen
        run.examples += self._examples
        if tokens != self._tokens:
            run.tokens += int(tokens - self._tokens) // self._ranks
            self._tokens = tokens
        if training.end_step(self.before + state.global_step):
            control.should_training_stop = True
        training.stepper.asking()

    @guarded
    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Record the Trainer's values."""
        self._record(args, state, logs or {})
        self._asking()

    @guarded
    def on_predict(self, args: Any, state: Any, control: Any, metrics: Any, **_: Any) -> None:
        """Record the metrics of a prediction, which the Trainer does not log."""
        self._record(args, state, metrics or {})

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Leave what came before, an evaluation or a checkpoint, out of the wait for the next batch."""
        self._asking()

    on_evaluate = on_save = on_epoch_begin

    @guarded
    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """End the run. Values logged later, by ``trainer.evaluate()`` say, is a further attempt."""
        self._take_off()
        if self._holder is not None:
            self._holder.end()

    # --- parts ----------------------------------------------------------------------------------------

    def _home(self, args: Any, state: Any) -> RunHolder:
        """Return the holder of the run; a trial of a search has one of its own."""
        trial = state.trial_name if state.is_hyper_param_search else None
        if self._holder is None or trial != self._trial:
            self._trial = trial
            run = args.output_dir if self._run is None else self._run
            if trial is not None:
                run = Path(run.log_dir if isinstance(run, Run) else os.fspath(run)) / trial
            self._holder = RunHolder(run, self._options)
        return self._holder

    def _record(self, args: Any, state: Any, logs: Mapping[str, Any]) -> None:
        named = tags(logs)
        numbers = {tag: value for tag, value in named.items() if not isinstance(value, str)}
        step = self.before + state.global_step
        run = self._home(args, state).run(start_step=step + 1)
        run.scalars(numbers, step)
        for tag in named.keys() - numbers.keys():
            run.text(tag, named[tag], step)

    def _asking(self) -> None:
        if self._training is not None and not self._training.stepper.running:
            self._training.stepper.asking()

    def _take_off(self) -> None:
        training, self._training = self._training, None
        if training is not None:
            training.take_off()


def tags(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the Trainer's values under the tags of its TensorBoard callback.

    Three differ. The data sets of an evaluation on several, and other prefixes than the usual, have a level
    of their own: ``eval/NAME/loss``. The mean of the whole training, logged at its end as ``train_loss``, is
    ``train/mean_loss``, as it is not a point of the curve. Run times carry their unit.
    """
    evaluated = next((key[: -len("_runtime")] for key in logs if key.endswith("_runtime")), None)
    return {_tag(key, evaluated): value for key, value in logs.items()}


def _tag(key: str, evaluated: str | None) -> str:
    if key == "train_loss" and evaluated == "train":
        return "train/mean_loss"
    for prefix in (evaluated, "eval", "test", "train"):
        if prefix and key.startswith(f"{prefix}_"):
            split, _, name = prefix.partition("_")
            home = split if split in ("eval", "test", "train") else "eval"
            level = name if home == split else prefix
            rest = key[len(prefix) + 1 :]
            return "/".join(filter(None, (home, level, "runtime_s" if rest == "runtime" else rest)))
    return f"train/{key}"


def _facts(args: Any, model: Any) -> dict[str, Any]:
    """Return the training arguments, their tokens masked by the library, and the model's configuration."""
    facts: dict[str, Any] = {"args": args.to_dict()}
    config = getattr(model, "config", None)
    if config is not None and hasattr(config, "to_diff_dict"):
        settings = config.to_diff_dict()
        if len(settings.get("id2label") or ()) > MAX_LABELS:
            settings = {key: value for key, value in settings.items() if key not in ("id2label", "label2id")}
        facts["model_config"] = settings
    return facts
