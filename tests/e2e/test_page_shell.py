"""The shell: address, connection, keyboard, size, other hosts."""

import gzip
import time

import pytest

BUDGET_BYTES = 120_000


@pytest.fixture
def open_page(sweep, watch):
    return lambda hash_="": open_at(watch(sweep), hash_)


def open_at(watched, hash_):
    watched.open(hash_)
    watched.ready()
    return watched


def test_the_view_survives_a_reload(open_page):
    hash_ = (
        "#/scalars?q=lr%3E2e-4&x=relative&sm=0.9&f=loss&ly=1&out=0&pin=train/loss&hide=b&run=a&colour=lr"
        "&sort=-step&m=train/loss"
    )
    watched = open_page(hash_)
    before = watched.charts()
    assert watched.page.evaluate("location.hash") == hash_
    watched.page.reload()
    watched.ready()
    assert watched.page.evaluate("location.hash") == hash_
    after = watched.charts()
    assert after["train/loss"]["y"] == before["train/loss"]["y"]
    assert {line["run"] for line in after["train/loss"]["lines"]} == {"a"}
    assert watched.page.get_by_label("Run query").input_value() == "lr>2e-4"
    assert watched.page.get_by_label("X axis").input_value() == "relative"


def test_the_address_follows_what_is_done_and_back_undoes_pages(open_page):
    page = open_page("#/scalars")
    page.keyboard.press("1")
    page.wait("() => location.hash.startsWith('#/overview')")
    page.get_by_label("Run query").fill("run:a")
    page.wait("() => location.hash.includes('q=run:a')")
    page.go_back()
    page.wait("() => !location.hash.includes('q=')")
    page.go_back()
    page.wait("() => location.hash.startsWith('#/scalars')")


def test_a_gone_server_is_said_and_its_return_resumes(log_dir, serve, watch):
    server = serve(log_dir)
    page = watch(server, "#/scalars")
    page.ready()
    page.locator("[data-link='live']").wait_for()
    server.stop()
    badge = page.locator("[data-link='disconnected']")
    badge.wait_for(timeout=10_000)
    assert badge.inner_text().startswith("Disconnected ")
    assert page.charts(), "what was drawn stays"
    server.start()
    page.locator("[data-link='live']").wait_for(timeout=20_000)
    page.ready()


def test_a_hidden_tab_asks_nothing(open_page):
    page = open_page("#/scalars")
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => true});"
        " document.dispatchEvent(new Event('visibilitychange')) }"
    )
    page.locator("[data-link='paused']").wait_for()
    count = len(page.requests)
    page.wait_for_timeout(2500)
    assert len(page.requests) == count
    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => false});"
        " document.dispatchEvent(new Event('visibilitychange')) }"
    )
    page.locator("[data-link='live']").wait_for()


def test_everything_is_reached_by_the_keyboard(open_page):
    page = open_page("#/overview")
    page.keyboard.press("2")
    page.wait("() => location.hash.startsWith('#/scalars')")
    page.ready()
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.wait("() => location.hash.includes('run=b')")
    page.keyboard.press("x")
    page.wait("() => location.hash.includes('hide=b')")
    page.keyboard.press("x")
    page.keyboard.press("s")
    page.wait("() => location.hash.includes('solo=b')")
    page.keyboard.press("s")
    page.keyboard.press("b")
    page.wait("() => location.hash.includes('base=b')")
    page.keyboard.press("l")
    page.wait("() => location.hash.includes('ly=1')")
    page.keyboard.press("=")
    page.wait("() => location.hash.includes('sm=0.7')")
    page.keyboard.press("/")
    page.wait("() => document.activeElement.id === 'run-query'")
    page.keyboard.type("state:fin")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.locator("[data-chart]").first.focus()
    page.keyboard.press("End")
    page.locator("[data-tooltip]").wait_for()
    assert page.get_by_role("status").inner_text().startswith("Step")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("f")
    page.get_by_role("dialog").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search commands, charts and runs").wait_for()
    page.keyboard.type("learning")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="train/learning_rate in full screen").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    page.wait("() => document.documentElement.dataset.theme === 'dark'")


@pytest.fixture
def delayed(sweep, watch):
    """A page whose palette is asked for, while its script comes only when the returned function is called."""
    watched = watch(sweep)
    held = []
    watched.page.route("**/Palette*.js", lambda route: held.append(route))
    open_at(watched, "#/scalars?run=a")
    watched.page.get_by_label("Run query").focus()
    with watched.page.expect_request("**/Palette*.js"):
        watched.page.keyboard.press("Control+k")
    return watched, lambda: held.pop().continue_()


FIELD = ("combobox", "Search commands, charts and runs")


def test_what_is_typed_while_the_palette_loads_is_its_own(delayed):
    page, release = delayed
    before = page.evaluate("location.hash")
    page.keyboard.type("xlearning t1s")
    for _ in range(3):
        page.keyboard.press("Backspace")
    page.keyboard.press("Control+z")
    page.keyboard.press("Tab")
    assert page.locator(":focus").get_attribute("aria-label") == "Run query"
    release()
    field = page.get_by_role(FIELD[0], name=FIELD[1])
    field.wait_for()
    page.wait("() => document.activeElement.getAttribute('role') === 'combobox'")
    page.keyboard.type("rate")
    assert field.input_value() == "xlearning rate"
    assert page.evaluate("location.hash") == before
    assert page.get_by_label("Run query").input_value() == ""
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_a_command_is_chosen_before_the_palette_is_there(delayed):
    page, release = delayed
    page.keyboard.type("learning")
    page.keyboard.press("Enter")
    page.keyboard.type("t")
    release()
    page.get_by_role("dialog", name="train/learning_rate in full screen").wait_for()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert page.get_by_role(FIELD[0], name=FIELD[1]).count() == 0


def test_escape_closes_the_palette_before_it_is_there(delayed):
    page, release = delayed
    page.keyboard.type("t")
    page.keyboard.press("Escape")
    page.locator("main").focus()
    page.keyboard.press("l")
    page.wait("() => location.hash.includes('ly=1')")
    release()
    page.keyboard.press("Control+k")
    page.wait("() => document.activeElement.getAttribute('role') === 'combobox'")
    assert page.get_by_role(FIELD[0], name=FIELD[1]).input_value() == ""
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


def test_single_keys_can_be_switched_off(open_page):
    page = open_page("#/scalars")
    page.keyboard.press("?")
    page.get_by_label("Single keys work").uncheck()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    page.keyboard.press("1")
    page.wait_for_timeout(300)
    assert page.evaluate("location.hash").startswith("#/scalars")
    page.keyboard.press("Control+k")
    page.get_by_role("dialog").wait_for()


def test_the_first_load_is_small(open_page):
    watched = open_page("#/scalars")
    sizes = {}
    for request in watched.requests:
        path = request.url.removeprefix(watched.server.url)
        if "/api/" not in path:
            sizes[path.split("#")[0]] = len(gzip.compress(request.response().body(), 6))
    assert any(path.endswith(".js") for path in sizes)
    assert sum(sizes.values()) <= BUDGET_BYTES, sizes


def test_it_works_under_a_prefix(log_dir, serve, watch):
    watched = watch(serve(log_dir, "--path-prefix", "/proxy/6006"))
    watched.open("#/scalars", prefix="/proxy/6006/")
    watched.ready()
    assert watched.charts()


def test_an_empty_directory_says_what_fills_it(tmp_path, serve, watch):
    from stepscope.events import EventWriter

    (tmp_path / "runs").mkdir()
    page = watch(serve(tmp_path / "runs")).open()
    page.get_by_text("stepscope demo").wait_for()
    with_run = EventWriter(tmp_path / "runs" / "first")
    with_run.scalar("loss", 1.0, 0, time.time())
    with_run.close()
    page.locator("[data-chart='loss']").wait_for()


def test_the_overview_of_one_run_holds_what_is_recorded(open_page):
    watched = open_page("#/overview?q=run:c")
    text = watched.page.locator("main").inner_text()
    assert "Failed" in text
    assert "ValueError: loss is NaN" in text
    assert "NaN" in text
    assert "Recording costs" not in text, "what is not recorded has no figure"


def test_the_overview_of_many_runs_is_ordered_by_any_column(open_page):
    page = open_page("#/overview")
    names = page.locator("tbody th a")
    assert names.all_inner_texts() == ["a", "b", "c"]
    page.get_by_title("Sort by step", exact=True).click()
    page.wait("() => location.hash.includes('sort=-step')")
    assert names.all_inner_texts()[-1] == "c"
    page.get_by_title("Sort by lr", exact=True).click()
    page.wait("() => document.querySelector('tbody th a').textContent === 'c'")
    names.first.click()
    page.wait("() => location.hash.includes('q=run:c')")
    page.get_by_role("heading", name="Overview of c").wait_for(state="attached")


def test_the_run_query_reads_config_and_state(open_page):
    page = open_page("#/scalars")
    for query, runs in (
        ("lr>5e-4", ["a"]),
        ("-state:failed", ["a", "b"]),
        ("batch:32 b", ["b"]),
        ("", ["a", "b", "c"]),
    ):
        page.get_by_label("Run query").fill(query)
        page.wait(
            "runs => String([...document.querySelectorAll('[data-run]')].map(r => r.dataset.run))"
            " === String(runs)",
            runs,
        )
    page.get_by_label("Run query").fill("nosuchkey>1")
    page.get_by_text("no run has nosuchkey").wait_for()
    page.get_by_text("No run matches the query.").wait_for()
