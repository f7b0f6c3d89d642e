"""Steps that only dispatch their work are not judged; steps that wait for it, or overlap with it, are."""

from __future__ import annotations

import pytest

from stepscope.analyze.advise import advise
from stepscope.analyze.advise.finding import Facts

DISPATCH, PERIOD, WORK = 400_000, 5_000_000, 20_000_000


def dispatched(make, begins: list[int], duration: int = DISPATCH):
    """Three steps on the host, whose work XLA's threads run from some times on."""
    kind = make.Kind
    events = [
        event
        for n in range(3)
        for event in (
            make.event(f"ProfilerStep#{n}", kind.STEP, n * PERIOD, duration, step=n),
            make.event("PjitFunction(train)", kind.HOST_OP, n * PERIOD + 100_000, 100_000),
        )
    ]
    events += [make.event("dot", kind.HOST_OP, at, WORK, lane="tf_XLAPjRtCpuClient/1") for at in begins]
    return make.build(events, format="xplane")


def spoken(trace):
    said = advise(Facts(trace))
    return {one.rule for one in said.findings}, {one.rule: one.missing for one in said.abstained}


def test_work_that_runs_after_all_steps_is_not_judged_by_them(make) -> None:
    found, missing = spoken(dispatched(make, [30_000_000, 60_000_000, 90_000_000]))
    assert not found
    assert "only dispatch their work" in missing["input-bound"]
    assert "only dispatch their work" in missing["between-steps"]


@pytest.mark.parametrize(
    "begins", [[], [-1_000_000, 4_000_000, 9_000_000], [1_000_000, 30_000_000, 60_000_000, 90_000_000]]
)
def test_steps_whose_work_runs_beside_them_are(make, begins) -> None:
    _, missing = spoken(dispatched(make, begins, PERIOD - 100_000))
    assert not any("only dispatch" in text for text in missing.values())


def test_steps_between_which_something_waits_for_their_work_are_judged(make) -> None:
    """Of three steps of 0.4 ms the work of two was waited for before the last one began."""
    begins = [500_000, PERIOD + 500_000, 2 * PERIOD + 500_000]
    trace = dispatched(make, begins)
    thread = "tf_XLAPjRtCpuClient/1"
    short = make.build([
        *(event for n in range(3) for event in (
            make.event(f"ProfilerStep#{n}", make.Kind.STEP, n * 40_000_000, DISPATCH, step=n),
            make.event("PjitFunction(train)", make.Kind.HOST_OP, n * 40_000_000 + 100_000, 100_000),
            make.event("dot", make.Kind.HOST_OP, n * 40_000_000 + 500_000, 2_000_000, lane=thread),
        )),
    ], format="xplane")  # fmt: skip
    for one in (trace, short):
        _, missing = spoken(one)
        assert not any("only dispatch" in text for text in missing.values())
