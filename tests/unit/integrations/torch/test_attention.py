"""What AttentionHook records against attention computed by hand, and what it must not say."""

import math
import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import stepscope as ss
from stepscope import store
from stepscope.integrations.torch import AttentionHook, attention_statistics

WIDTH, HEADS, LENGTH, BATCH = 16, 4, 6, 3


class Functional(nn.Module):
    """Attention by the functional, as language models call it."""

    def __init__(self, *, causal):
        super().__init__()
        self.qkv, self.causal = nn.Linear(WIDTH, 3 * WIDTH), causal

    def parts(self, x):
        return (each.unflatten(-1, (HEADS, -1)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))

    def forward(self, x):
        out = functional.scaled_dot_product_attention(*self.parts(x), is_causal=self.causal)
        return out.transpose(1, 2).flatten(2)


class EagerAttention(Functional):
    """The same by softmax."""

    def forward(self, x):
        q, k, v = self.parts(x)
        logits = q @ k.transpose(-1, -2) / math.sqrt(WIDTH / HEADS)
        if self.causal:
            later = torch.ones(LENGTH, LENGTH).triu(1).bool()
            logits = logits.masked_fill(later, torch.finfo(torch.float32).min)
        return (logits.softmax(dim=-1) @ v).transpose(1, 2).flatten(2)


def by_hand(q, k, causal):
    logits = np.einsum("bhqe,bhke->bhqk", q, k) / math.sqrt(q.shape[-1])
    largest, entropies = -np.inf, []
    for _, head, query in np.ndindex(logits.shape[:3]):
        row = logits[_, head, query, : query + 1 if causal else None]
        largest = max(largest, row.max())
        if len(row) > 1:
            p = np.exp(row - row.max())
            p /= p.sum()
            entropies.append((head, -(p * np.log(p)).sum() / math.log(len(row))))
    heads = [np.mean([e for h, e in entropies if h == head]) for head in range(q.shape[1])]
    return largest, np.mean(heads), np.min(heads)


def recorded(directory, model, call, steps=1, **options):
    hook = AttentionHook(model, examples=BATCH, queries=LENGTH, **options)
    with ss.Run(directory, hooks=[hook]) as run:
        for step in run.steps(range(steps)):
            call(step)
    with store.open(directory, cache=False) as log:
        [found] = log.runs()
        return {tag: found.columns(tag)[-1] for tag in found.tags() if tag.startswith("attention/")}


@pytest.mark.parametrize("kind", [Functional, EagerAttention])
@pytest.mark.parametrize("causal", [False, True])
def test_functional_and_eager_attention(tmp_path, kind, causal):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), kind(causal=causal))
    x = torch.randn(BATCH, LENGTH, WIDTH)
    with torch.no_grad():
        q, k, _ = (each.numpy() for each in model[1].parts(model[0](x)))
    found = recorded(tmp_path, model, lambda step: model(x))
    got = [float(found[f"attention/1/{name}"].value[0]) for name in ("logit_max", "entropy", "entropy_min")]
    assert got == pytest.approx(by_hand(q, k, causal), rel=1e-5)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_the_module_for_attention(tmp_path, weights, masked):
    torch.manual_seed(1)
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    nn.init.normal_(model.in_proj_bias)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1) if masked else None
    with torch.no_grad():
        parts = functional.linear(x, model.in_proj_weight, model.in_proj_bias).chunk(3, -1)
        q, k, _ = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2).numpy() for each in parts)
    outer = nn.Sequential()
    outer.add_module("attn", model)
    outer.forward = lambda x: model(x, x, x, attn_mask=mask, need_weights=weights)[0]
    found = recorded(tmp_path, outer, lambda step: outer(x))
    got = [
        float(found[f"attention/attn/{name}"].value[0]) for name in ("logit_max", "entropy", "entropy_min")
    ]
    assert got == pytest.approx(by_hand(q, k, masked), rel=1e-4)


def test_keys_that_are_padding_are_not_counted(tmp_path):
    torch.manual_seed(2)
    model = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[:, 4:] = True
    outer = nn.Sequential(model)
    outer.forward = lambda x: model(x, x, x, key_padding_mask=padding, need_weights=False)[0]
    with torch.no_grad():
        parts = functional.linear(x, model.in_proj_weight, model.in_proj_bias).chunk(3, -1)
        q, k, _ = (each.unflatten(-1, (HEADS, -1)).transpose(1, 2).numpy() for each in parts)
    found = recorded(tmp_path, outer, lambda step: outer(x))
    assert float(found["attention/0/logit_max"].value[0]) == pytest.approx(
        by_hand(q, k[:, :, :4], causal=False)[0], rel=1e-4
    )


def test_attention_of_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    seen = {}
    for kind in ("sdpa", "eager"):
        torch.manual_seed(3)
        config = transformers.LlamaConfig(
            hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, vocab_size=50, attn_implementation=kind,
        )  # fmt: skip
        model = transformers.LlamaForCausalLM(config).train()
        tokens = torch.arange(12).reshape(2, 6)
        found = recorded(tmp_path / kind, model, lambda step, m=model, t=tokens: m(input_ids=t))
        assert set(found) == {
            f"attention/model.layers.{at}.self_attn/{name}"
            for at in range(2)
            for name in ("logit_max", "entropy", "entropy_min")
        }
        seen[kind] = {tag: float(each.value[0]) for tag, each in found.items()}
    assert seen["sdpa"] == pytest.approx(seen["eager"], rel=1e-4)


def test_only_sampled_steps_in_training_are_looked_at_and_the_training_is_not_changed(tmp_path):
    torch.manual_seed(4)
    model = nn.Sequential(Functional(causal=True), nn.Linear(WIDTH, 1))
    x = torch.randn(BATCH, LENGTH, WIDTH)
    bare = model(x)

    def step(number):
        model.eval()
        model(x)
        model.train()
        assert torch.equal(model(x), bare)

    found = recorded(tmp_path, model, step, steps=25, every_n_steps=10)
    assert found["attention/0/entropy"].step.tolist() == [0, 10, 20]
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_a_model_without_attention_is_told_and_left_alone(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    model = nn.Linear(4, 1)
    hook = AttentionHook(model, every_n_steps=1)
    with warnings.catch_warnings(record=True) as told, ss.Run(tmp_path, hooks=[hook]) as run:
        warnings.simplefilter("always")
        for _ in run.steps(range(6)):
            model(torch.randn(2, 4))
    whys = ["RuntimeError: no attention was seen in a forward pass"] * 2
    assert [str(warning.message).split("\n")[0] for warning in told] == [
        f"stepscope: attention statistics: {whys[0]}; the training goes on",
        f"stepscope: attention statistics are not measured since step 0: {whys[1]}",
    ]
    assert not model._forward_hooks


def test_uniform_and_one_hot_attention():
    largest, heads = attention_statistics(torch.zeros(2, 3, 5, 7))
    assert float(largest) == 0
    assert heads.tolist() == pytest.approx([1.0, 1.0, 1.0])
    sharp = torch.zeros(1, 1, 4, 4)
    sharp[..., 0] = 500.0
    largest, heads = attention_statistics(sharp)
    assert (float(largest), heads.tolist()) == (500.0, pytest.approx([0.0], abs=1e-6))
