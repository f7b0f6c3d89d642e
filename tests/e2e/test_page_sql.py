"""SQL: a query in the address, its answer as a chart and a table, and what it refuses."""

import json
import os

import pytest

import stepscope as ss

pytest.importorskip("duckdb", reason="stepscope[sql]")

CURVES = "SELECT run, step, value FROM series WHERE tag = 'eval/loss' AND step < 100 ORDER BY run, step"


@pytest.fixture
def opened(sweep, watch):
    watched = watch(sweep, "#/sql")
    watched.page.get_by_role("region", name="Tables").get_by_text(
        "run, tag, attempt, step, time, value"
    ).wait_for()
    return watched


def ask(watched, query):
    """Type a query and run it."""
    field = watched.page.get_by_label("SQL over runs")
    field.fill(query)
    field.press("Enter")


def rows_of(watched):
    watched.page.get_by_role("region", name="Rows of the answer").wait_for()
    return watched.page.locator("section[aria-label='Rows of the answer'] tbody tr")


def test_curves_are_a_chart_and_a_table_and_survive_a_reload(opened):
    watched, page = opened, opened.page
    ask(watched, CURVES)
    page.get_by_text("300 rows").wait_for()
    watched.wait("() => document.querySelector('.plot canvas')")
    lines = page.get_by_role("region", name="Chart of the answer")
    lines.get_by_role("heading", name="value over step").wait_for()
    assert [lines.get_by_text(name, exact=True).count() for name in "abc"] == [1, 1, 1]
    chart = watched.charts()["sql"]
    assert chart["y"]["max"] >= max(value for line in chart["lines"] for value in line["y"])
    page.reload()
    page.get_by_text("300 rows").wait_for()
    assert page.get_by_label("SQL over runs").input_value() == CURVES
    ask(watched, "SELECT 1 AS one")
    page.get_by_text("1 row").wait_for()
    page.go_back()
    page.get_by_text("300 rows").wait_for()
    page.get_by_role("button", name="History").click()
    assert page.get_by_role("button", name=CURVES).count() == 1


def test_the_pointer_reads_the_values(opened):
    watched, page = opened, opened.page
    ask(watched, CURVES)
    watched.wait("() => document.querySelector('.plot canvas')")
    line = next(each for each in watched.charts()["sql"]["lines"] if each["run"] == "b")
    x, y = (line[axis][len(line["x"]) // 2] for axis in "xy")
    place = page.evaluate("([x, y]) => window.__stepscope_test.pixel('sql', x, y)", [x, y])
    page.mouse.move(place["left"], place["top"])
    tip = page.locator("[data-tooltip]")
    tip.get_by_text(f"step {x:g}", exact=True).wait_for()
    run, value = tip.locator("tbody tr").first.locator("td").all_inner_texts()
    assert run.strip() == "b"
    assert float(value) == pytest.approx(y, rel=1e-3)
    page.mouse.move(0, 0)
    tip.wait_for(state="detached")


def profile_of(path, count, modified):
    """Write a profile with as many events."""
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10 * at, "dur": 5}
        for at in range(count)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    os.utime(path, (modified, modified))


def test_events_are_those_of_the_profile_that_is_chosen(serve, watch, tmp_path):
    log = tmp_path / "log"
    with ss.Run(log / "a") as run:
        run.scalar("train/loss", 1.0, step=0)
    profile_of(log / "a" / "old.pt.trace.json", 3, 1_700_000_000)
    profile_of(log / "b" / "new.pt.trace.json", 5, 1_700_000_100)
    page = watch(serve(log), "#/sql")
    ask(page, "SELECT count(*) AS n FROM events")
    rows_of(page).first.get_by_text("5", exact=True).wait_for()
    page.get_by_label("Profile of the table events").select_option("a/old.pt.trace.json")
    rows_of(page).first.get_by_text("3", exact=True).wait_for()
    page.reload()
    rows_of(page).first.get_by_text("3", exact=True).wait_for()
    assert page.get_by_label("Profile of the table events").input_value() == "a/old.pt.trace.json"


def test_rows_are_sorted_by_a_head_and_saved_whole(opened):
    watched, page = opened, opened.page
    ask(watched, "SELECT run, 1.23456789 * count(*) AS n FROM series GROUP BY run ORDER BY run")
    rows = rows_of(watched)
    assert [rows.nth(at).get_by_role("rowheader").inner_text() for at in range(3)] == ["a", "b", "c"]
    page.get_by_role("button", name="n", exact=True).click()
    rows.nth(0).get_by_text("a", exact=True).wait_for()
    page.get_by_role("button", name="n", exact=True).click()
    rows.nth(2).get_by_text("a", exact=True).wait_for()
    assert page.get_by_role("region", name="Chart of the answer").count() == 0
    page.get_by_role("button", name="Save Rows of the answer").click()
    with page.expect_download() as saved:
        page.get_by_role("button", name="CSV, every row of the answer").click()
    head, *lines = saved.value.path().read_text().split()
    assert head == "run,n"
    assert lines[0] == f"a,{1.23456789 * 12000}"


def test_the_bound_on_rows_is_said(opened):
    ask(opened, "SELECT range AS n FROM range(10001)")
    opened.page.get_by_text(
        "more than 10,000 rows; the first are shown: aggregate them, or add LIMIT"
    ).wait_for()


def test_every_example_has_an_answer(opened):
    page = opened.page
    menu = page.get_by_role("button", name="Examples")
    menu.click()
    examples = page.locator(".choices button").all_inner_texts()
    assert examples
    menu.click()
    for example in examples:
        menu.click()
        with page.expect_response("**/api/v1/ask") as answered:
            page.get_by_role("button", name=example).click()
        assert answered.value.json()["lines"][0].endswith("rows"), example


MISSING = {"error": "duckdb is not installed", "hint": "pip install 'stepscope[sql]'"}


@pytest.mark.parametrize(
    ("query", "error", "hint", "status"),
    [
        ("SELECT * FROM serie", "Table with name serie does not exist", "did you mean 'series'?", 422),
        (
            "SELECT * FROM read_text('/etc/passwd')",
            "SQL reads no files and no network here",
            "the tables: runs",
            422,
        ),
        ("DROP TABLE runs", "DROP is refused: SQL only reads here", "SELECT … FROM runs", 422),
        ("SELECT 1", MISSING["error"], MISSING["hint"], 409),
    ],
)
def test_what_cannot_be_answered_is_said_with_what_to_do(query, error, hint, status, opened):
    page = opened.page
    if status == 409:
        reply = {"status": status, "content_type": "application/json", "body": json.dumps(MISSING)}
        page.route("**/api/v1/ask", lambda route: route.fulfill(**reply))
    ask(opened, query)
    status_line = page.locator("main [role=status]")
    status_line.get_by_text(error).wait_for()
    assert hint in status_line.inner_text()
    assert page.get_by_role("region", name="Rows of the answer").count() == 0
    opened.messages[:] = [line for line in opened.messages if str(status) not in line]
