"""Real trainings of the Trainer with a tiny model made here, recorded by the callback."""

import logging
import math

import pytest
from support import hooks

pytest.importorskip("transformers")
pytest.importorskip("accelerate")
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.models.gpt2 import GPT2Config, GPT2LMHeadModel

import stepscope as ss
from stepscope.errors import HaltError, UsageError
from stepscope.integrations.transformers import StepscopeCallback, tags
from stepscope.store.charts import groups

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:'pin_memory' argument is set as true"),
]


class Data(torch.utils.data.Dataset):
    def __init__(self, size=32):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        ids = torch.randint(0, 32, (12,), generator=torch.Generator().manual_seed(index))
        return {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}


class Failing(TrainerCallback):
    def __init__(self, step, error):
        self.step, self.error = step, error

    def on_step_begin(self, args, state, control, **_):
        if state.global_step == self.step:
            raise self.error


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    logging.getLogger("transformers").setLevel(logging.ERROR)


@pytest.fixture
def trainer(tmp_path):
    """Makes trainers: 32 examples, 4 in a batch, so 8 steps an epoch."""

    def make(*callbacks, data=None, **options):
        settings = {
            "output_dir": str(tmp_path / "out"), "per_device_train_batch_size": 4, "num_train_epochs": 1,
            "logging_steps": 2, "report_to": [], "disable_tqdm": True, "use_cpu": True, "save_strategy": "no",
            **options,
        }  # fmt: skip
        config = GPT2Config(vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0,
                            eos_token_id=0, loss_type="ForCausalLM")  # fmt: skip
        torch.manual_seed(0)
        return Trainer(
            GPT2LMHeadModel(config), TrainingArguments(**settings), train_dataset=Data(),
            eval_dataset=Data(8), callbacks=list(callbacks),
        )  # fmt: skip

    return make


@pytest.fixture
def stored(tmp_path):
    def read(name="run"):
        return ss.open(tmp_path, cache=False).run(name)

    return read


def steps(run, tag):
    return run.series(tag)["step"].tolist()


def test_a_training_is_recorded(tmp_path, trainer, stored):
    training = trainer(
        StepscopeCallback(tmp_path / "run", tags=["a"]), eval_strategy="steps", eval_steps=4,
        hub_token="hf_abcdefghijklmnopqrstuvw",
    )  # fmt: skip
    training.train()
    run = stored()
    assert (run.state, run.info.total_steps, run.last_step) == ("finished", 8, 8)
    assert steps(run, "train/loss") == steps(run, "train/learning_rate") == [2, 4, 6, 8]
    assert steps(run, "eval/loss") == [4, 8]
    for tag in ("speed/step_time_ms", "speed/data_wait_ms", "optimizer/lr"):
        assert steps(run, tag) == list(range(1, 9))
    logged = [each["loss"] for each in training.state.log_history if "loss" in each]
    assert run.series("train/loss")["value"].tolist() == pytest.approx(logged, rel=1e-6)
    config = run.info.config
    assert config["args"]["learning_rate"] == 5e-5
    assert "hf_abc" not in str(config)
    assert config["model_config"]["n_embd"] == 16
    assert config["model"]["parameters"] == sum(each.numel() for each in training.model.parameters())
    assert "loss" in [group.metric for group in groups(run.tags()) if group.overlay]


def test_the_mean_of_the_training_is_no_point_of_the_curve(tmp_path, trainer, stored):
    done = trainer(StepscopeCallback(tmp_path / "run")).train()
    assert len(stored().series("train/loss")) == 4
    assert stored().series("train/mean_loss")["value"].tolist() == pytest.approx([done.training_loss])
    assert steps(stored(), "train/runtime_s") == [8]


def test_the_same_tags_steps_and_values_as_the_trainers_own_tensorboard(
    tmp_path, trainer, stored, monkeypatch
):
    pytest.importorskip("tensorboard")
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "theirs"))
    callback = StepscopeCallback(tmp_path / "run")
    trainer(callback, report_to=["tensorboard"], eval_strategy="steps", eval_steps=4).train()
    ours, theirs = stored(), stored("theirs")
    alike = set(theirs.tags()) & set(ours.tags())
    assert {"train/loss", "eval/loss", "train/learning_rate", "train/grad_norm", "train/epoch"} <= alike
    for tag in alike:
        assert steps(ours, tag) == steps(theirs, tag)
        assert ours.series(tag)["value"].tolist() == theirs.series(tag)["value"].tolist()
    assert set(theirs.tags()) - alike <= {"train/train_runtime", "eval/runtime", "train/train_loss",
        "train/train_samples_per_second", "train/train_steps_per_second", "args/text_summary",
        "model_config/text_summary"}  # fmt: skip


def test_accumulated_batches_are_one_step_and_tokens_are_counted(tmp_path, trainer):
    with ss.Run(tmp_path / "run") as run:
        trainer(
            StepscopeCallback(run), gradient_accumulation_steps=2, include_num_input_tokens_seen="all"
        ).train()
        assert run.last_step.step == 4
        assert (run.examples, run.tokens) == (32, 32 * 12)
        assert run.state == "recording"


def test_an_evaluation_afterwards_is_a_further_attempt(tmp_path, trainer, stored):
    callback = StepscopeCallback(tmp_path / "run")
    training = trainer(callback)
    training.train()
    training.evaluate()
    training.evaluate({"a": Data(4), "b": Data(4)})
    training.evaluate(metric_key_prefix="holdout")
    training.predict(Data(4))
    callback.run.close()
    run = stored()
    assert steps(run, "eval/loss") == steps(run, "eval/a/loss") == [8]
    assert steps(run, "eval/b/loss") == steps(run, "eval/holdout/loss") == steps(run, "test/loss") == [8]
    assert run.info.attempt == 2
    assert [each.superseded_from for each in run.columns("train/loss")] == [None]


@pytest.mark.slow
def test_steps_go_on_where_a_checkpoint_is_resumed(tmp_path, trainer, stored):
    trainer(StepscopeCallback(tmp_path / "run"), save_strategy="steps", save_steps=5).train()
    trainer(StepscopeCallback(tmp_path / "run")).train(
        resume_from_checkpoint=str(tmp_path / "out/checkpoint-5")
    )
    run = stored()
    assert run.columns("speed/step_time_ms")[1].step.tolist() == [6, 7, 8]
    assert run.columns("speed/step_time_ms")[0].superseded_from == 6
    assert run.info.total_steps == 8


@pytest.mark.slow
def test_a_second_training_of_one_trainer(tmp_path, trainer, stored):
    training = trainer(StepscopeCallback(tmp_path / "run"))
    training.train()
    training.train()
    assert stored().series("train/loss")["attempt"].tolist() == [1] * 4 + [2] * 4


@pytest.mark.slow
def test_a_training_that_was_left_is_failed_once_the_next_begins(tmp_path, trainer, stored):
    callback, failing = StepscopeCallback(tmp_path / "run"), Failing(3, ValueError("bad"))
    training = trainer(callback, failing)
    with pytest.raises(ValueError, match="bad"):
        training.train()
    left = callback.run
    training.remove_callback(failing)
    training.train()
    assert left.state == "failed"
    assert stored().state == "finished"


def test_a_request_to_stop_ends_the_training(tmp_path, trainer, stored):
    trainer(StepscopeCallback(tmp_path / "run", hooks=[hooks.Stops(after=5)])).train()
    assert steps(stored(), "speed/step_time_ms") == [1, 2, 3, 4, 5]
    assert (stored().info.status, stored().info.reason) == ("finished", "enough")


def test_a_hook_that_is_meant_to_end_the_training_does(tmp_path, trainer):
    callback = StepscopeCallback(tmp_path / "run", hooks=[hooks.Halts()])
    with pytest.raises(HaltError):
        trainer(callback).train()
    callback.run.close("failed")


@pytest.mark.slow
def test_evaluations_and_checkpoints_are_no_wait_for_data(tmp_path, trainer, stored):
    import time

    class Slow(TrainerCallback):
        def on_prediction_step(self, args, state, control, **_):
            time.sleep(0.15)

    trainer(Slow(), StepscopeCallback(tmp_path / "run"), eval_strategy="steps", eval_steps=1).train()
    assert stored().series("speed/data_wait_ms")["value"][1:].max() < 150


def test_the_directory_of_the_trainer_by_default(tmp_path, trainer, stored):
    trainer(StepscopeCallback).train()
    assert len(stored("out").series("train/loss")) == 4


def test_trials_of_a_search_have_directories_of_their_own(tmp_path, trainer, stored):
    training = trainer(StepscopeCallback(tmp_path / "run"))
    for name in ("trial-0", "trial-1"):
        training.state.is_hyper_param_search, training.state.trial_name = True, name
        training.callback_handler.on_train_begin(training.args, training.state, training.control)
        training.callback_handler.on_train_end(training.args, training.state, training.control)
    assert {run.name for run in ss.open(tmp_path, cache=False).runs()} == {"run/trial-0", "run/trial-1"}


def test_an_optimizer_of_another_kind_costs_the_rates_only(tmp_path, trainer, stored):
    callback = StepscopeCallback(tmp_path / "run")
    training = trainer()
    training.state.max_steps = 3
    callback.on_train_begin(training.args, training.state, training.control, model=None, optimizer="mine")
    callback.on_train_end(training.args, training.state, training.control)
    assert stored().info.config["args"]["logging_steps"] == 2


def test_failures_never_stop_the_training(tmp_path, trainer, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    monkeypatch.setattr(ss.Run, "scalars", lambda *_: 1 / 0)
    monkeypatch.setattr("stepscope.integrations.stepper.Stepper.begin", lambda *_: 1 / 0)
    with ss.Run(tmp_path / "run") as run:
        training = trainer(StepscopeCallback(run))
        with pytest.warns(RuntimeWarning, match="raised ZeroDivisionError") as warned:
            training.train()
        assert training.state.global_step == 8
        assert run.problems["callback"] > 8
    [ours] = [each for each in warned if "ZeroDivisionError" in str(each.message)]
    assert ours.filename == __file__


def test_many_labels_are_not_part_of_the_configuration(tmp_path, trainer, stored):
    training = trainer(StepscopeCallback(tmp_path / "run"))
    training.model.config.id2label = {number: f"LABEL_{number}" for number in range(500)}
    training.train()
    assert "id2label" not in stored().info.config["model_config"]


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ({"loss": 1.0, "grad_norm": 2.0, "epoch": 0.5}, ["train/loss", "train/grad_norm", "train/epoch"]),
        (
            {"eval_loss": 1.0, "eval_runtime": 2.0, "epoch": 1.0},
            ["eval/loss", "eval/runtime_s", "train/epoch"],
        ),
        ({"eval_a_loss": 1.0, "eval_a_runtime": 2.0}, ["eval/a/loss", "eval/a/runtime_s"]),
        ({"train_runtime": 1.0, "train_loss": 2.0}, ["train/runtime_s", "train/mean_loss"]),
        ({"train_loss": 2.0}, ["train/loss"]),
        ({"holdout_loss": 1.0, "holdout_runtime": 1.0}, ["eval/holdout/loss", "eval/holdout/runtime_s"]),
        ({"test_accuracy": 1.0}, ["test/accuracy"]),
        ({"total_flos": 1.0}, ["train/total_flos"]),
    ],
)
def test_names(logs, expected):
    assert list(tags(logs)) == expected


def test_non_finite_and_odd_values(tmp_path, trainer, stored):
    callback, training = StepscopeCallback(tmp_path / "run"), trainer()
    for logs in ({"loss": math.nan, "note": "x"}, None):
        callback.on_log(training.args, training.state, training.control, logs)
    callback.run.close()
    assert math.isnan(stored().series("train/loss")["value"][0])


def test_options_beside_a_run_are_refused(tmp_path):
    with ss.Run(tmp_path / "run") as run, pytest.raises(UsageError):
        StepscopeCallback(run, tags=["a"])
