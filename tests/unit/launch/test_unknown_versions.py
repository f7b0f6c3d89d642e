"""Frameworks that lack what is looked for in them: the program goes on, and a line says it."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

from stepscope.launch import accelerated, compiling, lightning, pytorch, transformers
from stepscope.launch.process import process


class Trainer:
    """One without callbacks."""

    def fit(self, *arguments):
        return "fitted"

    def train(self, *arguments):
        return "trained"


def module(name="framework", **names):
    made = ModuleType(name)
    vars(made).update(names)
    return made


@pytest.fixture
def said(monkeypatch):
    lines = []
    monkeypatch.setattr(process, "say", lines.append)
    monkeypatch.setattr(process, "off", False)
    return lines


@pytest.mark.parametrize(
    ("install", "call", "result", "line"),
    [
        pytest.param(
            lambda: lightning.install(module(Trainer=Trainer)), lambda: Trainer().fit(), "fitted",
            "nothing more is recorded: AttributeError: 'Trainer' object has no attribute 'callbacks'",
            id="Lightning",
        ),
        pytest.param(
            lambda: transformers.install(module(Trainer=Trainer)), lambda: Trainer().train(), "trained",
            "nothing more is recorded: AttributeError: 'Trainer' object has no attribute 'callback_handler'",
            id="Transformers",
        ),
        pytest.param(
            lambda: accelerated.install(module()), None, None,
            "the wait for data: this version of Accelerate has no DataLoaderShard.__iter__", id="Accelerate",
        ),
        pytest.param(
            lambda: compiling.install(module("torch._dynamo.callback")), None, None,
            "the time of compilations: this version of torch._dynamo.callback does not tell", id="Dynamo",
        ),
        pytest.param(
            lambda: pytorch._watch_loaders(
                SimpleNamespace(__version__="9.9", utils=module(data=module(dataloader=module()))), None
            ),
            None, None, "the wait for data: the loaders of torch 9.9 are not known here", id="loaders",
        ),
    ],
)  # fmt: skip
def test_what_a_version_lacks_is_said(monkeypatch, said, install, call, result, line):
    for name in ("fit", "train"):
        monkeypatch.setattr(Trainer, name, getattr(Trainer, name))  # what is installed is taken out again
    monkeypatch.setattr(accelerated, "loop_of", lambda torch: None)
    monkeypatch.setattr(compiling.compilations, "_sources", set())  # those of earlier tests are followed
    ours = "stepscope.integrations"
    for name in ("torch", f"{ours}.lightning", f"{ours}.lightning.package", f"{ours}.transformers"):
        monkeypatch.setitem(sys.modules, name, module(name, StepscopeCallback=bool, Callback=object))
    install()
    if call is not None:
        assert not said
        assert call() == result
        assert process.off
    assert said[0] == line
