import math

import pytest
import torch
from support.records import numbers
from torch import nn
from torch.optim.optimizer import _global_optimizer_pre_hooks

import stepscope as ss
from stepscope.integrations.torch import watch


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))


def hook(**options):
    return ss.GradientHook(**{"every_n_steps": 1, "max_overhead": None, "histograms_every": 0, **options})


def loss_of(model, step):
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(step))
    return model(x).pow(2).sum()


def norm(parameters):
    gradients = [each.grad.double().square().sum() for each in parameters if each.grad is not None]
    return math.sqrt(float(sum(gradients)))


def parameters_of(optimizer):
    return [each for group in optimizer.param_groups for each in group["params"]]


class Closure:
    """Computes gradients, and writes down what they are and the weights at which."""

    def __init__(self, model, step, clip=None):
        self.model, self.step, self.clip = model, step, clip
        self.norms, self.weights, self.layers = [], [], []

    def __call__(self):
        self.model.zero_grad()
        loss = loss_of(self.model, self.step)
        loss.backward()
        self.norms.append(norm(self.model.parameters()))
        self.layers.append(float(self.model[0].weight.grad.double().norm()))
        self.weights.append(torch.cat([each.detach().flatten() for each in self.model.parameters()]).clone())
        if self.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return loss


class Sam(torch.optim.Optimizer):
    """Sharpness-aware minimisation as it is usually written, on top of another optimizer."""

    def __init__(self, parameters, base, rho=0.05, **options):
        super().__init__(parameters, {"rho": rho, **options})
        self.base_optimizer = base(self.param_groups, **options)
        self.param_groups = self.base_optimizer.param_groups

    @torch.no_grad()
    def first_step(self):
        scale = 0.05 / (norm(parameters_of(self)) + 1e-12)
        for parameter in parameters_of(self):
            self.state[parameter]["old"] = parameter.data.clone()
            parameter.add_(parameter.grad * scale)
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for parameter in parameters_of(self):
            parameter.data = self.state[parameter]["old"]
        self.base_optimizer.step()

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        self.first_step()
        closure()
        self.second_step()


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("budget", [None, 1e-9])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_gradients_that_a_closure_computes_are_those_of_its_own_step(tmp_path, counted, budget, clip):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    wanted, layers, updates = [], [], []
    with ss.Run(tmp_path, hooks=[hook(max_overhead=budget)]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(8)) if counted else range(8):
            closure = Closure(model, step, clip)
            optimizer.step(closure) if step % 2 else optimizer.step(closure=closure)
            after = torch.cat([each.detach().flatten() for each in model.parameters()])
            wanted.append(closure.norms[0])
            layers.append(closure.layers[0] * (1 if clip is None else min(clip / closure.norms[0], 1)))
            updates.append(float((after.double() - closure.weights[0].double()).norm()))
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(dict(enumerate(wanted)), rel=1e-6)
    assert ("gradients/clipped_norm" in found) == (clip is not None)
    if budget is None:
        assert found["gradients/0.weight/norm"] == pytest.approx(dict(enumerate(layers)), rel=1e-5)
        assert found["updates/norm"] == pytest.approx(dict(enumerate(updates)), rel=1e-5)
    assert run.problems == {}


@pytest.mark.parametrize("evaluations", [1, 4])
def test_of_several_evaluations_the_gradients_that_were_used_last_count(tmp_path, evaluations):
    model = net()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.01, max_iter=evaluations)
    wanted, updates, layers = {}, {}, {}
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(4)):
            closure = Closure(model, step)
            optimizer.step(closure)
            assert len(closure.norms) == evaluations
            wanted[step], layers[step] = closure.norms[-1], closure.layers[-1]
            after = torch.cat([each.detach().flatten() for each in model.parameters()])
            updates[step] = float((after.double() - closure.weights[0].double()).norm())
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    assert found["gradients/0.weight/norm"] == pytest.approx(layers, rel=1e-6)
    assert found["updates/norm"] == pytest.approx(updates, rel=1e-5)


class LooksOnce(torch.optim.SGD):
    """Writes after the first evaluation and evaluates again, without using what it finds."""

    def step(self, closure):
        loss = super().step(closure)
        with torch.enable_grad():
            closure()
        return loss


@pytest.mark.parametrize("budget", [None, 1e-9])
def test_an_evaluation_after_the_last_write_does_not_count(tmp_path, budget):
    torch.optim.SGD(net().parameters(), lr=0.1)  # from then on PyTorch calls the hooks in that class, too
    model = net()
    optimizer = LooksOnce(model.parameters(), lr=0.05)
    wanted = {}
    with ss.Run(tmp_path, hooks=[hook(max_overhead=budget)]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(4)):
            closure = Closure(model, step)
            optimizer.step(closure)
            assert closure.norms[0] != closure.norms[1]
            wanted[step] = closure.norms[0]
    assert numbers(tmp_path)["gradients/norm"] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("by_closure", [True, False])
def test_the_second_gradient_of_sam_counts(tmp_path, by_closure):
    model = net()
    optimizer = Sam(model.parameters(), torch.optim.SGD, lr=0.05)
    wanted, updates = {}, {}
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(5)):
            optimizer.zero_grad()
            loss_of(model, step).backward()
            closure = Closure(model, step)
            before = torch.cat([each.detach().flatten() for each in model.parameters()])
            if by_closure:
                optimizer.step(closure)
            else:
                optimizer.first_step()
                closure()
                optimizer.second_step()
            wanted[step] = closure.norms[0]
            after = torch.cat([each.detach().flatten() for each in model.parameters()])
            updates[step] = float((after.double() - before.double()).norm())
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    if by_closure:
        assert found["updates/norm"] == pytest.approx(updates, rel=1e-4)
    assert [tag for tag in found if tag.startswith("gradients/0/")] == []


def test_a_step_that_its_closure_ends_by_an_exception_leaves_nothing_behind(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def fails():
        raise ValueError("no batch")

    wanted = {}
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(4)):
            if step == 1:
                with pytest.raises(ValueError, match="no batch"):
                    optimizer.step(fails)
                continue
            closure = Closure(model, step)
            optimizer.step(closure)
            wanted[step] = closure.norms[0]
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    assert list(found["updates/norm"]) == [0, 2, 3]


class Decays(torch.optim.SGD):
    """Adds something of its own to the step of the class that it extends."""

    def step(self, closure=None):
        loss = super().step(closure)
        with torch.no_grad():
            for parameter in parameters_of(self):
                parameter.mul_(0.9)
        return loss


@pytest.mark.parametrize("by_closure", [True, False])
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("budget", [None, 1e-9])
def test_an_optimizer_that_extends_another_is_measured_once_in_a_step(tmp_path, by_closure, counted, budget):
    torch.optim.SGD(net().parameters(), lr=0.1)  # from then on PyTorch calls the hooks in that class, too
    model = net()
    optimizer = Decays(model.parameters(), lr=0.05)
    wanted, updates = {}, {}
    with ss.Run(tmp_path, hooks=[hook(max_overhead=budget)]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(5)) if counted else range(5):
            closure = Closure(model, step)
            if by_closure:
                optimizer.step(closure)
            else:
                closure()
                optimizer.step()
            wanted[step] = closure.norms[0]
            after = torch.cat([each.detach().flatten() for each in model.parameters()])
            updates[step] = float((after.double() - closure.weights[0].double()).norm())
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    if budget is None:
        assert found["updates/norm"] == pytest.approx(updates, rel=1e-5)


class NeverAsks(torch.optim.SGD):
    """Takes a closure and does not call it."""

    def step(self, closure=None):
        return super().step()


def test_an_optimizer_that_does_not_call_its_closure(tmp_path):
    model = net()
    optimizer = NeverAsks(model.parameters(), lr=0.05)
    wanted = {}
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(3)):
            Closure(model, step)()
            wanted[step] = norm(model.parameters())
            optimizer.step(lambda: None)
    assert numbers(tmp_path)["gradients/norm"] == pytest.approx(wanted, rel=1e-6)


def unmeasured(directory):
    return ss.open(directory, cache=False).run(".").info.unmeasured


# --- what changes while it is watched -----------------------------------------------------------------


def train(run, model, optimizers, steps, change):
    """Train, by the last of the optimizers; return the norm over its parameters at each step."""
    wanted = {}
    for step in run.steps(range(steps)):
        change(step)
        model.zero_grad()
        loss_of(model, step).backward()
        wanted[step] = norm(parameters_of(optimizers[-1]))
        optimizers[-1].step()
    return wanted


@pytest.mark.parametrize("budget", [None, 1e-9])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_group_that_is_added_is_measured_from_its_first_step(tmp_path, budget, frozen):
    model = net()
    model[0].requires_grad_(not frozen)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)

    def change(step):
        if step == 30:
            model[0].requires_grad_(True)
            optimizer.add_param_group({"params": list(model[0].parameters()), "lr": 0.001})

    health = ss.HealthHook()
    with ss.Run(tmp_path, hooks=[hook(max_overhead=budget), health]) as run:
        watch(model, optimizer, run)
        wanted = train(run, model, [optimizer], 60, change)
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    assert min(found["gradients/0.weight/norm"]) == 30
    accused = [each for each in health.findings if each.rule == "unchanged-tensor"]
    assert [each.closed_step is not None for each in accused] == ([] if frozen else [True])
    assert run.problems == {}


def test_parameters_that_left_their_optimizer_are_named_with_the_step(tmp_path):
    model = net()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01)]

    def change(step):
        if step == 5:
            optimizers.append(torch.optim.Adam(model[2].parameters()))

    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizers[0], run)
        with pytest.warns(RuntimeWarning, match="gradients of 0 are not measured since step 5: no watched"):
            wanted = train(run, model, optimizers, 10, change)
    assert numbers(tmp_path)["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    stored = ss.open(tmp_path, cache=False).run(".")
    [problem] = [each for each in stored.problems if each.kind == "unmeasured"]
    assert problem.text.startswith("gradients of 0 are not measured since step 5: no watched optimizer has")


@pytest.mark.parametrize("closure", [True, False])
def test_an_optimizer_that_takes_the_place_of_another_is_measured(tmp_path, closure):
    model = net()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01)]
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watched = watch(model, optimizers[0], run)
        wanted = {}
        for step in run.steps(range(10)):
            if step == 5:
                optimizers.append(torch.optim.Adam(model.parameters(), lr=0.02))
            compute = Closure(model, step)
            if not closure:
                compute()
            optimizers[-1].step(*[compute] * closure)
            wanted[step] = compute.norms[0]
        assert watched.optimizers == {"": optimizers[1]}
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    assert found["optimizer/lr"] == pytest.approx(dict.fromkeys(range(5), 0.01))
    assert found["optimizer/Adam/lr"] == pytest.approx(dict.fromkeys(range(5, 10), 0.02))
    assert len(found["gradients/0.weight/norm"]) == len(found["updates/0.weight/norm"]) == 10
    assert run.config["optimizer"]["class"] == "Adam"


def test_optimizers_that_take_turns_on_the_same_parameters(tmp_path):
    model = net()
    pair = [torch.optim.SGD(model.parameters(), lr=0.01), torch.optim.Adam(model.parameters())]
    optimizers = [pair[0]]
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, pair[0], run)
        wanted = train(run, model, optimizers, 9, lambda step: optimizers.append(pair[step % 2]))
    assert numbers(tmp_path)["gradients/norm"] == pytest.approx(wanted, rel=1e-6)


def test_a_second_optimizer_on_other_parameters_of_the_model_is_measured_beside_the_first(tmp_path):
    model = net()
    pair = [torch.optim.SGD(model[0].parameters(), lr=0.01), torch.optim.Adam(model[2].parameters())]
    optimizers = [pair[0]]
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, pair[0], run)
        wanted = train(run, model, optimizers, 12, lambda step: optimizers.append(pair[step % 2]))
    found = numbers(tmp_path)
    even, odd = ({at: value for at, value in wanted.items() if at % 2 == rest} for rest in (0, 1))
    assert found["gradients/norm"] == pytest.approx(even, rel=1e-6)
    assert found["gradients/0/norm"] == pytest.approx(odd, rel=1e-6)
    assert list(found["gradients/2.weight/norm"]) == list(odd)


def test_an_optimizer_of_something_else_is_left_alone(tmp_path):
    model, other = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watched = watch(model, optimizer, run)
        loss_of(other, 0).backward()
        torch.optim.SGD(other.parameters(), lr=0.1).step()
        wanted = train(run, model, [optimizer], 3, lambda step: None)
        assert watched.optimizers == {"": optimizer}
    assert numbers(tmp_path)["gradients/norm"] == pytest.approx(wanted, rel=1e-6)


def test_adapters_come_and_go(tmp_path):
    model = net()
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01)]

    class Adapted(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base_layer = base.requires_grad_(False)
            self.lora_a = nn.Linear(8, 2, bias=False)

        def forward(self, x):
            return self.base_layer(x) + self.lora_a(x)

    def change(step):
        if step == 4:
            model.requires_grad_(False)
            model[2] = Adapted(model[2])
            optimizers.append(torch.optim.SGD(model[2].lora_a.parameters(), lr=0.1))
        if step == 8:
            model[2] = model[2].base_layer
            model.requires_grad_(True)
            optimizers.append(torch.optim.SGD(model.parameters(), lr=0.01))

    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizers[0], run)
        with pytest.warns(RuntimeWarning, match="are not measured since step"):
            wanted = train(run, model, optimizers, 12, change)
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(wanted, rel=1e-6)
    assert list(found["gradients/2.lora_a.weight/norm"]) == [4, 5, 6, 7]
    assert list(found["gradients/2.weight/norm"]) == [0, 1, 2, 3, 8, 9, 10, 11]


def test_nothing_stays_behind_in_torch(tmp_path):
    before = len(_global_optimizer_pre_hooks)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        for _ in range(2):
            model = net()
            watch(model, torch.optim.SGD(model.parameters(), lr=0.01), run)
        assert len(_global_optimizer_pre_hooks) == before + 1
    assert len(_global_optimizer_pre_hooks) == before


def test_an_optimizer_that_steps_no_more_is_named_with_the_step(tmp_path):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def by_hand():  # the step of something that is no optimizer of PyTorch
        with torch.no_grad():
            for each in model.parameters():
                each -= 0.01 * each.grad

    def loop(run):
        for step in run.steps(range(40)):
            model.zero_grad()
            loss_of(model, step).backward()
            optimizer.step() if step < 20 or step >= 35 else by_hand()

    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        with pytest.warns(RuntimeWarning, match="Sequential are not measured since step 20: its optimizer"):
            loop(run)
    [fact] = unmeasured(tmp_path)
    assert (fact.what, fact.since, fact.until) == ("gradients of Sequential", 20, 35)


@pytest.mark.parametrize("every", [1, 16, 64])
def test_a_loop_that_accumulates_is_not_silent(tmp_path, every):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(4 * every)):
            loss_of(model, step).backward()
            if (step + 1) % every == 0:
                optimizer.step()
                optimizer.zero_grad()
    assert unmeasured(tmp_path) == ()
    assert len(numbers(tmp_path)["gradients/norm"]) == 4


def test_an_optimizer_whose_parameters_have_no_gradients_says_so(tmp_path):
    model, trained = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loop(run):
        for step in run.steps(range(6)):
            loss_of(trained, step).backward()
            optimizer.step()

    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, optimizer, run)
        with pytest.warns(RuntimeWarning, match="since step 0: no parameter of its optimizer has a gradient"):
            loop(run)
    [fact] = unmeasured(tmp_path)
    assert (fact.since, fact.until) == (0, None)


def test_an_optimizer_that_never_steps_is_named_before_the_end(tmp_path):
    model = net()
    with ss.Run(tmp_path, hooks=[hook()]) as run:
        watch(model, torch.optim.SGD(model.parameters(), lr=0.01), run)
        with pytest.warns(RuntimeWarning, match="since step 0: its optimizer has not stepped;"):
            assert len(list(run.steps(range(20)))) == 20
    assert [fact.since for fact in unmeasured(tmp_path)] == [0]
