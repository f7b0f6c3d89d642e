"""The birth-weight example records what its first lines say, alone and as a chief with four workers."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import programs
from support.ports import free_port
from support.waiting import until

from stepscope import store
from stepscope.store.charts import groups

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "birthweight"
QUICK = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1"}
"""Programs of JAX that run some hundred steps: compiling them well takes longer."""
IMPORTED = {
    "torch": programs.TORCH,
    "jax": ("jax", "optax", "stepscope.record.run", "stepscope.integrations.jax"),
}
"""What is there before an example begins; the others choose their backend, or start their own processes."""


def train(directory: Path, *words: str, ranks: int = 1, by: str = "torch", **more: str) -> store.StoredRun:
    """Run the example with short settings, on several ranks with the variables that torchrun gives them."""
    command = [str(EXAMPLES / f"{by}_train.py"), str(directory / "births"), *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99", **more}
    if by not in IMPORTED:
        subprocess.run([sys.executable, *command], check=True, timeout=600, env=environment)
        return store.open(directory, cache=False).run("births")
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks)}
    processes = [
        programs.Program(
            command,
            modules=IMPORTED[by],
            env={**environment, **(job | {"RANK": str(rank)} if ranks > 1 else {})},
        )
        for rank in range(ranks)
    ]
    assert [process.wait(600) for process in processes] == [0] * ranks
    return store.open(directory, cache=False).run("births")


def needs(name: str) -> None:
    if find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.mark.slow
@pytest.mark.parametrize(("profile", "steps"), [("range:20-24", "160"), ("steps:50", "110")])
def test_one_machine(profile: str, steps: str, tmp_path: Path) -> None:
    run = train(tmp_path, "--steps", steps, "--profile", profile)
    assert run.state == "finished"
    evaluated = run.series("eval/loss")["value"].tolist()
    assert evaluated[-1] < evaluated[0]
    assert ["train/loss", "eval/loss"] in charts(run)
    assert {
        "activations/deep.1/fraction_of_zero_values",
        "gradients/deep.0.weight/norm",
        "speed/examples_per_second",
    } <= set(run.tags())
    assert means(run) == int(steps) // 50
    assert list((tmp_path / "births" / "profiles").glob("chief_rank0_step*.pt.trace.json*"))


@pytest.mark.slow
def test_a_chief_and_four_workers(tmp_path: Path) -> None:
    run = train(tmp_path, "--steps", "40", "--profile", "range:20-22", ranks=5)
    assert run.state == "finished"
    assert sorted(each.rank for each in run.ranks.members()) == list(range(5))
    assert len(run.series("gradients/norm")) == 40


def means(run: store.StoredRun) -> int:
    """Return how many means of 50 steps there are, each of which is that of the 50 steps up to its own."""
    loss, found = run.series("train/loss"), run.series("train/loss_mean_of_50")
    for step, mean in zip(found["step"], found["value"], strict=True):
        of = loss.value[(loss.step > step - 50) & (loss.step <= step)]
        assert (len(of), mean) == (50, pytest.approx(of.mean(), rel=1e-5))
    return len(found)


def charts(run: store.StoredRun) -> list[list[str]]:
    return [[tag for tag, _ in group.lines] for group in groups(run.tags())]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_keras(backend: str, tmp_path: Path) -> None:
    needs("keras")
    run = train(
        tmp_path, "--steps", "200", "--profile", "range:20-22", by="keras", KERAS_BACKEND=backend, **QUICK
    )
    assert (run.state, run.problems) == ("finished", [])
    evaluated = run.series("eval/loss")["value"].tolist()
    assert evaluated[1] < evaluated[0]
    assert ["train/loss", "eval/loss"] in charts(run)
    assert {
        "activations/births/deep64/fraction_of_zero_values",
        "gradients/deep64/kernel/norm",
        "speed/examples_per_second",
    } <= set(run.tags())
    assert means(run) == 4
    summary = tmp_path / "births" / "profiles" / "chief_rank0_step00000020.summary.json"
    until(summary.exists)  # its process goes on after the run has ended


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_jax(processes: int, tmp_path: Path) -> None:
    needs("optax")
    words = ["--steps", "120", "--profile", "range:20-22", "--processes", str(processes)]
    run = train(tmp_path, *words, by="jax", JAX_PLATFORMS="cpu", **QUICK)
    assert (run.state, run.problems) == ("finished", [])
    assert [each.rank for each in run.ranks.members()] == list(range(processes))
    assert run.ranks.several == (processes > 1)
    evaluated = run.series("eval/loss")["value"].tolist()
    assert len(evaluated) == 2
    assert evaluated[1] < 1.0 < run.series("train/loss")["value"][0]
    assert ["train/loss", "eval/loss"] in charts(run)
    assert {
        "activations/deep/a/fraction_of_zero_values", "gradients/deep.a.w/norm", "speed/examples_per_second",
    } <= set(run.tags())  # fmt: skip
    assert means(run) == 2


@pytest.mark.slow
def test_ray(tmp_path: Path) -> None:
    needs("ray")
    words = ["--steps", "20", "--profile", "range:8-10", "--workers", "2"]
    run = train(tmp_path, *words, by="ray", RAY_USAGE_STATS_ENABLED="0")
    assert (run.state, run.problems) == ("finished", [])
    assert sorted(each.rank for each in run.ranks.members()) == [0, 1]
    assert len(run.series("gradients/norm")) == 20
