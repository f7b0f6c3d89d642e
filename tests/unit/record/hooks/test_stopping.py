"""Requests to stop, and the hooks that make them."""

import math
import threading
import warnings

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import DivergedError, HaltError, RecordError, UsageError
from stepscope.record.hooks.stopping import is_loss

# --- StopAtStepHook -----------------------------------------------------------------------------------


def test_it_stops_after_so_many_steps(fake):
    run = fake(hooks=[ss.StopAtStepHook(3)])
    assert list(run.steps("abcdef")) == ["a", "b", "c"]
    assert run.stop_reason == "3 steps are done"


def test_steps_before_a_resume_count_unless_said_otherwise(fake):
    run = fake(start_step=10, hooks=[ss.StopAtStepHook(12)])
    assert list(run.steps("abcdef")) == ["a", "b"]
    run = fake(start_step=10, hooks=[ss.StopAtStepHook(num_steps=3)])
    assert list(run.steps("abcdef")) == ["a", "b", "c"]


def test_where_all_steps_are_done_none_begins(fake):
    run = fake(start_step=12, hooks=[ss.StopAtStepHook(12)])
    items = iter("ab")
    assert list(run.steps(items)) == []
    assert next(items) == "a"  # nor is data taken


def test_a_second_loop_does_not_begin(fake):
    run = fake(hooks=[ss.StopAtStepHook(3)])
    assert [list(run.steps("ab")), list(run.steps("ab")), list(run.steps("ab"))] == [["a", "b"], ["a"], []]


def test_it_says_how_long_the_run_is_unless_the_user_did(fake):
    run = fake(hooks=[ss.StopAtStepHook(3)])
    list(run.steps(range(100)))
    assert run.total_steps == 3
    assert fake(total_steps=2, hooks=[ss.StopAtStepHook(3)]).total_steps == 2


def test_every_rank_counts(tmp_path):
    with ss.Run(tmp_path, rank=1, world_size=2, hooks=[ss.StopAtStepHook(3)]) as run:
        assert list(run.steps("abcdef")) == ["a", "b", "c"]


def test_steps_by_hand_ask(fake):
    run = fake(hooks=[ss.StopAtStepHook(3)])
    while not run.should_stop:
        with run.step():
            pass
    assert run.current_step == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({}, "got neither"), ({"last_step": 1, "num_steps": 1}, "got both"), ({"last_step": 0}, "1 or more")],
)
def test_arguments_that_cannot_be_right(arguments, message):
    with pytest.raises(UsageError, match=message):
        ss.StopAtStepHook(**arguments)


# --- requests -----------------------------------------------------------------------------------------


def test_a_request_from_another_thread_ends_the_loop(fake):
    run = fake()
    seen = []
    for item in run.steps(range(10)):
        seen.append(item)
        if item == 4:
            thread = threading.Thread(target=run.request_stop, args=("enough",))
            thread.start()
            thread.join()
    assert seen == [0, 1, 2, 3, 4]


def test_the_step_in_which_it_is_requested_is_measured(fake, time):
    run = fake()
    for _ in run.steps(range(10)):
        time.pass_(2)
        run.request_stop("enough")
    assert run.last_step == (0, 2.0, 0.0)


def test_an_error_is_raised_once_at_the_boundary_of_the_step(fake):
    run, seen = fake(), []

    def train():
        for item in run.steps(range(10)):
            run.request_stop("why", error=HaltError("it is over"))
            seen.append(item)

    with pytest.raises(HaltError, match="it is over"):
        train()
    assert seen == [0]
    assert run.last_step.step == 0
    run.step()  # it was raised; who goes on, goes on


def test_an_error_reaches_steps_by_hand(fake):
    run = fake()
    with pytest.raises(HaltError), run.step():
        run.request_stop("why", error=HaltError("over"))
    run = fake()
    run.step()
    run.request_stop("why", error=HaltError("over"))
    with pytest.raises(HaltError):
        run.step()
    assert run.current_step == 0


def test_what_the_step_itself_raises_is_not_replaced(fake):
    run = fake()

    def train():
        run.request_stop("why", error=HaltError("over"))
        _ = 1 / 0

    with pytest.raises(ZeroDivisionError), run.step():
        train()


def test_an_error_that_no_boundary_raised_is_raised_by_closing(real, infos):
    run = real()
    run.request_stop("why", error=DivergedError("train/loss is NaN at step 9"))
    with pytest.raises(DivergedError):
        run.close()
    assert (run.state, infos(run)[-1]["reason"]) == ("failed", "DivergedError: train/loss is NaN at step 9")
    run.close()


def test_the_users_own_exception_is_not_replaced_by_closing(real):
    def train():
        run.request_stop("why", error=DivergedError("over"))
        _ = 1 / 0

    with pytest.raises(ZeroDivisionError), real() as run:
        train()


# --- several ranks ------------------------------------------------------------------------------------


def test_a_rank_does_not_leave_the_others_alone(real, lenient):
    run, seen = real(rank=0, world_size=2), []

    def train():
        for item in run.steps(range(4)):
            seen.append(item)
            run.request_stop("early", alone=True)

    with pytest.warns(RuntimeWarning, match="the other ranks do not know of it") as told:
        train()
    assert seen == [0, 1, 2, 3]
    assert (run.should_stop, len(told), run.problems) == (True, 1, {})


def test_in_strict_mode_that_is_raised(real):
    run = real(rank=0, world_size=2)

    def train():
        for _ in run.steps(range(4)):
            run.request_stop("early", alone=True)

    with pytest.raises(RecordError, match="StopTogetherHook"):
        train()


def test_alone_in_the_job_it_stops(fake):
    run = fake()
    for _ in run.steps(range(4)):
        run.request_stop("early", alone=True)
    assert run.current_step == 0


def test_ranks_that_agree_stop_after_the_same_step(tmp_path):
    """Two ranks in step: what either wants, both learn at the next step that is a multiple of three."""
    wants = [False, False]
    runs = []

    def any_of_rank(rank):
        def any_of(flag):
            wants[rank] = flag
            return any(wants)

        return any_of

    for rank in range(2):
        hook = ss.StopTogetherHook(any_of_rank(rank), every_n_steps=3)
        runs.append(ss.Run(tmp_path / str(rank), rank=rank, world_size=2, hooks=[hook]))
    for number, _ in enumerate(zip(*[run.steps(range(20)) for run in runs], strict=True)):
        if number == 4:
            runs[1].request_stop("loss is NaN", alone=True)
        wants[1] = runs[1].should_stop  # rank 1 has said so by the time that rank 0 asks
    assert [run.current_step for run in runs] == [6, 6]
    assert [run.stop_reason for run in runs] == ["another rank requested it", "loss is NaN"]
    for run in runs:
        run.close()


def test_a_question_that_is_none_is_refused():
    with pytest.raises(UsageError, match="any_of must be a function"):
        ss.StopTogetherHook(None)


# NanHook, told by the writer's thread, which the tests play.


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
