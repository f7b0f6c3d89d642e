"""Trackers of a program: what they are given becomes series and settings of the run, once."""

import argparse
import runpy
import sys
from collections import UserDict
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

import stepscope.launch
from stepscope.launch import process as processes
from stepscope.launch import trackers
from stepscope.launch.process import process
from stepscope.launch.sources import Sources


class Recorded:
    """A run that keeps what it is given."""

    recording = True

    def __init__(self):
        self.points, self.config = [], {}

    def scalars(self, numbers, step=None):
        self.points += [(name, float(np.asarray(value).item()), step) for name, value in numbers.items()]

    def describe(self, facts):
        self.config.update(facts)


@pytest.fixture
def run(monkeypatch):
    made, said = Recorded(), []
    monkeypatch.setattr(process, "off", False)
    monkeypatch.setattr(process, "led", False)
    monkeypatch.setattr(process, "_run", None)
    monkeypatch.setattr(process, "_facts", {})
    monkeypatch.setattr(process, "sources", Sources())
    monkeypatch.setattr(process, "_made", lambda: made)
    monkeypatch.setattr(process, "step_of_values", lambda: 70)
    monkeypatch.setattr(process, "say", said.append)
    made.said = said
    return made


def tracker(name, text):
    """Return a module that is observed, as if it had just been loaded."""
    module = ModuleType(name)
    module.__dict__["__file__"] = f"/packages/{name}.py"
    exec(compile(text, module.__file__, "exec"), vars(module))
    trackers.install(module)
    return module


# The arguments are those of the packages of today, each of which was run once under the command.
WANDB = """
class Run:
    def __init__(self, config=None): self.config = {**(config or {}), "_wandb": {}}
    def log(self, data, step=None, commit=None): return "logged"
"""
MLFLOW = """
client = None
def log_metric(key, value, step=None, synchronous=None): client.log_metric("id", key, value, 1.0, step or 0)
def log_metrics(metrics, step=None, synchronous=None):
    client.log_batch("id", [Metric(name, value, step or 0) for name, value in metrics.items()])
def log_param(key, value, synchronous=None): client.log_param("id", key, value)
def log_params(params, synchronous=None): client.log_batch("id", (), [Param(k, v) for k, v in params.items()])
class Metric:
    def __init__(self, key, value, step): self.key, self.value, self.step = key, value, step
class Param:
    def __init__(self, key, value): self.key, self.value = key, value
"""
CLIENT = """
class MlflowClient:
    def log_metric(self, run_id, key, value, timestamp=None, step=None, synchronous=None): pass
    def log_batch(self, run_id, metrics=(), params=(), tags=(), synchronous=None): pass
    def log_param(self, run_id, key, value, synchronous=None): pass
"""
WRITER = """
class SummaryWriter:
    def add_scalar(self, tag, scalar_value, global_step=None, walltime=None, new_style=False): pass
    def add_scalars(self, main_tag, tag_scalar_dict, global_step=None, walltime=None):
        for name, value in tag_scalar_dict.items(): self.add_scalar(main_tag + "_" + name, value, global_step)
    def add_hparams(self, hparam_dict, metric_dict, hparam_domain_discrete=None, run_name=None):
        for name, value in metric_dict.items(): self.add_scalar(name, value)
"""


def by_wandb():
    made = tracker("wandb.sdk.wandb_run", WANDB).Run({"lr": 0.1, "seed": 3})
    assert made.log({"train/loss": 0.5, "note": "warm", "good": True, "image": object()}, step=4) == "logged"
    made.log({"parts": {"kl": np.float32(0.25), "deep": {"mse": np.ones((1, 1))}}})


def by_trackio():
    tracker(
        "trackio.run", "class Run:\n  config = {'lr': 0.1}\n  def log(self, metrics, step=None): pass"
    ).Run().log({"train/loss": 0.5}, 4)


def by_swanlab():
    module = tracker("swanlab.sdk.internal.run", "class Run:\n  def log(self, data, step=None): pass")
    module.Run().log({"train/loss": 0.5}, step=4)


def by_mlflow():
    module, module.client = tracker("mlflow.tracking.fluent", MLFLOW), None
    module.client = tracker("mlflow.tracking.client", CLIENT).MlflowClient()
    module.log_param("lr", 0.1)
    module.log_params({"seed": 3})
    module.log_metric("loss", 0.5, step=4)
    module.log_metrics({"accuracy": 0.75})
    module.client.log_batch(
        "id", [module.Metric("auc", 0.5, 9), module.Metric("system/cpu", 12.0, 1)], [module.Param("depth", 2)]
    )


def by_comet():
    text = """
class CometExperiment:
    def log_metric(self, name, value, step=None, epoch=None, include_context=True): pass
    def log_metrics(self, dic, prefix=None, step=None, epoch=None, include_context=True):
        for name, value in dic.items(): self.log_metric(name, value, step)
    def log_parameters(self, parameters, prefix=None, step=None, nested_support=True): pass
"""
    made = tracker("comet_ml.experiment", text).CometExperiment()
    made.log_parameters({"lr": 0.1})
    made.log_metrics({"loss": 0.5}, prefix="train", step=4)
    made.log_metric("accuracy", 0.75)


def by_aim():
    text = "class Run:\n  def track(self, value, name=None, step=None, epoch=None, *, context=None): pass"
    tracker("aim.sdk.run", text).Run().track(0.5, name="loss", step=4, context={"subset": "val"})


def by_clearml():
    text = "class Logger:\n  def report_scalar(self, title, series, value, iteration): pass"
    tracker("clearml.logger", text).Logger().report_scalar("loss", "train", 0.5, iteration=4)


def by_dvclive():
    text = """
class Live:
    def log_metric(self, name, val, timestamp=False, plot=True): pass
    def log_params(self, params): pass
"""
    made = tracker("dvclive.live", text).Live()
    made.log_params({"lr": 0.1})
    made.log_metric("train/loss", 0.5)


def by_tensorboard():
    made = tracker("torch.utils.tensorboard", WRITER).SummaryWriter()
    made.add_hparams({"lr": 0.1}, {"hparam/best": 1.0})
    made.add_scalar("train/loss", 0.5, 4)
    made.add_scalars("loss", {"train": 0.5, "val": 0.75}, np.int64(5))
    made.add_scalar("by/time", 0.5, 0.25)


def by_flax():
    text = "class SummaryWriter:\n  def scalar(self, tag, value, step): pass"
    tracker("flax.metrics.tensorboard", text).SummaryWriter().scalar("train/loss", np.float32(0.5), 4)


@pytest.mark.parametrize(
    ("logs", "points", "settings"),
    [
        (
            by_wandb, [("train/loss", 0.5, 4), ("parts.kl", 0.25, 70), ("parts.deep.mse", 1.0, 70)],
            {"lr": 0.1, "seed": 3},
        ),
        (by_trackio, [("train/loss", 0.5, 4)], {"lr": 0.1}),
        (by_swanlab, [("train/loss", 0.5, 4)], {}),
        (
            by_mlflow, [("loss", 0.5, 4), ("accuracy", 0.75, 70), ("auc", 0.5, 9)],
            {"lr": 0.1, "seed": 3, "depth": 2},
        ),
        (by_comet, [("train/loss", 0.5, 4), ("accuracy", 0.75, 70)], {"lr": 0.1}),
        (by_aim, [("val/loss", 0.5, 4)], {}),
        (by_clearml, [("loss/train", 0.5, 4)], {}),
        (by_dvclive, [("train/loss", 0.5, 70)], {"lr": 0.1}),
        (
            by_tensorboard,
            [("train/loss", 0.5, 4), ("loss/train", 0.5, 5), ("loss/val", 0.75, 5), ("by/time", 0.5, 70)],
            {"lr": 0.1},
        ),
        (by_flax, [("train/loss", 0.5, 4)], {}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)  # fmt: skip
def test_what_a_tracker_is_given_is_recorded_once(run, logs, points, settings):
    logs()
    assert run.points == points
    assert run.config == settings
    assert run.said == []


def test_every_observed_module_is_watched():
    watched = runpy.run_path(str(Path(stepscope.launch.__file__).with_name("path") / "sitecustomize.py"))[
        "WATCHED"
    ]
    assert {name for name, module in watched.items() if module == "trackers"} == trackers.CALLS.keys()


def test_numbers_in_the_trace_of_a_function_are_left_out(run):
    text = "def scalar(name, data, step=None, description=None): pass"
    module = tracker("tensorboard.plugins.scalar.summary_v2", text)
    module.scalar("symbolic", SimpleNamespace(shape=()), step=4)
    module.scalar("many", np.ones(3), step=4)
    assert run.points == []
    assert process.opened is None  # a program that gives no number makes no run


def test_what_the_callback_of_a_framework_gives_is_not_recorded_again(run, monkeypatch):
    """While it leads, the program's own calls are taken, and those of installed packages are not."""
    made = tracker("wandb.sdk.wandb_run", WANDB).Run()
    made.log({"before": 1.0})
    monkeypatch.setattr(process, "led", True)
    made.log({"own": 1.0}, step=3)
    monkeypatch.setattr("stepscope.capture.places.installed", lambda: (__file__,))
    made.log({"framework": 1.0}, step=3)
    assert [name for name, *_ in run.points] == ["before", "own"]


def test_another_version_is_said_and_changes_nothing(run):
    module = tracker("trackio.run", "class Run:\n  def log(self, rows, index=None): return 'logged'")
    assert module.Run().log({"loss": 1.0}) == "logged"
    tracker("clearml.logger", "class Logger: pass")
    assert run.said == [
        "the values given to trackio.run.Run.log: it takes other arguments in this version",
        "the values given to clearml.logger.Logger.report_scalar: it takes other arguments in this version",
    ]
    assert run.points == []


def test_a_tracker_that_fails_fails_as_it_would(run):
    module = tracker(
        "trackio.run", "class Run:\n  def log(self, metrics, step=None): raise ValueError('closed')"
    )
    with pytest.raises(ValueError, match="closed"):
        module.Run().log({"loss": 1.0})
    assert run.points == []


class DictConfig(UserDict):
    """As of OmegaConf."""


def test_the_settings_of_a_program_are_known_by_their_type(monkeypatch):
    package = ModuleType("omegaconf")
    package.DictConfig = DictConfig
    monkeypatch.setitem(sys.modules, "omegaconf", package)
    monkeypatch.setattr(
        sys.modules["__main__"], "options", argparse.Namespace(seed=3, keys="a"), raising=False
    )

    def main(args, cfg, other):
        return processes.settings()

    found = main(argparse.Namespace(lr=0.1), DictConfig(depth=2), {"no": "settings"})
    assert (found["lr"], found["depth"], found["seed"]) == (0.1, 2, 3)
    assert found["keys"] == "a"  # an option, though mappings have a method of this name
    assert "no" not in found
