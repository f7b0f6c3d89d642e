import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from support.records import numbers
from support.waiting import until
from torch import nn

import stepscope as ss
from stepscope.errors import RecordError
from stepscope.integrations.torch import norms, watch
from stepscope.integrations.torch.gradients import Gradients


def hook(**options):
    return ss.GradientHook(**{"every_n_steps": 1, "max_overhead": None, **options})


def norm(parameters):
    return float(
        torch.cat([each.grad.double().reshape(-1) for each in parameters if each.grad is not None]).norm()
    )


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def train(run, model, optimizer, steps=4, *, clip=None, before=None):
    norms = []
    for _ in run.steps(range(steps)):
        optimizer.zero_grad()
        model(torch.ones(3, 4)).pow(2).sum().backward()
        norms.append(norm(model.parameters()))
        if clip is not None:
            clip(model.parameters())
        if before is not None:
            before()
        optimizer.step()
    return norms


@pytest.mark.parametrize(
    "clip",
    ["imported", "later", "parts", "value", "some values", "value and norm", "norm and value", "none"],
)
def test_norms_before_and_after_clipping(tmp_path, clip):
    from torch.nn.utils import clip_grad_norm_ as early
    from torch.nn.utils import clip_grad_value_ as cut

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    clips = {
        "imported": lambda parameters: early(parameters, 0.5),
        "later": lambda parameters: nn.utils.clip_grad_norm_(list(parameters), 0.5),
        "parts": lambda parameters: [
            early(list(model[0].parameters()), 0.3),
            early(model[2].parameters(), 0.4),
        ],
        "value": lambda parameters: cut(parameters, 0.1),
        "some values": lambda parameters: nn.utils.clip_grad_value_(model[0].weight, 0.01),
        "value and norm": lambda parameters: (cut(model.parameters(), 0.1), early(model.parameters(), 0.2)),
        "norm and value": lambda parameters: (early(model.parameters(), 0.5), cut(model.parameters(), 0.1)),
        "none": None,
    }
    after = []
    with ss.Run(tmp_path, hooks=[hook(every_n_steps=2, dense_steps=0)]) as run:
        watched = watch(model, optimizer, run)
        look = lambda: after.append(norm(model.parameters()))  # noqa: E731
        before = train(run, model, optimizer, clip=clips[clip], before=look)
        watched.remove()
        assert nn.utils.clip_grad.clip_grad_norm_ is early
    found = numbers(tmp_path)
    assert max(before) > max(after) or clip == "none"
    assert list(found["gradients/norm"].values()) == pytest.approx(before, rel=1e-5)
    assert ("gradients/clipped_norm" in found) == (clip != "none")
    if clip != "none":
        assert list(found["gradients/clipped_norm"].values()) == pytest.approx(after, rel=1e-5)
    assert set(found["gradients/nonfinite_count"].values()) == {0}
    assert sorted(found["gradients/0.weight/norm"]) == [0, 2]


def test_torchs_functions_are_their_own_again_when_nothing_is_watched(tmp_path):
    from torch.nn.utils import clip_grad

    original, grouping = clip_grad._clip_grads_with_norm_, clip_grad._group_tensors_by_device_and_dtype
    model = net()
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, torch.optim.SGD(model.parameters(), lr=0.01), run)
        assert clip_grad._clip_grads_with_norm_ is not original
        assert clip_grad._group_tensors_by_device_and_dtype is not grouping
        assert nn.utils.clip_grads_with_norm_ is clip_grad._clip_grads_with_norm_
    assert clip_grad._clip_grads_with_norm_ is original
    assert clip_grad._group_tensors_by_device_and_dtype is grouping
    assert nn.utils.clip_grads_with_norm_ is original


def test_updates_and_weights(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with ss.Run(tmp_path, hooks=[hook(histograms_every=0)]) as run:
        watch(model, optimizer, run)
        before = model[0].weight.detach().clone()
        train(run, model, optimizer, steps=1)
        change = (model[0].weight.detach() - before).double()
    found = numbers(tmp_path)
    assert found["updates/0.weight/norm"][0] == pytest.approx(float(change.norm()), rel=1e-6)
    assert found["weights/0.weight/norm"][0] == pytest.approx(float(before.norm()), rel=1e-6)
    ratio = float(change.norm() / before.double().norm())
    assert found["updates/0.weight/weight_ratio"][0] == pytest.approx(ratio, rel=1e-6)
    assert found["updates/norm"][0] == pytest.approx(0.5 * found["gradients/norm"][0], rel=1e-6)


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(10, 3, sparse=True)
        self.phase = nn.Parameter(torch.ones(3, dtype=torch.complex64))
        self.whole = nn.Parameter(torch.arange(3), requires_grad=False)
        self.none = nn.Parameter(torch.ones(2))
        self.empty = nn.Parameter(torch.ones(0, 3))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)
        self.narrow = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))

    def forward(self, index):
        out = self.table(index) * self.phase * self.narrow.float()
        return out.abs().sum() + self.empty.sum()


def test_parameters_of_every_kind(tmp_path):
    model = Odd()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path, hooks=[hook(histograms_every=1)]) as run:
        watch(model, optimizer, run)
        for _ in run.steps(range(2)):
            optimizer.zero_grad()
            model(torch.tensor([1, 1, 4])).backward()
            whole = [
                each.grad.to_dense() if each.grad.is_sparse else each.grad
                for each in model.parameters()
                if each.grad is not None
            ]
            expected = float(np.sqrt(sum(float(each.abs().double().pow(2).sum()) for each in whole)))
            rows = model.table.weight.grad.to_dense().double()
            optimizer.step()
    found = numbers(tmp_path)
    assert run.problems == {}
    assert found["gradients/norm"][1] == pytest.approx(expected, rel=1e-6)
    assert found["gradients/table.weight/zero_ratio"][1] == pytest.approx(0.8)
    assert found["gradients/table.weight/mean"][1] == pytest.approx(float(rows.mean()), rel=1e-5)
    assert found["gradients/phase/norm"][1] > 0
    for name in ("whole", "none", "empty", "frozen"):
        assert f"gradients/{name}/norm" not in found  # not recorded is not zero
    assert "weights/frozen/norm" in found
    assert "weights/whole/norm" not in found


def test_what_is_not_finite_is_counted_in_every_step(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def spoil():
        model[0].weight.grad[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")])

    with ss.Run(tmp_path, hooks=[hook(every_n_steps=100, dense_steps=0)]) as run:
        watch(model, optimizer, run)
        train(run, model, optimizer, steps=2, before=spoil)
    found = numbers(tmp_path)
    assert found["gradients/nonfinite_count"] == {0: 3, 1: 43}  # the weights are spoilt, too
    assert np.isnan(found["gradients/norm"][0])
    assert found["gradients/0.weight/nonfinite_count"] == {0: 3}


def test_the_step_in_which_a_gradient_first_is_not_finite_is_known_within_the_default_budget(tmp_path):
    model = net()
    with ss.Run(tmp_path, hooks=[ss.GradientHook(1)]) as run:
        optimizer = torch.optim.Adam(model.parameters())
        watch(model, optimizer, run)
        for step in run.steps(range(400)):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).pow(2).sum().backward()
            if step == 333:
                model[2].weight.grad[0, 0] = torch.nan
            optimizer.step()
    counts = numbers(tmp_path)["gradients/nonfinite_count"]
    assert list(counts) == list(range(400))
    assert next(step for step, count in counts.items() if count) == 333


@pytest.mark.parametrize(
    ("distance", "steps"),
    [
        pytest.param(1, list(range(60)), id="within the budget"),
        pytest.param(
            7, [0, 2, 6, 13, 20, 27, 34, 41, 48, 50, 54], id="in every seventh step, and in samples"
        ),
        pytest.param(1000, [0, 2, 6, 14, 30, 50], id="a rest at most doubles, and ends with a sample"),
    ],
)
@pytest.mark.parametrize("clip", [None, lambda parameters: nn.utils.clip_grad_norm_(parameters, 1e-3)])
def test_norms_within_the_budget_are_those_of_some_steps(tmp_path, monkeypatch, distance, steps, clip):
    monkeypatch.setattr("stepscope.integrations.torch.pace.Pace.norm_distance", lambda pace, share: distance)
    seconds = []
    monkeypatch.setattr("stepscope.integrations.torch.pace.Pace.normed", lambda pace, s: seconds.append(s))
    model = net()
    with ss.Run(tmp_path, hooks=[ss.GradientHook(norm_every_step=None, dense_steps=0)]) as run:
        optimizer = torch.optim.SGD(model.parameters(), 0.01)
        watch(model, optimizer, run)
        expected = train(run, model, optimizer, 60, clip=clip)
    values = numbers(tmp_path)
    found = values["gradients/norm"]
    assert list(found) == steps
    assert list(found.values()) == pytest.approx([expected[step] for step in steps], rel=1e-5)
    assert list(values["gradients/0.weight/norm"]) == [0, 50]
    assert len(seconds) == len(steps) - 2  # whoever told the norm, its time counts
    assert min(seconds) > 0


def test_several_optimizers(tmp_path):
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    both = hook(histograms_every=0)
    first, second = (
        torch.optim.SGD(generator.parameters(), lr=0.1),
        torch.optim.Adam(critic.parameters(), lr=0.1),
    )
    with ss.Run(tmp_path, hooks=[both]) as run:
        watch(nn.ModuleDict({"g": generator, "c": critic}), {"generator": first, "critic": second}, run)
        for step in run.steps(range(3)):
            for _ in range(2):  # more than one step of the critic in one of the run: the first one counts
                second.zero_grad()
                critic(generator(torch.ones(1, 2)).detach()).sum().backward()
                second.step()
            if step != 1:
                first.zero_grad()
                critic(generator(torch.ones(1, 2))).sum().backward()
                first.step()
    found = numbers(tmp_path)
    assert sorted(found["gradients/critic/norm"]) == [0, 1, 2]
    assert sorted(found["gradients/generator/norm"]) == [0, 2]
    assert sorted(found["gradients/g.weight/norm"]) == [0, 2]
    assert sorted(found["gradients/c.weight/norm"]) == [0, 1, 2]
    assert run.problems == {}


def test_models_of_the_same_names_are_told_apart(tmp_path):
    class Critic(nn.Linear):
        pass

    one, two = nn.Linear(2, 2), Critic(2, 2)
    with ss.Run(tmp_path, hooks=[hook(histograms_every=0)]) as run:
        for model in (one, two):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            watch(model, optimizer, run)
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    found = numbers(tmp_path)
    assert {"gradients/weight/norm", "gradients/Critic.weight/norm"} <= found.keys()
    assert {"gradients/norm", "gradients/Critic/norm"} <= found.keys()


def test_an_optimizer_inside_backward(tmp_path):
    model = net()
    expected = []
    optimizers = {name: torch.optim.SGD([each], lr=0.1) for name, each in model.named_parameters()}
    by_parameter = {each: optimizers[name] for name, each in model.named_parameters()}
    seen = []

    def step(parameter):
        seen.append(parameter.grad.double().norm())
        by_parameter[parameter].step()
        by_parameter[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizers, run)
        for _ in run.steps(range(3)):
            seen.clear()
            model(torch.ones(3, 4)).sum().backward()
            expected.append(float(torch.stack(seen).norm()))
    found = numbers(tmp_path)
    assert list(found["gradients/norm"].values()) == pytest.approx(expected, rel=1e-6)
    assert sorted(found["gradients/0.bias/norm"]) == [0, 1, 2]
    assert sorted(found["updates/2.weight/norm"]) == [0, 1, 2]


def test_a_model_that_changes(tmp_path):
    model = nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path, hooks=[hook(histograms_every=0)]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(4)):
            if step == 2:
                model.append(nn.Linear(2, 2))
                optimizer.add_param_group({"params": model[2].parameters()})
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            if step == 3:
                model[1].weight.requires_grad_(False)
                model[1].weight.grad = None
            optimizer.step()
    found = numbers(tmp_path)
    assert run.problems == {}
    assert sorted(found["gradients/0.weight/norm"]) == [0, 1, 2, 3]
    assert sorted(found["gradients/1.weight/norm"]) == [0, 1, 2]
    assert sorted(found["gradients/2.weight/norm"]) == [2, 3]


def test_without_steps_the_optimizers_steps_are_counted(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path, hooks=[hook(every_n_steps=3, dense_steps=0)]) as run:
        watch(model, optimizer, run)
        for _ in range(5):
            model(torch.ones(3, 4)).sum().backward()
            optimizer.step()
    found = numbers(tmp_path)
    assert sorted(found["gradients/norm"]) == [0, 1, 2, 3, 4]
    assert sorted(found["gradients/0.weight/norm"]) == [0, 3]


def test_layers_statistics_and_turns(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    some = hook(
        layers=lambda name, parameter: parameter.ndim == 2, stats=["norm", "max"], of=["gradients"], rotate=2
    )
    with ss.Run(tmp_path, hooks=[some]) as run:
        watch(model, optimizer, run)
        expected = train(run, model, optimizer, steps=12)
    found = numbers(tmp_path)
    assert list(found["gradients/norm"].values()) == pytest.approx(expected, rel=1e-6)  # that of all layers
    tags = {
        tag for tag in found if tag.count("/") == 2 and tag.startswith(("gradients", "weights", "updates"))
    }
    assert tags == {f"gradients/{layer}.weight/{stat}" for layer in (0, 2) for stat in ("norm", "max")}
    turns = [sorted(found[f"gradients/{layer}.weight/norm"]) for layer in (0, 2)]
    assert sorted(turns[0] + turns[1]) == list(range(12))
    assert min(map(len, turns)) >= 4


def test_gradients_that_the_optimizer_unscales_itself(tmp_path):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    expected = []
    with ss.Run(tmp_path, hooks=[hook(histograms_every=1)]) as run:
        watch(model, optimizer, run, scaler=scaler)
        for _ in run.steps(range(2)):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(3, 4)).sum()).backward()
            expected.append(norm(model.parameters()) / scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
    assert list(numbers(tmp_path)["gradients/norm"].values()) == pytest.approx(expected, rel=1e-6)


def test_steps_that_a_scaler_skips_leave_nothing_behind(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run, scaler=scaler)
        for step in run.steps(range(4)):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(3, 4)).sum() * (float("inf") if step == 1 else 1)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            scaler.step(optimizer)
            scaler.update()
    found = numbers(tmp_path)
    assert sorted(found["gradients/norm"]) == [0, 2, 3]
    assert np.isfinite(list(found["gradients/norm"].values())).all()
    assert list(found["gradients/skipped_steps"].values())[-1] == 1


def test_a_failure_is_reported_and_training_goes_on(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    monkeypatch.setattr(Gradients, "_chosen", lambda self, number: 1 / 0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with ss.Run(tmp_path, hooks=[hook()]) as run:
            watch(model, optimizer, run)
            train(run, model, optimizer, steps=6)
    assert [str(each.message).split(";")[0] for each in said] == [
        "stepscope: gradient statistics: ZeroDivisionError: division by zero",
        "stepscope: gradient statistics are not measured since step 0: ZeroDivisionError: division by zero",
    ]
    assert run.problems["statistics"] == 3


def test_strict_mode_raises(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    monkeypatch.setattr(Gradients, "_chosen", lambda self, number: 1 / 0)
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        with pytest.raises(RecordError, match="ZeroDivisionError"):
            train(run, model, optimizer, steps=1)


def test_a_hook_that_is_never_given_a_model_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with (
        pytest.warns(RuntimeWarning, match="GradientHook had nothing to measure"),
        ss.Run(tmp_path, hooks=[hook()]) as run,
    ):
        for _ in run.steps(range(2)):
            pass


@pytest.mark.parametrize("kind", [1.0, float("inf")])
def test_the_norm_before_clipping_by_another_norm(tmp_path, kind):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    after = []
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        before = train(
            run,
            model,
            optimizer,
            clip=lambda every: torch.nn.utils.clip_grad_norm_(list(every), 0.01, norm_type=kind),
            before=lambda: after.append(norm(model.parameters())),
        )
    found = numbers(tmp_path)
    assert list(found["gradients/norm"].values()) == pytest.approx(before, rel=1e-5)
    assert list(found["gradients/clipped_norm"].values()) == pytest.approx(after, rel=1e-5)


@pytest.mark.parametrize("limits", [(0.5, 0.01), (0.01, 0.5)])
def test_clipping_twice_tells_the_norm_before_the_first(tmp_path, limits):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)

    def clip(every):
        every = list(every)
        for limit in limits:
            torch.nn.utils.clip_grad_norm_(every, limit)

    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        before = train(run, model, optimizer, clip=clip)
    found = numbers(tmp_path)
    assert list(found["gradients/norm"].values()) == pytest.approx(before, rel=1e-5)
    assert list(found["gradients/clipped_norm"].values()) == pytest.approx([0.01] * 4, rel=1e-3)


def test_a_parameter_that_no_optimizer_has_is_told(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.1)
    health = ss.HealthHook()
    with ss.Run(tmp_path, hooks=[health, hook()]) as run:
        watch(model, optimizer, run)
        train(run, model, optimizer, 6)
    found = numbers(tmp_path)
    assert {tag for tag in found if "left_out" in tag} == {
        "optimizer/left_out/2.weight",
        "optimizer/left_out/2.bias",
    }
    [finding] = [each for each in health.findings if each.rule == "unchanged-tensor"]
    assert (finding.layer, finding.also, finding.step, finding.severity) == (
        "2.weight",
        ("2.bias",),
        2,
        "medium",
    )
    assert "no watched optimizer has 2.weight" in finding.summary


def test_parameters_of_another_watched_optimizer_are_not_left_out(tmp_path):
    model = net()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    second = torch.optim.SGD(model[2].parameters(), lr=0.1)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, first, run)
        watch(model, second, run)
        train(run, model, first, 3)
    assert not [tag for tag in numbers(tmp_path) if "left_out" in tag]


def test_the_weights_of_frozen_parameters_are_measured_once(tmp_path):
    model = net()
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        train(run, model, optimizer)
    found = numbers(tmp_path)
    assert list(found["weights/0.weight/norm"]) == [0]
    assert list(found["weights/2.weight/norm"]) == [0, 1, 2, 3]


def test_ranks_own_gradients_are_looked_at_in_every_measured_step_of_the_run(tmp_path):
    from stepscope.integrations.torch.noise import OwnGradients

    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    taken = []

    class Counted(OwnGradients):
        def take(self, seen):
            taken.append(super().take(seen))
            return taken[-1]

    measures = hook(every_n_steps=5, dense_steps=0)
    with ss.Run(tmp_path, hooks=[measures]) as run:
        watch(model, optimizer, run)
        [part] = measures.parts
        part._own = Counted(list(model.parameters()))
        part.before_step(0)
        train(run, model, optimizer, 21)
    assert len([each for each in taken if each is not None]) == 5  # at 0, 5, 10, 15 and 20


@pytest.mark.parametrize("clip", [None, 1.0])
@pytest.mark.parametrize("threads", [False, True])
def test_the_layers_of_the_first_step_that_is_not_finite_are_told_within_the_default_budget(
    tmp_path, monkeypatch, clip, threads
):
    monkeypatch.setattr(norms, "WORTH_WAKING", 1 if threads else 1 << 18)
    monkeypatch.setattr(norms, "processors", lambda: 2)
    model = net()
    with ss.Run(tmp_path, hooks=[ss.GradientHook(100)]) as run:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        watch(model, optimizer, run)
        for step in run.steps(range(400)):
            optimizer.zero_grad()
            with torch.no_grad():  # what spoils a step spoils no further one
                for each in model.parameters():
                    each.fill_(0.1)
            model(torch.ones(3, 4)).pow(2).sum().backward()
            if step in (333, 334, 336):
                model[0].weight.grad[0, :2] = torch.inf
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
    found = numbers(tmp_path)
    assert {step for step, count in found["gradients/nonfinite_count"].items() if count} == {333, 334, 336}
    assert found["gradients/nonfinite_count"][333] == 2
    for name, _ in model.named_parameters():
        counts = found[f"gradients/{name}/nonfinite_count"]
        expected = 2 * (name == "0.weight")
        assert {step: counts.get(step) for step in (332, 333, 334, 335, 336, 337)} == {
            332: None, 333: expected, 334: None, 335: None, 336: expected, 337: None,
        }  # fmt: skip


def flushed(run):
    run.flush()
    return numbers(Path(run.log_dir))


@pytest.mark.parametrize("bad", [False, True])
def test_whether_what_went_in_was_finite_is_told_where_the_gradient_is_not(tmp_path, bad):
    model = net()
    with ss.Run(tmp_path, hooks=[ss.GradientHook(100), ss.ActivationHook(100)]) as run:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        watch(model, optimizer, run)
        for step in run.steps(range(120)):
            optimizer.zero_grad()
            inputs = torch.ones(3, 4)
            if step == 113:  # while the sample before waits on its thread, the inputs are gone meanwhile
                until(lambda: 100 in flushed(run).get("gradients/0.weight/norm", ()), "the sample before")
            if step == 113 and bad:
                inputs[1, 2] = torch.nan
            model(inputs).pow(2).sum().backward()
            if step == 113 and not bad:
                model[0].weight.grad[0, 0] = torch.inf
            optimizer.step()
    assert numbers(tmp_path)["activations/(input)/nonfinite_count"] == {113: 1 if bad else 0}
