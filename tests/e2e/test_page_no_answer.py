"""What each page says where the server does not answer: never that nothing was recorded."""

import json

import pytest
from support.everything import LONG, PROFILE, write_all, write_records

import stepscope as ss

WHY = "the disk of the logs is away"
VIEWS = {
    "configurations": "overview?board=configurations",
    "findings": "overview?q=run:a",
    "completions": "text",
    "pictures": f"media?q=run:{LONG}",
    "curves": f"media?q=run:{LONG}&medium=curves",
    "distributions": f"distributions?q=run:{LONG}",
    "graph": "graph?q=run:a",
    "profile": f"profile?prof={PROFILE}",
    "operations": f"profile?prof={PROFILE}&show=operations",
    "ranks": "ranks?q=run:job",
    "sql": "sql?sql=SELECT 1",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    log_dir = tmp_path_factory.mktemp("silent") / "runs"
    write_all(log_dir)
    write_records(log_dir / LONG)
    with ss.Run(log_dir / "grpo") as run:
        run.table("completions", [{"prompt": "2 + 2?", "completion": "4", "reward": 1.0}], 0)
    return serve_long(log_dir)


def refuse(route):
    """Answer nothing but what runs there are."""
    if "/api/v1/changes" in route.request.url:
        route.continue_()
    else:
        route.fulfill(
            status=503, content_type="application/json", body=json.dumps({"error": WHY, "hint": ""})
        )


def expect_errors(page):
    """Take the browser's errors, once the page is left: it asks again every two seconds."""
    page.page.goto("about:blank")
    assert page.said()
    page.messages.clear()


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_a_question_without_an_answer_is_said(server, watch, view):
    page = watch(server)
    page.route("**/api/v1/**", refuse)
    page.open(f"#/{VIEWS[view]}")
    page.locator("main").get_by_text(WHY).first.wait_for(timeout=10_000)
    assert page.locator("main .reading").count() == 0
    assert page.locator("main").get_by_text(" yet", exact=False).count() == 0, "not that nothing was recorded"
    expect_errors(page)


def of_run(request, run):
    """Whether a request asks about a run."""
    return f"run={run}&" in f"{request.url}&"


def test_of_several_runs_those_without_an_answer_are_named_and_the_others_shown(server, watch):
    page = watch(server)

    def refuse_one(route):
        if of_run(route.request, "grpo"):
            refuse(route)
        else:
            route.continue_()

    page.route("**/api/v1/**", refuse_one)
    both = f"q=name:grpo,{LONG}"
    for view, there in (("media", "reconstruction"), ("text", "samples/greedy_decoding")):
        page.open(f"#/{view}?{both}")
        page.locator("main").get_by_text(f"Not read: grpo: {WHY}").wait_for()
        page.get_by_role("region", name=there, exact=True).wait_for()
    for view in ("distributions", "graph"):
        page.open(f"#/{view}?{both}")
        page.locator("main").get_by_text(f"Not read: grpo: {WHY}").wait_for()
    page.open(f"#/media?q=name:{LONG}")
    page.get_by_role("region", name="reconstruction", exact=True).wait_for()
    assert page.get_by_text("Not read").count() == 0
    expect_errors(page)


def test_a_comparison_without_its_series_names_no_values(server, watch):
    page = watch(server)
    page.route("**/api/v1/series", refuse)
    page.open("#/compare?a=name:a&b=name:b&part=curves")
    strip = page.get_by_role("region", name="Both sides")
    strip.get_by_text("not read yet").wait_for()
    assert "NaN" not in page.locator("main").inner_text()
    page.unroute("**/api/v1/series")
    page.open("#/overview")
    page.open("#/compare?a=name:a&b=name:b&part=curves")
    strip.get_by_text("→").wait_for()
    assert "not read yet" not in strip.inner_text()
    expect_errors(page)
