"""Accessibility: axe finds nothing, in both themes, on every page and in every dialog."""

import pytest

VIEWS = {
    "overview of many runs": ("#/overview", ""),
    "overview of one run": ("#/overview?q=run:a", ""),
    "overview of a failed run": ("#/overview?q=run:c", ""),
    "scalars": ("#/scalars?pin=train/loss&f=.&group=batch", ""),
    "scalars with details": ("#/scalars?run=b&details=1&f=loss(", ""),
    "full screen with table": ("#/scalars?full=train/loss&table=1", ""),
    "help": ("#/scalars", "?"),
    "palette": ("#/scalars", "Control+k"),
}


@pytest.mark.slow
def test_axe_finds_nothing(sweep, watch, axe):
    watched = watch(sweep)
    for name, (hash_, key) in VIEWS.items():
        page = watched.open(hash_)
        page.reload()
        watched.ready()
        if key:
            page.keyboard.press(key)
        if key or "full" in hash_:
            page.get_by_role("dialog").wait_for()
        if "details" in hash_:
            page.get_by_role("complementary", name="Details").wait_for()
        axe(page, name)


@pytest.mark.slow
def test_axe_finds_nothing_in_menus_and_dialogs(sweep, watch, axe):
    page = watch(sweep, "#/scalars?group=batch&sm=0")
    page.ready()
    page.get_by_title("Mean and band of groups of runs").click()
    page.get_by_role("group", name="Group by config").wait_for()
    axe(page, "groups")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Chart", exact=True).click()
    page.get_by_role("dialog", name="New chart").wait_for()
    axe(page, "chart of one's own")
    page.keyboard.press("Escape")
    page.get_by_label("X axis").select_option("pick")
    page.get_by_role("dialog", name="A tag as the x axis").wait_for()
    axe(page, "a tag as the x axis")
    page.keyboard.press("Escape")
    card = page.get_by_role("article", name="loss", exact=True)
    card.hover()
    card.get_by_role("button", name="Save loss").click()
    page.get_by_role("button", name="SVG, as it looks").wait_for()
    axe(page, "what is saved of a chart")
    page.open("#/overview")
    page.get_by_role("button", name="Columns").click()
    page.get_by_label("Find a column").wait_for()
    axe(page, "columns")


@pytest.mark.slow
def test_axe_finds_nothing_in_the_sheets_and_menus_of_a_phone(sweep, watch, axe):
    page = watch(sweep)
    page.set_viewport_size({"width": 390, "height": 844})
    page.open("#/overview")
    page.get_by_role("button", name="More").click()
    page.get_by_role("link", name="Compare").wait_for()
    axe(page, "more pages")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Runs", exact=True).click()
    page.get_by_role("complementary", name="Runs").wait_for()
    axe(page, "runs")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Axis, smoothing, views and help").click()
    page.get_by_role("button", name="Saved views").click()
    page.get_by_role("button", name="Save as one file").wait_for()
    axe(page, "views")


def test_an_empty_directory_too(tmp_path, serve, watch, axe):
    (tmp_path / "runs").mkdir()
    page = watch(serve(tmp_path / "runs")).open()
    page.get_by_text("stepscope demo").wait_for()
    axe(page)


FOCUS = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  const shown = (element) => { const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(element);
    return (outlineStyle !== "none" && parseFloat(outlineWidth) > 0) || boxShadow !== "none"; };
  const { left, top, right, bottom } = at.getBoundingClientRect();
  return { name: at.getAttribute("aria-label") ?? at.innerText, picture: at.matches("main [role=img]"),
    visible: right - left > 2 && bottom - top > 2 && Number(style.opacity) === 1
      && (shown(at) || (at.matches("input") && shown(at.parentElement))), left, top };
}"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_tab_goes_from_chart_to_chart_as_they_are_read_and_is_seen(sweep, watch, theme):
    page = watch(sweep, "#/scalars", theme=theme)
    page.ready()
    stops = []
    for _ in range(80):
        page.keyboard.press("Tab")
        stops.append(page.evaluate(FOCUS))
        if [stop["picture"] for stop in stops].count(True) == 3:
            break
    assert [stop["name"] for stop in stops if not stop["visible"]] == []
    charts = [at for at, stop in enumerate(stops) if stop["picture"]]
    places = [(stops[at]["top"], stops[at]["left"]) for at in charts]
    assert places == sorted(places)
    between = [stop["name"] for stop in stops[charts[0] : charts[-1]] if not stop["picture"]]
    assert [name for name in between if "Height" in name] == []


@pytest.mark.parametrize("hash_", ["#/scalars", "#/overview?q=run:a"])
def test_a_key_gives_the_table_of_the_chart_that_has_the_focus(sweep, watch, hash_):
    page = watch(sweep, hash_)
    page.ready()
    page.locator("main [data-chart]").first.focus()
    page.keyboard.press("d")
    page.get_by_role("dialog").get_by_role("table").first.wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_every_chart_is_a_picture_with_words_and_a_table(sweep, watch):
    page = watch(sweep, "#/scalars")
    page.ready()
    pictures = page.locator("main [role=img]")
    charts = page.locator("article")
    assert pictures.count() == charts.count() == 3
    for at in range(pictures.count()):
        assert pictures.nth(at).get_attribute("tabindex") == "0"
        assert "3 runs" in pictures.nth(at).get_attribute("aria-label")
        assert charts.nth(at).get_by_role("button", name="as a table").count() in (0, 1)
        pictures.nth(at).focus()
        charts.nth(at).get_by_role("button", name="as a table").wait_for()
