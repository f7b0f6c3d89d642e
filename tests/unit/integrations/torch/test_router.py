"""What RouterHook records of mixtures of several kinds, and what it must not say."""

import warnings

import pytest
import torch
from torch import nn

import stepscope as ss
from stepscope import store
from stepscope.integrations.torch import RouterHook

WIDTH, COUNT = 8, 4


class Switch(nn.Module):
    """Each expert gets the rows that the router gives it."""

    def __init__(self, chosen=None):
        super().__init__()
        self.gate, self.chosen = nn.Linear(WIDTH, COUNT), chosen
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(COUNT))

    def forward(self, x):
        best = self.gate(x).argmax(-1) if self.chosen is None else self.chosen
        out = torch.zeros_like(x)
        for at, expert in enumerate(self.experts):
            rows = best == at
            if rows.any():
                out[rows] = expert(x[rows])
        return x + out


class Dense(Switch):
    """Every expert gets every row; weights say which count."""

    def forward(self, x):
        weights = self.gate(x).softmax(-1)
        return sum(weights[:, at, None] * each(x) for at, each in enumerate(self.experts))


def loads(directory, model, x, *, steps=1, call=None, **options):
    with ss.Run(directory, hooks=[RouterHook(model, every_n_steps=1, **options)]) as run:
        for _ in run.steps(range(steps)):
            (call or model)(x)
    with store.open(directory, cache=False) as log:
        [found] = log.runs()
        return {
            tag: found.columns(tag)[-1].value.tolist() for tag in found.tags() if tag.startswith("router/")
        }


def test_rows_of_each_expert(tmp_path):
    model = nn.Sequential(Switch(torch.tensor([0, 0, 0, 1, 1, 3, 3, 3])))
    found = loads(tmp_path, model, torch.randn(8, WIDTH), steps=2)
    assert [found[f"router/0/load/{at}"] for at in range(COUNT)] == [
        pytest.approx([share] * 2) for share in (3 / 8, 2 / 8, 0.0, 3 / 8)
    ]
    assert found["router/0/imbalance"] == pytest.approx([1.5, 1.5])
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())


def test_the_parts_of_an_accumulated_step_count_together_and_evaluation_does_not(tmp_path):
    model = nn.Sequential(Switch())

    def step(x):
        for chosen in ([0, 0], [1, 3]):
            model[0].chosen = torch.tensor(chosen)
            model(x)
        model.eval()
        model[0].chosen = torch.tensor([2, 2])
        model(x)
        model.train()

    found = loads(tmp_path, model, torch.randn(2, WIDTH), call=step)
    assert [found[f"router/0/load/{at}"] for at in range(COUNT)] == [[0.5], [0.25], [0.0], [0.25]]


def test_experts_that_all_see_everything_need_to_be_told_how_many_count(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    torch.manual_seed(0)
    model, x = nn.Sequential(Dense()), torch.randn(64, WIDTH)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert loads(tmp_path / "a", model, x) == {}
    assert "nothing says which experts a token gets" in str(told[0].message)
    best = model[0].gate(x).topk(2, dim=-1).indices.flatten()
    found = loads(tmp_path / "b", model, x, top_k=2)
    counts = torch.bincount(best, minlength=COUNT) / len(best)
    assert [found[f"router/0/load/{at}"][0] for at in range(COUNT)] == pytest.approx(counts.tolist())


@pytest.mark.parametrize("kind", ["Mixtral", "Qwen3Moe", "SwitchTransformers"])
def test_mixtures_of_transformers(tmp_path, kind):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    if kind == "Mixtral":
        config = transformers.MixtralConfig(
            **small, vocab_size=40, intermediate_size=16, num_local_experts=4, num_experts_per_tok=2
        )
        model = transformers.MixtralForCausalLM(config)
    elif kind == "Qwen3Moe":
        config = transformers.Qwen3MoeConfig(
            **small, vocab_size=40, intermediate_size=16, moe_intermediate_size=16, num_experts=4,
            num_experts_per_tok=2, head_dim=8,
        )  # fmt: skip
        model = transformers.Qwen3MoeForCausalLM(config)
    else:
        config = transformers.SwitchTransformersConfig(
            vocab_size=40, d_model=16, d_kv=8, d_ff=16, num_layers=2, num_decoder_layers=2, num_heads=2,
            num_experts=4, expert_capacity=64, num_sparse_encoder_layers=1, num_sparse_decoder_layers=1,
            decoder_start_token_id=0,
        )  # fmt: skip
        model = transformers.SwitchTransformersForConditionalGeneration(config)
    model.train()
    tokens = torch.arange(32).reshape(2, 16)
    more = {"labels": tokens} if kind == "SwitchTransformers" else {}
    found = loads(tmp_path, model, tokens, call=lambda x: model(input_ids=x, **more))
    layers = {tag.rpartition("/imbalance")[0] for tag in found if tag.endswith("/imbalance")}
    assert layers
    for layer in layers:
        shares = [found[f"{layer}/load/{at}"][0] for at in range(4)]
        assert sum(shares) == pytest.approx(1)
        assert len(set(shares)) > 1


def test_a_model_without_experts_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert loads(tmp_path, nn.Sequential(nn.Linear(WIDTH, 1)), torch.randn(2, WIDTH)) == {}
    assert "no module with experts" in str(told[0].message)


def test_an_expert_that_gets_nothing_is_found_without_the_users_logging_it(tmp_path):
    chosen = torch.tensor([0, 1, 3] * 16)
    model = nn.Sequential(Switch(chosen))
    health = ss.HealthHook()
    with ss.Run(tmp_path, hooks=[RouterHook(model, every_n_steps=2), health]) as run:
        for _ in run.steps(range(50)):
            model(torch.randn(48, WIDTH))
    [found] = [each for each in health.findings if each.rule == "dead-experts"]
    assert (found.layer, found.severity) == ("0/load/2", "medium")
