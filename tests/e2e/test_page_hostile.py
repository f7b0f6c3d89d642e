"""Names that try to be markup are text wherever they are shown."""

import time

import pytest

import stepscope as ss
from stepscope.events import EventWriter

HOSTILE = '<img src=x onerror="document.title=\'owned\'"><script>document.title="owned"</script>'


MARKUP = "main img, main b, main script, aside img, aside b, td svg[onload]"


@pytest.fixture
def hostile_dir(tmp_path, about_run):
    root = tmp_path / "runs"
    writer = EventWriter(root / "<b onmouseover=alert(1)>bold")
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
    page = watch(serve(hostile_dir), hash_)
    page.ready()
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
    page = watch(serve(hostile_dir), "#/scalars")
    page.ready()
    page.get_by_role("article", name=HOSTILE).hover()
    page.get_by_role("button", name="Pin " + HOSTILE).click()
    page.wait("() => location.hash.includes('pin=')")
    page.reload()
    page.ready()
    assert page.locator("section[aria-label='Pinned'] h3").inner_text().startswith("<img")
    page.get_by_role("article", name=HOSTILE).first.hover()
    page.get_by_role("button", name="Save " + HOSTILE).first.click()
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV, every recorded point").click()
    assert len(download.value.path().read_text().splitlines()) == 1 + 5 + 1


MARKDOWN = """# A heading <script>document.title="owned"</script>

<img src=x onerror="document.title='owned'"> <svg onload="document.title='owned'"></svg>

[act](javascript:document.title='owned') ![load](https://example.invalid/a.png) [read](https://example.org)

| left | right |
|------|------:|
| **1** | <b style="position:fixed">2 |

```
</pre><script>document.title="owned"</script>
```
"""


def test_markdown_of_others_neither_acts_nor_loads(tmp_path, serve, watch):
    """``watch`` fails a test for every word on the console: what the policy had to stop would be there."""
    root = tmp_path / "runs"
    with ss.Run(root / "notes") as run:
        run.text("samples", MARKDOWN, step=0)
    page = watch(serve(root), "#/text")
    text = page.locator(".markdown")
    text.get_by_role("strong").or_(text.locator("strong")).first.wait_for()
    assert text.locator("strong").inner_text() == "1"
    links = text.locator("a").evaluate_all("each => each.map(one => [one.href, one.target, one.rel])")
    assert links == [
        [address, "_blank", "noopener noreferrer"]
        for address in ("https://example.invalid/a.png", "https://example.org/")
    ]
    assert text.locator("td").last.evaluate("each => getComputedStyle(each).textAlign") == "right"
    assert text.locator("pre").get_attribute("tabindex") == "0"
    assert text.locator("img, svg, script, b, [style], [onerror], [onload]").count() == 0
    assert "<img src=x onerror" in text.inner_text()
    assert '<script>document.title="owned"</script>' in text.locator("pre").inner_text()
    assert "owned" not in page.title()
