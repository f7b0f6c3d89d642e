"""Watching real models and optimizers."""

import pytest

import stepscope as ss
from stepscope.errors import UsageError

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from stepscope.integrations.torch import Watch, watch  # noqa: E402


@pytest.fixture
def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def train(model, optimizer, steps, *, backward=None, after=None):
    for _ in steps:
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean()
        (backward or torch.Tensor.backward)(loss)
        optimizer.step()
        if after is not None:
            after()


def points(run, tag):
    """Steps and values of a tag as the store reads them."""
    assert run.flush()
    series = ss.open(run.log_dir, cache=False).run(".").series(tag)
    return {step: round(value, 6) for step, value in zip(series["step"], series["value"], strict=True)}


def tags(run):
    assert run.flush()
    return [
        tag for tag in ss.open(run.log_dir, cache=False).run(".").tags() if tag.startswith(("opt", "grad"))
    ]


def test_each_step_of_the_optimizer_records_the_rate_it_used(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    watched = watch(model, optimizer, run)
    assert isinstance(watched, Watch)
    train(model, optimizer, run.steps(range(5)), after=schedule.step)
    assert points(run, "optimizer/lr") == {0: 0.1, 1: 0.1, 2: 0.01, 3: 0.01, 4: 0.001}
    watched.remove()
    watched.remove()
    train(model, optimizer, run.steps(range(2)))
    assert len(points(run, "optimizer/lr")) == 5
    assert not optimizer._optimizer_step_post_hooks


def test_the_rates_of_groups_are_told_apart_once_they_differ(model, run):
    groups = [
        {"params": model[0].parameters(), "name": "body"},
        {"params": model[2].parameters(), "lr": 0.1},
    ]
    optimizer = torch.optim.SGD(groups, lr=0.1)
    with watch(model, optimizer, run):
        train(model, optimizer, run.steps(range(2)))
        optimizer.param_groups[1]["lr"] = 0.5
        train(model, optimizer, run.steps(range(1)))
        optimizer.param_groups[1]["lr"] = 0.1
        train(model, optimizer, run.steps(range(1)))
    assert points(run, "optimizer/lr") == {0: 0.1, 1: 0.1}
    assert points(run, "optimizer/lr/body") == {2: 0.1, 3: 0.1}
    assert points(run, "optimizer/lr/1") == {2: 0.5, 3: 0.1}


def test_the_rates_of_another_kind_of_optimizer_have_a_series_of_their_own(model, run):
    """A rate of 1 is nothing unusual for L-BFGS after Adam's 0.001; one of the same kind goes on."""
    kinds = torch.optim.SGD, torch.optim.SGD, torch.optim.Adam
    with watch(model, torch.optim.SGD(model.parameters(), 0.1), run):
        for kind, rate in zip(kinds, (0.1, 0.2, 0.5), strict=True):
            train(model, kind(model.parameters(), rate), run.steps(range(2)))
    assert points(run, "optimizer/lr") == {0: 0.1, 1: 0.1, 2: 0.2, 3: 0.2}
    assert points(run, "optimizer/Adam/lr") == {4: 0.5, 5: 0.5}


def test_several_optimizers_have_names(model, run):
    one = torch.optim.SGD(model[0].parameters(), lr=0.1)
    two = torch.optim.Adam(model[2].parameters(), lr=0.2)
    with watch(model, {"generator": one, "critic": two}, run):
        for _ in run.steps(range(2)):
            one.step()
            two.step()
    assert points(run, "optimizer/generator/lr") == {0: 0.1, 1: 0.1}
    assert points(run, "optimizer/critic/lr") == {0: 0.2, 1: 0.2}
    assert run.config["optimizer"]["critic"]["class"] == "Adam"
    assert watch(None, [one, two], run).optimizers == {"0": one, "1": two}
    assert watch(None, [one], run).optimizers == {"": one}


def test_a_rate_that_is_a_tensor(model, run):
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.25))
    with watch(model, optimizer, run):
        train(model, optimizer, run.steps(range(2)))
    assert points(run, "optimizer/lr") == {0: 0.25, 1: 0.25}
    assert run.config["optimizer"]["groups"][0]["lr"] == 0.25


def test_the_configuration_says_what_is_trained(model, run):
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    run.describe({"seed": 1})
    watch(model, optimizer, run)
    assert run.config["seed"] == 1
    assert run.config["model"] == {
        "class": "Sequential", "parameters": 49, "trainable_parameters": 17, "parameter_bytes": 196,
        "dtypes": ["float32"], "devices": ["cpu"],
    }  # fmt: skip
    [group] = run.config["optimizer"]["groups"]
    assert (group["lr"], group["weight_decay"], group["parameters"]) == (0.1, 0.5, 49)


def test_shared_parameters_count_once_and_wrappers_are_named(run):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
            self.two.weight = self.one.weight

    watch(nn.DataParallel(Tied()), None, run)
    facts = run.config["model"]
    assert (facts["class"], facts["wrapped_by"]) == (Tied.__qualname__, ["DataParallel"])
    assert facts["parameters"] == 9
    assert "optimizer" not in run.config


def test_sizes_that_are_not_known_yet_are_left_out(run):
    watch(nn.Sequential(nn.LazyLinear(3)), None, run)
    assert "parameters" not in run.config["model"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # its own, when the compiler is imported
def test_a_compiled_model_is_named_by_its_own_class(model, run):
    watch(torch.compile(model), None, run)
    assert run.config["model"]["class"] == "Sequential"
    assert run.config["model"]["wrapped_by"] == ["torch.compile"]


def test_skipped_steps_of_a_scaler_are_counted(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=100)
    watched = watch(model, optimizer, run, scaler=scaler)
    for number in run.steps(range(4)):
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).mean() * (float("inf") if number in (1, 2) else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    assert points(run, "gradients/loss_scale") == {0: 8.0, 1: 4.0, 2: 2.0, 3: 2.0}
    assert list(points(run, "gradients/skipped_steps").values())[1:] == [1.0, 2.0, 2.0]
    assert points(run, "optimizer/lr") == {0: 0.1, 3: 0.1}
    watched.remove()
    for _ in run.steps(range(1)):
        pass
    assert 4 not in points(run, "gradients/loss_scale")


def test_a_scaler_that_is_off_records_nothing(model, run):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, optimizer, run, scaler=torch.amp.GradScaler("cpu", enabled=False))
    train(model, optimizer, run.steps(range(2)))
    assert tags(run) == ["optimizer/lr"]


def test_the_optimizer_inside_a_wrapper_is_watched(model, run):
    class Wrapper:
        def __init__(self, optimizer):
            self.optimizer = optimizer

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    assert watch(model, Wrapper(Wrapper(optimizer)), run).optimizers == {"": optimizer}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", None, "run"), "model must be a Module, got str"),
        ((None, "adam", "run"), "optimizer cannot be watched: expected a torch.optim.Optimizer, got str"),
        ((None, None, "run"), "run must be a Run, got str"),
    ],
)
def test_arguments_that_cannot_be_right(arguments, message, run):
    model, optimizer, where = arguments
    with pytest.raises(UsageError, match=message):
        watch(model, optimizer, where if "run must" in message else run)


def test_what_fails_at_a_step_never_reaches_the_training(model, run, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, optimizer, run)
    monkeypatch.setattr(run, "scalar", lambda *_: 1 / 0)
    with pytest.warns(RuntimeWarning, match="Rates.record raised ZeroDivisionError"):
        train(model, optimizer, range(2))
    assert run.problems == {"callback": 2}


def test_other_ranks_mark_stages_alone(model, tmp_path):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path / "run", rank=1, world_size=2) as run:
        watch(model, optimizer, run)
        assert len(optimizer._optimizer_step_post_hooks) == 1


def test_the_loss_is_recorded_at_every_step_as_the_mean_of_its_parts(model, run):
    criterion = nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = {}
    with watch(model, optimizer, run, loss=criterion):
        for step in run.steps(range(3)):
            optimizer.zero_grad()
            parts = [
                criterion(model(torch.full((2, 4), float(at))), torch.ones(2, 1)) for at in range(step + 1)
            ]
            sum(parts).backward()
            optimizer.step()
            expected[step] = round(sum(part.item() for part in parts) / len(parts), 6)
            with torch.no_grad():
                criterion(model(torch.ones(2, 4)), torch.ones(2, 1))  # of an evaluation
    assert points(run, "train/loss") == pytest.approx(expected)
    assert not criterion._forward_hooks


def test_the_loss_may_be_in_the_models_output_and_a_step_left_out_has_its_own(run):
    class Model(nn.Linear):
        def forward(self, x):
            return {"loss": super().forward(x).square().mean()}

    model = Model(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    losses = {}
    with watch(model, optimizer, run, loss="loss"):
        for step in run.steps(range(4)):
            loss = model(torch.full((1, 2), float(step)))["loss"]
            losses[step] = round(loss.item(), 6)
            if step != 1:
                optimizer.step()
    assert points(run, "train/loss") == pytest.approx(losses, abs=1e-5)
    with pytest.raises(UsageError, match="cannot be seen"):
        watch(None, optimizer, run, loss="loss")


def test_rates_end_with_the_run(tmp_path):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with ss.Run(tmp_path) as run:
        watch(model, optimizer, run)
    assert not optimizer._optimizer_step_post_hooks


def test_optimizers_by_parameter_have_the_names_of_the_parameters(tmp_path):
    model = torch.nn.Linear(2, 1)
    loose = torch.nn.Parameter(torch.ones(1))
    optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in [*model.parameters(), loose]}
    with ss.Run(tmp_path) as run:
        assert list(watch(model, optimizers, run).optimizers) == ["weight", "bias", "2"]
