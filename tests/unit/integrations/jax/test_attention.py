"""Attention and router statistics in JAX are those of the PyTorch hooks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import stepscope as ss
from stepscope import store
from stepscope.integrations.jax import SharpnessHook, attention_statistics, router_load


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_as_in_torch(causal):
    torch = pytest.importorskip("torch")
    from stepscope.integrations.torch import attention_statistics as of_torch

    logits = 3 * np.random.default_rng(0).normal(size=(2, 3, 5, 5)).astype(np.float32)
    if causal:
        logits = np.where(np.tril(np.ones((5, 5), bool)), logits, -np.inf).astype(np.float32)
    found = jax.jit(lambda x: attention_statistics(x, "a"))(jnp.asarray(logits))
    largest, heads = of_torch(torch.tensor(logits))
    assert float(found["attention/a/logit_max"]) == pytest.approx(float(largest))
    assert float(found["attention/a/entropy"]) == pytest.approx(float(heads.mean()), rel=1e-5)
    assert float(found["attention/a/entropy_min"]) == pytest.approx(float(heads.min()), rel=1e-5)


def test_shares_of_experts():
    found = jax.jit(lambda x: router_load(x, 4, "moe"))(jnp.array([[0, 1], [0, 3]]))
    assert [float(found[f"router/moe/load/{at}"]) for at in range(4)] == [0.5, 0.25, 0.0, 0.25]
    assert float(found["router/moe/imbalance"]) == 2.0


def test_the_sharpness_hook_records_what_a_quadratic_has(tmp_path):
    scales, parameters = jnp.array([5.0, 1.0, 0.2]), jnp.ones(3)
    hook = SharpnessHook(
        lambda p: 0.5 * (scales * p * p).sum(), lambda: parameters, learning_rate=lambda step: 0.1,
        momentum=0.5, every_n_steps=5, iterations=12,
    )  # fmt: skip
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(11)):
            parameters = parameters * 0.9
    with store.open(tmp_path, cache=False) as log:
        [found] = log.runs()
        sharp, edge = (found.columns(f"curvature/{name}")[-1] for name in ("sharpness", "edge_ratio"))
    assert sharp.step.tolist() == [0, 5, 10]
    assert sharp.value.tolist() == pytest.approx([5.0] * 3, rel=1e-3)
    assert edge.value.tolist() == pytest.approx([5.0 * 0.1 / 3] * 3, rel=1e-3)
