"""Charts are zoomed, moved, sized and drawn as their reader wants, and a link carries it."""

import contextlib
import shutil
from urllib.parse import quote

import numpy as np
import pytest
from support.browser import BEYOND
from support.records import write_series

import stepscope as ss

LOSS = "[data-chart='train/loss']"
CARDS = "[...document.querySelectorAll('section[aria-label=parts] article')]"
ORDER = f"names => JSON.stringify({CARDS}.slice(0, 2).map(card => card.ariaLabel)) === JSON.stringify(names)"


@pytest.fixture
def scalars(sweep, watch):
    watched = watch(sweep, "#/scalars?sm=0")
    watched.ready()
    return watched


@pytest.fixture(scope="module")
def three_parts(tmp_path_factory, serve_long):
    log_dir = tmp_path_factory.mktemp("parts")
    values = np.arange(50) % 7 + 1.0
    names = ("first", "second", "third")
    write_series(log_dir / "one", {f"parts/{name}": at * values**2 for at, name in enumerate(names, 1)})
    return serve_long(log_dir)


@pytest.fixture
def several(three_parts, watch):
    """Charts of one section."""
    watched = watch(three_parts, "#/scalars?sm=0")
    watched.ready()
    return watched


@pytest.fixture
def own(three_parts, tmp_path, serve, watch):
    """The same charts of a log of its own, in which things are written."""
    shutil.copytree(three_parts.log_dir, tmp_path / "runs")
    watched = watch(serve(tmp_path / "runs"), "#/scalars?sm=0")
    watched.ready()
    return watched


def plot(watched, chart="train/loss"):
    """The box of a chart's picture, once it stands where it stays."""
    box = watched.page.locator(f"[data-chart='{chart}']").first
    box.scroll_into_view_if_needed()
    return box.bounding_box()


def ranges(watched, chart="train/loss"):
    found = watched.charts()[chart]
    return found["x"], found["y"]


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def test_a_box_zooms_both_axes_and_a_double_click_shows_all(scalars):
    x, y = ranges(scalars)
    box = plot(scalars)
    drag(scalars.page, (box["x"] + 120, box["y"] + 30), (box["x"] + 200, box["y"] + 90))
    scalars.wait("() => location.hash.includes('z=') && location.hash.includes('yz=')")
    scalars.ready()
    near_x, near_y = ranges(scalars)
    assert x["min"] < near_x["min"] < near_x["max"] < x["max"]
    assert y["min"] < near_y["min"] < near_y["max"] < y["max"]
    scalars.page.locator(LOSS).dblclick(position={"x": 150, "y": 60})
    scalars.wait("() => !/[?&]y?z=/.test(location.hash)")
    scalars.wait(
        "y => window.__stepscope_test.charts().find(c => c.chart === 'train/loss').y.max === y", y["max"]
    )


def test_an_upright_drag_zooms_y_of_that_chart_alone(scalars):
    x, _ = ranges(scalars)
    others = {name: chart["y"] for name, chart in scalars.charts().items() if name != "train/loss"}
    box = plot(scalars)
    drag(scalars.page, (box["x"] + 150, box["y"] + 20), (box["x"] + 152, box["y"] + 90))
    scalars.wait("() => location.hash.includes('yz=')")
    assert ranges(scalars)[0] == x
    charts = scalars.charts()
    assert {name: charts[name]["y"] for name in others if name in charts} == {
        name: y for name, y in others.items() if name in charts
    }


@pytest.mark.parametrize(("key", "name"), [("Control", "z="), ("Shift", "yz=")])
def test_the_wheel_zooms_with_a_key_and_else_scrolls(scalars, key, name):
    page = scalars.page
    x, y = ranges(scalars)
    box = plot(scalars)
    page.mouse.move(box["x"] + 150, box["y"] + 60)
    page.keyboard.down(key)
    page.mouse.wheel(0, -100)
    page.keyboard.up(key)
    scalars.wait("name => location.hash.includes(name)", "&" + name)
    near_x, near_y = ranges(scalars)
    before, after = (x, near_x) if key == "Control" else (y, near_y)
    assert after["max"] - after["min"] < before["max"] - before["min"]


def test_a_card_is_moved_and_the_order_is_in_the_link(several):
    page = several.page
    cards = page.locator("section[aria-label=parts] article")
    first, second = (cards.nth(at).get_attribute("aria-label") for at in (0, 1))
    cards.nth(0).hover()
    page.get_by_role("button", name=f"Settings of {first}").click()
    page.get_by_role("button", name="Move later").click()
    several.wait(ORDER, [second, first])
    several.wait("() => location.hash.includes('moved=')")
    page.reload()
    several.ready()
    assert [cards.nth(at).get_attribute("aria-label") for at in (0, 1)] == [second, first]


def test_a_card_that_is_dropped_on_the_side_of_another_is_moved_there(several):
    cards = several.page.locator("section[aria-label=parts] article")
    names = [cards.nth(at).get_attribute("aria-label") for at in (0, 1)]
    box = cards.nth(0).bounding_box()
    cards.nth(1).locator("header").drag_to(
        cards.nth(0), target_position={"x": 8, "y": box["height"] / 2}, source_position={"x": 40, "y": 12}
    )
    several.wait(ORDER, names[::-1])


def test_cards_per_row_and_their_height_are_chosen(several):
    page = several.page
    page.get_by_role("button", name="Layout of the charts").click()
    page.get_by_role("group", name="Cards per row").get_by_role("button", name="1", exact=True).click()
    several.wait("() => location.hash.includes('row=1')")
    several.wait(f"() => new Set({CARDS}.map(card => card.offsetLeft)).size === 1")
    page.get_by_role("group", name="Height").get_by_role("button", name="High").press("Enter")
    several.wait("() => location.hash.includes('tall=')")
    page.keyboard.press("Escape")
    before = page.evaluate(f"{CARDS}[0].offsetHeight")
    edge = page.locator("article .edge").first.bounding_box()
    page.mouse.move(edge["x"] + 40, edge["y"] + edge["height"] / 2)
    page.mouse.down()
    page.mouse.move(edge["x"] + 40, edge["y"] + edge["height"] / 2 + 30)
    page.mouse.up()
    several.wait(f"height => {CARDS}[0].offsetHeight === height", before + 30)


def test_a_chart_has_a_scale_and_smoothing_of_its_own(several):
    page = several.page
    card = page.get_by_role("article", name="parts/second", exact=True)
    card.hover()
    card.get_by_role("button", name="Settings of parts/second").click()
    before = several.charts()
    menu = page.locator(".kinds")
    menu.get_by_role("button", name="Log y", exact=True).click()
    several.wait("() => window.__stepscope_test.charts().find(c => c.chart === 'parts/second').logY")
    menu.get_by_role("slider").fill("0.9")
    several.wait(
        "first => window.__stepscope_test.charts().find(c => c.chart === 'parts/second')"
        ".lines[0].y.some((y, at) => Math.abs(y - first[at]) > 1)",
        before["parts/second"]["lines"][0]["y"],
    )
    after = several.charts()
    assert after["parts/first"]["logY"] == before["parts/first"]["logY"]
    assert after["parts/first"]["lines"][0]["y"] == before["parts/first"]["lines"][0]["y"]
    several.wait("() => location.hash.includes('look=')")
    menu.get_by_role("button", name="As on the page").click()
    several.wait("() => !location.hash.includes('look=')")


def test_sections_go_by_the_second_part_of_the_path(tmp_path, serve, watch):
    names = ("layer0/norm", "layer0/max", "layer1/norm", "layer1/max")
    write_series(tmp_path / "runs" / "one", {f"gradients/{name}": range(3) for name in names})
    page = watch(serve(tmp_path / "runs"), "#/scalars?deep=1")
    page.ready()
    page.get_by_role("region", name="gradients/layer1", exact=True).wait_for()
    assert page.get_by_role("region", name="gradients", exact=True).count() == 0


def test_the_palette_finds_steps_runs_by_config_and_settings(scalars):
    page = scalars.page

    def choose(text, entry):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search commands").fill(text)
        page.get_by_role("option", name=entry).first.click()

    choose("step 200", "Charts around step 200")
    scalars.wait("() => /[?&]z=/.test(location.hash)")
    x, _ = ranges(scalars)
    assert x["min"] < 200 < x["max"]
    choose("lr 3e-4", "Runs with lr = 3e-4")
    scalars.wait("() => location.hash.includes('q=lr:0.0003')")
    scalars.wait("() => window.__stepscope_test.charts().every(c => c.lines.every(l => l.run === 'b'))")
    choose("cards per row", "Cards per row: 2")
    scalars.wait("() => location.hash.includes('row=2')")


@pytest.fixture
def phone(sweep, watch):
    watched = watch(sweep, has_touch=True)
    watched.page.set_viewport_size({"width": 390, "height": 844})
    watched.open("#/scalars")
    watched.ready()
    return watched


def test_a_phone_has_every_page_and_both_sheets_at_the_bottom(phone):
    page = phone.page
    pages = page.get_by_role("navigation", name="Pages")
    seen = pages.locator("a:visible, button:visible")
    assert seen.all_inner_texts() == ["Overview", "Scalars", "Profile", "Ranks", "Runs rail", "More"] or [
        text.split()[0] for text in seen.all_inner_texts()
    ] == ["Overview", "Scalars", "Profile", "Ranks", "Runs", "More"]
    assert all(
        box["height"] >= 40 and box["width"] >= 40 for box in (one.bounding_box() for one in seen.all())
    )
    pages.get_by_role("button", name="More").tap()
    pages.get_by_role("link", name="Text & config").tap()
    phone.wait("() => location.hash.startsWith('#/text')")
    pages.get_by_role("button", name="Text & config").tap()
    pages.get_by_role("link", name="Distributions").wait_for()
    page.keyboard.press("Escape")
    pages.get_by_role("link", name="Distributions").wait_for(state="hidden")


def test_a_sheet_is_half_the_page_or_all_of_it_and_is_closed_in_three_ways(phone):
    page = phone.page
    sheet = page.get_by_role("complementary", name="Runs")
    toggle = page.get_by_role("navigation", name="Pages").get_by_role("button", name="Runs")

    def high():
        return sheet.bounding_box()["height"] / page.locator("main").bounding_box()["height"]

    toggle.tap()
    sheet.wait_for()
    assert 0.5 < high() < 0.7
    assert sheet.bounding_box()["width"] == 390
    page.get_by_role("button", name="Runs: the whole page").tap()
    assert high() == pytest.approx(1, abs=0.01)
    page.get_by_role("button", name="Runs: half the page").tap()
    page.get_by_role("button", name="Close runs").tap()
    sheet.wait_for(state="hidden")
    toggle.tap()
    sheet.wait_for()
    page.keyboard.press("Escape")
    sheet.wait_for(state="hidden")
    toggle.tap()
    sheet.wait_for()
    page.locator(".scrim").tap(position={"x": 190, "y": 40})
    sheet.wait_for(state="hidden")


def test_what_does_not_fit_a_phone_is_behind_options(phone):
    page = phone.page
    assert not page.get_by_role("button", name="Log x").is_visible()
    page.get_by_role("button", name="Options").tap()
    page.get_by_role("button", name="Log x").tap()
    phone.wait("() => location.hash.includes('lx=1')")
    assert page.evaluate(BEYOND) == []
    page.get_by_role("button", name="Axis, smoothing, views and help").tap()
    page.get_by_role("button", name="Saved views").tap()
    page.get_by_role("button", name="Save as one file").wait_for()
    phone.wait("() => document.querySelector('.sheet').getBoundingClientRect().right <= innerWidth")


def test_pins_and_arrangement_are_kept_for_the_next_time_and_a_link_is_shown_as_it_says(several):
    page = several.page
    page.evaluate("location.hash = '#/scalars?pin=parts%2Fthird&moved=parts%2Fsecond%09parts%2Ffirst&row=2'")
    several.ready()
    page.get_by_role("article", name="parts/second").last.hover()
    page.get_by_role("button", name="Pin parts/second", exact=True).click()
    several.wait("() => location.hash.includes('pin=parts/third,parts/second')")
    page.goto("about:blank")
    several.open("#/scalars")
    several.ready()
    several.wait("() => /pin=parts.third,parts.second/.test(location.hash) && /row=2/.test(location.hash)")
    pinned = page.locator("section[aria-label=Pinned] article")
    assert [card.get_attribute("aria-label") for card in pinned.all()] == ["parts/third", "parts/second"]
    assert page.evaluate(ORDER, ["parts/second", "parts/first"])
    page.goto("about:blank")
    several.open("#/scalars?sm=0")
    several.ready()
    assert page.locator("section[aria-label=Pinned]").count() == 0


@contextlib.contextmanager
def going_on(log_dir):
    """A run that goes on, 60 % through, with a finished one before it."""
    noise = np.random.default_rng(7).normal(size=(2, 4000))
    runs = []
    for at, (name, done) in enumerate((("before", 4000), ("now", 2400))):
        runs.append(ss.Run(log_dir / name, total_steps=4000))
        for step in range(done):
            loss = (2 + 5 * (step + 1) ** -0.5) * (1 + 0.02 * noise[at, step])
            runs[-1].scalar("train/loss", loss, step)
            runs[-1].scalar("train/accuracy", step / 4000, step)
        runs[-1].close() if name == "before" else runs[-1].flush()
    yield runs[-1]
    runs[-1].close()


@pytest.fixture(scope="module")
def going(tmp_path_factory, serve_long):
    """A server of them that no test changes."""
    log_dir = tmp_path_factory.mktemp("going")
    with going_on(log_dir):
        yield serve_long(log_dir)


AHEAD = "() => window.__stepscope_test.charts().some(chart => chart.ahead)"


def test_the_loss_of_a_running_run_goes_on_as_a_band_that_says_its_end(going, watch):
    page = watch(going, "#/scalars?q=run:now")
    page.ready()
    page.wait(AHEAD)
    charts = page.charts()
    ahead = charts["train/loss"]["ahead"]
    assert ahead["x"][0] == 2399
    assert charts["train/loss"]["x"]["max"] == ahead["x"][-1] == 3999
    assert charts["train/loss"]["y"]["min"] <= min(ahead["low"])
    assert ahead["low"][-1] < 2 + 5 * 4000**-0.5 < ahead["high"][-1]
    assert charts["train/accuracy"]["ahead"] is None
    card = page.get_by_role("article", name="train/loss")
    assert " at step 3,999" in card.get_by_text("Forecast: 2.").inner_text()
    assert "Forecast: 2." in card.get_by_role("img").get_attribute("aria-label")
    page.get_by_role("button", name="Forecast", exact=True).click()
    page.wait("() => window.__stepscope_test.charts().every(chart => !chart.ahead)")
    assert page.charts()["train/loss"]["x"]["max"] < 2500


@pytest.mark.parametrize("view", ["q=run:before", "run=now", "q=run:now&x=wall"])
def test_nothing_is_foretold_of_a_run_that_is_over_of_several_or_over_time(going, watch, view):
    watched = watch(going)
    with watched.page.expect_response(lambda answer: "/findings?" in answer.url) as judged:
        watched.open(f"#/scalars?{view}")
    judged.value.finished()
    watched.ready()
    assert all(chart["ahead"] is None for chart in watched.charts().values())


def test_the_band_ends_with_its_run(serve, watch, tmp_path):
    with going_on(tmp_path / "runs"):
        watched = watch(serve(tmp_path / "runs"), "#/scalars?q=run:now")
        watched.ready()
        watched.wait(AHEAD)
    watched.wait("() => window.__stepscope_test.charts().every(chart => !chart.ahead)")


def test_two_units_have_an_axis_each_which_is_named_and_zoomed_with_the_other(tmp_path, serve, watch):
    first, ratios = [(step % 7 + 1) ** 2 for step in range(50)], [step / 100 for step in range(50)]
    write_series(tmp_path / "runs" / "one", {"parts/first": first, "parts/load_ratio": ratios})
    several = watch(serve(tmp_path / "runs"))
    own = "parts/first; parts/load_ratio"
    page = several.open(f"#/scalars?sm=0&own={quote(own)}")
    several.wait(
        "id => window.__stepscope_test?.charts().some(one => one.chart === id && one.right)", f"own:{own}"
    )
    found = several.charts()[f"own:{own}"]
    assert found["right"]["unit"] == "%"
    assert 0.49 <= found["right"]["y"]["max"] < 0.6
    assert found["y"]["max"] > 40
    assert [line["right"] for line in found["lines"]] == [False, True]
    card = page.get_by_role("article", name=own)
    assert card.get_by_title("Read on the left axis").inner_text().replace("\n", " ").endswith("parts/first")
    assert "parts/load_ratio" in card.get_by_title("Read on the right axis").inner_text()
    chart = card.get_by_role("img")
    assert "on the right axis 49.0" in chart.get_attribute("aria-label")
    box = chart.bounding_box()
    drag(page, (box["x"] + 150, box["y"] + 20), (box["x"] + 152, box["y"] + 70))
    several.wait("() => location.hash.includes('yz=')")
    several.wait(
        "([id, most]) => window.__stepscope_test.charts().find(one => one.chart === id).right.y.max < most",
        [f"own:{own}", found["right"]["y"]["max"]],
    )
    near = several.charts()[f"own:{own}"]

    def share(all_, value):
        return (value - all_["min"]) / (all_["max"] - all_["min"])

    for edge in ("min", "max"):
        left = share(found["y"], near["y"][edge])
        assert share(found["right"]["y"], near["right"]["y"][edge]) == pytest.approx(left, abs=0.01)


FLAGS = """steps => {
  const charts = window.__stepscope_test.charts();
  const noted = chart => chart.marks.filter(({ kind }) => kind === 'note').map(({ step }) => step);
  return charts.length > 1 && charts.every(chart => JSON.stringify(noted(chart)) === JSON.stringify(steps));
}"""


def test_a_note_on_a_step_stands_on_every_chart_and_is_found_and_removed(own, tmp_path):
    page = own.page
    box = plot(own, "parts/first")
    place = page.evaluate("() => window.__stepscope_test.pixel('parts/first', 20, 10)")
    page.mouse.move(place["left"], box["y"] + 60)
    page.locator("[data-tooltip]").wait_for()
    page.keyboard.press("m")
    dialog = page.get_by_role("dialog", name="Note on a step")
    assert dialog.get_by_label("Step").input_value() == "20"
    dialog.get_by_label("Note, one sentence").fill("halved <b>the</b> rate")
    page.keyboard.press("Enter")
    own.wait(FLAGS, [20])
    [said] = (tmp_path / "runs" / ".stepscope" / "runs").glob("*.json")
    assert "halved <b>the</b> rate" in said.read_text()

    page.mouse.move(place["left"] + 1, box["y"] + 61)
    tip = page.locator("[data-tooltip]")
    tip.wait_for()
    assert "Note, step 20 halved <b>the</b> rate" in " ".join(tip.inner_text().split())

    page.keyboard.press("Control+k")
    page.wait_for_function("() => document.activeElement?.getAttribute('role') === 'combobox'")
    page.keyboard.type("halved")
    page.get_by_role("option", name="halved <b>the</b> rate").click()
    own.wait("() => /z=10-30/.test(location.hash)")
    page.keyboard.press("r")

    own.ready()
    axis = own.charts()["parts/first"]
    place = page.evaluate("y => window.__stepscope_test.pixel('parts/first', 20, y)", axis["y"]["min"])
    page.mouse.click(place["left"], place["top"] - 4)
    dialog.get_by_role("button", name="Remove").click()
    own.wait(FLAGS, [])
    assert not said.exists()


def test_a_note_is_written_without_a_pointer_and_listed_on_the_overview(own):
    page = own.page
    page.keyboard.press("Control+k")
    page.wait_for_function("() => document.activeElement?.getAttribute('role') === 'combobox'")
    page.keyboard.type("step 30")
    page.get_by_role("option", name="Write a note on step 30").click()
    page.get_by_label("Note, one sentence").fill("from here on warm")
    page.keyboard.press("Enter")
    own.wait(FLAGS, [30])
    page.locator("[data-chart='parts/first']").focus()
    for _ in range(31):
        page.keyboard.press("ArrowRight")
    own.wait("() => document.querySelector('[role=status]').textContent.includes('from here on warm')")
    own.open("#/overview")
    assert "from here on warm" in page.get_by_role("list", name="Notes on steps").inner_text()
    own.open("#/scalars?x=wall")
    own.ready()
    assert all(chart["marks"] == [] for chart in own.charts().values())


def test_all_charts_of_a_kind_are_scaled_as_one_of_them_says(several):
    page = several.page
    card = page.get_by_role("article", name="parts/first", exact=True)
    card.hover()
    card.get_by_role("button", name="Settings of parts/first").click()
    menu = page.locator(".kinds")
    menu.get_by_role("button", name="All of kind Other").click()
    menu.get_by_role("button", name="Log y", exact=True).click()
    logarithmic = (
        "() => window.__stepscope_test.charts().filter(({ logY }) => logY).map(({ chart }) => chart)"
    )
    several.wait(f"() => ({logarithmic})().length === 2")
    # The second one's name says that it is a time.
    assert sorted(page.evaluate(logarithmic)) == ["parts/first", "parts/third"]
    several.wait("() => location.hash.includes('look=kind:other')")


def test_a_meaning_is_corrected_where_a_chart_says_what_it_is(several):
    page = several.page
    card = page.get_by_role("article", name="parts/first", exact=True)
    card.hover()
    card.get_by_role("button", name="Settings of parts/first").click()
    page.get_by_text("No health rule looks at it").wait_for()
    page.get_by_label("Role of parts/first").select_option("part_loss")
    several.wait("() => document.querySelector('[role=status]').textContent.includes('corrected')")
    card.hover()
    card.get_by_role("button", name="Settings of parts/first").click()
    page.get_by_text("a part of a loss (corrected for parts/first)").wait_for()
    page.get_by_role("button", name="Loss", exact=True, pressed=True).wait_for()
    page.get_by_label("Part of the data of parts/first").select_option("eval")
    several.wait("() => document.querySelectorAll('.kinds').length === 0")
    card.hover()
    card.get_by_role("button", name="Settings of parts/first").click()
    page.get_by_text("evaluation (corrected for parts/first)").wait_for()


def test_of_hundreds_of_charts_only_those_near_the_screen_are_there(tmp_path, serve, watch):
    write_series(tmp_path / "one", {f"layer/{at:03d}": range(at, at + 3) for at in range(300)})
    page = watch(serve(tmp_path), "#/scalars")
    page.ready()
    cards = page.get_by_role("article")
    page.get_by_role("button", name="Show 240 more charts").click()
    page.wait("() => document.getElementById('main').scrollHeight > 9_000")
    page.ready()
    assert cards.count() < 100
    page.evaluate("document.getElementById('main').scrollTop = 1e9")
    page.get_by_role("article", name="layer/299").wait_for()
    page.ready()
    assert cards.count() < 100
    assert 0 < page.get_by_role("article", name="layer/299").bounding_box()["y"] < 900
    # A filter keeps what matches, and what comes stands where it belongs.
    page.get_by_label("Filter charts by a regex").fill("9$")
    page.get_by_text("30 of 300").first.wait_for()
    page.evaluate("document.getElementById('main').scrollTop = 0")
    page.get_by_role("article", name="layer/009").wait_for()
    page.ready()
    names = [one.get_attribute("aria-label") for one in cards.all()]
    assert names == sorted(names)
    assert names[:3] == ["layer/009", "layer/019", "layer/029"]


def test_what_can_be_done_with_a_chart_is_there_for_who_points_or_tabs_to_it(several):
    page = several.page
    assert page.locator("article .actions").count() == 0
    page.get_by_role("article").first.hover()
    page.get_by_role("article").first.get_by_role("button", name="Pin").wait_for()
    page.get_by_role("article").nth(1).get_by_role("img").focus()
    page.get_by_role("article").nth(1).get_by_role("button", name="Pin").wait_for()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("document.activeElement.closest('article').ariaLabel") == "parts/second"
    assert page.evaluate("document.activeElement.matches('.actions button')")
