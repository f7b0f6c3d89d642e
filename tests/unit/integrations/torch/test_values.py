"""Needless work by the values of two steps."""

import copy
import io
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from stepscope.analyze.advise import Facts, advise
from stepscope.integrations.torch import values as followed
from stepscope.integrations.torch.values import Values
from stepscope.trace.load import load_trace

WIDE = 64


@pytest.fixture(autouse=True)
def _nothing_compiled(monkeypatch):
    """Other tests of the process compile, after which no values are followed."""
    monkeypatch.setattr(followed, "_compiles", lambda: False)


def facts(step, steps: int = 2) -> dict[str, list[str]]:
    """Return the functions of needless calls by the kind of fact, of a step that is run twice."""
    values = Values()
    for _ in range(steps):
        with values.step():
            step()
    told: dict[str, list[str]] = {}
    for one in values.facts():
        told.setdefault(one.kind, []).append(one.name)
    return told


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def test_a_second_pass_over_the_same_batch_is_told_and_one_over_another_is_not() -> None:
    net, data = model(), torch.randn(32, 8)

    def train(again: bool) -> None:
        batch = data[torch.randperm(32)[:16]]
        loss = net(batch).square().mean()
        with torch.no_grad():
            net(batch if again else batch.flip(1)).argmax(1).sum().item()
        loss.backward()

    assert facts(lambda: train(True))["again"]
    assert "again" not in facts(lambda: train(False))


def test_a_pass_after_an_update_is_not_the_same() -> None:
    for make in (
        lambda some: torch.optim.SGD(some, lr=0.1),
        lambda some: torch.optim.Adam(some, lr=0.1, fused=True),
    ):
        net = model()
        optimizer = make(net.parameters())

        def train(net=net, optimizer=optimizer) -> None:
            batch = torch.randn(16, 8)
            net(batch).square().mean().backward()
            optimizer.step()
            net(batch).sum().item()

        assert facts(train) == {}


def test_what_draws_random_numbers_is_never_the_same() -> None:
    batch = torch.randn(16, 8)

    def train() -> None:
        for _ in range(2):
            (nn.functional.dropout(batch, 0.5) + torch.randn(16, 8)).sum().item()

    assert facts(train) == {}


def test_what_was_written_to_is_new() -> None:
    batch = torch.randn(16, 8)

    def train() -> None:
        batch.exp().sum().item()
        batch[0] = 3
        batch.exp().sum().item()
        batch.add_(1)

    assert facts(train) == {}


def test_constants_that_each_step_makes_again_are_told() -> None:
    table, data = torch.randn(64, 64), torch.randn(64, 64)

    def train() -> None:
        chosen = data[torch.randperm(64)]
        (table @ table.T @ chosen).sum().item()

    assert "matmul" in facts(train)["before"] or "__matmul__" in facts(train)["before"]


def test_a_function_that_only_computes_known_values_is_named_where_it_is_called() -> None:
    def table() -> torch.Tensor:
        half = torch.arange(64.0).exp()
        return half.cos() @ torch.ones(64, 8)

    def train() -> None:
        (torch.randn(8, 8) * table()).sum().item()

    values = Values()
    for _ in range(2):
        with values.step():
            train()
    (one,) = [one for one in values.facts() if one.kind == "before"]
    assert one.line.endswith(f"({train.__code__.co_firstlineno + 1}): train")
    assert one.name


@pytest.mark.parametrize("used", [False, True])
def test_results_that_nothing_uses_are_told(used: bool) -> None:
    net, kept = model(), []

    def train() -> None:
        batch = torch.randn(16, 8)
        extra = torch.cdist(batch, batch)
        loss = net(batch).square().mean()
        rows = torch.stack([batch[at : at + 4].T for at in (0, 4)])
        (loss + rows.sum()).backward()
        if used:
            kept.append(extra)

    assert facts(train).get("unused", []) == ([] if used else ["cdist"])


def test_gradients_that_are_given_to_parameters_are_used() -> None:
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def train() -> None:
        some = [*net.parameters()]
        loss = net(torch.randn(16, 8)).square().mean()
        for one, gradient in zip(some, torch.autograd.grad(loss, some), strict=True):
            one.grad = 2 * gradient
        optimizer.step()

    assert "unused" not in facts(train)


def test_a_copy_of_a_model_that_is_saved_is_used() -> None:
    net = model()

    def train() -> None:
        torch.save(copy.deepcopy(net).state_dict(), io.BytesIO())

    assert "unused" not in facts(train)


def test_results_that_an_autograd_function_may_use_are_not_told() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return 2 * value

        @staticmethod
        def backward(ctx, gradient):
            return 2 * gradient

    weight = torch.ones(4, requires_grad=True)

    def train() -> None:
        Double.apply(weight.exp()).sum().backward()

    assert "unused" not in facts(train)


@pytest.mark.parametrize("way", ["join", "slice", "state"])
def test_a_prefix_that_is_read_again_is_told(way: str) -> None:
    memory, out = nn.GRU(1, 4, batch_first=True), nn.Linear(4, 1)

    def train() -> None:
        seen = torch.randn(2, 6, 1)
        known, state = seen[:, :3], None
        for at in range(3):
            if way == "state":
                states, state = memory(known[:, -1:], state)
            elif way == "slice":
                states, _ = memory(seen[:, : 3 + at])
            else:
                states, _ = memory(known)
            known = torch.cat([known, out(states[:, -1:])], dim=1)
        known.sum().backward()

    assert ("gru" in facts(train).get("longer", ())) is (way != "state")


@pytest.mark.parametrize("early", [False, True])
def test_the_order_of_products_is_told_if_another_needs_half(early: bool) -> None:
    query, key, value = (torch.randn(2, WIDE, 4) for _ in range(3))

    def train() -> None:
        mixed = query @ (key.mT @ value) if early else (query @ key.mT) @ value
        mixed.sum().item()

    assert ("order" in facts(train)) is not early


@pytest.mark.parametrize(("bias", "wide", "told"), [(False, 64, True), (True, 64, False), (False, 4, False)])
def test_neighbours_are_summed_before_a_layer_that_widens_if_it_has_no_bias(bias, wide, told) -> None:
    layer, graph = nn.Linear(4, wide, bias=bias), torch.rand(2, 32, 32)

    def train() -> None:
        (graph @ layer(torch.randn(2, 32, 4))).relu().sum().backward()

    assert ("order" in facts(train)) is told


def test_a_product_that_something_else_uses_stays() -> None:
    query, key, value = (torch.randn(2, WIDE, 4) for _ in range(3))

    def train() -> None:
        scores = query @ key.mT
        (scores @ value).sum().item()
        scores.sum().item()

    assert "order" not in facts(train)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("way", ["upsample", "pairs"])
def test_what_is_enlarged_before_a_product_is_told(way: str, first: bool) -> None:
    score, heed = nn.Conv2d(16, 2, 1), nn.Parameter(torch.randn(16, 1))

    def train() -> None:
        if way == "upsample":
            picture = torch.randn(1, 16, 8, 8)
            large = nn.functional.interpolate(score(picture) if first else picture, scale_factor=4.0)
            (large if first else score(large)).sum().backward()
        else:
            ones = torch.randn(20, 8)
            pairs = torch.cat([ones.repeat_interleave(20, 0), ones.repeat(20, 1)], 1)
            (ones @ heed[:8] if first else pairs @ heed).sum().backward()

    assert ("enlarged" in facts(train)) is not first


@pytest.mark.parametrize("share", [0.2, 0.9])
def test_places_that_the_loss_ignores_are_told(share: float) -> None:
    head = nn.Linear(8, 20)

    def train() -> None:
        targets = torch.randint(0, 20, (100,))
        targets[: int(100 * share)] = -100
        nn.functional.cross_entropy(head(torch.randn(100, 8)), targets).backward()

    assert ("ignored" in facts(train)) is (share > 0.5)


@pytest.mark.parametrize("decay", [False, True])
def test_a_penalty_of_the_weights_is_told(decay: bool) -> None:
    net = model()

    def train() -> None:
        loss = net(torch.randn(16, 8)).square().mean()
        if decay:
            loss = loss + sum(one.pow(2).sum() for one in net.parameters())
        loss.backward()

    assert ("weights" in facts(train)) is decay


@pytest.mark.parametrize("length", [10, 32])
def test_padding_is_told(length: int) -> None:
    embed = nn.Embedding(50, 8)

    def train() -> None:
        tokens = torch.zeros(4, 32, dtype=torch.long)
        for at, last in enumerate((length // 3, length, length // 2, length // 2)):
            tokens[at, :last] = torch.randint(1, 50, (last,))
        embed(tokens).exp().sum().backward()

    assert ("padded" in facts(train)) is (length < 32)


@pytest.mark.parametrize("zeros", [0.5, 0.99])
def test_a_factor_that_is_mostly_zeros_is_told(zeros: float) -> None:
    graph = (torch.rand(128, 128) > zeros).float()
    net = nn.Linear(8, 8)

    def train() -> None:
        (graph @ net(torch.randn(128, 8))).sum().backward()

    assert ("zeros" in facts(train)) is (zeros > 0.9)


def test_a_device_is_never_waited_for() -> None:
    """A tensor of the device ``meta`` has no values: reading one would raise, as under a CUDA graph."""
    batch = torch.empty(WIDE, WIDE, device="meta")
    targets = torch.empty(WIDE, dtype=torch.long, device="meta")
    told = facts(lambda: [nn.functional.cross_entropy(batch.exp(), targets) for _ in range(2)])
    assert "again" in told


def test_a_part_of_a_tensor_is_not_read(monkeypatch) -> None:
    """Reading the values of a distributed tensor would wait for the other ranks."""

    class Shard(torch.Tensor):
        pass

    read: list[type] = []
    monkeypatch.setattr(followed, "_facts_of", lambda tensor: read.append(type(tensor)) or [])
    batch, shard = torch.zeros(4, 32), torch.zeros(4, 32).as_subclass(Shard)
    facts(lambda: (batch * 2, shard * 2))
    assert set(read) == {torch.Tensor}


def test_a_whole_data_set_is_not_read(monkeypatch) -> None:
    """It may hold billions of numbers; the step takes a batch of it."""
    read: list[int] = []
    monkeypatch.setattr(followed, "_MOST_NUMBERS", 1000)
    monkeypatch.setattr(followed, "_facts_of", lambda tensor: read.append(tensor.numel()) or [])
    data = torch.zeros(100, 32)
    facts(lambda: data[:4] * 2)
    assert set(read) == {4 * 32}


def test_one_step_tells_nothing_and_the_program_sees_no_mode() -> None:
    batch = torch.randn(8, 8)
    assert facts(lambda: (batch.exp(), batch.exp()), steps=1) == {}
    depth = torch._C._len_torch_function_stack()
    values = Values()
    with pytest.raises(RuntimeError, match="shapes"), values.step():
        batch @ torch.randn(3, 3)
    assert torch._C._len_torch_function_stack() == depth


def test_a_mode_of_the_program_stays_where_it_is() -> None:
    values = Values()
    device = torch.device("meta")
    context = values.step()
    context.__enter__()
    device.__enter__()
    context.__exit__(None, None, None)
    assert torch.empty(2).device.type == "meta"
    device.__exit__(None, None, None)
    assert torch._C._len_torch_function_stack() == 0


PROGRAM = """
import sys, torch, stepscope as ss
torch.set_num_threads(1)
net, data = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 8)), torch.randn(4096, 64)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
with ss.Run(sys.argv[1], hooks=[ss.ProfilerHook(save_steps=12, analyse=False)]) as run:
    for step in run.steps(range(12)):
        chosen = data[torch.randperm(4096)[:1024]]
        optimizer.zero_grad()
        loss = net(chosen).square().mean()
        if sys.argv[2] == "twice":
            with torch.no_grad():
                hits = net(chosen).argmax(1)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize("way", ["twice", "once"])
def test_a_capture_lets_advice_name_both_lines(tmp_path: Path, way: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(PROGRAM)
    subprocess.run([sys.executable, script, tmp_path / "run", way], check=True, capture_output=True)
    (profile,) = (tmp_path / "run").rglob("*.pt.trace.json.gz")
    trace = load_trace(profile)
    assert list(trace.steps.number) == [5, 6, 7]
    found = [one for one in advise(Facts(trace)).findings if one.rule == "called-again"]
    assert len(found) == (way == "twice")
    for one in found:
        assert one.place["line"] == 13
        assert one.evidence["other"].endswith("train.py:10 <module>")


@pytest.mark.parametrize("fused", [False, True])
def test_a_step_may_end_within_the_hooks_of_an_optimizer(fused) -> None:
    """As under ``stepscope run``: PyTorch goes through its hooks meanwhile, and they must not change."""
    net, batch = model(), torch.randn(8, 8)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, fused=fused)
    values = Values()
    opened = []

    def boundary(*_: object) -> None:
        while opened:
            opened.pop().__exit__(None, None, None)
        if len(values._steps) < 2:
            opened.append(values.step())
            opened[0].__enter__()

    handles = [
        register_optimizer_step_post_hook(boundary),
        register_optimizer_step_post_hook(lambda *_: None),
    ]
    try:
        for _ in range(4):
            net(batch).sum().backward()
            net(batch).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    finally:
        for handle in handles:
            handle.remove()
    assert values.calls
    assert {one.kind for one in values.facts()} == {"again"}


def test_weights_that_a_function_of_others_updates_are_new() -> None:
    """A kernel of its own writes to memory; no version tells."""

    class Foreign(torch.optim.SGD):
        def step(self, closure=None):
            for group in self.param_groups:
                for one in group["params"]:
                    one.detach().numpy()[:] += 1.0

    net, batch = model(), torch.randn(8, 8)
    optimizer = Foreign(net.parameters(), lr=0.1)

    def train() -> None:
        with torch.no_grad():
            net(batch)
        optimizer.step()

    assert "before" not in facts(train)


def test_a_step_that_computes_nothing_new_is_there_to_be_measured() -> None:
    net, data = model(), torch.randn(16, 8)

    def infer(fresh: bool) -> None:
        with torch.no_grad():
            net(data).sum().item()
            if fresh:
                torch.randn(4, 4).exp().sum().item()

    assert facts(lambda: infer(False)) == {}
    assert "before" in facts(lambda: infer(True))


def test_a_step_of_very_many_calls_is_not_followed_to_its_end(monkeypatch) -> None:
    monkeypatch.setattr(followed, "_MOST_CALLS", 10)
    batch, values = torch.randn(8, 8), Values()
    for calls in (9, 12, 2):
        with values.step():
            for _ in range(calls):
                batch.exp()
    assert values.facts() == []
    assert (values.calls, values.stopped) == (0, "a step makes more than 10 calls of PyTorch")


def test_no_more_numbers_are_read_in_a_step_than_take_a_moment(monkeypatch) -> None:
    read: list[int] = []
    monkeypatch.setattr(followed, "_MOST_NUMBERS", 64)
    monkeypatch.setattr(followed, "_facts_of", lambda tensor: read.append(tensor.numel()) or [])
    facts(lambda: [torch.full((4, 16), float(n)) for n in range(9)])
    assert read == [64] * 4


@pytest.mark.parametrize("way", ["index", "part", "in place"])
def test_memory_that_is_written_to_is_needed_each_time(way: str) -> None:
    def train() -> None:
        for _ in range(3):
            row = torch.zeros(4, 64)
            if way == "index":
                row[torch.randint(4, (64,)), torch.arange(64)] = 1.0
            elif way == "part":
                row[1:3].add_(torch.randn(2, 64))
            else:
                row.normal_()
            row.sum().item()

    assert "zeros" not in facts(train).get("again", [])


def test_padding_is_told_where_the_batch_is_made() -> None:
    table, values = nn.Embedding(50, 8), Values()

    def collate() -> torch.Tensor:
        batch = torch.zeros(4, 64, dtype=torch.long)  # here
        for row in batch:
            row[:9] = torch.randint(1, 50, (9,))
        return batch

    for _ in range(2):
        with values.step():
            table(collate()).sum().backward()
    [line] = {one.line for one in values.facts() if one.kind == "padded"}
    marked = [n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "  # here" in text]
    assert f"({marked[0]}): collate" in line


@pytest.mark.parametrize("keeps", [True, False])
def test_what_is_kept_until_the_end_of_a_step_may_be_used_in_others(keeps: bool) -> None:
    net, kept = model(), {}

    def train() -> None:
        out = net(torch.randn(16, 8))
        share = (out.detach().abs() > 0.9).float().mean()
        if keeps:
            kept["share"] = share
        out.mean().backward()

    told = facts(train)
    assert ("kept" in told, "unused" in told) == (keeps, not keeps)


@pytest.mark.parametrize(("asks", "uses"), [(True, False), (True, True), (False, False)])
def test_a_result_that_is_asked_for_and_not_used_is_told(asks: bool, uses: bool) -> None:
    attention = nn.MultiheadAttention(8, 2)

    def train() -> None:
        x = torch.randn(5, 2, 8)
        out, weights = attention(x, x, x, need_weights=asks)
        (out.mean() + (weights.square().mean() if uses else 0)).backward()

    told = facts(train)
    assert told.get("asked", []) == ["multi_head_attention_forward, need_weights=True"] * (asks and not uses)


@pytest.mark.parametrize(
    ("way", "told"), [("columns", True), ("rows", False), ("narrow", False), ("copied", False)]
)
def test_rows_of_what_lies_by_columns_are_told(way: str, told: bool) -> None:
    table = torch.randn(64, 500).T if way != "rows" else torch.randn(500, 64)
    table = table[:, :1] if way == "narrow" else table

    def train() -> None:
        chosen = torch.randint(500, (32,))
        some = table.contiguous() if way == "copied" else table
        (some[chosen] * 2).sum().item()
        table[3:9].sum().item()

    assert ("scattered" in facts(train)) is told
