"""Names, notes, tags, the archive, the trash and saved views, by mouse and by keyboard alone."""

import json

import pytest

import stepscope as ss


@pytest.fixture
def logs(tmp_path):
    for name in ("alpha", "beta", "gamma"):
        with ss.Run(tmp_path / "runs" / name, tags=["recorded"]) as run:
            for step in range(20):
                run.scalar("loss", 1 / (step + 1), step)
    return tmp_path / "runs"


@pytest.fixture
def watched(logs, serve, watch):
    watched = watch(serve(logs), "#/scalars?run=beta&rail=1")
    watched.ready()
    return watched


@pytest.fixture
def page(watched):
    return watched.page


def names(page):
    return page.locator("[data-run] .title .cut").all_inner_texts()


def edit(page, entry, run="beta"):
    page.get_by_role("complementary", name="Runs").get_by_role("button", name=f"Edit {run}").click()
    page.get_by_role("button", name=entry).click()


def palette(page):
    """Open the palette, and wait until what is typed goes into it."""
    page.keyboard.press("Control+k")
    page.wait_for_function("() => document.activeElement?.getAttribute('role') === 'combobox'")


def test_a_run_gets_a_name_tags_and_a_note(page, logs):
    edit(page, "Name, note and tags")
    dialog = page.get_by_role("dialog", name="Name, note and tags")
    dialog.get_by_label("Name", exact=True).fill("The good one")
    dialog.get_by_label("Tags").fill("recorded, paper")
    dialog.get_by_label("Note, Markdown").fill("Seen **twice** <img src=x onerror=alert(1)>")
    assert dialog.locator("strong").inner_text() == "twice"
    assert dialog.locator("img").count() == 0
    dialog.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Hide The good one").wait_for()
    assert names(page) == ["alpha", "The good one", "gamma"]
    assert "Seen **twice**" in page.get_by_role("region", name="Selected run").inner_text()
    page.goto(page.url.split("#")[0] + "#/overview?q=run:beta")
    page.get_by_role("region", name="Note").locator("strong").get_by_text("twice").wait_for()
    assert "recorded, paper" in page.get_by_role("region", name="State of the run").inner_text()
    said = json.loads((logs / ".stepscope" / "runs" / "beta.json").read_text())
    assert (said["title"], said["tags"]) == ("The good one", ["recorded", "paper"])
    page.goto(page.url.split("#")[0] + "#/scalars?q=tag:paper&rail=1")
    page.get_by_text("1 of 3 runs").wait_for()


def test_archived_runs_are_left_out_until_asked_for(page):
    edit(page, "Archive")
    page.get_by_text("1 archived").wait_for()
    page.get_by_role("button", name="Hide beta").wait_for(state="detached")
    assert names(page) == ["alpha", "gamma"]
    page.get_by_role("complementary", name="Runs").get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("button", name="Hide beta").wait_for()
    assert (
        "archived:true,false" in page.url
        or page.get_by_label("Run query").input_value() == "archived:true,false"
    )
    edit(page, "Restore from the archive")
    page.get_by_label("Run query").fill("")
    page.get_by_text("3 of 3 runs").wait_for()
    page.get_by_role("button", name="Hide beta").wait_for()
    assert names(page) == ["alpha", "beta", "gamma"]


def test_a_run_is_deleted_on_the_second_word_and_taken_back(page, logs):
    edit(page, "Delete…")
    dialog = page.get_by_role("dialog", name="Delete a run")
    move = dialog.get_by_role("button", name="Move to the trash")
    assert move.is_disabled()
    assert (logs / "beta").exists()
    dialog.get_by_label("Yes, this run").check()
    move.click()
    page.get_by_text("2 of 2 runs").wait_for()
    assert not (logs / "beta").exists()
    palette(page)
    page.keyboard.type("trash")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Trash")
    dialog.get_by_role("button", name="Restore").click()
    dialog.get_by_text("Nothing is in the trash").wait_for()
    dialog.get_by_role("button", name="Close").click()
    page.get_by_text("3 of 3 runs").wait_for()
    assert (logs / "beta").exists()


def test_deleting_for_good_asks_twice(page, logs):
    edit(page, "Delete…")
    page.get_by_label("Yes, this run").check()
    page.get_by_role("button", name="Move to the trash").click()
    page.get_by_text("2 of 2 runs").wait_for()
    palette(page)
    page.keyboard.type("trash")
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Trash")
    dialog.get_by_role("button", name="Delete for good").click()
    dialog.get_by_role("button", name="press again").click()
    dialog.get_by_text("Nothing is in the trash").wait_for()
    assert not list((logs / ".stepscope" / "trash").glob("*/thrown.json"))


def test_by_keyboard_alone(page, logs):
    page.keyboard.press("n")
    page.get_by_role("dialog", name="Name, note and tags").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.type("by hand")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Hide by hand").wait_for()
    palette(page)
    page.keyboard.type("delete the run")
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Delete a run").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.get_by_text("2 of 2 runs").wait_for()


def test_what_is_said_elsewhere_appears_here(page, logs):
    from stepscope.store.annotations import Notes

    Notes(logs).change("gamma", title="From another desk")
    page.get_by_role("button", name="Hide From another desk").wait_for()


def test_views_are_saved_and_opened(page):
    page.get_by_label("Run query").fill("alpha")
    page.get_by_text("1 of 3 runs").wait_for()
    menu = page.get_by_role("button", name="Saved views")
    menu.click()
    page.get_by_text("No saved views yet").wait_for()
    page.get_by_label("Name of this view").fill("only alpha <b>")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="only alpha <b>").wait_for()
    menu.click()
    page.get_by_label("Run query").fill("")
    page.get_by_text("3 of 3 runs").wait_for()
    menu.click()
    page.get_by_role("link", name="only alpha <b>").click()
    page.get_by_text("1 of 3 runs").wait_for()
    menu.click()
    page.get_by_role("button", name="Forget the view only alpha <b>").click()
    page.get_by_text("No saved views yet").wait_for()


def test_a_directory_that_cannot_be_written_says_so(page, watched, logs):
    (logs / ".stepscope").write_text("in the way")
    edit(page, "Name, note and tags")
    page.get_by_label("Name", exact=True).fill("x")
    page.get_by_role("button", name="Save", exact=True).click()
    assert "write permission" in page.get_by_role("alert").inner_text()
    assert ["409" in message for message in watched.messages] == [True]
    watched.messages.clear()


@pytest.mark.slow
def test_axe_finds_nothing(logs, serve, watch, axe):
    watched = watch(serve(logs), "#/scalars?run=beta&rail=1")
    page = watched.ready()

    def look(name):
        page.wait_for_function("() => document.getAnimations().every((one) => one.playState !== 'running')")
        axe(page, name)

    page.get_by_role("complementary", name="Runs").get_by_role("button", name="Edit beta").click()
    look("menu")
    for entry in ("Name, note and tags", "Delete…", "Trash"):
        page.get_by_role("button", name=entry).click()
        page.get_by_role("dialog").wait_for()
        look(entry)
        page.keyboard.press("Escape")
        page.get_by_role("complementary", name="Runs").get_by_role("button", name="Edit beta").click()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Saved views").click()
    page.get_by_label("Name of this view").wait_for()
    look("views")


def test_a_run_as_one_file_that_needs_nothing_else(page, tmp_path, chromium, axe):
    page.get_by_role("complementary", name="Runs").get_by_role("button", name="Edit beta").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as an HTML report").click()
    assert download.value.suggested_filename == "beta.html"
    path = tmp_path / "kept.html"
    # axe is a script of the test: the copy that it looks at lets scripts of pages build code
    download.value.save_as(path)
    copy = tmp_path / "copy.html"
    copy.write_text(
        path.read_text().replace("script-src 'unsafe-inline'", "script-src 'unsafe-inline' 'unsafe-eval'")
    )
    for theme in ("light", "dark"):
        context = chromium.new_context(color_scheme=theme)
        kept, asked, errors = context.new_page(), [], []
        kept.on("request", lambda request, asked=asked: asked.append(request.url))
        kept.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        kept.goto(copy.as_uri())
        kept.get_by_text("Report of").wait_for()
        tabs = kept.get_by_role("navigation", name="Pages").get_by_role("link")
        assert tabs.count() >= 2
        for tab in tabs.all():
            tab.click()
            kept.wait_for_timeout(300)
            assert kept.evaluate("__stepscope_test.missed()") == []
        tabs.first.click()
        kept.locator("main [data-chart]:visible").first.wait_for()
        axe(kept, theme, dark=False)
        assert [url for url in asked if not url.startswith(("blob:", "data:"))] == [copy.as_uri()]
        assert errors == []
        context.close()


def test_who_only_looks_is_offered_no_change(logs, serve, watch):
    from stepscope.store.annotations import Notes

    Notes(logs).change("beta", note="Seen **twice**")
    page = watch(serve(logs, "--read-only"), "#/overview?q=run:beta&rail=1")
    page.ready()
    note = page.get_by_role("region", name="Note")
    note.locator("strong").wait_for()
    page.get_by_role("complementary", name="Runs").get_by_role("button", name="Save beta").click()
    assert page.locator(".items .item").all_inner_texts() == ["Save as an HTML report"]
    page.keyboard.press("Escape")
    assert note.get_by_role("button", name="Edit").count() == 0
    page.keyboard.press("n")
    assert page.get_by_role("dialog").count() == 0
    palette(page)
    page.keyboard.type("the run")
    page.get_by_role("option", name="Make the run the baseline").wait_for()
    offered = page.get_by_role("option").all_inner_texts()
    assert not [each for each in offered if "Delete" in each or "Name, note" in each]
