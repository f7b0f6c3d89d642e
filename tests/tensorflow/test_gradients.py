"""Gradients in loops of TensorFlow 2: whatever the strategy, they are those of the whole batch."""

import os
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
pytest.importorskip("tensorflow")

import stepscope as ss

JOB = str(Path(__file__).with_name("gradients_job.py"))
RATE, STEPS, BATCH = 0.1, 5, 8


def reference():
    """Yield gradients, weights before and updates of each step, in float64."""
    random = np.random.default_rng(0)
    all_x = random.normal(size=(STEPS * BATCH, 3)).astype("float32")
    all_y = (all_x.sum(1, keepdims=True) + 1).astype("f8")
    weights = [np.array([[0.5], [-1.0], [2.0]]), np.zeros(1)]
    for step in range(STEPS):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x, y = all_x[part].astype("f8"), all_y[part]
        error = 2 * (x @ weights[0] + weights[1] - y) / BATCH
        gradients = [x.T @ error, error.sum(0)]
        updates = [-RATE * each for each in gradients]
        yield step, {"gradients": gradients, "weights": weights, "updates": updates}
        weights = [old + new for old, new in zip(weights, updates, strict=True)]


def check(directory, rotate=1):
    with ss.open(directory, cache=False) as log:
        run = log.run(".")
        tags = [tag for tag in run.tags() if tag.startswith(("gradients/", "weights/", "updates/"))]
        series = {tag: run.series(tag) for tag in tags}
    found = {
        tag: dict(zip(each["step"].tolist(), each["value"].tolist(), strict=True))
        for tag, each in series.items()
    }
    assert list(found["gradients/norm"]) == list(range(STEPS))
    due = {"kernel": [0, 2, 4], "bias": [0, 2, 4]} if rotate == 1 else {"kernel": [0, 4], "bias": [2]}
    for name, steps in due.items():
        assert list(found[f"gradients/{name}/mean"]) == list(found[f"updates/{name}/mean"]) == steps
    for step, kinds in reference():
        whole = np.concatenate([each.ravel() for each in kinds["gradients"]])
        assert found["gradients/norm"][step] == pytest.approx(np.linalg.norm(whole), rel=1e-5)
        for kind, arrays in kinds.items():
            for name, array in zip(("kernel", "bias"), arrays, strict=True):
                if step not in due[name]:
                    continue
                expected = {
                    "norm": np.linalg.norm(array),
                    "mean": array.mean(),
                    "std": array.std(),
                    "min": array.min(),
                    "max": array.max(),
                    "zero_ratio": (array == 0).mean(),
                    "nonfinite_count": 0,
                }
                for word, value in expected.items():
                    mine = found[f"{kind}/{name}/{word}"][step]
                    assert mine == pytest.approx(value, rel=1e-4, abs=1e-6), (kind, name, word, step)


@pytest.mark.parametrize(("kind", "rotate"), [("plain", 1), ("mirrored", 1), ("mirrored", 2)])
def test_one_process(tmp_path, processes, kind, rotate):
    output = tmp_path / "output.txt"
    job = processes.start(JOB, kind, str(tmp_path / "run"), str(rotate), output=output)
    assert job.wait(120) == 0, output.read_text()
    assert "rank 0 of 1 problems {}" in output.read_text()
    check(tmp_path / "run", rotate)


@pytest.mark.slow
def test_two_workers(tmp_path, processes):
    cluster = {"worker": processes.free_addresses(2)}
    outputs = [tmp_path / f"{index}.txt" for index in range(2)]
    tasks = [{"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2)]
    jobs = [
        processes.start(JOB, "workers", str(tmp_path / "run"), output=output, tf_config=task)
        for output, task in zip(outputs, tasks, strict=True)
    ]
    try:
        assert [job.wait(240) for job in jobs] == [0, 0], [output.read_text() for output in outputs]
    finally:
        for job in jobs:
            job.kill()
    [events] = (tmp_path / "run").glob("*tfevents*")
    assert f".{jobs[0].pid}." in events.name
    check(tmp_path / "run")
