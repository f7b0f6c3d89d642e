"""The button of the bar that says what is wrong opens the steps, and the series, of which it is said."""

import math
import re

import pytest

STEPS = 400
FALLING = [2 * math.exp(-step / 40) + 0.3 + 0.01 * (step * 7 % 5) for step in range(STEPS)]
TIMES = [103.7 + step % 9 for step in range(STEPS)]
WRONG = {
    "nonfinite": {"train/loss": [*FALLING[:250], *[math.nan] * 150]},
    "diverging": {
        "train/loss": [
            loss if step < 200 else loss * 1.03 ** (step - 200) for step, loss in enumerate(FALLING)
        ]
    },
    "slower": {
        "train/loss": FALLING,
        "speed/step_time_ms": [time + 240 * (step >= 150) for step, time in enumerate(TIMES)],
    },
    "waiting": {
        "train/loss": FALLING,
        "speed/step_time_ms": [time + 240 * (step >= 150) for step, time in enumerate(TIMES)],
        "speed/data_wait_ms": [3.3 + 240 * (step >= 150) + step % 9 for step in range(STEPS)],
    },
    "flat": {"train/loss": [2.3 + 0.01 * (step * 7 % 5) for step in range(STEPS)]},
    "vanishing": {
        "train/loss": FALLING,
        "gradients/norm": [
            math.exp(-max(0, step - 200) / 8) * (1 + 0.1 * (step * 7 % 5)) for step in range(STEPS)
        ],
    },
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory, written):
    root = tmp_path_factory.mktemp("shows") / "runs"
    for name, values in WRONG.items():
        written(root / name, values, total_steps=STEPS)
    return root


def test_a_finding_shows_the_step_that_it_names(runs, serve_long, watch):
    watched = watch(serve_long(runs))
    page, rules = watched.page, set()
    for run, values in WRONG.items():
        watched.open(f"#/overview?q=run:{run}")
        watched.page.get_by_role("region", name="Findings").get_by_text("lacked data").first.wait_for()
        links = page.get_by_role("complementary", name=f"What is wrong with {run}").get_by_role(
            "link", name=re.compile(r"^Show step [\d,]+$")
        )
        if not links.count():
            continue
        since = int(re.sub(r"\D", "", links.inner_text()))
        links.click()
        watched.wait("() => location.hash.startsWith('#/scalars')")
        watched.ready()
        charts = watched.charts()
        assert charts, run
        for chart in charts.values():
            assert {line["run"] for line in chart["lines"]} == {run}
            assert {line["tag"] for line in chart["lines"]} <= values.keys()
            assert chart["x"]["min"] <= since <= chart["x"]["max"], (run, since, chart["x"])
            # What was before can be compared with what is since then.
            for line in chart["lines"]:
                shown = [x for x in line["x"] if chart["x"]["min"] <= x <= chart["x"]["max"]]
                assert any(x >= since for x in shown), (run, since)
                assert since == 0 or any(x < since for x in shown), (run, since)
            assert [mark["step"] for mark in chart["marks"] if mark["kind"] == "onset"] == [since]
        rules.add(run)
    assert {"nonfinite", "waiting", "diverging"} <= rules
