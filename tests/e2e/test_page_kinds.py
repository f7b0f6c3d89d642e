"""Metrics drawn as what they are, the bar that says what is wrong, and colours that stay with their runs."""

import math

import pytest

import stepscope as ss

MARKED = (
    "() => window.__stepscope_test.charts().some(chart => chart.marks.some(mark => mark.kind === 'onset'))"
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run whose loss breaks, beside one that compiles in its first step."""
    root = tmp_path_factory.mktemp("kinds")
    with ss.Run(root / "broken") as run:
        for step in range(200):
            run.scalar("train/loss", math.nan if step >= 120 else 2.0 * 0.9**step, step)
            run.scalar("eval/loss", 2.0 * 0.9**step + 0.1, step) if step % 20 == 0 else None
            run.scalar("learning_rate", 1.554e-9, step)
            run.scalar("step_s", 1.5 if step == 0 else 0.01 + 0.0001 * (step % 7), step)
            run.scalar("nonfinite_count", 64 if step == 199 else 0, step)
            run.scalar("widgets", step % 2, step)
    with ss.Run(root / "sound") as run:
        for step in range(200):
            run.scalar("train/loss", 2.0 * 0.99**step, step)
    return root


def test_a_compile_step_does_not_flatten_the_chart_and_is_said(runs, serve_long, watch):
    watched = watch(serve_long(runs), "#/scalars?q=run:broken")
    chart = watched.ready() and watched.charts()["step_s"]
    assert chart["y"]["max"] < 0.02
    assert chart["cut"] == {"value": 1.5, "x": 0, "count": 1}
    card = watched.page.get_by_role("article", name="step", exact=True)
    assert "1,500 ms, step 0" in " ".join(card.inner_text().split())


def test_values_are_as_recorded_and_counts_are_not_averaged(runs, serve_long, watch):
    watched = watch(serve_long(runs), "#/scalars?q=run:broken&sm=0.99")
    watched.ready()
    assert watched.charts()["nonfinite_count"]["lines"][0]["y"][-1] == 64
    assert watched.charts()["train/loss"]["logY"] is True
    assert "64" in watched.page.get_by_role("article", name="nonfinite_count").inner_text()


def test_train_and_eval_are_told_by_dash(runs, serve_long, watch):
    watched = watch(serve_long(runs), "#/overview?q=run:broken")
    watched.ready()
    train, evaluation = sorted(watched.charts()["train/loss"]["lines"], key=lambda line: line["tag"])[::-1]
    assert (train["dash"], evaluation["dash"]) == ([], [4, 3])


@pytest.mark.parametrize("page", ["overview", "scalars", "distributions", "graph", "ranks", "profile"])
def test_every_page_of_a_run_says_what_is_wrong(runs, serve_long, watch, page):
    watched = watch(serve_long(runs), f"#/{page}?q=run:broken")
    bar = watched.page.get_by_role("complementary", name="What is wrong with broken")
    bar.wait_for()
    assert "Since step 120: the loss is NaN" in bar.inner_text()


def test_one_click_leads_to_where_it_began_which_the_axes_mark(runs, serve_long, watch):
    watched = watch(serve_long(runs), "#/overview?q=run:broken")
    watched.wait(MARKED)
    assert {mark["step"] for chart in watched.charts().values() for mark in chart["marks"]} == {120}
    watched.page.get_by_role("link", name="Show step 120").click()
    watched.wait("() => location.hash.startsWith('#/scalars')")


def test_a_sound_run_has_no_bar(runs, serve_long, watch):
    watched = watch(serve_long(runs), "#/overview?q=run:sound")
    watched.page.get_by_role("region", name="Findings").get_by_text("lacked data").first.wait_for()
    assert watched.page.locator("aside.blame").count() == 0


def test_a_kind_is_corrected_on_its_chart_and_kept(runs, serve, watch):
    page = watch(serve(runs), "#/scalars?q=run:broken&f=widgets")
    page.ready()
    card = page.get_by_role("article", name="widgets")
    card.hover()
    card.get_by_role("button", name="Settings of widgets").click()
    page.get_by_role("button", name="Counter", exact=True).click()
    page.wait(
        "() => window.__stepscope_test.charts().every(({ lines }) =>"
        " lines.every(({ y }) => y.every(value => value === 0 || value === 1)))"
    )
    assert [path.read_text() for path in (runs / ".stepscope" / "metrics").glob("*.json")]


def test_a_colour_is_chosen_and_kept_beside_the_run(runs, serve, watch):
    server = serve(runs)
    page = watch(server, "#/scalars?f=train")
    page.ready()
    page.request.post(f"{server.url}/api/v1/run", data={"run": "sound", "colour": 5})
    colour = "() => window.__stepscope_test.charts()[0]?.lines.find(({ run }) => run === 'sound')?.colour"
    page.wait(f"() => ({colour})() === getComputedStyle(document.documentElement)"
                 ".getPropertyValue('--series-5').trim()")  # fmt: skip
