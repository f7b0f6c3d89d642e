"""Accessibility: axe finds nothing, in both themes, on every page and in every dialog."""

import pytest

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
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
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(sweep, watch, theme):
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    options = {"runOnly": {"type": "tag", "values": TAGS}, "rules": {"target-size": {"enabled": True}}}
    found = {}
    watched = watch(sweep, theme=theme)
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
        result = axe.run(page, options=options)
        if result.violations_count:
            found[name] = [complaint(each) for each in result.response["violations"]]
    assert found == {}


def complaint(violation):
    """Rule, and the first elements that break it."""
    reasons = [" ".join(check["message"] for check in node["any"][:1]) for node in violation["nodes"][:4]]
    places = [node["html"][:160] for node in violation["nodes"][:4]]
    return violation["id"], list(zip(places, reasons, strict=True))


def test_an_empty_directory_too(tmp_path, serve, watch):
    from axe_playwright_python.sync_playwright import Axe

    (tmp_path / "runs").mkdir()
    watched = watch(serve(tmp_path / "runs"))
    page = watched.open()
    page.get_by_text("stepscope demo").wait_for()
    result = Axe().run(page, options={"runOnly": {"type": "tag", "values": TAGS}})
    assert result.violations_count == 0, result.generate_report()


def test_every_chart_is_a_picture_with_words_and_a_table(sweep, watch):
    watched = watch(sweep)
    page = watched.open("#/scalars")
    watched.ready()
    pictures = page.locator("main [role=img]")
    charts = page.locator("article")
    assert pictures.count() == charts.count() == 3
    for at in range(pictures.count()):
        assert pictures.nth(at).get_attribute("tabindex") == "0"
        assert "3 runs" in pictures.nth(at).get_attribute("aria-label")
        assert charts.nth(at).get_by_role("button", name="as a table").count() in (0, 1)
        pictures.nth(at).focus()
        charts.nth(at).get_by_role("button", name="as a table").wait_for()
