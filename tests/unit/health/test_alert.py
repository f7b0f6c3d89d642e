"""Rules of one's own: the language of conditions, and findings of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.errors import ExpressionError, UsageError
from stepscope.expression import Tag, Window, parse_condition, tags_of
from stepscope.health import Alert, Monitor
from stepscope.health.alert import Own
from stepscope.health.conditions import ConditionFollower, WindowFollower

VALUES = [4.0, 2.0, 8.0, 1.0, 5.0]
STEPS = [0, 10, 20, 30, 40]


@pytest.mark.parametrize(
    ("function", "points", "expected"),
    [
        ("last", 0, 5.0),
        ("last", 2, 8.0),
        ("delta", 1, 4.0),
        ("delta", 4, 1.0),
        ("mean", 2, 3.0),
        ("median", 3, 5.0),
        ("min", 0, 1.0),
        ("max", 0, 8.0),
        ("max", 2, 5.0),
        ("count", 0, 5.0),
        ("at", 0, 4.0),
        ("at", 25, 8.0),
        ("at", 40, 5.0),
        ("std", 5, np.std(VALUES, ddof=1)),
        ("rate", 1, 4.0 / (STEPS[-1] - STEPS[-2])),
        ("rate", 4, 1.0 / (STEPS[-1] - STEPS[0])),
        ("per_second", 4, 1.0 / (2.5 * (STEPS[-1] - STEPS[0]))),
        ("slope", 5, np.polyfit(STEPS, VALUES, 1)[0]),
        ("ema", 3, np.average(VALUES, weights=0.5 ** np.arange(4, -1, -1))),
    ],
)
def test_functions_are_what_they_say(function, points, expected):
    follower = WindowFollower(Window(function, Tag("a"), points))
    for step, value in zip(STEPS, VALUES, strict=True):
        follower.see(float("nan"), step, 2.5 * step)  # left out
        follower.see(value, step, 2.5 * step)
    assert follower.value == pytest.approx(expected)


@pytest.mark.parametrize(
    ("function", "points"), [("mean", 6), ("ema", 6), ("last", 5), ("delta", 5), ("slope", 6), ("at", 41)]
)
def test_too_few_points_are_not_known(function, points):
    follower = WindowFollower(Window(function, Tag("a"), points))
    for step, value in zip(STEPS, VALUES, strict=True):
        follower.see(value, step, 0.0)
    assert np.isnan(follower.value)


def test_points_of_one_step_have_no_slope():
    follower = WindowFollower(Window("slope", Tag("a"), 2))
    for value in (1.0, 2.0):
        follower.see(value, 7, 0.0)
    assert np.isnan(follower.value)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("a > 1", 1.0),
        ("a > 1 and b > 10", 0.0),
        ("a > 1 or b > 10", 1.0),
        ("not a > 1", 0.0),
        ("not (a > 1 and b > 10)", 1.0),
        ("2 * b - 4 <= 2 + -a + 1", 0.0),
        ("abs(b - 10) == 7", 1.0),
        ("b / 2 - 1 < a * 3", 1.0),
        ("c > 1", float("nan")),
        ("c > 1 and b > 10", 0.0),
        ("c > 1 or a > 1", 1.0),
        ("a > 1 and b < 10", 1.0),
        ("a > 2 or b > 10", 0.0),
        ("c > 1 and a > 1", float("nan")),
        ("a > 2 or c > 1", float("nan")),
        ("a / (b - 3) > 1e9", 1.0),
    ],
)
def test_conditions_come_to_what_they_say(text, holds):
    follower = ConditionFollower(parse_condition(text))
    follower.see("a", 0, 0.0, 2.0)
    follower.see("b", 0, 0.0, 3.0)
    assert follower.settle() == pytest.approx(holds, nan_ok=True)


@given(st.text(alphabet="ab/()<>=+-*., 0123\"'andort_", max_size=40))
def test_any_text_is_a_condition_or_refused(text):
    try:
        tree = parse_condition(text)
    except ExpressionError:
        return
    follower = ConditionFollower(tree)
    for tag in tags_of(tree):
        follower.see(tag.name, 0, 0.0, 1.0)
    assert follower.settle() in (0.0, 1.0) or np.isnan(follower.settle())


def judged(alert, series, cuts=()):
    monitor = Monitor(dict.fromkeys(Monitor().verdict.passed, False), alerts=[alert])
    done = 0
    for until in (*cuts, 10**9):
        for tag, values in series.items():
            rows = slice(done, min(until, len(values)))
            steps = np.arange(len(values))[rows]
            monitor.take(tag, steps, np.array(values)[rows], 1e9 + steps)
        done = min(until, max(map(len, series.values())))
        monitor.advance(1e9 + done)
    monitor.finish()
    return monitor.rules[-1]


LOSS = [1.0] * 50 + [5.0] * 20 + [1.0] * 40


@pytest.mark.parametrize("cuts", [(), (51, 52, 60), tuple(range(1, 110, 7))])
def test_a_condition_opens_and_closes_whatever_the_portions(cuts):
    own = judged("mean(any/name, 5) > 2 * min(any/name)", {"any/name": LOSS}, cuts)
    [finding] = own.found
    assert (finding.step, finding.closed_step) == (51, 82)
    assert finding.rule == "mean(any/name, 5) > 2 * min(any/name)"
    assert "mean(any/name, 5) is 2.6" in finding.summary
    assert finding.values == {"mean(any/name, 5)": pytest.approx(2.6), "min(any/name)": 1.0}


def test_a_step_is_judged_once_all_its_tags_are_there():
    # Were it judged at the first tag of a step, a would be compared with b of the step before.
    rising = list(map(float, range(20)))
    own = judged("a > b", {"a": rising, "b": rising})
    assert own.found == []
    assert own.missing is None


@pytest.mark.parametrize(("action", "said"), [("lower the rate", "lower the rate"), ("", Own.action)])
def test_what_to_do_is_what_the_user_wrote(action, said):
    [finding] = judged(Alert("a > 1", action=action), {"a": [2.0]}).found
    assert finding.action == said


def test_values_are_those_that_were_logged():
    own = judged("speed/step_time_ms > 100", {"speed/step_time_ms": [50.0] * 5 + [150.0] * 5})
    assert [finding.step for finding in own.found] == [5]


def test_a_tag_that_is_missing_is_said():
    own = judged("nowhere > 1", {"train/loss": LOSS})
    assert own.missing == "not recorded, or too few points: nowhere"


def test_a_function_is_given_the_last_values():
    seen = []

    def high(values):
        seen.append({tag: each.tolist() for tag, each in values.items()})
        return "it is high" if values["a"][-1] > 3 else None

    own = judged(Alert(high, tags=["a"], keep=3, severity="high"), {"a": [1.0, 2.0, 3.0, 4.0]})
    assert seen[-1] == {"a": [2.0, 3.0, 4.0]}
    [finding] = own.found
    assert (finding.rule, finding.severity, finding.summary) == ("high", "high", "it is high")


def test_a_function_that_raises_is_not_called_again():
    calls = []

    def broken(values):
        calls.append(1)
        raise ValueError("oh")

    own = judged(Alert(broken, tags=["a"]), {"a": [1.0, 2.0]})
    assert calls == [1]
    assert own.missing == "broken raised ValueError: oh"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Alert(lambda values: True),
        lambda: Alert("a > 1", tags=["a"]),
        lambda: Alert("a > 1", severity="bad"),
        lambda: Alert("a > 1", calm=0),
        lambda: Alert("a > 1", keep=0),
        lambda: Monitor(alerts=["a > 1", "a > 1"]),
        lambda: Monitor(alerts=[3]),
    ],
)
def test_arguments_that_cannot_be_right_are_refused(wrong):
    with pytest.raises(UsageError) as caught:
        wrong()
    assert caught.value.hint


def test_a_window_of_an_expression_takes_a_value_at_each_step():
    rising = list(map(float, range(20)))
    own = judged("mean(a - b, 5) < -5", {"a": [0.0] * 20, "b": rising})
    [finding] = own.found
    assert finding.step == 8  # of the steps 4 to 8 the mean is -6
    assert judged("min(a / b, 30) > 0", {"a": rising, "b": rising}).missing is not None


def test_the_place_of_a_point_can_be_compared():
    own = judged("a > 1 and step >= 7", {"a": [2.0] * 20})
    assert [finding.step for finding in own.found] == [7]


def test_the_least_are_allowed():
    assert Alert("a > 1", keep=1, calm=1).calm == 1
