"""Some of the steps: what other analyses then see."""

import pytest

from stepscope.analyze.chosen import keep_steps
from stepscope.analyze.diff import diff
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import view
from stepscope.errors import UsageError


@pytest.fixture
def trace(make):
    """Steps 3, 4, 5 and 9 of 1000 ns, in which an operator takes 100, 200, 300 and 900 ns; one outside."""
    event, kind = make.event, make.Kind
    events = [event("late", kind.HOST_OP, 5000, 50)]
    for at, (step, lasts) in enumerate(((3, 100), (4, 200), (5, 300), (9, 900))):
        events.append(event(f"step{step}", kind.STEP, at * 1000, 1000, step=step))
        events.append(event("mm", kind.HOST_OP, at * 1000 + 10, lasts))
    return make.build(events)


def mean_of(trace, **options):
    answer = view("op", trace, ViewOptions(**options))
    column = next(one for one in answer.columns if one.key == "host_ns")
    return column.values[0], answer.windows


@pytest.mark.parametrize(
    ("wanted", "numbers", "mean"),
    [("", [3, 4, 5, 9], 375), ("4", [4], 200), ("4-5", [4, 5], 250), (" 3, 5-20 ", [3, 5, 9], 1300 / 3)],
)
def test_views_are_means_of_the_chosen_steps(trace, wanted, numbers, mean):
    kept = keep_steps(trace, wanted)
    assert kept.steps.number.tolist() == numbers
    value, windows = mean_of(kept)
    assert (value, windows) == (pytest.approx(mean), len(numbers))


def test_one_step_is_what_tfprofs_option_says(trace):
    assert mean_of(keep_steps(trace, "5")) == mean_of(trace, step=5)


def test_a_difference_is_of_the_chosen_steps(trace):
    found = diff(keep_steps(trace, "3"), keep_steps(trace, "9"))
    (mm,) = [one for one in found.operators if one.name == "mm"]
    assert (mm.a.median_ns, mm.b.median_ns, mm.difference_ns) == (100, 900, 800)


@pytest.mark.parametrize("wanted", ["7", "x", "3-", "-1", "3,,4", "9" * 30])
def test_steps_that_are_not_there_are_said(trace, wanted):
    with pytest.raises(UsageError) as failure:
        keep_steps(trace, wanted)
    assert failure.value.hint
