"""A series has one source: what is also printed, or given to a second tracker, is not recorded twice."""

import pytest

from stepscope.launch.sources import PRINTED, Sources


@pytest.mark.parametrize(("given", "taken"), [
    # A tracker has each step, every second one is printed, too.
    (["t0", "p0", "t1", "t2", "p2", "t3", "t4", "p4"], ["t0", "t1", "t2", "t3", "t4"]),
    # What is printed comes first: only of the first step nobody knows that a tracker will be given it.
    (["p0", "t0", "p1", "t1", "p2", "t2"], ["p0", "t0", "t1", "t2"]),
    # Lines that are read late, when their steps are over.
    (["t0", "t1", "t2", "p0", "p1", "p2", "t3", "p3"], ["t0", "t1", "t2", "t3"]),
    # A tracker that is given every tenth step: between them what is printed is all that is known.
    (["t0", "p0", "p1", "p2", "t3", "p3", "p4"], ["t0", "p1", "p2", "t3", "p4"]),
    # Two trackers are given the same.
    (["t0", "u0", "t1", "u1", "t2", "u2"], ["t0", "t1", "t2"]),
    # The first one falls silent.
    (["t0", "u0", "u1", "u2"], ["t0", "u1", "u2"]),
    # Without steps the order tells.
    (["t", "p", "t", "p", "p"], ["t", "t", "p"]),
])  # fmt: skip
def test_each_value_is_taken_once(given, taken):
    sources, news = Sources(), []
    names = {"p": PRINTED, "t": "tracker", "u": "other"}
    for value in given:
        step = int(value[1:]) if value[1:] else None
        news += [value] * len(sources.news(names[value[0]], {"loss": 0.5}, step))
    assert news == taken


def test_series_are_judged_by_themselves():
    sources = Sources()
    assert sources.news("tracker", {"loss": 0.5}, 3) == {"loss": 0.5}
    assert sources.news(PRINTED, {"loss": 0.5, "accuracy": 0.9}, 3) == {"accuracy": 0.9}
