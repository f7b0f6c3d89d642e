"""NanHook, told by the writer's thread, which the tests play."""

import math
import warnings

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import DivergedError, HaltError, UsageError
from stepscope.record.hooks.stopping import is_loss

NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("tag", "yes"),
    [
        ("loss", True), ("train/loss", True), ("train/Loss_G", True), ("eval/loss/mlm", True),
        ("d_loss", True),        ("glossy", False), ("lossless", False), ("train/accuracy", False),
    ],
)  # fmt: skip
def test_what_is_a_loss(tag, yes):
    assert is_loss(tag) is yes


@pytest.mark.parametrize(("value", "word"), [(NAN, "NaN"), (INF, "infinite"), (-INF, "minus infinite")])
def test_it_raises_at_the_next_boundary_naming_tag_and_step(fake, value, word):
    run, seen = fake(hooks=[ss.NanHook()]), []

    def train():
        for step in run.steps(range(10)):
            seen.append(step)
            run.scalar("train/loss", value if step == 2 else 1.0)
            if step == 4:
                run.turn()

    with pytest.raises(DivergedError, match=f"train/loss is {word} at step 2") as caught:
        train()
    assert seen == [0, 1, 2, 3, 4]
    assert isinstance(caught.value, ArithmeticError | HaltError)


def test_the_first_of_several_is_named(fake):
    run = fake(hooks=[ss.NanHook()])
    for step in range(6):
        run.scalar("loss", NAN if step in (3, 5) else 1.0, step)
    run.turn()
    assert run.stop_reason == "loss is NaN at step 3"


def test_it_stops_where_told_to(fake):
    run, seen = fake(hooks=[ss.NanHook(action="stop")]), []
    for step in run.steps(range(10)):
        run.scalar("train/loss", NAN)
        run.turn()
        seen.append(step)
    assert seen == [0]
    assert run.stop_reason == "train/loss is NaN at step 0"


def test_it_warns_once_a_tag_even_in_strict_mode(fake):
    run = fake(hooks=[ss.NanHook(action="warn")])

    def train():
        for _ in run.steps(range(4)):
            run.scalars({"train/loss": NAN, "eval/loss": INF})
            run.turn()

    with pytest.warns(RuntimeWarning) as told:
        train()
    assert [str(warning.message).splitlines()[0] for warning in told] == [
        "stepscope: train/loss is NaN at step 0",
        "stepscope: eval/loss is infinite at step 0",
    ]
    assert {warning.filename for warning in told} == {__file__}
    assert run.problems == {}
    assert not run.should_stop


@pytest.mark.parametrize("tags", [["grad"], lambda tag: tag == "grad"])
def test_other_tags_than_losses(fake, tags):
    run = fake(hooks=[ss.NanHook(tags)])
    run.scalars({"train/loss": NAN}, 0)
    run.turn()
    assert not run.should_stop
    run.scalars({"grad": NAN}, 0)
    run.turn()
    assert run.should_stop


def test_finite_numbers_are_no_news(fake):
    run = fake(hooks=[ss.NanHook()])
    for step, value in enumerate([0.0, -0.0, 3e38, -3e38, 5e-324, np.float32(3e38)]):
        run.scalar("loss", value, step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.turn()
    assert not run.should_stop


def test_the_last_steps_are_heard_when_the_run_ends(real, infos):
    run = real(hooks=[ss.NanHook()])
    for step in run.steps(range(3)):
        run.scalar("loss", math.nan if step == 2 else 0.0)
    with pytest.raises(DivergedError):
        run.close()
    assert infos(run)[-1]["status"] == "failed"


def test_values_on_a_device_are_judged_when_they_are_there(fake):
    torch = pytest.importorskip("torch")
    run = fake(hooks=[ss.NanHook()])
    run.scalar("loss", torch.tensor(1.0), 0)
    run.scalar("loss", torch.tensor(torch.nan), 1)
    run.turn()
    assert run.stop_reason == "loss is NaN at step 1"


def test_every_rank_watches_what_is_logged_there(tmp_path):
    run = ss.Run(tmp_path, rank=1, world_size=2, hooks=[ss.NanHook()])
    with run.step():
        run.scalar("train/loss", NAN)
    with pytest.raises(DivergedError, match="train/loss is NaN at step 0"):
        run.close()


def test_an_unknown_action_is_refused():
    with pytest.raises(UsageError, match="action must be 'raise', 'stop' or 'warn', got str 'explode'"):
        ss.NanHook(action="explode")
