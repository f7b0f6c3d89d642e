"""The examples run as they are, and record what they say."""

import math
import os
from importlib.util import find_spec
from pathlib import Path

import pytest
from support import programs

from stepscope import store
from stepscope.health.monitor import Verdict
from stepscope.serve.health import report_of
from stepscope.store.charts import groups

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


MACHINE = ("data-wait", "step-outliers", "stalled-training", "memory-creep", "cpu-bottleneck")
"""Rules about the machine, which other work on it may rightly trip."""


def false_alarms(directory: Path, name: str) -> list[str]:
    """What the health rules find wrong with a training that is well."""
    found = verdict_of(directory, name).findings
    return [f"{each.rule}: {each.summary}" for each in found if each.rule not in MACHINE]


IMPORTED = {"jax_loop": ("jax", "optax"), "flax_loop": ("jax", "optax")}
"""What other examples import than PyTorch."""


def run_example(name: str, directory: Path, *options: str) -> store.StoredRun:
    programs.run(
        [EXAMPLES / f"{name}.py", directory / name, *options],
        modules=IMPORTED.get(name, programs.TORCH),
        check=True,
        timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1", "KINETO_LOG_LEVEL": "99"},
    )
    return store.open(directory, cache=False).run(name)


def verdict_of(directory: Path, name: str) -> Verdict:
    """What the page's Health says of a run."""
    with store.open(directory, cache=False) as log:
        return report_of(log, log.run(name)).verdict


def values(run: store.StoredRun, tag: str) -> list[float]:
    return run.series(tag)["value"].tolist()


LOOPS = [
    ("torch_loop", "torch", "train/loss", "eval/loss"),
    ("jax_loop", "jax", "train/loss", "eval/loss"),
    ("flax_loop", "flax", "train/loss", "eval/loss"),
    ("lightning_trainer", "lightning", "train_loss", "val_loss"),
    ("transformers_trainer", "transformers", "train/loss", "eval/loss"),
    ("accelerate_loop", "accelerate", "train/loss", "eval/loss"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("example", "needs", "trained", "evaluated"), LOOPS, ids=[each[0] for each in LOOPS])
def test_loops_learn(example: str, needs: str, trained: str, evaluated: str, tmp_path: Path) -> None:
    if not find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    run = run_example(example, tmp_path)
    assert (run.state, run.problems) == ("finished", [])
    assert run.info.total_steps == len(run.series("speed/step_time_ms")) == 160
    assert len(run.series(trained)) == {"flax_loop": 5, "transformers_trainer": 32}.get(example, 160)
    found = run.series(evaluated)["value"].tolist()
    assert len(found) == 5
    assert found[-1] < found[0]
    [chart] = [group for group in groups(run.tags()) if group.metric == "loss"]
    assert [tag for tag, _ in chart.lines] == [trained, evaluated]
    assert false_alarms(tmp_path, example) == []


def test_resuming_keeps_both_attempts(tmp_path: Path) -> None:
    loss = run_example("resume", tmp_path).series("train/loss")
    assert loss.step[loss.attempt == 1].tolist() == list(range(150))
    assert loss.step[loss.attempt == 2].tolist() == list(range(100, 200))


@pytest.mark.slow
def test_gpt_falls_from_the_logarithm_of_its_letters(tmp_path: Path) -> None:
    run = run_example("gpt", tmp_path, "--steps", "60")
    trained, evaluated = values(run, "train/loss"), values(run, "eval/loss")
    assert run.state == "finished"
    assert abs(trained[0] - math.log(run.info.config["letters"])) < 0.5
    assert max(trained[-1], evaluated[-1]) < 3.7
    [chart] = [group for group in groups(run.tags()) if group.metric == "loss"]
    assert [tag for tag, _ in chart.lines] == ["train/loss", "eval/loss"]
    assert {"speed/tokens_per_second", "gradients/norm", "gradients/blocks.0.dense.0.weight/norm"} <= set(
        run.tags()
    )
    assert false_alarms(tmp_path, "gpt") == []


@pytest.mark.slow
@pytest.mark.parametrize("options", [[], ["--fixed"]], ids=["waits", "fixed"])
def test_input_bound_is_found_until_it_is_fixed(options: list[str], tmp_path: Path) -> None:
    run = run_example("input_bound", tmp_path, "--steps", "170", *options)
    found = {each.rule: each for each in verdict_of(tmp_path, "input_bound").findings}
    assert run.state == "finished"
    assert ("data-wait" in found) == (not options)
    if not options:
        assert found["data-wait"].title == "Waiting for data"
        assert found["data-wait"].values["wait_ratio"] > 0.1


@pytest.mark.slow
def test_gan_has_two_optimizers_and_losses_that_need_not_fall(tmp_path: Path) -> None:
    run = run_example("gan", tmp_path, "--steps", "60")
    assert {"optimizer/generator/lr", "optimizer/discriminator/lr"} <= set(run.tags())
    assert (
        len(values(run, "gradients/generator/norm")) == len(values(run, "gradients/discriminator/norm")) == 60
    )
    assert "digits/drawn" in {record.tag for record in run.records()}
    left = {each.rule: each.missing for each in verdict_of(tmp_path, "gan").abstained}
    assert "adversarial training" in left["loss-not-decreasing"]
    assert false_alarms(tmp_path, "gan") == []


@pytest.mark.slow
def test_rl_earns_more_and_no_rule_blames_its_loss(tmp_path: Path) -> None:
    rewards = values(run_example("rl", tmp_path, "--steps", "150"), "rollout/ep_rew_mean")
    assert sum(rewards[-20:]) > 5 * sum(rewards[:20])
    left = {each.rule: each.missing for each in verdict_of(tmp_path, "rl").abstained}
    assert "reinforcement learning" in left["loss-not-decreasing"]
    assert false_alarms(tmp_path, "rl") == []


@pytest.mark.slow
def test_diverging_says_where_and_from_which_checkpoint_to_go_on(tmp_path: Path) -> None:
    run = run_example("diverging", tmp_path)
    lost = {each.rule: each for each in verdict_of(tmp_path, "diverging").findings}["nonfinite-loss"]
    assert lost.title == "Loss is not finite"
    assert not math.isfinite(values(run, "train/loss")[lost.step])
    assert math.isfinite(values(run, "train/loss")[lost.step - 1])
    assert any(str(path) in lost.rewind[0] for path in tmp_path.rglob("*.pt"))
    assert run.state == "finished"
    assert "train/loss" in run.info.reason
    assert len(values(run, "train/loss")) < run.info.total_steps
