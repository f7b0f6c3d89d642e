"""Stages of loops as people write them, against the times that the loops themselves take."""

import copy
import io

import pytest
import torch
from torch import nn

import stepscope as ss
from stepscope.integrations.torch import backward, watch
from stepscope.integrations.torch.stages import LEARNING, StageMarks
from stepscope.kernels.steps import Stages, Steps
from stepscope.record.problems import Problems
from stepscope.record.steps import Stage

STEPS = 8


class Clock:
    """Goes on when something works, and notes for what."""

    def __init__(self):
        self.now = 0.0
        self.by_hand = dict.fromkeys(("forward", "backward", "optimizer"), 0.0)

    def __call__(self):
        return self.now

    def work(self, stage, seconds):
        self.now += seconds
        if stage in self.by_hand:
            self.by_hand[stage] += seconds


class Slow(torch.autograd.Function):
    """Takes as long forwards, and three times as long backwards."""

    @staticmethod
    def forward(ctx, x, clock, seconds):
        ctx.clock, ctx.seconds = clock, seconds
        # An evaluation or a rollout is not the forward pass of a step.
        clock.work("forward" if x.requires_grad or torch.is_grad_enabled() else "", seconds)
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.clock.work("backward", 3 * ctx.seconds)
        return gradient, None, None


class Layer(nn.Linear):
    """A layer whose work takes time."""

    def __init__(self, clock, inputs, outputs, seconds):
        super().__init__(inputs, outputs)
        self.clock, self.seconds = clock, seconds

    def forward(self, x):
        return Slow.apply(super().forward(x), self.clock, self.seconds)


class Optimizer(torch.optim.SGD):
    """An optimizer whose work takes time."""

    def __init__(self, clock, *parameters):
        super().__init__([each for group in parameters for each in group], lr=1e-3)
        self.clock = clock

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self.clock.work("optimizer", 2.0)
        super().step()
        return loss


@pytest.fixture
def clock():
    torch.manual_seed(0)
    return Clock()


def loss_of(clock, x, seconds=0.5):
    """A loss that takes time, too."""
    return Slow.apply(x.square().mean(), clock, seconds)


def vae(clock):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.decoder = Layer(clock, 4, 4, 5.0), Layer(clock, 2, 4, 4.0)

        def loss(self, x):
            mean, spread = self.encoder(x).chunk(2, 1)
            return loss_of(clock, self.decoder(mean + spread.exp() * torch.randn_like(mean)) - x)

    model = Model()
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        optimizer.zero_grad()
        model.loss(x).backward()
        optimizer.step()

    return model, [optimizer], step


def gan(clock):
    model = nn.ModuleDict({"g": Layer(clock, 2, 4, 3.0), "d": Layer(clock, 4, 1, 2.0)})
    one, two = Optimizer(clock, model["d"].parameters()), Optimizer(clock, model["g"].parameters())

    def step(x):
        fake = model["g"](torch.randn(len(x), 2))
        one.zero_grad()
        loss_of(clock, model["d"](x) - model["d"](fake.detach())).backward()
        one.step()
        two.zero_grad()
        loss_of(clock, model["d"](fake)).backward()
        two.step()

    return model, [one, two], step


def actor_critic(clock):
    model = nn.ModuleDict(
        {"body": Layer(clock, 4, 4, 1.0), "actor": Layer(clock, 4, 2, 1.0), "critic": Layer(clock, 4, 1, 1.0)}
    )
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        with torch.no_grad():  # a rollout: not known
            for _ in range(3):
                model["actor"](model["body"](x))
                clock.now += 2.0
        hidden = model["body"](x)
        loss = loss_of(clock, model["actor"](hidden)) + loss_of(clock, model["critic"](hidden))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        clock.work("backward", 1.0)  # up to the optimizer
        optimizer.step()

    return model, [optimizer], step


def diffusion(clock):
    model = nn.Sequential(Layer(clock, 4, 8, 2.0), nn.SiLU(), Layer(clock, 8, 4, 2.0))
    averaged = copy.deepcopy(model)
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        noise = torch.randn_like(x)
        optimizer.zero_grad()
        loss_of(clock, model(x + noise) - noise).backward()
        optimizer.step()
        for one, other in zip(averaged.parameters(), model.parameters(), strict=True):
            one.data.lerp_(other.data, 0.1)
        clock.now += 1.0  # the average: not known

    return model, [optimizer], step


def contrastive(clock):
    model = nn.ModuleDict({"image": Layer(clock, 4, 4, 3.0), "text": Layer(clock, 4, 4, 2.0)})
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        optimizer.zero_grad()
        # The loss compares everything with everything: it takes longer than the model.
        loss_of(clock, model["image"](x) @ model["text"](x).T, 20.0).backward()
        optimizer.step()

    return model, [optimizer], step


def transducer(clock):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder, self.predictor = Layer(clock, 4, 4, 2.0), Layer(clock, 4, 4, 1.0)
            self.joiner = Layer(clock, 4, 2, 1.0)

        def forward(self, x):
            raise AssertionError("nobody calls the model")

    model = Model()
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        frames = model.encoder(x)
        state, losses = torch.zeros(len(x), 4), []
        for _ in range(3):
            state = model.predictor(state)
            losses.append(loss_of(clock, model.joiner(frames + state)))
        optimizer.zero_grad()
        sum(losses).backward()
        optimizer.step()

    return model, [optimizer], step


def experts(clock):
    model = nn.ModuleDict(
        {
            "gate": Layer(clock, 4, 2, 1.0),
            "experts": nn.ModuleList([Layer(clock, 4, 4, 2.0), Layer(clock, 4, 4, 3.0)]),
        }
    )
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        parts = x.split(2)
        optimizer.zero_grad()
        for part in parts:  # accumulates
            weights = model["gate"](part).softmax(1)
            outs = torch.stack([each(part) for each in model["experts"]], 2)
            loss_of(clock, (outs * weights[:, None]).sum(2)).backward()
        optimizer.step()

    return model, [optimizer], step


def closure(clock):
    """As Lightning trains: everything happens in the optimizer's step."""
    model = nn.ModuleDict({"net": Layer(clock, 4, 4, 3.0)})
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        def again():
            optimizer.zero_grad()
            loss = loss_of(clock, model["net"](x))
            loss.backward()
            return loss

        optimizer.step(again)

    return model, [optimizer], step


def penalty(clock):
    """A gradient penalty: gradients within the forward pass, and a second backward pass."""
    model = nn.ModuleDict({"d": Layer(clock, 4, 1, 2.0)})
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        x = x.clone().requires_grad_()
        (slope,) = torch.autograd.grad(model["d"](x).sum(), x)
        optimizer.zero_grad()
        loss_of(clock, model["d"](x) - 1 + slope.norm()).backward()
        optimizer.step()

    return model, [optimizer], step


def functional(clock):
    """A model that calls no module."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 4))

        def loss(self, x):
            return loss_of(clock, x @ self.weight, 4.0)

    model = Model()
    optimizer = Optimizer(clock, model.parameters())

    def step(x):
        optimizer.zero_grad()
        model.loss(x).backward()
        optimizer.step()

    return model, [optimizer], step


LOOPS = [vae, gan, actor_critic, diffusion, contrastive, transducer, experts, closure, penalty, functional]


def train(clock, model, optimizers, step):
    counter = Steps(0, clock)
    counter.stages = stages = Stages(clock)
    stages.keep = True
    marks = StageMarks(counter, model, optimizers, None, Problems())

    def data():
        for _ in range(STEPS):
            clock.now += 1.0
            yield torch.randn(4, 4)

    for batch in counter.loop(None, data(), STEPS):
        step(batch)
    marks.remove()
    return counter


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_the_stages_of_a_loop_are_those_that_it_measures_itself(clock, loop):
    counter = train(clock, *loop(clock))
    stages = counter.stages
    rows = [spent for _, spent in stages.take()]
    assert len(rows) == STEPS
    assert len(set(rows)) == 1, "the first steps as the last: what is learned changes nothing"
    taken = {name: STEPS * rows[0][stages.names.index(name)] for name in clock.by_hand}
    assert taken == pytest.approx(clock.by_hand)
    assert [stages.names[number] for number in stages.order] == [*clock.by_hand], "in the order of the loop"
    whole = sum(seconds - waited for _, seconds, waited in counter.since(0))
    assert sum(map(sum, rows)) == pytest.approx(whole)


def test_hooks_stay_only_where_the_model_is_entered_and_none_after_removal(clock):
    model, optimizers, step = diffusion(clock)
    counter = Steps(0, clock)
    counter.stages = Stages(clock)
    marks = StageMarks(counter, model, optimizers, None, Problems())
    original = torch.autograd.backward
    for batch in counter.loop(None, iter(torch.randn(LEARNING, 4, 4)), LEARNING):
        assert model[0]._forward_pre_hooks
        step(batch)
    assert model._forward_pre_hooks
    assert not model[0]._forward_pre_hooks
    marks.remove()
    assert not any(each._forward_pre_hooks or each._forward_hooks for each in model.modules())
    assert torch.autograd.backward is not original
    assert counter.stages.marker is None


def test_a_part_that_is_used_later_is_learned(clock):
    model = nn.ModuleDict({"one": Layer(clock, 4, 4, 3.0), "two": Layer(clock, 4, 4, 5.0)})
    optimizer = Optimizer(clock, model.parameters())
    at = iter(range(2 * STEPS))

    def step(x):
        clock.now += 7.0  # preparation: not known, once the part is
        name = "one" if next(at) < 5 else "two"
        loss_of(clock, model[name](x)).backward()
        optimizer.step()

    stages = train(clock, model, [optimizer], step).stages
    number = stages.names.index("forward")
    forward = [spent[number] for _, spent in stages.take()]
    assert forward == [3.5] * 5 + [12.5] + [5.5] * 2


def test_an_accelerator_has_to_be_given_the_data(clock):
    model, optimizers, step = diffusion(clock)
    counter = Steps(0, clock)
    counter.stages = stages = Stages(clock)
    stages.keep = True
    marks = StageMarks(counter, model, optimizers, None, Problems())
    marks.copies = True  # as of a model whose parameters are on one
    for batch in counter.loop(None, iter(torch.randn(2, 4, 4)), 2):
        clock.now += 3.0
        step(batch)
    with counter.step():  # nobody knows when its data arrived
        clock.now += 3.0
        step(torch.randn(4, 4))
    copies = [spent[stages.names.index("copy")] for _, spent in stages.take()]
    assert copies == [3.0, 3.0, 0.0]


def test_a_block_of_the_users_own_is_not_interrupted(clock):
    model, optimizers, step = diffusion(clock)
    counter = Steps(0, clock)
    counter.stages = stages = Stages(clock)
    stages.keep = True
    marks = StageMarks(counter, model, optimizers, None, Problems())
    for batch in counter.loop(None, iter(torch.randn(2, 4, 4)), 2):
        with Stage(stages, "rollout"):
            model(batch)
        step(batch)
    marks.remove()
    assert {spent[stages.names.index("rollout")] for _, spent in stages.take()} == {4.0}


def test_an_optimizer_that_raises_does_not_spoil_later_steps(clock):
    model, optimizers, step = closure(clock)
    counter = Steps(0, clock)
    counter.stages = stages = Stages(clock)
    stages.keep = True
    marks = StageMarks(counter, model, optimizers, None, Problems())

    def raises():
        model["net"](torch.randn(4, 4))
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), counter.step():
        optimizers[0].step(raises)
    list(map(step, counter.loop(None, iter(torch.randn(2, 4, 4)), 2)))
    marks.remove()
    assert {spent[stages.names.index("optimizer")] for _, spent in stages.take()} == {2.0}


def test_a_watched_model_can_be_copied_and_saved_and_its_copy_marks_nothing(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    hooks = [ss.ActivationHook(every_n_steps=1, max_overhead=None), ss.GradientHook(every_n_steps=1)]
    with ss.Run(tmp_path, hooks=hooks) as run:
        watch(model, torch.optim.SGD(model.parameters(), lr=0.1), run, loss=nn.MSELoss())
        for _ in run.steps(range(1)):
            copied = copy.deepcopy(model)
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            loaded = torch.load(file, weights_only=False)
        for other in (copied, loaded):
            assert torch.equal(other(torch.ones(1, 4)), model(torch.ones(1, 4)))
    assert b"stepscope" not in file.getvalue()


@pytest.mark.filterwarnings("ignore")
def test_a_function_that_is_compiled_as_a_whole_is_compiled_as_without_hooks(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    compute = torch.compile(lambda x: model(x).square().mean(), backend="eager", fullgraph=True)
    with ss.Run(tmp_path, rank=0, world_size=1) as run:
        watch(model, optimizer, run)
        for batch in run.steps(torch.randn(3, 2, 4)):
            compute(batch).backward()
            optimizer.step()
        names = run.step_counter.stages.names
        order = [names[number] for number in run.step_counter.stages.order]
    assert order == ["compile", "forward", "backward", "optimizer"]


@pytest.mark.filterwarnings("ignore")
def test_a_backward_pass_in_a_compiled_step_is_heard(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    @torch.compile(backend="eager")
    def compute(batch):
        model(batch).square().mean().backward()

    with ss.Run(tmp_path, rank=0, world_size=1) as run:
        watch(model, optimizer, run)
        for batch in run.steps(torch.randn(3, 2, 4)):
            compute(batch)
            optimizer.step()
        names = run.step_counter.stages.names
        order = [names[number] for number in run.step_counter.stages.order]
    assert order == ["compile", "forward", "backward", "optimizer"]


def test_listeners_hear_of_backward_passes_until_they_go():
    class Listener:
        heard = 0

        def backward_begins(self, outputs):
            self.heard += 1

        def backward_ended(self):
            self.heard += 10

    listener, original = Listener(), torch.autograd.backward
    backward.listen(listener)
    x = torch.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    torch.autograd.grad((x * 2).sum(), x)
    with pytest.raises(RuntimeError):
        torch.ones(1).backward()
    assert listener.heard == 33
    backward.ignore(listener)
    (x * 2).sum().backward()
    assert listener.heard == 33
    assert torch.autograd.backward in (original, getattr(original, "__wrapped__", original))
