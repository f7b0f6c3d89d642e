import gc
import weakref

import pytest

from stepscope.kernels import steps as compiled
from stepscope.kernels.points import Points


class Clock:
    """Moves on by a second at every reading."""

    now = 0.0

    def __call__(self):
        self.now += 1.0
        return self.now


class Owner:
    """Notes what it is asked to see to."""

    def __init__(self, *, stops=False):
        self.told, self.stops = [], stops

    def ends_loop(self):
        self.told.append("stops")
        return self.stops

    def withdraw(self):
        self.told.append("withdraw")

    def accept_times(self, *facts):
        self.told.append(facts)

    def nested(self, counts):
        self.told.append(("nested", counts))


class Hooks:
    """Calls what does not rest, as the hooks of a run are called."""

    def __init__(self, steps):
        self.told = []
        steps.hooks = self

    def call(self, chosen, step):
        for rest, name, _ in chosen:
            if rest is None or not rest.on:
                self.told.append((name, step))


def rested(kernel, **bounds):
    """A hook that rests, without bounds but those given."""
    rest = kernel.Rest()
    rest.on, rest.left, rest.low, rest.high, rest.when, rest.above_s = (
        True, 1000, -1000, 1000, float("inf"), float("inf"),
    )  # fmt: skip
    for name, bound in bounds.items():
        setattr(rest, name, bound)
    return rest


def test_numbers_count_on_and_times_are_in_seconds(kernel):
    steps = kernel.Steps(5)
    assert (steps.current, steps.last, steps.next) == (None, None, 5)
    assert steps.begin(1.0, 0.25) == 5
    steps.end(3.0)
    assert steps.last == (5, 2.0, 0.25)
    assert steps.begin(3.0) == 6
    assert steps.current == 6
    assert steps.waited is None
    steps.end(3.5)
    assert steps.last == (6, 0.5, None)
    assert (steps.done, steps.running) == (2, False)
    assert steps.since(0) == [(5, 2.0, 0.25), (6, 0.5, None)]
    assert steps.since(1) == [(6, 0.5, None)]
    assert steps.since(2) == []
    assert len(steps.since(-300)) == 2


def test_a_step_that_ended_does_not_end_again(kernel):
    steps = kernel.Steps(0, Clock())
    steps.begin(0.0)
    steps.end(1.0)
    assert steps.end(7.0) == 7.0
    assert steps.done == 1


def test_an_abandoned_step_has_no_time(kernel):
    steps = kernel.Steps()
    steps.begin(0.0)
    steps.abandon()
    assert (steps.running, steps.done, steps.last) == (False, 0, None)


def test_what_a_trainer_knows_later_can_be_set(kernel):
    steps = kernel.Steps(3)
    steps.begin(10.0)
    steps.waited = (steps.waited or 0.0) + 0.5
    steps.current, steps.asked = 40, 8.0
    steps.end(11.0)
    assert steps.last == (40, 3.0, 0.5)


def test_the_past_is_bounded(kernel):
    steps = kernel.Steps()
    for number in range(300):
        steps.begin(float(number))
        steps.end(number + 0.5)
    past = steps.since(0)
    assert [step for step, _, _ in past] == list(range(300 - kernel.PAST, 300))
    assert {seconds for _, seconds, _ in past} == {0.5}


def rows(points):
    count, *columns = points.take()
    return list(zip(*(column[:count].tolist() for column in columns), strict=True))


def test_times_are_recorded_in_milliseconds(kernel):
    steps, points = kernel.Steps(7, Clock()), Points(lambda: 9.0)
    steps.points = points
    steps.begin(1.0, 0.25)
    assert (points.step, points.stepping) == (7, True)
    steps.end(3.0)
    assert rows(points) == []  # the run does not take points yet
    points.taking = True
    steps.begin(3.0, 0.25)
    steps.end(5.0)
    steps.begin(5.0)
    steps.end(6.0)
    assert rows(points) == [(0, 2000.0, 8, 9.0), (1, 250.0, 8, 9.0), (0, 1000.0, 9, 9.0)]


def test_where_too_much_waits_the_run_sees_to_the_times(kernel):
    steps, owner = kernel.Steps(0, Clock()), Owner()
    steps.points, steps.owner = Points(), weakref.ref(owner)
    steps.points.taking, steps.points.mark = True, 0
    steps.begin(1.0, 0.5)
    steps.end(2.0)
    steps.begin(2.0)
    steps.end(2.5)
    assert owner.told == [(0, 1000.0, 500.0), (1, 500.0, -1.0)]
    del owner
    steps.begin(3.0)
    steps.end(3.5)
    assert steps.done == 3


def test_all_is_written_every_so_many_steps(kernel):
    steps, told = kernel.Steps(0, Clock()), []
    steps.points, steps.every, steps.flush = Points(), 3, lambda: told.append(steps.done)
    steps.points.taking = True
    for _ in range(7):
        steps.begin(0.0)
        steps.end(1.0)
    assert told == [3, 6]


# --- by hand, and in loops ------------------------------------------------------------------------------


def test_a_step_lasts_until_the_next_call(kernel):
    steps = kernel.Steps(0, Clock())
    for _ in range(3):
        steps.step()
    assert [(number, seconds) for number, seconds, _ in steps.since(0)] == [(0, 2.0), (1, 2.0)]
    assert steps.running


def test_a_context_ends_its_step_unless_the_block_raises(kernel):
    steps = kernel.Steps(4, Clock())
    with steps.step() as number:
        assert (number, steps.running) == (4, True)
    assert not steps.running
    with pytest.raises(ZeroDivisionError), steps.step():
        _ = 1 / 0
    assert (steps.done, steps.running, steps.next) == (1, False, 6)


def test_a_loop_measures_how_long_a_step_waits(kernel):
    clock = Clock()
    steps, seen = kernel.Steps(0, clock), []

    def data():
        for number in range(2):
            clock.now += 10
            yield number

    for item in steps.loop(None, data(), 2):
        seen.append((item, steps.current, steps.looping))
        clock.now += 100
    assert seen == [(0, 0, True), (1, 1, False)]
    assert [(wait, seconds >= 111) for _, seconds, wait in steps.since(0)] == [(11.0, True)] * 2
    assert not steps.looping


def test_a_loop_that_is_left_drops_its_step_and_says_nothing(kernel):
    steps, left = kernel.Steps(0, Clock()), []
    steps.on_leave.append(lambda: left.append(steps.done))
    for item in steps.loop(None, iter(range(9)), 9):
        if item == 3:
            break
    gc.collect()
    assert (steps.done, steps.running, steps.looping, left) == (3, False, False, [])
    for _ in steps.loop(None, iter(range(2)), 2):
        pass
    assert (steps.done, left) == (5, [5])


def numbers(steps):
    return [number for number, _, _ in steps.since(0)]


@pytest.fixture
def nest(kernel):
    """Steps, and a note of what their owner was told."""
    owner, steps = Owner(), kernel.Steps(0, Clock())
    steps.owner = lambda: owner
    return steps, owner.told


def test_a_step_that_is_begun_by_hand_in_a_loop_is_the_one_that_the_loop_has_begun(nest):
    steps, told = nest
    for item in steps.loop(None, iter(range(3)), 3):
        if item == 0:
            with steps.step() as number:
                assert number == 0
        elif item == 1:
            steps.step()
    assert (numbers(steps), told) == ([0, 1, 2], [])


def test_further_steps_that_are_begun_by_hand_in_a_loop_are_steps(nest):
    steps, told = nest
    for _ in steps.loop(None, iter(range(2)), 2):  # of epochs
        for _ in range(3):
            with steps.step():
                pass
    assert (numbers(steps), told) == ([*range(6)], [])


def test_a_loop_within_a_step_of_a_loop_is_part_of_it(nest):
    steps, told = nest
    inside = []
    for item in steps.loop(None, iter(range(3)), 3):
        if item == 1:
            inside = [steps.current for _ in steps.loop(None, iter(range(4)), 4)]
            assert steps.looping, "the outer loop goes on"
        assert steps.current == item
    assert (numbers(steps), inside, told) == ([0, 1, 2], [1] * 4, [("nested", False)])
    assert list(steps.loop(None, iter("ab"), 2)) == ["a", "b"]
    assert numbers(steps) == [0, 1, 2, 3, 4], "a loop after it counts on"


def test_a_loop_within_a_step_that_was_begun_by_hand_is_part_of_it_too(nest):
    steps, told = nest
    with steps.step():
        list(steps.loop(None, iter(range(4)), 4))
    assert (numbers(steps), told) == ([0], [("nested", False)])
    steps.step()  # one that lasts until the next call, which may be a loop after the training
    list(steps.loop(None, iter(range(2)), 2))
    assert numbers(steps)[-2:] == [2, 3]
    assert len(told) == 1


def test_two_loops_that_advance_together_count_once(nest):
    steps, told = nest
    pairs = zip(steps.loop(None, iter("ab"), 2), steps.loop(None, iter("cd"), 2), strict=True)
    assert [(*pair, steps.current) for pair in pairs] == [("a", "c", 0), ("b", "d", 1)]
    assert (numbers(steps), told) == ([0, 1], [("nested", False)])


def test_the_inner_loop_counts_if_the_optimizer_steps_there_alone(nest):
    steps, told = nest
    seen = []
    for _ in steps.loop(None, iter(range(2)), 2):  # of epochs
        for _ in steps.loop(None, iter(range(3)), 3):
            seen.append(steps.current)
            steps.optimized()
            steps.optimized()  # a further optimizer
    assert (seen, numbers(steps)) == ([*range(6)], [*range(6)])
    assert told == [("nested", True)]


def test_the_outer_loop_counts_if_the_optimizer_has_stepped_there(nest):
    steps, _ = nest
    for _ in steps.loop(None, iter(range(2)), 2):
        steps.optimized()
        for _ in steps.loop(None, iter(range(3)), 3):  # of several updates of a critic
            steps.optimized()
    assert numbers(steps) == [0, 1]


def test_how_often_a_loop_within_loops_is_gone_through(nest):
    steps, _ = nest
    found = []
    for _ in steps.loop(None, iter(range(3)), 3):
        for _ in steps.loop(None, iter(range(2)), 2):
            steps.optimized()
            found.append(steps.rounds)
    assert found == [3, 3, 2, 2, 1, 1]


def test_a_loop_of_which_the_user_says_so_counts_wherever_it_is(nest):
    steps, told = nest
    for _ in steps.loop(None, iter(range(1)), 1):
        steps.next = 10
        list(steps.loop(None, iter(range(2)), 2, True))
    assert (numbers(steps), told) == ([10, 11], [])


def test_no_loop_counts_where_a_framework_numbers_the_steps(nest):
    steps, told = nest
    steps.led = True
    steps.begin(0.0)
    list(steps.loop(None, iter(range(2)), 2))
    steps.end(1.0)
    list(steps.loop(None, iter(range(2)), 2))
    with steps.step():
        pass
    assert (numbers(steps), told) == ([0], [("nested", False)] * 3)


def test_a_number_that_the_user_gives_a_step(kernel):
    steps = kernel.Steps(0, Clock())
    for number in (None, 7, None, 3, None):
        with steps.step(number):
            pass
    assert numbers(steps) == [0, 7, 8, 3, 4]


def test_a_loop_asks_where_a_stop_was_requested(kernel):
    owner, steps = Owner(stops=False), kernel.Steps(0, Clock())
    steps.owner = weakref.ref(owner)
    seen = []
    for item in steps.loop(owner, iter(range(9)), 9):
        seen.append(item)
        if item == 2:
            steps.stopping = True
        if item == 4:
            owner.stops = True
    assert (seen, owner.told) == ([0, 1, 2, 3, 4], ["stops"] * 3)
    assert list(steps.loop(owner, iter(range(9)), 9)) == []


def test_a_step_by_hand_tells_the_run_of_a_stop(kernel):
    steps, owner = kernel.Steps(0, Clock()), Owner()
    steps.owner, steps.stopping = weakref.ref(owner), True
    with steps.step():
        pass
    assert owner.told == ["stops", "stops"]


def test_hooks_are_withdrawn_once_when_the_next_step_begins(kernel):
    steps, owner = kernel.Steps(0, Clock()), Owner()
    steps.owner, steps.withdrawing = weakref.ref(owner), True
    steps.begin(0.0)
    steps.end(1.0)
    steps.begin(1.0)
    assert owner.told == ["withdraw"]


# --- hooks that rest ------------------------------------------------------------------------------------


def test_a_hook_without_a_rest_is_always_called(kernel):
    steps = kernel.Steps(0, Clock())
    hooks = Hooks(steps)
    steps.before, steps.after = ((None, "before", None),), ((None, "after", None),)
    for _ in range(2):
        steps.step()
    assert hooks.told == [("before", 0), ("after", 0), ("before", 1)]


@pytest.mark.parametrize(
    ("bounds", "called"),
    [
        ({"left": 3}, [3, 4, 5]),
        ({"high": 12}, [2, 3, 4, 5]),
        ({"low": 11}, [0, 1, 2, 3, 4, 5]),
        ({"above_s": 1.5}, [4, 5]),
        ({"on": False}, [0, 1, 2, 3, 4, 5]),
        ({}, []),
    ],
)
def test_a_rest_ends_by_each_of_its_bounds_and_does_not_begin_again(kernel, bounds, called):
    steps = kernel.Steps(10, Clock())
    hooks = Hooks(steps)
    rest = rested(kernel, **bounds)
    steps.before, steps.after = ((rest, "before", None),), ((rest, "after", None),)
    for number in range(6):
        steps.begin(10.0 * number)
        steps.end(10.0 * number + (2.0 if number == 4 else 1.0))
    assert [step - 10 for name, step in hooks.told if name == "after"] == called
    assert [step - 10 for name, step in hooks.told if name == "before"] == [
        each for each in range(6) if (each - 1 in called or ("on" in bounds))
    ]
    assert rest.on == (not called)


def test_a_rest_ends_at_a_time(kernel):
    steps = kernel.Steps(0, Clock())
    hooks = Hooks(steps)
    steps.after = ((rested(kernel, when=25.0), "after", None),)
    for number in range(4):
        steps.begin(10.0 * number)
        steps.end(10.0 * number + 5.0)
    assert hooks.told == [("after", 2), ("after", 3)]


def test_one_that_rests_does_not_keep_another_from_being_called(kernel):
    steps = kernel.Steps(0, Clock())
    hooks = Hooks(steps)
    steps.after = ((rested(kernel), "one", None), (rested(kernel, left=1), "two", None))
    for _ in range(4):
        steps.step()
    assert hooks.told == [("two", 1), ("two", 2)]


def test_a_rest_that_somebody_ends_is_over_at_the_next_boundary(kernel):
    steps = kernel.Steps(0, Clock())
    hooks, rest = Hooks(steps), rested(kernel)
    steps.before, steps.after = ((rest, "before", None),), ((rest, "after", None),)
    steps.step()
    rest.on = False
    steps.step()
    assert hooks.told == [("after", 0), ("before", 1)]


# --- the account ----------------------------------------------------------------------------------------


def test_what_a_boundary_costs_is_booked_once(kernel):
    steps = kernel.Steps(0, Clock())
    steps.spent = spent = kernel.Spent()

    class Logs:
        def call(self, chosen, step):
            spent.seconds += 0.125  # counted by whoever logged
            spent.theirs += 0.25  # the user's own

    steps.hooks, steps.after = Logs(), ((None, "after", None),)
    steps.begin(0.0, 0.5)  # the clock says 1.0: half a second since its data came
    assert (spent.seconds, spent.steps) == (0.5, 0)
    assert steps.end(1.5) == 2.0
    assert (spent.seconds, spent.theirs, spent.steps) == (0.5 + 0.5 - 0.25, 0.25, 1)


def test_what_a_hook_raises_passes(kernel):
    steps = kernel.Steps(0, Clock())

    class Raises:
        def call(self, chosen, step):
            raise KeyError(step)

    steps.hooks, steps.after = Raises(), ((None, "after", None),)
    steps.begin(0.0)
    with pytest.raises(KeyError):
        steps.end(1.0)
    assert not steps.running


# --- the calls that a run inherits ------------------------------------------------------------------------


def test_a_point_goes_to_where_points_wait_or_is_seen_to(kernel):
    seen, points = [], Points(lambda: 7.0, 10**9)
    points.admit("a")
    calls = kernel.HotCalls(points, kernel.Steps(0, Clock()), lambda *given: seen.append(given))
    calls.scalar("a", 1.0, 2)
    calls.scalar("a", 1.0, step=3)
    calls.scalar("c", 1.0)
    points.gated = True
    calls.scalar("a", 1.0, 4)
    assert [given[:3] for given in seen] == [("c", 1.0, None), ("a", 1.0, 4)]
    assert rows(points) == [(0, 1.0, 2, 7.0), (0, 1.0, 3, 7.0)]
    with calls.step() as number:
        assert number == 0


def test_calls_that_were_never_made_say_so():
    class Late(compiled.HotCalls):
        def __init__(self):
            pass

    for call in (lambda: Late().scalar("a", 1.0), lambda: Late().step()):
        with pytest.raises(RuntimeError, match=r"super\(\).__init__"):
            call()


def test_a_number_of_a_writer_goes_to_the_points_or_is_seen_to_with_all_its_arguments(kernel):
    seen, points = [], Points(lambda: 7.0, 10**9)
    points.admit("a")

    class Writer(kernel.HotWriter):
        def _add_unusual(self, *given):
            seen.append(given)

    writer = Writer()
    writer.add_scalar("a", 1.0, 2)
    writer._direct = kernel.HotCalls(points, kernel.Steps(0, Clock()), lambda *given: None)
    writer.add_scalar("a", 1.5, 2)
    writer.add_scalar(tag="a", scalar_value=3)
    writer.add_scalar("b", 1.0, 2)
    writer.add_scalar("a", "0.5", 2)
    writer.add_scalar("a", 1.0, 2.5)
    writer.add_scalar("a", 1.0, 2, 99.0)
    for option in ("new_style", "double_precision"):
        writer.add_scalar("a", 1.0, 2, **{option: True})
    for option in ("display_name", "summary_description"):
        writer.add_scalar("a", 1.0, 2, **{option: "x"})
    usual = (None, False, False, "", "")
    assert seen == [
        ("a", 1.0, 2, *usual),
        ("b", 1.0, 2, *usual),
        ("a", "0.5", 2, *usual),
        ("a", 1.0, 2.5, *usual),
        ("a", 1.0, 2, 99.0, False, False, "", ""),
        ("a", 1.0, 2, None, True, False, "", ""),
        ("a", 1.0, 2, None, False, True, "", ""),
        ("a", 1.0, 2, None, False, False, "x", ""),
        ("a", 1.0, 2, None, False, False, "", "x"),
    ]
    assert rows(points) == [(0, 1.5, 2, 7.0), (0, 3.0, 0, 7.0)]
