"""Text & config: completions of several runs and steps in one table, filtered, sorted and compared."""

import pytest

import stepscope as ss

ROWS = 500


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    log_dir = tmp_path_factory.mktemp("tables")
    for name, gain in (("a", 0.0), ("b", 0.5)):
        with ss.Run(log_dir / name) as run:
            for step in (0, 10):
                run.table(
                    "completions",
                    [
                        {
                            "prompt": f"question {at % 50}",
                            "completion": f"answer {at} of run {name}\nat step {step}",
                            "reward": at / ROWS + gain,
                        }
                        for at in range(ROWS)
                    ],
                    step,
                )
    return serve_long(log_dir)


@pytest.fixture
def page(server, watch):
    return watch(server, "#/text")


def test_rows_are_found_by_a_filter_and_the_best_is_first(page):
    panel = page.get_by_role("region", name="completions")
    panel.get_by_text("2,000 rows, 2 steps").wait_for()
    field = panel.get_by_label("Filter rows of completions")
    field.fill("reward>0.9 step=10 question")
    panel.get_by_text("of 2,000 rows").wait_for()
    panel.get_by_role("button", name="reward", exact=True).click()
    page.wait("() => location.hash.includes('order=-reward')")
    first = panel.get_by_role("row").filter(has_text="answer 499 of run b")
    first.get_by_text("1.50").wait_for()
    assert "b" in first.get_by_role("rowheader").inner_text()
    page.reload()
    panel.get_by_text("of 2,000 rows").wait_for()
    assert field.input_value() == "reward>0.9 step=10 question"
    field.fill("nothing holds this")
    panel.get_by_text("No row passes the filter").wait_for()


def test_a_row_is_read_whole_and_against_that_of_another_step(page):
    panel = page.get_by_role("region", name="completions")
    panel.get_by_label("Filter rows of completions").fill('completion:"answer 7 of run a"')
    panel.get_by_text("2 of 2,000 rows").wait_for()
    grid = panel.get_by_role("grid")
    grid.focus()
    page.keyboard.press("ArrowDown")
    panel.get_by_text("at step 10").last.wait_for()
    panel.get_by_role("button", name="Compare with another row").click()
    grid.focus()
    page.keyboard.press("ArrowDown")
    lines = panel.get_by_role("group", name="Difference of completion")
    lines.wait_for()
    assert lines.locator("tr.removed").inner_text().split() == ["2", "\u2212", "at", "step", "10"]
    assert lines.locator("tr.added").inner_text().split() == ["2", "+", "at", "step", "0"]


def test_the_same_prompt_is_found_at_all_steps_of_all_runs(page):
    panel = page.get_by_role("region", name="completions")
    panel.get_by_role("row").filter(has_text="question 3").first.click()
    panel.get_by_role("button", name="Rows with the same").first.click()
    panel.get_by_text("40 of 2,000 rows").wait_for()
    panel.get_by_role("button", name="Same prompt").click()
    panel.get_by_text("2,000 rows, 2 steps", exact=False).wait_for()


def test_rows_far_below_come_when_they_are_scrolled_to(page):
    panel = page.get_by_role("region", name="completions")
    panel.get_by_text("2,000 rows").wait_for()
    panel.get_by_role("grid").focus()
    page.keyboard.press("End")
    panel.get_by_role("row").filter(has_text="answer 499 of run b").last.wait_for()


REACHED = """grid => {
  const last = [...grid.querySelectorAll("[role=columnheader]")].at(-1).getBoundingClientRect();
  return last.right <= grid.getBoundingClientRect().right + 1;
}"""
"""Whether the last column is seen whole."""


def test_every_column_is_seen_on_a_laptop_and_scrolled_to_on_a_phone(page):
    grid = page.get_by_role("region", name="completions").get_by_role("grid")
    grid.get_by_role("row").filter(has_text="of run a").first.wait_for()
    page.set_viewport_size({"width": 1440, "height": 900})
    page.wait("() => innerWidth === 1440")
    assert grid.evaluate(REACHED)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait("() => innerWidth === 390")
    assert 64 < grid.get_by_role("columnheader", name="step").bounding_box()["width"] < 390 / 3
    assert not grid.evaluate(REACHED)
    grid.evaluate("grid => grid.scrollLeft = grid.scrollWidth")
    assert grid.evaluate(REACHED)
    assert page.evaluate("document.querySelector('main').scrollLeft") == 0


@pytest.mark.slow
def test_axe_finds_nothing(page, axe):
    panel = page.get_by_role("region", name="completions")
    panel.get_by_role("row").nth(1).click()
    panel.get_by_role("button", name="Close").wait_for()
    axe(page)
