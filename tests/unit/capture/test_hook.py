import gzip
import json
import sys
import threading
import time

import pytest
from support.clock import Time
from support.waiting import until

import stepscope as ss
from stepscope.capture import writing
from stepscope.capture.capture import Order
from stepscope.capture.writing import SETTLING
from stepscope.errors import CaptureError, StepscopeError, UsageError
from stepscope.record.clock import Clock


def train(directory, hook, steps=20, step=lambda number: None, *, beside=(), **options):
    with ss.Run(directory, hooks=[hook, *beside], **options) as run:
        for number in run.steps(range(steps)):
            step(number)
    return run


def hook_of(backend, **options):
    return ss.ProfilerHook(**{"save_steps": 100, "backend": backend, "analyse": False, **options})


def until_written(hook, *, analysed=True):
    """A step that lasts until what was captured before it is written, and analysed unless told otherwise."""

    def step(number):
        until(
            lambda: not (current := hook._writing.current) or (current.done if analysed else current.exported)
        )

    return step


def marks(backend):
    """What it was told, without the waits for data."""
    return [each for each in backend.told if each not in ("data_loading", ("end", "data_loading"))]


def test_a_short_run_leaves_a_profile_and_a_pointer(tmp_path, fake):
    backend = fake.Backend()
    run = train(tmp_path, hook_of(backend, num_steps=2))
    (pointer,) = fake.pointers(tmp_path)
    assert run.problems == {}
    assert marks(backend) == ["start", 5, ("end", 5), 6, ("end", 6), "stop", "export"]
    assert pointer["path"] == "profiles/chief_rank0_step00000005.trace.json"
    assert (tmp_path / pointer["path"]).read_text() == "{}"
    assert (pointer["steps"], pointer["cause"], pointer["rank"], pointer["role"]) == (
        [5, 6],
        "schedule",
        0,
        "chief",
    )
    assert (pointer["dropped"], pointer["notes"], pointer["failure"]) == ({"events": 1}, ["a note"], None)
    assert pointer["memory"] == [{"step": 5, "resident_bytes": 7}, {"step": 6, "resident_bytes": 7}]
    assert pointer["cost"]["max_overhead"] is None
    assert pointer["cost"]["run_stolen_seconds"] >= pointer["cost"]["stop_seconds"] > 0
    assert [each["path"] for each in fake.recorded(tmp_path)] == [pointer["path"]]


def test_a_step_begins_before_its_data_is_fetched(tmp_path, fake):
    backend = fake.Backend()

    def data():
        for number in range(8):
            backend.told.append(f"fetch {number}")
            yield number

    with ss.Run(tmp_path, hooks=[hook_of(backend, num_steps=1)]) as run:
        for _ in run.steps(data()):
            pass
    at = backend.told.index(5)
    assert backend.told[at - 1 : at + 5] == [
        "start", 5, "data_loading", "fetch 5", ("end", "data_loading"), ("end", 5),
    ]  # fmt: skip


def test_what_lies_between_two_steps_made_by_hand_belongs_to_neither(tmp_path, fake):
    backend = fake.Backend()
    with ss.Run(tmp_path, hooks=[hook_of(backend, num_steps=2)]) as run:
        for number in range(10):
            backend.told.append(f"evaluate {number}")
            with run.step():
                pass
    at = backend.told.index("evaluate 5")
    assert backend.told[at : at + 6] == ["evaluate 5", "start", 5, ("end", 5), "evaluate 6", 6]


def test_a_trainer_of_another_kind_has_its_steps_marked_without_what_lies_between(tmp_path, fake):
    """Its callbacks say how long a step waited, but an evaluation may come before the next one."""
    from stepscope.integrations.stepper import Stepper

    backend = fake.Backend()
    with ss.Run(tmp_path, hooks=[hook_of(backend, num_steps=2)]) as run:
        stepper = Stepper(run)
        for number in range(10):
            backend.told.append(f"evaluate {number}")
            stepper.asking()
            stepper.begin()
            stepper.end()
    at = backend.told.index("evaluate 5")
    assert backend.told[at : at + 6] == ["evaluate 5", "start", 5, ("end", 5), "evaluate 6", 6]


def test_the_first_step_is_captured_when_asked(tmp_path, fake):
    backend = fake.Backend()
    train(tmp_path, hook_of(backend, num_steps=1, skip_first=0), 3)
    assert marks(backend)[:3] == ["start", 0, ("end", 0)]


def test_warm_up_steps_come_before_and_are_not_marked(tmp_path, fake):
    backend = fake.Backend()
    train(tmp_path, hook_of(backend, num_steps=1, warmup_steps=2))
    assert backend.wanted.warmup_steps == 2
    assert marks(backend) == ["start", 7, ("end", 7), "stop", "export"]
    assert fake.pointers(tmp_path)[0]["steps"] == [7]


def test_a_predicate_captures_exactly_its_steps(tmp_path, fake):
    backend = fake.Backend()
    hook = ss.LambdaProfilerHook(lambda step: 3 <= step < 5 or step == 0, backend=backend, analyse=False)
    assert train(tmp_path, hook, 60, until_written(hook)).problems == {}
    assert fake.pointers(tmp_path)[0]["steps"] == [0]
    assert [step for step in backend.told if isinstance(step, int)] == [0, 3, 4]


def test_options_reach_the_backend(tmp_path, fake):
    backend = fake.Backend()
    options = {"show_memory": True, "record_shapes": True, "with_stack": True, "show_dataflow": False}
    train(tmp_path, hook_of(backend, modules=False, **options))
    assert {name: getattr(backend.wanted, name) for name in options} == options
    assert backend.wanted.modules is False


@pytest.mark.parametrize(
    ("ranks", "captures"),
    [("chief", False), ("all", True), ([0, 1], True), ([2], False), (lambda rank: rank == 1, True)],
)
def test_ranks_choose_who_captures(tmp_path, fake, ranks, captures):
    backend = fake.Backend()
    train(tmp_path, hook_of(backend, ranks=ranks), rank=1, world_size=3)
    assert bool(backend.told) is captures
    if captures:
        assert fake.pointers(tmp_path)[0]["name"] == "worker_rank1_step00000005"


def test_an_alert_is_captured_with_the_steps_before_it(tmp_path, fake):
    hook = ss.ProfilerHook(num_steps=2, backend=fake.Backend(), analyse=False)

    def step(number):
        if number == 7:
            assert hook.request_capture("loss is NaN", {"tag": "loss"})
            assert not hook.request_capture("once more")

    train(tmp_path, hook, 12, step)
    (pointer,) = fake.pointers(tmp_path)
    assert (pointer["steps"], pointer["cause"], pointer["reason"]) == ([8, 9], "alert", "loss is NaN")
    assert pointer["facts"] == {"tag": "loss"}
    assert [past[0] for past in pointer["before"]] == list(range(8))
    assert all(seconds > 0 for _, seconds, _ in pointer["before"])


def test_a_slow_step_is_captured(tmp_path, fake):
    hook = ss.ProfilerHook(num_steps=1, slow_step=1e6, backend=fake.Backend(), analyse=False)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for number in range(30):
            with run.step():
                pass
            if number == 25:
                hook.note(number, 1e9, None)
    (pointer,) = fake.pointers(tmp_path)
    assert (pointer["cause"], pointer["steps"]) == ("slow step", [26])
    assert "the median is" in pointer["reason"]


def test_the_steps_right_after_a_profile_was_written_are_counted_with_it(tmp_path, fake):
    hook = hook_of(fake.Backend(), num_steps=1)

    train(tmp_path, hook, 20, until_written(hook))
    assert fake.pointers(tmp_path)[0]["cost"]["disturbed_steps"] == 1 + 1 + SETTLING


def test_a_predicate_captures_nothing_while_a_profile_is_written(tmp_path, fake):
    let_go = threading.Event()

    backend = fake.Backend(wait=lambda: let_go.wait(30))
    hook = ss.LambdaProfilerHook(lambda step: step in (1, 4, 9), backend=backend, analyse=False)

    def step(number):
        if number == 7:
            let_go.set()
            hook._writing._writer.wait(30)

    assert train(tmp_path, hook, 20, step).problems == {}
    assert [each for each in backend.told if isinstance(each, int)] == [1, 9]


def test_the_disk_is_bounded(tmp_path, fake):
    hook = ss.LambdaProfilerHook(
        lambda step: step % 2 == 0, max_profiles=2, backend=fake.Backend(), analyse=False
    )

    train(tmp_path, hook, 20, until_written(hook))
    assert len(list((tmp_path / "profiles").glob("*.trace.json"))) == 2
    assert len(fake.recorded(tmp_path)) > 2


# --- what goes wrong --------------------------------------------------------------------------------


def failed(tmp_path, fake, backend=None, *, steps=20, step=lambda number: None, hook=None):
    seen = []

    def count(number):
        seen.append(number)
        step(number)

    with pytest.warns(RuntimeWarning, match="training goes on"):
        run = train(tmp_path, hook or hook_of(backend), steps, count)
    assert seen == list(range(steps))
    assert run.problems["profile"] == 1
    (said,) = [facts["failure"] for facts in fake.recorded(tmp_path)]
    return said


@pytest.mark.parametrize("at", ["start", "stop", "export"])
@pytest.mark.parametrize("error", [RuntimeError("boom"), CaptureError("another profiler is active")])
def test_whatever_the_profiler_raises_training_goes_on_and_the_reason_is_recorded(
    tmp_path, fake, lenient, at, error
):
    said = failed(tmp_path, fake, fake.Backend(**{at: error}))
    assert ("boom" in said) or said == "another profiler is active"
    assert not list(tmp_path.glob("profiles/*.trace.json"))


def test_a_profiler_that_cannot_start_is_not_tried_at_every_step(tmp_path, fake, lenient):
    backend = fake.Backend(start=RuntimeError("boom"))
    failed(tmp_path, fake, backend, steps=90)
    assert backend.told == ["start"]


def test_a_predicate_that_raises_is_asked_no_more(tmp_path, fake, lenient):
    asked = []

    def predicate(step):
        asked.append(step)
        return 1 / 0

    hook = ss.LambdaProfilerHook(predicate, backend=fake.Backend(), analyse=False)
    assert "the step predicate raised ZeroDivisionError" in failed(tmp_path, fake, hook=hook)
    assert asked == [0]


def test_a_profile_that_is_not_there_in_time_is_told_and_one_that_comes_later_is_no_failure(
    tmp_path, fake, lenient
):
    go = threading.Event()

    run = ss.Run(tmp_path, hooks=[hook_of(fake.Backend(wait=lambda: go.wait(60)))])
    for _ in run.steps(range(20)):
        pass
    with pytest.warns(RuntimeWarning, match=r"no profile of step 5: it was not written within .* s"):
        run.close(timeout=0.4)
    assert run.problems["profile"] == 1
    (facts,) = fake.recorded(tmp_path)
    assert "not written within" in facts["failure"]
    assert facts["path"] is None
    go.set()
    until(lambda: fake.pointers(tmp_path))
    (pointer,) = fake.pointers(tmp_path)
    assert (pointer["failure"], pointer["steps"]) == (None, [5, 6, 7])


def test_a_profile_that_is_there_in_time_is_no_problem(tmp_path, fake):
    assert train(tmp_path, hook_of(fake.Backend(wait=lambda: time.sleep(0.3))), 9).problems == {}
    assert [each["failure"] for each in fake.recorded(tmp_path)] == [None]


def test_a_place_that_cannot_be_written(tmp_path, fake, lenient):
    (tmp_path / "profiles").write_text("a file, not a folder")
    assert "could not be written" in failed(tmp_path, fake, fake.Backend())


def test_in_strict_mode_it_is_raised(tmp_path, fake):
    with pytest.raises(StepscopeError, match="boom"):
        train(tmp_path, hook_of(fake.Backend(start=RuntimeError("boom"))))


def test_a_crash_inside_a_captured_step_keeps_what_was_captured(tmp_path, fake):
    backend = fake.Backend()

    def step(number):
        if number == 6:
            raise MemoryError("out of memory")

    with pytest.raises(MemoryError):
        train(tmp_path, hook_of(backend, num_steps=5), 20, step)
    (pointer,) = fake.pointers(tmp_path)
    assert pointer["steps"] == [5]
    assert "the run ended (failed) during the capture" in pointer["notes"]
    assert marks(backend) == ["start", 5, ("end", 5), 6, ("end", 6), "stop", "export"]


def test_a_capture_of_no_whole_step_leaves_nothing_but_the_reason(tmp_path, fake, lenient):
    def step(number):
        if number == 5:
            raise ValueError("stop")

    with (
        pytest.raises(ValueError, match="stop"),
        pytest.warns(
            RuntimeWarning, match=r"no profile: no step ended while it was recording, as the run ended before"
        ),
    ):
        train(tmp_path, hook_of(fake.Backend()), 20, step)
    assert not list(tmp_path.glob("profiles/*.trace.json"))


def test_a_run_that_finishes_in_a_captured_step_tells_what_to_do(tmp_path, fake, lenient):
    run = ss.Run(tmp_path, hooks=[hook_of(fake.Backend())])
    for _ in range(6):
        run.step()
    with pytest.warns(RuntimeWarning, match=r"while it was recording\nhint: capture more steps"):
        run.close()


def test_a_rhythm_that_the_user_asked_for_is_kept_whatever_it_costs(tmp_path, fake, capsys):
    hook = hook_of(fake.Backend(), save_steps=20, num_steps=1)
    run = train(tmp_path, hook, 50, until_written(hook))
    found = fake.pointers(tmp_path)
    assert sorted(each["steps"][0] for each in found) == [5, 20, 40]
    assert {each["cost"]["max_overhead"] for each in found} == {None}
    assert [each["notes"] for each in found] == [["a note"]] * 3
    assert (run.problems, capsys.readouterr().err) == ({}, "")


def test_what_a_bound_skips_is_one_line_and_one_mark(tmp_path, fake, capsys):
    hook = hook_of(fake.Backend(), save_steps=20, num_steps=1, max_overhead=1e-9)
    run = train(tmp_path, hook, 90, until_written(hook))
    (made,) = fake.pointers(tmp_path)
    assert (made["steps"], made["cost"]["max_overhead"]) == ([5], 1e-9)
    (mark,) = [each for each in fake.recorded(tmp_path) if each["failure"]]
    assert (mark["steps"], mark["cause"]) == ([20], "schedule")
    assert mark["failure"].startswith("skipped: profiles took ")
    assert mark["failure"].endswith("% of the run's time, and max_overhead allows 1e-07 %")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stepscope: no profile of step 20: profiles took ")
    assert run.problems == {}


def test_the_next_profile_says_how_many_were_skipped_before_it(tmp_path, fake):
    hook = hook_of(fake.Backend(), save_steps=20, num_steps=1, max_overhead=1e-9)
    wait = until_written(hook)

    def step(number):
        wait(number)
        if number == 70:
            hook._budget.max_overhead = 1000.0

    train(tmp_path, hook, 90, step)
    found = {each["steps"][0]: each["notes"] for each in fake.pointers(tmp_path)}
    assert list(found) == [5, 80]
    assert found[80][0] == "those of step 20 and of 2 later ones were skipped before this one"


@pytest.mark.parametrize(
    ("free", "others"),
    [
        (13, ""),
        (23, ", also in place of that of step 20"),
        (33, ", also in place of those of steps 20 and 30"),
        (53, ", also in place of those of steps 20 to 50"),
    ],
)
def test_a_capture_that_is_moved_says_so_on_the_console_and_in_its_notes(
    tmp_path, fake, capsys, free, others
):
    let_go = threading.Event()

    hook = hook_of(fake.Backend(wait=lambda: let_go.wait(30)), save_steps=10, num_steps=1)

    def step(number):
        if number == free:
            let_go.set()
        if number >= free:
            until_written(hook)(number)

    train(tmp_path, hook, free + 3, step)
    found = {each["steps"][0]: each["notes"] for each in fake.pointers(tmp_path)}
    said = f"due at step 10, begun at step {free + 1}{others}: the previous profile was still being written"
    assert found == {5: ["a note"], free + 1: [said, "a note"]}
    why = said.partition(": ")[2]
    assert capsys.readouterr().err == (
        f"stepscope: the profile due at step 10 begins at step {free + 1}{others}: {why}\n"
    )


def test_a_capture_that_waits_until_the_run_ends_is_told(tmp_path, fake, capsys):
    let_go = threading.Event()

    hook = hook_of(fake.Backend(wait=lambda: let_go.wait(30)), save_steps=10, num_steps=1)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for number in run.steps(range(16)):
            if number == 15:
                threading.Timer(0.2, let_go.set).start()  # while the end of the run waits for it
    (mark,) = [each for each in fake.recorded(tmp_path) if each["failure"]]
    assert mark["failure"] == "skipped: the previous profile was still being written, until the run ended"
    assert mark["steps"] == [10]
    assert "no profile of step 10" in capsys.readouterr().err


class Measuring(ss.GradientHook):
    """Measures some steps of a run without a framework."""

    def begin(self, run):
        super().begin(run)
        self.parts.append(self)
        self._sampling = self.sampling()

    def before_step(self, step):
        self._sampling.due(step)

    def finish(self, timeout):
        pass


def test_captures_keep_off_steps_that_a_gradient_hook_measures(tmp_path, fake, capsys):
    hook = hook_of(fake.Backend(), save_steps=100, num_steps=3)
    run = train(tmp_path, hook, 320, until_written(hook), beside=[Measuring()])
    found = {each["steps"][0]: each for each in fake.pointers(tmp_path)}
    assert list(found) == [17, 101, 201, 301]
    why = "gradients or activations are measured in steps between"
    assert found[101]["notes"] == [f"due at step 100, begun at step 101: {why}", "a note"]
    assert (run.problems, capsys.readouterr().err) == ({}, "")


def test_a_hook_that_measures_nothing_here_moves_no_capture(tmp_path, fake):
    class Elsewhere(Measuring):
        def before_step(self, step):
            """As on a rank whose gradients another one records."""

    hook = hook_of(fake.Backend(), save_steps=100, num_steps=2)
    train(tmp_path, hook, 220, until_written(hook), beside=[Elsewhere()])
    assert [each["steps"][0] for each in fake.pointers(tmp_path)] == [5, 100, 200]


def test_a_capture_is_moved_no_further_than_it_says(tmp_path, fake):
    class Everywhere(Measuring):
        def sampled(self, steps):
            return [steps[0]]  # always the next step, never the one after

    hook = hook_of(fake.Backend(), save_steps=100, num_steps=2)
    train(tmp_path, hook, 160, until_written(hook), beside=[Everywhere()])
    assert [each["steps"][0] for each in fake.pointers(tmp_path)] == [5 + 24, 100 + 24]


def test_where_every_step_is_measured_the_profile_says_so(tmp_path, fake):
    hook = hook_of(fake.Backend(), save_steps=100, num_steps=2)
    train(tmp_path, hook, 20, until_written(hook), beside=[Measuring(1)])
    (found,) = fake.pointers(tmp_path)
    said = "gradients or activations were measured in steps 5, 6, which take longer because of that"
    assert (found["steps"], found["notes"]) == ([5, 6], [said, "a note"])


def test_a_short_run_has_its_profile_though_its_steps_are_measured(tmp_path, fake):
    hook = hook_of(fake.Backend(), save_steps=100, num_steps=2)
    train(tmp_path, hook, 12, until_written(hook), beside=[Measuring()])
    (found,) = fake.pointers(tmp_path)
    assert found["steps"] == [5, 6]


def test_steps_that_a_predicate_names_are_captured_though_they_are_measured(tmp_path, fake):
    hook = ss.LambdaProfilerHook(lambda step: 100 <= step < 103, backend=fake.Backend(), analyse=False)
    train(tmp_path, hook, 120, beside=[Measuring()])
    (found,) = fake.pointers(tmp_path)
    said = "gradients or activations were measured in step 100, which takes longer because of that"
    assert (found["steps"], found["notes"]) == ([100, 101, 102], [said, "a note"])


def test_nobody_asked_for_captures_after_slow_steps_so_the_bound_holds_them_and_says_so(
    tmp_path, fake, capsys
):
    now = Time(0.0)
    hook = hook_of(fake.Backend(), save_steps=None, slow_step=5, num_steps=1, oom_snapshot=False, _steady=now)
    wait = until_written(hook)

    def step(number):
        wait(number)
        now.now += 0.2 if number in (50, 150) or hook._capture else 0.001

    train(tmp_path, hook, 200, step, _clock=Clock(steady=now))
    assert [each["steps"] for each in fake.pointers(tmp_path)] == [[51]]
    (mark,) = [each for each in fake.recorded(tmp_path) if each["failure"]]
    assert (mark["steps"], mark["cause"]) == ([151], "slow step")
    assert mark["failure"].startswith("skipped: after a slow step, profiles took ")
    assert "no profile of step 151: after a slow step" in capsys.readouterr().err


@pytest.fixture
def analysing(tmp_path, monkeypatch):
    """Has each analysis go on until a file is there, and then fail."""
    let_go = tmp_path / "go"
    program = (
        f"import pathlib, sys, time\nwhile not pathlib.Path({str(let_go)!r}).exists(): time.sleep(0.01)\n"
        "sys.exit('too large')"
    )
    monkeypatch.setattr(writing, "command", lambda profile, summary: [sys.executable, "-c", program])
    yield let_go
    let_go.touch()


def test_what_is_asked_for_does_not_wait_for_an_analysis(tmp_path, fake, analysing):
    hook = hook_of(fake.Backend(), save_steps=20, num_steps=1, max_overhead=1.0, analyse=True)
    wait = until_written(hook, analysed=False)

    def step(number):
        wait(number)
        if number == 30:
            hook.request_capture("the loss is not finite")

    run = train(tmp_path / "run", hook, 60, step)
    found = {each["steps"][0]: each for each in fake.pointers(tmp_path / "run")}
    assert {at: each["cause"] for at, each in found.items()} == {5: "schedule", 31: "alert"}
    assert found[5]["cost"]["disturbed_steps"] == 31 - 5
    assert run.problems == {}


def test_without_a_bound_the_schedule_does_not_wait_for_it_either(tmp_path, fake, analysing):
    hook = hook_of(fake.Backend(), save_steps=20, num_steps=1, max_overhead=None, analyse=True)
    train(tmp_path / "run", hook, 50, until_written(hook, analysed=False))
    assert [each["steps"] for each in fake.pointers(tmp_path / "run")] == [[5], [20], [40]]


def test_every_step_that_a_predicate_names_is_captured_while_others_are_analysed(tmp_path, fake, analysing):
    hook = ss.LambdaProfilerHook(lambda step: step in (1, 4, 9), backend=fake.Backend())
    train(tmp_path / "run", hook, 12, until_written(hook, analysed=False))
    assert [each["steps"] for each in fake.pointers(tmp_path / "run")] == [[1], [4], [9]]


def test_an_analysis_that_fails_is_told_even_where_the_next_capture_did_not_wait_for_it(
    tmp_path, fake, analysing
):
    hook = ss.LambdaProfilerHook(lambda step: step in (1, 4), backend=fake.Backend())
    wait = until_written(hook, analysed=False)

    def step(number):
        wait(number)
        if number == 6:
            analysing.touch()
            until(lambda: all(each["not_analysed"] for each in fake.pointers(tmp_path / "run")[:1]))

    train(tmp_path / "run", hook, 12, step)
    first = fake.pointers(tmp_path / "run")[0]
    assert (first["steps"], first["not_analysed"], first["failure"]) == ([1], "too large", None)
    assert first["cost"]["captures"] == 1


def test_the_schedule_leaves_the_steps_before_a_requested_one_alone(tmp_path, fake):
    hook = hook_of(fake.Backend(), save_steps=20, num_steps=2, max_overhead=None)
    wait = until_written(hook)

    def step(number):
        wait(number)
        if number == 10:
            hook.order(Order("request", 1, request="r", at_step=41))

    train(tmp_path, hook, 80, step)
    found = [(each["steps"], each["cause"]) for each in fake.pointers(tmp_path)]
    assert found == [([5, 6], "schedule"), ([41], "request"), ([43, 44], "schedule"), ([60, 61], "schedule")]


@pytest.mark.usefixtures("lenient")
def test_alerts_make_no_more_profiles_than_there_is_room_for_and_the_run_says_so(tmp_path, fake):
    hook = hook_of(fake.Backend(), save_steps=None, num_steps=1, max_profiles=1)
    wait = until_written(hook)

    def step(number):
        wait(number)
        if number in (5, 15, 25):
            hook.request_capture("the loss is not finite")
        if number == 35:
            hook.order(Order("request", 1, request="r"))

    with pytest.warns(RuntimeWarning, match="2 or more profiles are kept"):
        run = train(tmp_path, hook, 50, step)
    made = [(each["steps"], each["cause"]) for each in fake.pointers(tmp_path)]
    assert made == [([6], "alert"), ([16], "alert"), ([36], "request")]
    (refused,) = [each for each in fake.recorded(tmp_path) if each["failure"]]
    assert refused["steps"] == [26]
    assert refused["failure"].startswith(
        "2 or more profiles are kept because something refers to them; delete some"
    )
    assert run.problems == {"profile": 1}


def test_the_schedule_goes_on_where_older_profiles_can_make_room(tmp_path, fake):
    """One profile is referred to by its advice, the other is merely the newest."""
    hook = hook_of(fake.Backend(), save_steps=10, num_steps=1, max_profiles=1, max_overhead=None)
    wait = until_written(hook)

    def step(number):
        wait(number)
        if number == 8:
            (first,) = (tmp_path / "profiles").glob("*.profile.json")
            summary = first.with_name(first.name.replace(".profile.", ".summary."))
            summary.write_text(json.dumps({"advice": [{"rule": "input-bound"}]}))

    run = train(tmp_path, hook, 45, step)
    assert [each["steps"] for each in fake.pointers(tmp_path)] == [[5], [40]]
    assert run.problems == {}


@pytest.mark.parametrize("sized", [True, False])
def test_a_capture_that_no_step_followed_leaves_nothing(tmp_path, fake, sized):
    backend = fake.Backend()
    with ss.Run(tmp_path, hooks=[hook_of(backend)]) as run:
        for _ in run.steps(range(5) if sized else iter(range(5))):
            pass
        assert backend.told[-2:] != ["stop", "export"] or not sized
    assert marks(backend) == ([] if sized else ["start", 5, ("end", 5), "stop", "export"])
    assert run.problems == {}
    assert fake.pointers(tmp_path) == fake.recorded(tmp_path) == []
    assert not list(tmp_path.glob("profiles/*"))


@pytest.mark.parametrize("sized", [True, False])
def test_a_loop_that_ends_before_its_capture_begins_leaves_it_to_the_next_loop(tmp_path, fake, sized):
    """Between the two nothing records: an evaluation may last long."""
    backend = fake.Backend()
    with ss.Run(tmp_path, hooks=[hook_of(backend, num_steps=2)]) as run:
        for _ in run.steps(range(5) if sized else iter(range(5))):
            pass
        told = len(backend.told)
        assert backend.told.count("start") == backend.told.count("stop") == (0 if sized else 1)
        time.sleep(0.1)  # what was recorded is thrown away by a thread
        for _ in run.steps(range(6)):
            pass
    again = [each for each in backend.told[told:] if each != "export" or told == 0]
    assert [each for each in again if isinstance(each, int)] == [5, 6]
    assert fake.pointers(tmp_path)[0]["steps"] == [5, 6]
    assert run.problems == {}


def test_a_loop_that_ends_during_a_capture_ends_the_capture(tmp_path, fake):
    backend = fake.Backend()
    with ss.Run(tmp_path, hooks=[hook_of(backend, num_steps=5)]) as run:
        for _ in run.steps(iter(range(7))):
            pass
        assert backend.told.count("stop") == 1
        for _ in run.steps(range(7)):
            pass
    (pointer,) = fake.pointers(tmp_path)
    assert pointer["steps"] == [5, 6]
    assert pointer["notes"][0] == "the loop over data ended during the capture"


def test_two_runs_of_a_process_take_turns(tmp_path, fake):
    one, other = fake.Backend(), fake.Backend()
    with (
        ss.Run(tmp_path / "a", hooks=[hook_of(one, num_steps=4)]) as first,
        ss.Run(tmp_path / "b", hooks=[hook_of(other, num_steps=2, skip_first=6)]) as second,
    ):
        for _ in range(20):
            with first.step():
                pass
            with second.step():
                pass
            time.sleep(0.005)
    assert fake.pointers(tmp_path / "a")[0]["steps"] == [5, 6, 7, 8]
    (late,) = fake.pointers(tmp_path / "b")
    assert late["steps"][0] >= 8
    assert first.problems == second.problems == {}


def test_a_hook_belongs_to_one_run(tmp_path, fake):
    hook = hook_of(fake.Backend())
    train(tmp_path / "a", hook)
    with pytest.raises(StepscopeError, match="belongs to another run"):
        train(tmp_path / "b", hook)


@pytest.mark.parametrize(
    "arguments",
    [
        {"save_steps": 1, "save_secs": 1},
        {"num_steps": 0},
        {"warmup_steps": -1},
        {"max_profiles": 0},
        {"max_overhead": 0},
        {"max_overhead": 2},
        {"ranks": "some"},
        {"ranks": [-1]},
        {"slow_step": 0.5},
    ],
)
def test_arguments_that_cannot_be_right_are_refused(arguments):
    with pytest.raises(UsageError):
        ss.ProfilerHook(**arguments)


def test_a_predicate_hook_takes_a_function_and_no_rhythm():
    with pytest.raises(UsageError, match="function of the step"):
        ss.LambdaProfilerHook(3)
    with pytest.raises(UsageError, match="not both"):
        ss.LambdaProfilerHook(lambda step: True, save_steps=3)


# --- resting --------------------------------------------------------------------------------------------


class Counting(ss.ProfilerHook):
    """Counts its calls."""

    calls = 0

    def after_step(self, step):
        self.calls += 1
        super().after_step(step)


def test_it_is_called_where_something_may_be_due_and_only_there(tmp_path, fake):
    hook = Counting(10_000, backend=fake.Backend(), analyse=False, skip_first=100, poll_secs=60)
    train(tmp_path, hook, steps=1_000, step=until_written(hook))
    (pointer,) = fake.pointers(tmp_path)
    assert pointer["steps"] == [100, 101, 102]
    # While it looks for a device, once a rest is over, around the capture, and at the rhythm of LONGEST.
    assert 25 <= hook.calls <= 60


def test_what_it_slept_through_is_in_the_ring_and_in_what_is_usual(tmp_path, fake):
    hook = Counting(backend=fake.Backend(), analyse=False, oom_snapshot=False, poll_secs=60)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for number in run.steps(range(60)):
            if number == 50:
                hook.request_capture("now")
    (pointer,) = fake.pointers(tmp_path)
    assert hook.calls < 20
    assert pointer["steps"] == [51, 52, 53]
    assert [step for step, _, _ in pointer["before"]] == list(range(51))
    assert len(hook._budget._normal) >= 51


def test_one_that_is_added_later_counts_from_there(tmp_path, fake):
    hook = hook_of(fake.Backend(), skip_first=4, num_steps=1)
    with ss.Run(tmp_path) as run:
        for number in run.steps(range(60)):
            if number == 30:
                run.add_hook(hook)
    (pointer,) = fake.pointers(tmp_path)
    assert pointer["steps"] == [35]
    assert hook._ring[0][0] == 30


def test_a_slow_step_ends_its_rest(tmp_path, fake):
    now = Time(0.0)
    hook = Counting(
        slow_step=5, backend=fake.Backend(), analyse=False, oom_snapshot=False, poll_secs=60, _steady=now
    )
    slow = {3: 0.05, 90: 0.2}  # before it is known what is usual, and after

    def step(number):
        now.now += slow.get(number, 0.001)

    train(tmp_path, hook, steps=100, step=step, _clock=Clock(steady=now))
    (pointer,) = fake.pointers(tmp_path)
    assert (pointer["steps"], pointer["cause"]) == ([91, 92, 93], "slow step")
    assert hook.calls < 30


@pytest.mark.parametrize(
    "options",
    [{"save_steps": 7}, {"save_steps": 40, "slow_step": 3}, {"save_secs": 0.03}, {"slow_step": 3}],
)
def test_resting_changes_nothing_but_the_calls(tmp_path, fake, monkeypatch, options):
    found = []
    for longest in (0, 64):
        monkeypatch.setattr("stepscope.capture.hook.LONGEST", longest)
        time_ = Time(0.0)
        hook = Counting(
            backend=fake.Backend(), analyse=False, max_overhead=1.0, max_profiles=1000, poll_secs=60,
            oom_snapshot=False, _steady=time_, **options,
        )  # fmt: skip
        wait, folder = until_written(hook), tmp_path / str(longest)
        with ss.Run(folder, hooks=[hook], _clock=Clock(steady=time_)) as run:
            for number in run.steps(range(200)):
                time_.now += 0.1 if number in (77, 150) else 0.001
                wait(number)
        captures = [
            (each["cause"], each["steps"], [step for step, _, _ in each["before"]])
            for each in fake.pointers(folder)
        ]
        found.append((captures, hook.calls))
    (awake, calls), (rested, fewer) = found
    assert rested == awake
    assert len(awake) >= 2
    assert calls == 200
    assert fewer <= (100 if options == {"slow_step": 3} else 200)


def test_stacks_of_the_captured_steps_lie_beside_the_profile(tmp_path, fake):
    train(tmp_path, hook_of(fake.Backend(), num_steps=2))
    (pointer,) = fake.pointers(tmp_path)
    told = json.loads(gzip.decompress((tmp_path / f"{pointer['path']}.stacks").read_bytes()))
    assert [number for number, *_ in told["steps"]] == [5, 6]


def test_what_a_recorder_sets_is_no_setting_of_the_program(tmp_path, fake):
    class Recorder(fake.Backend):
        def start(self, wanted):
            super().start(wanted)
            self.before = sys.getprofile()
            sys.setprofile(lambda frame, event, argument: None)

        def stop(self):
            sys.setprofile(self.before)
            return super().stop()

    train(tmp_path, hook_of(Recorder(), num_steps=2))
    (pointer,) = fake.pointers(tmp_path)
    told = json.loads(gzip.decompress((tmp_path / f"{pointer['path']}.stacks").read_bytes()))
    assert told["settings"]["python.profile"] == ""


def test_no_stacks_are_sampled_where_none_are_wanted(tmp_path, fake):
    train(tmp_path, hook_of(fake.Backend(), sample_stacks=False))
    assert len(list(tmp_path.rglob("*.profile.json"))) == 1
    assert not list(tmp_path.rglob("*.stacks"))


def test_a_backend_that_is_made_of_samples_gets_the_sampler_of_the_capture(tmp_path, fake):
    backend, samplers = fake.Backend(), []
    backend.use = samplers.append
    train(tmp_path, hook_of(backend, num_steps=2, sample_stacks=False))
    (sampler,) = samplers
    assert len(list(sampler.functions())) == len(sampler.document()["times_ns"]) > 0


def test_stacks_that_cannot_be_written_leave_the_profile(tmp_path, fake, monkeypatch):
    def full(sampler, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("stepscope.capture.sampler.StackSampler.save", full)
    run = train(tmp_path, hook_of(fake.Backend()))
    (pointer,) = fake.pointers(tmp_path)
    assert pointer["failure"] is None
    assert pointer["notes"][0] == "the sampled stacks could not be written: No space left on device"
    assert run.problems == {}
