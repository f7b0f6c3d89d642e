"""Scalars: means of groups, other x axes, charts of one's own; all of it in the address."""

import json
import urllib.parse

import numpy as np
import pytest


@pytest.fixture(scope="module")
def seeds(tmp_path_factory, written, serve_long):
    """Two settings of three seeds each, with an evaluation every ten steps."""
    root = tmp_path_factory.mktemp("seeds")
    for lr in (0.1, 0.01):
        for seed in range(3):
            loss = [100 * lr + seed + 0.01 * step for step in range(200)]
            values = {
                "train/loss": loss,
                "tokens": [512.0 * step for step in range(200)],
                "odd name;=x": [2.0] * 200,
            }
            run = root / "runs" / f"lr{lr:g}-seed{seed}"
            written(run, values, config={"lr": lr, "seed": seed})
            written(run / "eval", {"loss": [50.0] * 20}, every=10)
    return serve_long(root / "runs")


def opened(watch, server, query="", **options):
    watched = watch(server, f"#/scalars?sm=0{query}", **options)
    watched.ready()
    return watched


def own(text):
    return "&own=" + urllib.parse.quote(text.replace("\\", "\\\\").replace(",", "\\,"))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_groups_are_drawn_as_their_mean(seeds, watch, theme):
    lines = opened(watch, seeds, "&group=lr", theme=theme).charts()["train/loss"]["lines"]
    trained = {line["label"]: line for line in lines if line["tag"] == "train/loss"}
    assert len(trained) == 2
    for lr, name in ((0.1, "0.1"), (0.01, "0.01")):
        [line] = [line for label, line in trained.items() if label.startswith(name + " ")]
        assert "3" in line["label"], "how many runs it is the mean of"
        np.testing.assert_allclose(line["y"], [100 * lr + 1 + 0.01 * x for x in line["x"]], rtol=1e-5)


def test_groups_by_several_keys_and_by_a_regex(seeds, watch):
    page = opened(watch, seeds, "&group=" + urllib.parse.quote(r"~seed(\d)"))
    assert {line["label"][0] for line in page.charts()["tokens"]["lines"]} == {"0", "1", "2"}
    page.get_by_role("button", name="Group by name").click()
    page.get_by_placeholder("^(.*)-seed").fill("(")
    page.get_by_role("alert").wait_for()
    assert page.get_by_role("alert").inner_text().startswith("Not a regex")
    page.get_by_role("button", name="No groups").click()
    page.get_by_role("checkbox", name="lr").first.check()
    page.wait("() => location.hash.includes('group=lr')")
    page.get_by_role("button", name="Each run").click()
    page.wait(
        "() => window.__stepscope_test.charts().some(c => c.chart === 'tokens' && c.lines.length === 6)"
    )


def test_another_tag_as_the_axis_by_keyboard_alone(seeds, watch):
    page = opened(watch, seeds)
    select = page.get_by_label("X axis")
    select.focus()
    select.select_option("pick")
    page.get_by_role("dialog").wait_for()
    page.get_by_label("Tags for the x axis: find").focus()
    page.keyboard.type("tok")
    page.keyboard.press("Enter")
    page.wait("() => location.hash.includes('x=tag') && location.hash.includes('xt=tokens')")
    page.ready()
    page.wait(
        "() => window.__stepscope_test.charts().find(c => c.chart === 'train/loss').x.max === 512 * 199"
    )
    page.reload()
    chart = page.ready() and page.charts()["train/loss"]
    assert next(each for each in chart["lines"] if each["tag"] == "train/loss")["x"][:3] == [0, 512, 1024]


def test_expressions_are_charts_of_their_own(seeds, watch):
    page = opened(watch, seeds, own("Gap = eval/loss - train/loss") + "&q=run:lr0.1-seed0")
    [line] = page.charts()["own:Gap = eval/loss - train/loss"]["lines"]
    assert line["x"] == list(range(0, 200, 10))
    np.testing.assert_allclose(line["y"], [50 - 10 - 0.01 * x for x in line["x"]], rtol=1e-5)
    card = page.locator("article[aria-label='Gap']")
    remove = card.get_by_role("button", name="Remove Gap")
    card.hover()
    remove.focus()  # it stays while it has the focus, wherever the card moves as others come
    remove.press("Enter")
    card.wait_for(state="detached")
    page.wait("() => !location.hash.includes('own=')")
    page.keyboard.press("Control+z")
    card.wait_for()


def test_a_chart_is_made_by_keyboard_and_a_mistake_is_shown(seeds, watch):
    page = opened(watch, seeds)
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    page.keyboard.type("ema(train/loss, 5) + * 2")
    dialog.locator("mark").wait_for()
    assert dialog.locator("mark").inner_text() == "*"
    assert dialog.get_by_role("button", name="Add chart").is_disabled()
    page.keyboard.press("Control+a")
    page.keyboard.type('"odd name;=x" * 2; tokens')
    dialog.locator(".chart[data-lines='12']").wait_for()
    page.keyboard.press("Enter")
    dialog.wait_for(state="detached")
    page.ready()
    [chart] = [chart for name, chart in page.charts().items() if name.startswith("own:")]
    assert {line["y"][-1] for line in chart["lines"]} == {4.0, 512.0 * 199}


def test_one_chart_is_dropped_on_another(seeds, watch):
    page = opened(watch, seeds)
    page.locator("article[aria-label='tokens'] h3").drag_to(page.locator("article[aria-label='odd name;=x']"))
    page.locator("section[aria-label='Custom charts'] article").wait_for()
    assert page.locator("section[aria-label='Custom charts'] article").count() == 1
    page.ready()
    [chart] = [chart for name, chart in page.charts().items() if name.startswith("own:")]
    assert len(chart["lines"]) == 12


def test_what_cannot_be_drawn_says_why(seeds, watch):
    page = opened(
        watch,
        seeds,
        own("train/loss +, ~(, ~nothing, gone * 2").replace("\\%2C", "%2C").replace("%5C%2C", "%2C"),
    )
    page.locator("section[aria-label='Custom charts'] article").nth(3).wait_for()
    page.get_by_text("expected a tag, a number or (, found the end").wait_for()
    page.get_by_text("Not a regex", exact=False).wait_for()
    page.get_by_text("No tag matches").wait_for()
    page.get_by_text("no tag 'gone'", exact=False).wait_for()


def test_csv_of_an_expression_holds_every_point(seeds, watch):
    page = opened(watch, seeds, own("Twice = train/loss * 2"))
    card = page.locator("article[aria-label='Twice']")
    card.hover()
    card.get_by_role("button", name="Save Twice").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV, every recorded point").click()
    assert len(download.value.path().read_text().splitlines()) == 1 + 6 * 200
    assert json.dumps(download.value.suggested_filename) == '"lr0.01-seed0-=train-loss-2-and-5-more.csv"'
