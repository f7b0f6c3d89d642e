import pytest

from stepscope.capture.schedule import BeginVerdict, Schedule, SlowSteps
from stepscope.errors import UsageError


def always(now):
    return True


def verdict(allowed, otherwise=BeginVerdict.SKIP):
    return lambda now, due: BeginVerdict.NOW if allowed(now) else otherwise


def captured(schedule, steps, *, seconds_per_step=1.0, allowed=always, start=0, otherwise=BeginVerdict.SKIP):
    says = verdict(allowed, otherwise)
    return [step for step in range(start, steps) if schedule.begins(step, step * seconds_per_step, says)]


def test_by_steps_the_first_comes_early_and_the_others_at_the_multiples():
    assert captured(Schedule(save_steps=10), 41) == [5, 10, 20, 30, 40]


def test_a_run_that_resumes_keeps_the_rhythm():
    assert captured(Schedule(save_steps=10), 1031, start=1003) == [1008, 1010, 1020, 1030]


def test_a_run_of_twenty_steps_has_a_profile():
    assert captured(Schedule(save_steps=500), 20) == [5]


def test_the_first_step_is_captured_only_if_asked():
    assert captured(Schedule(save_steps=500, skip_first=0), 20) == [0]
    assert captured(Schedule(save_steps=1, skip_first=1), 4) == [1, 2, 3]


def test_by_seconds():
    assert captured(Schedule(save_secs=10, skip_first=2), 40, seconds_per_step=0.9) == [2, 14, 26, 38]


def test_by_predicate_exactly_those_steps_but_where_none_can_be_made():
    schedule = Schedule(predicate=lambda step: step in (0, 7, 9), skip_first=0)
    assert captured(schedule, 20, allowed=lambda now: now != 7) == [0, 9]


def test_without_a_rhythm_nothing_is_captured():
    assert captured(Schedule(), 100) == []


def test_what_the_budget_does_not_allow_waits_for_the_next_multiple():
    schedule = Schedule(save_steps=10)
    allowed = [5, *range(33, 100)]
    assert captured(schedule, 51, allowed=lambda now: now in allowed) == [5, 40, 50]


def test_what_can_only_begin_later_does_so_as_soon_as_it_can_and_the_rhythm_stays():
    free = [5, *range(13, 20), *range(32, 100)]
    schedule = Schedule(save_steps=10)
    assert captured(schedule, 51, allowed=lambda now: now in free, otherwise=BeginVerdict.LATER) == [
        5, 13, 32, 40, 50,
    ]  # fmt: skip


def test_it_says_at_which_step_a_capture_was_due():
    asked = []

    def late(now, due):
        asked.append(due)
        return BeginVerdict.NOW if now in (7, 13, 34) else BeginVerdict.LATER

    schedule = Schedule(save_steps=10)
    assert [step for step in range(36) if schedule.begins(step, step, late)] == [7, 13, 34]
    assert asked == [5, 6, 7, *[10] * 4, *[20] * 10, *[30] * 5]


def test_the_first_capture_comes_as_soon_as_it_may():
    assert captured(Schedule(save_steps=100), 30, allowed=lambda now: now >= 12) == [12]


def test_the_budget_is_asked_only_when_a_capture_is_due():
    asked = []

    def allowed(now):
        asked.append(now)
        return True

    captured(Schedule(save_steps=10), 20, allowed=allowed)
    assert asked == [5, 10]


def test_what_the_predicate_raises_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        Schedule(predicate=lambda step: 1 / 0, skip_first=0).begins(0, 0.0, verdict(always))


@pytest.mark.parametrize(
    "arguments",
    [
        {"save_steps": 10, "save_secs": 1.0},
        {"save_steps": 0},
        {"save_steps": 1.5},
        {"save_steps": True},
        {"save_secs": -1},
        {"save_secs": float("inf")},
        {"save_secs": "10"},
        {"save_steps": 10, "skip_first": -1},
    ],
)
def test_what_cannot_be_right_is_refused(arguments):
    with pytest.raises(UsageError):
        Schedule(**arguments)


def captured_at_rest(schedule, numbers, *, seconds_per_step=1.0, says):
    """As ``captured``, but asked only where ``rest`` does not say that nothing is due."""
    found, skipped, rest = [], 0, None
    for at, step in enumerate(numbers):
        now = at * seconds_per_step
        if rest is not None:
            left, low, high, when = rest
            if left > skipped and low <= step < high and now < when:
                skipped += 1
                continue
        schedule.skip(skipped)
        skipped = 0
        if schedule.begins(step, now, says):
            found.append(step)
        rest = schedule.rest(now)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"save_steps": 10},
        {"save_steps": 7, "skip_first": 0},
        {"save_secs": 9.5},
        {"save_secs": 0.3, "skip_first": 31},
        {"predicate": lambda step: step % 9 == 4, "skip_first": 20},
        {},
    ],
)
@pytest.mark.parametrize("allowed", [always, lambda now: int(now) % 3 == 0, lambda now: now > 40])
@pytest.mark.parametrize(
    "numbers",
    [range(90), range(1003, 1100), [*range(40), *range(200, 260), *range(5, 60)], range(0, 900, 11)],
)
@pytest.mark.parametrize("otherwise", [BeginVerdict.SKIP, BeginVerdict.LATER])
def test_whom_it_lets_rest_misses_nothing(options, allowed, numbers, otherwise):
    asked, says = Schedule(**options), verdict(allowed, otherwise)
    plain = [step for at, step in enumerate(numbers) if asked.begins(step, 0.7 * at, says)]
    assert captured_at_rest(Schedule(**options), numbers, seconds_per_step=0.7, says=says) == plain


def test_it_lets_rest_until_something_may_be_due():
    schedule, most = Schedule(save_steps=10), 1 << 40
    assert schedule.rest(0.0)[0] == 5
    schedule.skip(5)
    assert schedule.rest(0.0)[0] == 0  # the first is due as soon as it is allowed
    assert schedule.begins(12, 0.0, verdict(always))
    steps, low, high, when = schedule.rest(0.0)
    assert (steps > most, low, high, when) == (True, 10, 20, float("inf"))
    assert Schedule().rest(0.0)[0] > most
    assert Schedule(predicate=bool, skip_first=0).rest(0.0)[0] == 0


def found(seconds, factor=3.0):
    slow = SlowSteps(factor)
    return [step for step, each in enumerate(seconds) if slow.found(each)]


def test_tells_a_step_that_took_several_times_the_median():
    assert found([0.1] * 20 + [0.31] + [0.1] * 10) == [20]
    assert found([0.1] * 20 + [0.29] + [0.1] * 10) == []


def test_does_not_judge_before_it_knows_what_is_usual():
    assert found([9.0] + [0.1] * 14) == []


def test_tells_a_training_that_has_become_slow_once():
    assert found([0.1] * 32 + [0.5] * 60) == [32]


def test_never_where_it_was_not_asked_for():
    assert found([0.1] * 20 + [9.0], factor=None) == []


@pytest.mark.parametrize("factor", [1, 0.5, float("inf"), "3"])
def test_a_factor_that_cannot_be_right_is_refused(factor):
    with pytest.raises(UsageError):
        SlowSteps(factor)


def test_it_says_for_how_many_steps_its_limit_holds():
    slow = SlowSteps(3)
    assert slow.rest == (16, float("inf"))
    for _ in range(10):
        assert not slow.found(0.01)
    assert slow.rest == (6, float("inf"))
    for _ in range(6):
        assert not slow.found(0.01)
    assert slow.rest == (16, pytest.approx(0.03))
    assert SlowSteps(None).rest[0] > 1 << 40
