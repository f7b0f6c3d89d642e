"""What each page says where the server does not answer: never that nothing was recorded."""

import json

import pytest
from support.everything import LONG, PROFILE, write_all, write_records

import stepscope as ss

WHY = "the disk of the logs is away"
VIEWS = {
    "configurations": "overview?board=configurations",
    "importance": "overview?board=importance",
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


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_a_question_without_an_answer_is_said(server, watch, view):
    watched = watch(server)
    page = watched.page
    page.route("**/api/v1/**", refuse)
    watched.open(f"#/{VIEWS[view]}")
    page.locator("main").get_by_text(WHY).first.wait_for(timeout=10_000)
    assert page.locator("main .reading").count() == 0
    assert page.locator("main").get_by_text(" yet", exact=False).count() == 0, "not that nothing was recorded"
    assert watched.said()
    watched.messages.clear()
