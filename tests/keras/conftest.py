"""These tests run once per backend: KERAS_BACKEND says which. See tests/e2e/test_keras_backends.py."""

import os

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
keras = pytest.importorskip("keras")

import stepscope as ss  # noqa: E402
from stepscope.integrations.keras import StepscopeCallback  # noqa: E402

BACKEND = keras.backend.backend()
KERAS3 = not keras.__version__.startswith("2.")


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    for name in ("RANK", "WORLD_SIZE", "TF_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    x = random.normal(size=(40, 3)).astype("float32")
    return x, x.sum(1, keepdims=True)


@pytest.fixture
def make_model():
    def make(optimizer="sgd", **options):
        layers = [keras.layers.Dense(4, activation="relu", name="hidden"), keras.layers.Dense(1, name="out")]
        model = keras.Sequential([keras.Input((3,)), *layers], name="net")
        model.compile(optimizer, "mse", metrics=["mae"], **options)
        return model

    return make


@pytest.fixture
def callback(tmp_path):
    def make(*arguments, **options):
        return StepscopeCallback(*(arguments or (tmp_path,)), **options)

    return make


class Recorded:
    """What a run directory holds."""

    def __init__(self, path):
        with ss.open(path, cache=False) as log:
            run = log.run(".")
            self.state, self.tags, self.info = run.state, run.tags(), run.info
            frames = {tag: run.series(tag) for tag in self.tags}
        self.steps = {tag: frame["step"].tolist() for tag, frame in frames.items()}
        self.values = {tag: frame["value"].tolist() for tag, frame in frames.items()}
        self.attempts = {tag: frame["attempt"].tolist() for tag, frame in frames.items()}


@pytest.fixture
def recorded(tmp_path):
    return lambda path=tmp_path: Recorded(path)
