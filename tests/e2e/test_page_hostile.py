"""Names that try to be markup are text wherever they are shown."""

import time

import pytest

from stepscope.events import EventWriter

HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


MARKUP = "main img, main b, main script, aside img, aside b, td svg[onload]"


@pytest.fixture
def hostile_dir(tmp_path, about_run):
    root = tmp_path / "runs"
    name = "<b onmouseover=alert(1)>bold"
    writer = EventWriter(root / name)
    facts = {
        "config": {HOSTILE: HOSTILE, "nested": {"<i>k": "</td><svg onload=alert(1)>"}},
        "tags": [HOSTILE],
        "status": "failed",
        "reason": HOSTILE,
        "host": HOSTILE,
    }
    writer.event(about_run(time.time(), facts))
    for step in range(5):
        writer.scalars(
            [(HOSTILE, float(step)), ("javascript:alert(1)", 1.0), ("a,b\\c&d=e#f", 2.0)], step, time.time()
        )
    writer.close()
    other = EventWriter(root / "other")
    other.event(about_run(time.time(), {"config": {HOSTILE: 1}}))
    other.scalar(HOSTILE, 1.0, 0, time.time())
    other.close()
    return root


@pytest.mark.parametrize(
    "hash_", ["#/overview", "#/scalars?rail=1&details=1", "#/overview?q=run:*bold&details=1"]
)
def test_names_are_text(hostile_dir, serve, watch, hash_):
    watched = watch(serve(hostile_dir))
    page = watched.open(hash_)
    watched.ready()
    page.keyboard.press("j")
    for place in page.locator("[data-chart]").all()[:4]:
        place.hover()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search commands, charts and runs").fill("img")
    page.keyboard.press("Escape")
    assert page.locator(MARKUP).count() == 0
    assert "owned" not in page.title()
    assert page.get_by_text("<img src=x").count() > 0


def test_hostile_names_go_through_address_and_download(hostile_dir, serve, watch):
    watched = watch(serve(hostile_dir))
    page = watched.open("#/scalars")
    watched.ready()
    page.get_by_role("article", name=HOSTILE).hover()
    page.get_by_role("button", name="Pin " + HOSTILE).click()
    watched.wait("() => location.hash.includes('pin=')")
    page.reload()
    watched.ready()
    assert page.locator("section[aria-label='Pinned'] h3").inner_text().startswith("<img")
    page.get_by_role("article", name=HOSTILE).first.hover()
    page.get_by_role("button", name="Save " + HOSTILE).first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV, every recorded point").click()
    assert len(download.value.path().read_text().splitlines()) == 1 + 5 + 1
