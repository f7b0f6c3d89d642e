"""Text & config: what differs between the texts, tables, config and environment of two runs."""

import json

import pytest

import stepscope as ss

SCRIPT = "<img src=x onerror=\"document.title='taken'\">"
MINUS = "\u2212"
HOME = "#/text?diff=1&a=run:a&b=run:b"


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    log_dir = tmp_path_factory.mktemp("differences")
    for name, rate, rows in (
        ("a", 0.1, [["cat", 0.5], ["dog", 0.25], ["owl", 1.0]]),
        ("b", 0.2, [["owl", 1.0], ["cat", 0.75], ["elk", 0.0]]),
    ):
        with ss.Run(log_dir / name, config={"rate": rate, "layers": 2}) as run:
            for step in run.steps(range(2)):
                lines = [f"line {at}" for at in range(20)]
                lines[10] = f"the rate is {rate} at step {step} {SCRIPT}"
                run.text("notes", "\n".join(lines))
                run.table("predictions", columns=["animal", "p"], rows=rows)
            if name == "a":
                run.text("alone", "x")
        (log_dir / name / "rollouts").mkdir()
        said = "It is five" if name == "a" else "It is 4"
        lines = [{"input": "Add 2 and 2", "output": said, "score": rate}, {"input": "Hi", "output": "Hi"}]
        (log_dir / name / "rollouts" / "1.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    return serve_long(log_dir)


def test_texts_differ_by_lines_and_words(opened):
    page = opened()
    lines = page.get_by_role("group", name="Differences of notes")
    removed, added = lines.locator("tr.removed"), lines.locator("tr.added")
    removed.wait_for()
    assert removed.locator("td").all_inner_texts()[:3] == ["11", "", MINUS]
    assert "the rate is 0.1 at step 1" in removed.inner_text()
    assert "the rate is 0.2 at step 1" in added.inner_text()
    assert SCRIPT in added.inner_text()
    assert "1" in "".join(removed.locator("b").all_inner_texts())
    assert lines.locator("img").count() == 0
    assert page.title() != "taken"
    assert lines.get_by_text("7 lines the same").count() == 1
    notes = page.get_by_role("region", name="notes")
    notes.get_by_role("button", name="Only what differs").click()
    lines.get_by_text("line 19", exact=True).wait_for()
    page.get_by_role("region", name="alone").get_by_text("Only in A").wait_for()


def test_tables_differ_by_cells_of_the_same_row(opened):
    page = opened().page
    table = page.get_by_role("grid", name="Differences of predictions/table")
    table.get_by_role("row").nth(3).wait_for()
    assert [text.split("\t") for text in table.get_by_role("row").all_inner_texts()[1:]] == [
        ["1", "cat", "0.500 0.750 +0.250"],
        ["only A", "dog", "0.250"],
        ["only B", "elk", "0"],
    ]
    panel = page.get_by_role("region", name="predictions")
    panel.get_by_text("1 of 4 cells differ; rows by animal").wait_for()


def test_tables_differ_between_steps_and_a_pair_of_rows_is_read_whole(opened):
    page = opened("#/text?diff=1&a=run:a&b=run:a").page
    panel = page.get_by_role("region", name="predictions")
    panel.get_by_text("Every cell is the same").wait_for()
    panel.get_by_label("Step of A").select_option("0")
    panel.get_by_role("button", name="Only what differs").click()
    panel.get_by_role("row", name="dog").click()
    panel.get_by_text("A, a, step 0; B, a, step 1").wait_for()


def test_completions_in_files_differ_too(opened):
    page = opened().page
    panel = page.get_by_role("region", name="rollouts")
    panel.get_by_text("2 of 6 cells differ; rows by input").wait_for()
    panel.get_by_role("row", name="Add 2 and 2").click()
    change = panel.get_by_role("group", name="Difference of output")
    change.locator("tr.added").get_by_text("It is 4").wait_for()
    assert "It is five" in change.locator("tr.removed").inner_text()


def test_runs_are_chosen_swapped_and_linked_by_keyboard(opened):
    page = opened("#/text")
    page.get_by_role("button", name="Differences", exact=True).press("Enter")
    page.wait("() => location.hash.includes('diff=1')")
    page.get_by_label("Run A", exact=True).select_option("b")
    page.wait("() => location.hash.includes('a=run:b')")
    page.get_by_label("Run B", exact=True).select_option("a")
    page.get_by_role("group", name="Differences of notes").locator("tr.removed").get_by_text(
        "0.2"
    ).first.wait_for()
    page.get_by_role("button", name="Swap").press("Enter")
    page.get_by_role("group", name="Differences of notes").locator("tr.added").get_by_text(
        "0.2"
    ).first.wait_for()
    page.reload()
    page.get_by_role("group", name="Differences of notes").locator("tr.added").get_by_text(
        "0.2"
    ).first.wait_for()


def test_the_environment_stands_below_the_config(opened):
    page = opened("#/text").page
    page.get_by_role("button", name="Only what differs").first.click()
    environment = page.get_by_role("group", name="Table of environment")
    environment.get_by_role("columnheader", name="python", exact=True).wait_for()
    keys = environment.get_by_role("columnheader").all_inner_texts()
    rows = environment.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    assert rows.count() > 1
    values = [row.get_by_role("cell").all_inner_texts()[keys.index("python") - 1] for row in rows.all()]
    assert len(set(values)) == 1
    assert values[0].startswith("3.")


@pytest.mark.slow
def test_axe_finds_nothing(opened, axe):
    page = opened().page
    page.get_by_role("group", name="Differences of notes").wait_for()
    page.get_by_role("grid", name="Differences of predictions/table").wait_for()
    axe(page)
