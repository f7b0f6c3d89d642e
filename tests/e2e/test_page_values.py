"""What the page says of a metric is what was recorded: values, units, colours."""

import math
import re

import pytest
from support.records import write_series

import stepscope as ss
from stepscope.events import EventWriter

STEPS = 40


@pytest.fixture
def logs(tmp_path):
    root = tmp_path / "runs"
    for number, run in enumerate(("first", "second")):
        record(root / run, 1_700_000_000 + 1000 * number)
    return root


def record(directory, start, **extra):
    writer = EventWriter(directory)
    for step in range(STEPS):
        bad = step == STEPS - 1
        values = {
            "train/loss": math.nan if bad else 2.0 / (step + 1) + step % 2,
            "train/nonfinite_count": 64.0 if bad else 0.0,
            "train/lr": 1.554e-9 if bad else 3e-4,
            "a/rather/long/name/of/a/metric/that/no/card/has/room/for": 1e-5 * step,
            "memory/also/a/rather/long/name/of/a/metric/that/no/card/has/room/for_bytes": 3.0 * 2**20,
            **extra,
        }
        writer.scalars(list(values.items()), step, start + step)
    writer.close()


def card(page, title):
    return page.get_by_role("article", name=title, exact=True).first


def test_current_values_are_as_recorded_and_never_smoothed(logs, serve, watch):
    page = watch(serve(logs), "#/scalars?q=run:first&sm=0.9")
    page.ready()
    shown = {
        tag: card(page, tag).locator(".value").inner_text()
        for tag in ("train/loss", "train/nonfinite_count", "train/lr")
    }
    assert shown == {"train/loss": "NaN", "train/nonfinite_count": "64", "train/lr": "1.55\u00d710⁻⁹"}
    assert "last NaN" in page.locator("[data-chart='train/loss']").first.get_attribute("aria-label")


def test_of_several_runs_the_card_says_that_some_end_at_no_number(logs, serve, watch):
    record(logs / "third", 1_700_003_000, **{"train/loss": 0.25})
    page = watch(serve(logs), "#/scalars")
    page.ready()
    assert card(page, "train/loss").locator(".value").inner_text() == "0.250, NaN"


def test_smoothing_is_never_asked_for_schedules_and_counts(logs, serve, watch):
    watched = watch(serve(logs), "#/scalars?sm=0.9")
    watched.ready()
    asked = {}
    for request in watched.requests:
        if request.url.endswith("/series") and request.post_data_json:
            for chart in request.post_data_json["charts"]:
                for line in chart["lines"]:
                    asked.setdefault(line["tag"], set()).add(chart.get("smoothing", 0))
    assert asked["train/lr"] == asked["train/nonfinite_count"] == {0}
    assert 0.9 in asked["train/loss"]


def test_the_unit_of_a_title_is_never_cut_off_and_no_title_has_a_power(logs, serve, watch):
    page = watch(serve(logs), "#/scalars?q=run:first")
    page.ready()
    for title in page.get_by_role("article").locator("h3:has(.nowrap)").all():
        box, room = title.locator(".nowrap").bounding_box(), title.bounding_box()
        assert box["x"] + box["width"] <= room["x"] + room["width"] + 1, title.inner_text()
        assert title.locator(".nowrap").evaluate("each => each.scrollWidth <= each.clientWidth + 1")
    units = page.get_by_role("article").locator("h3 .nowrap").all_inner_texts()
    assert units
    assert not any("\u00d710" in text for text in units), (
        "a value brings its own power, and no title a second one"
    )


def colours(watched):
    return {line["run"]: line["colour"] for line in watched.charts()["train/lr"]["lines"]}


@pytest.mark.parametrize("width", [1440, 1024, 390])
def test_the_verdict_of_a_run_is_never_cut_off(tmp_path, serve, watch, width):
    tag = "validation/second_head/top_5_accuracy_after_calibration_ratio"
    write_series(tmp_path / "only", {tag: [step / STEPS for step in range(STEPS)]})
    watched = watch(serve(tmp_path))
    watched.page.set_viewport_size({"width": width, "height": 900})
    page = watched.open("#/overview")
    watched.ready()
    strip = page.get_by_role("region", name="State of the run")
    headline = strip.locator(".headline")
    headline.get_by_text("97.5").wait_for()
    assert tag in headline.inner_text().replace("\n", "")
    fits = "one => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight + 1"
    assert headline.evaluate(fits)
    assert strip.evaluate(fits), "the lines below it have their room too"


@pytest.mark.parametrize("width", [1440, 390])
def test_the_figures_of_step_time_are_whole(tmp_path, written, serve, watch, width):
    slow = {
        f"speed/{tag}_ms": [usual + 240 * (step >= 150) + step % 9 for step in range(300)]
        for tag, usual in (("step_time", 103.7), ("data_wait", 3.3))
    } | {"stepscope/overhead_us_per_step": [321.0] * 300, "stepscope/overhead_ratio": [0.00321] * 300}
    written(tmp_path / "slow", slow, config={"lr": 1e-3})
    watched = watch(serve(tmp_path))
    watched.page.set_viewport_size({"width": width, "height": 900})
    page = watched.open("#/overview")
    panel = page.get_by_role("region", name="Step time")
    panel.get_by_role("columnheader", name="Before").wait_for()
    strip = page.get_by_role("region", name="State of the run")
    changes = page.get_by_role("region", name="Changes")
    for text in ("speed/step_time_ms 108 → 348 ms", "speed/data_wait_ms 7.3 → 247 ms"):
        changes.get_by_text(text).wait_for()
    strip.get_by_text("was 108 ms before step 150").wait_for()
    panel.get_by_text("Before step 150108 ms").wait_for()
    strip.get_by_text(re.compile(r"was 6\.78\s%")).wait_for()  # 7.3 of 108 ms, the levels that Changes names
    whole = "cell => cell.scrollWidth <= cell.clientWidth"
    end = panel.evaluate("panel => panel.getBoundingClientRect().right")
    figures = panel.locator("td").all()
    assert len(figures) == 2 * 3
    for figure in figures:
        box = figure.bounding_box()
        assert figure.evaluate(whole)
        assert box["x"] + box["width"] <= end
    assert panel.get_by_text("Waiting for data", exact=True).evaluate(whole)


def test_on_a_phone_a_finding_is_said_whole_and_importance_fits(tmp_path, written, serve, watch):
    tag = "validation/" + "second_head_after_calibration/" * 6 + "score"
    for number in range(12):
        values = [0.1 * number + 1 / (step + 1) for step in range(50)]
        config = {"learning_rate": 0.1 * number, "width": number % 3, "optimizer": "adamw"}
        written(tmp_path / f"r{number}", {"train/loss": values}, config=config)
    falling = [1 / (step + 1) for step in range(60)]
    written(tmp_path / "broken", {tag: [1.0] * 30 + [float("nan")] * 30, "train/loss": falling})
    page = watch(serve(tmp_path))
    page.set_viewport_size({"width": 390, "height": 844})
    page.open("#/scalars?q=run:broken")
    said = page.get_by_role("complementary", name="What is wrong with broken").locator("p")
    said.get_by_text("score", exact=False).first.wait_for()
    assert said.bounding_box()["height"] > 4 * 16, "a case of more than three lines"
    assert said.evaluate("one => one.scrollHeight <= one.clientHeight + 1")
    assert page.locator("main").bounding_box()["height"] > 844 / 2
    page.open("#/overview?board=configurations")
    table = page.get_by_role("group", name="Importance of config keys")
    table.get_by_role("row").filter(has_text="learning_rate").wait_for()
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_run_keeps_its_colour_when_others_come_and_go_and_on_reload(logs, serve, watch, theme):
    page = watch(serve(logs), "#/scalars", theme=theme)
    page.ready()
    before = colours(page)
    assert len(set(before.values())) == 2
    for number in range(10):
        record(logs / f"earlier-{number}", 1_600_000_000 + 1000 * number)
    page.wait("() => window.__stepscope_test.charts().some(one => one.lines.length === 12)")
    page.ready()
    among_more = colours(page)
    assert {run: among_more[run] for run in before} == before
    assert len(set(among_more.values())) == 12
    page.reload()
    page.ready()
    assert colours(page) == among_more
    page.goto(page.url.split("#")[0] + "#/scalars?q=run:second")
    page.get_by_text("1 of 12 runs").wait_for()
    page.goto(page.url.split("#")[0] + "#/scalars?hide=first")
    page.wait("() => window.__stepscope_test.charts().every(one => one.lines.length === 11)")
    assert colours(page)["second"] == before["second"]


def test_a_long_name_is_whole_in_the_list_of_runs(tmp_path, serve, watch):
    """What tells the runs of a sweep apart is not cut; a state that says more than that all is well stays."""
    names = ["lr0.0001-bs32-wd0.01-seed1", "lr0.0001-bs32-wd0.01-seed2"]
    for name in names:
        with ss.Run(tmp_path / name) as run:
            run.scalar("loss", 1.0, 0)
    failed, short = "lr0.0001-bs64-wd0.01-seed1", "short"
    with pytest.raises(ZeroDivisionError), ss.Run(tmp_path / failed) as run:
        run.scalar("loss", 1 / 0, 0)
    with ss.Run(tmp_path / short) as run:
        run.scalar("loss", 1.0, 0)
    page = watch(serve(tmp_path), "#/scalars")
    page.ready()
    rail = page.get_by_role("complementary", name="Runs")
    for name in names:
        title = rail.locator(f"[data-run='{name}']").get_by_text(name, exact=True)
        cut = title.evaluate(
            "it => it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 1"
        )
        assert not cut, title.text_content()
        rail.get_by_role("button", name=f"{name} Finished").wait_for()
    rail.locator(f"[data-run='{short}']").get_by_text("Finished").wait_for()
    rail.locator(f"[data-run='{failed}']").get_by_text("Failed").wait_for()


def test_no_figure_anywhere_is_smoothed(tmp_path, serve, watch):
    for name, last in (("a", 3.0), ("b", 5.0)):
        write_series(tmp_path / name, {"loss": [*[1.0] * (STEPS - 1), last]})
    page = watch(serve(tmp_path), "#/scalars?sm=0.95")
    page.ready()
    rail = page.get_by_role("complementary", name="Runs")
    rail.locator("[data-run=a] .value").get_by_text("3.0").wait_for()
    assert rail.locator("[data-run=b] .value").inner_text().startswith("5.0")
    page.open("#/overview?sm=0.95")
    table = page.get_by_role("group", name="Table of runs")
    for name, last in (("a", "3.0"), ("b", "5.0")):
        row = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
        row.get_by_text(last).first.wait_for()
    page.open("#/compare?a=run:a&b=run:b&sm=0.95&part=curves")
    page.ready()
    readout = card(page, "loss").locator(".readout")
    readout.get_by_text("B \N{MINUS SIGN} A").wait_for()
    words = readout.inner_text().replace("\N{NO-BREAK SPACE}", " ").split()
    assert words[:5] == ["A", "1.10", "B", "1.20", "B"], "the means of twenty recorded values"
    line = next(one for one in page.charts()["loss"]["lines"] if one["run"] == "A")
    assert line["y"][-1] < 1.5, "what is drawn is smoothed"
    card(page, "loss").get_by_role("img").focus()
    page.keyboard.press("End")
    readout.get_by_text("5.00").wait_for()
    assert "+66.7" in readout.inner_text()
    page.keyboard.press("ArrowLeft")
    page.wait("() => document.querySelector('article .readout').innerText.includes('1.00')")


def test_a_compile_step_flattens_no_chart_of_a_comparison(tmp_path, serve, watch):
    for name, usual, steps in (("a", 0.01, 200), ("b", 0.02, 200), ("long", 0.01, 5_000)):
        write_series(tmp_path / name, {"step_time_s": [1.5, *[usual] * (steps - 1)]})
    watched = watch(serve(tmp_path))
    page = watched.open("#/compare?a=run:a&b=run:b&part=curves")
    watched.ready()
    assert watched.charts()["step_time_s"]["y"]["max"] < 0.1
    text = card(page, "step_time").or_(card(page, "step_time_s")).first.inner_text()
    assert "▲ 1,500 ms" in text.replace("\N{NO-BREAK SPACE}", " ")
    assert "step 0" in text
    page = watched.open("#/scalars?run=long")
    watched.ready()
    text = card(page, "step_time").or_(card(page, "step_time_s")).first.inner_text()
    assert re.search("▲ 1.50[^,]*, steps 0 \N{EN DASH} [1-9]", text), "those of its bucket"


def test_a_colour_is_chosen_in_the_dialog_of_a_run(logs, serve, watch):
    page = watch(serve(logs), "#/scalars?run=second")
    page.ready()
    before = colours(page)
    page.keyboard.press("n")
    page.get_by_role("dialog").get_by_role("button", name="Colour 7", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    seventh = page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--series-7').trim()"
    )
    assert before["second"] != seventh
    page.wait(
        "colour => window.__stepscope_test.charts().every(({ lines }) =>"
        " lines.every(one => (one.run === 'second') === (one.colour === colour)))",
        seventh,
    )
    page.reload()
    page.ready()
    assert colours(page) == before | {"second": seventh}


def test_evaluations_have_a_legend_where_there_are_some(tmp_path, written, serve, watch):
    written(tmp_path / "both", {"train/loss": [2.0, 1.0], "eval/loss": [2.5, 1.5]})
    written(tmp_path / "alone", {"other/value": [2.0, 1.0]})
    page = watch(serve(tmp_path), "#/scalars?q=run:both")
    page.ready()
    head = page.locator("main section .head").first
    head.get_by_text("Train", exact=True).wait_for()
    swatch = head.locator("span", has_text=re.compile("^ ?Eval$")).locator("line, path")
    assert swatch.first.evaluate("one => getComputedStyle(one).strokeDasharray") not in ("", "none")
    lines = {line["tag"]: line["dash"] for line in page.charts()["train/loss"]["lines"]}
    assert (lines["train/loss"], lines["eval/loss"]) == ([], [4, 3])
    page.open("#/scalars?q=run:alone")
    page.get_by_text("1 of 2 runs").wait_for()
    page.ready()
    assert page.locator("main section").get_by_text("Eval", exact=True).count() == 0
