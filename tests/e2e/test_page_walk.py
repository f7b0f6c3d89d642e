"""Every page on a phone and on laptops: nothing beyond the screen, no word broken, tables of charts, axe."""

import pytest
from support.browser import BEYOND
from support.everything import LONG, PROFILE, write_all, write_records

OWN = f"{LONG}/profiles/1.pt.trace.json.gz"
OTHER = f"{LONG}/profiles/2.pt.trace.json.gz"
COMPARED = f"compare?a=run:a&b=run:{LONG}"
VIEWS = {
    "overview": ("overview", "table"),
    "scatter": ("overview?board=scatter", "svg"),
    "parallel coordinates": ("overview?board=parallel", "svg"),
    "scatter matrix": ("overview?board=matrix", "svg"),
    "overview of one run": (f"overview?q=run:{LONG}", "canvas"),
    "overview of a job": ("overview?q=run:job", "canvas"),
    "scalars": ("scalars", "canvas"),
    "text": ("text", "table"),
    "config of one run": (f"text?q=run:{LONG}", "table"),
    "distributions": (f"distributions?q=run:{LONG}", ".parts canvas"),
    "distribution in percentiles": (f"distributions?q=run:{LONG}&form=percentiles", ".parts svg"),
    "ridges": (f"distributions?q=run:{LONG}&form=ridges&scale=log", ".parts [role=img]"),
    "one distribution": (f"distributions?q=run:{LONG}&form=one&at=10", ".parts [role=img]"),
    "distributions of layers": (f"distributions?q=run:{LONG}&layers=1", ".layers [role=rowheader]"),
    "pictures": (f"media?q=run:{LONG}", "img"),
    "curves": (f"media?q=run:{LONG}&medium=curves", "svg[data-curves]"),
    "embeddings": (f"media?q=run:{LONG}&medium=embeddings", ".space canvas[data-drawn]"),
    "one embedding": (f"media?q=run:{LONG}&medium=embeddings&flat=1&point=3", "section.near .row"),
    "meshes": (f"media?q=run:{LONG}&medium=meshes", ".space canvas[data-drawn]"),
    "graph": ("graph?q=run:a", ".box"),
    "profile": (f"profile?prof={PROFILE}", "h2"),
    "timeline": (f"profile?prof={PROFILE}&show=timeline", ".timeline canvas[data-drawn]"),
    "event of a timeline": (
        f"profile?prof={OWN}&show=timeline&find=aten", "aside[aria-label='Selected event']",
    ),
    "range of a timeline": (
        f"profile?prof={OWN}&show=timeline&sel=0-1000000", "aside[aria-label='Selected range'] table",
    ),
    "operations": (f"profile?prof={PROFILE}&show=operations", "table, [role=treegrid]"),
    "critical path": (f"profile?prof={OWN}&show=path", "svg[role=img], table, .why"),
    "overlap": (f"profile?prof={PROFILE}&show=overlap", ".stack"),
    "roofline": (f"profile?prof={OWN}&show=roofline", "svg"),
    "kernels": (f"profile?prof={OWN}&show=kernels", "[role=grid] [role=row]"),
    "memory": (f"profile?prof={OWN}&show=memory", ".curve svg path.top"),
    "difference": (f"profile?prof={OTHER}&show=diff&with={OWN}", ".difference svg"),
    "over time": (f"profile?prof={OWN}&show=history", "[role=grid] [role=row]"),
    "ranks": ("ranks?q=run:job", ".heat canvas"),
    "compare": (COMPARED, "table"),
    "compare curves": (f"{COMPARED}&part=curves", "canvas"),
    "compare config": (f"{COMPARED}&part=config", "table"),
    "compare operations": (f"{COMPARED}&part=operations", "h2, .blank, p"),
    "compare findings": (f"{COMPARED}&part=findings", "section"),
    "sql": ("sql?sql=SELECT run, step, value FROM series WHERE tag = 'train/loss'", ".plot canvas"),
}  # fmt: skip

COLLIDING = """() => {
  const found = [];
  for (const head of document.querySelectorAll(".panel > header")) {
    const seen = [...head.children].filter(one => one.checkVisibility() && one.getBoundingClientRect().width);
    const boxes = seen.map(one => one.getBoundingClientRect());
    for (const [at, one] of boxes.entries())
      for (const other of boxes.slice(0, at))
        if (Math.min(one.right, other.right) - Math.max(one.left, other.left) > 1 &&
            Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top) > 1)
          found.push(`${head.innerText.slice(0, 60)} has parts over each other`);
    const box = head.getBoundingClientRect();
    if (boxes.some(one => one.right > box.right + 1 || one.bottom > box.bottom + 1))
      found.push(`${head.innerText.slice(0, 60)} has no room for its parts`);
    for (const note of head.querySelectorAll(".muted.cut"))
      if (note.scrollWidth > note.clientWidth + 1 && note.clientWidth < box.width - 26)
        found.push(`${note.innerText} is cut to ${note.clientWidth} px beside others`);
  }
  return found;
}"""
"""Heads of panels whose parts lie over each other, stick out, or leave a note less than a line."""

HEADER = """() => {
  const seen = [...document.querySelectorAll("header:has(.brand) > *")]
    .map(one => one.getBoundingClientRect()).filter(({ width, height }) => width > 1 && height > 1);
  const rows = [];
  for (const { top, bottom } of seen.sort((a, b) => a.top - b.top))
    if (!rows.length || top >= rows.at(-1)) rows.push(bottom);
    else rows[rows.length - 1] = Math.max(bottom, rows.at(-1));
  return rows.length;
}"""
"""How many rows the bar above all pages has."""
BROKEN = """() => {
  const found = [];
  const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walk.nextNode()) {
    const text = walk.currentNode, above = text.parentElement;
    if (!above.checkVisibility() || above.closest("svg, .hidden, [data-markdown], pre")) continue;
    range.selectNodeContents(text);
    if (range.getClientRects().length < 2) continue;
    for (const word of text.data.matchAll(/[\\p{L}\\p{N}]+/gu)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width > 0);
      let block = above;
      while (getComputedStyle(block).display === "inline") block = block.parentElement;
      const whole = boxes.reduce((sum, box) => sum + box.width, 0);
      if (boxes.length > 1 && boxes[0].top !== boxes.at(-1).top && whole < block.clientWidth - 8)
        found.push(`${word[0]} in "${text.data.trim().slice(0, 60)}"`);
    }
  }
  return found;
}"""

CUT = """() => [...document.querySelectorAll(
    ".sub-bar :is(button, input, select, span), tbody th, section.focus h2")]
  .filter(element => element.checkVisibility() && !element.closest(".switch"))  // chips in a row scroll
  .filter(element => { const { left, right, height } = element.getBoundingClientRect();
    return left < 0 || right > innerWidth || element.scrollWidth > element.clientWidth + 1
      || (height >= 80 && element.matches("tbody th")) })
  .map(element => element.textContent || element.getAttribute("aria-label"))"""
"""Controls and names of runs and tensors that are cut, or take four lines of a table and more."""

PICTURES = """() => {
  const tables = "table, [role=grid], [role=treegrid], [aria-label*='as a table']";
  return [...document.querySelectorAll("main canvas, main [role=img], main svg:not([aria-hidden=true] *)")]
    .filter(picture => {
      const { width, height } = picture.getBoundingClientRect();
      // Marks, swatches and films are no charts; cards of scalars have tests of their own.
      return width >= 60 && height >= 24 && picture.checkVisibility() &&
        // The graph has its table by a button of that name; a waveform lies behind the sound's player.
        !picture.closest("[data-chart], .film, button, td, th, [data-film], .drawing, .sound");
    })
    .filter(picture => {
      let scope = picture;
      for (let up = 0; up < 7 && !scope.matches("article, section, main > *"); up += 1)
        scope = scope.parentElement;
      return !scope.querySelector(tables);
    })
    .map(picture => `${picture.tagName} in ${picture.parentElement.className}: ${picture.ariaLabel ?? ""}`);
}"""

AS_TABLE = "main button[aria-label$='as a table']:not([aria-pressed])"
"""Those that open a table; others show it in its place."""


MOST_SHIFT = 0.05
STEADY = (
    "overview", "overview of one run", "overview of a job", "scalars", "text", "distributions",
    "pictures", "curves", "meshes", "graph",
)  # fmt: skip
"""Where the shift is measured here; the other pages are in ``test_page_shift.py``, over a slow network."""


@pytest.fixture(scope="module")
def server(tmp_path_factory, serve_long):
    log_dir = tmp_path_factory.mktemp("walk") / "runs"
    write_all(log_dir)
    write_records(log_dir / LONG)
    return serve_long(log_dir)


SHIFTS = """window.shifted = 0;
new PerformanceObserver(list => list.getEntries().forEach(entry => {
  if (!entry.hadRecentInput) window.shifted += entry.value;
})).observe({ type: 'layout-shift', buffered: true })"""


def sized(watched, width, height):
    watched.page.set_viewport_size({"width": width, "height": height})
    watched.page.add_init_script(SHIFTS)


def shown(watched, name):
    """A page of the walk once all has come, and how far what was there has moved meanwhile."""
    hash_, ready = VIEWS[name]
    watched.page.evaluate("window.shifted = 0")
    page = watched.open(f"#/{hash_}")
    page.locator(f"main :is({ready})").first.wait_for()
    watched.wait("() => !document.querySelector('main :is(.reading, .blank[role=status])')")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page, page.evaluate("window.shifted")


def test_on_a_phone_nothing_is_beyond_the_screen_and_axe_finds_nothing(server, watch, axe):
    watched = watch(server)
    sized(watched, 390, 844)
    beyond, broken, colliding, cut, moved = {}, {}, {}, {}, {}
    for name in VIEWS:
        page, moved[name] = shown(watched, name)
        beyond[name] = page.evaluate(BEYOND)
        assert page.evaluate(HEADER) <= 1, "the header has one row"
        colliding[name] = page.evaluate(COLLIDING)
        broken[name] = page.evaluate(BROKEN)
        if name in ("text", "pictures", "distributions"):
            cut[name] = page.evaluate(CUT)
        if name in PHONE:
            axe(page, name, dark=False)
    assert {name: found for name, found in beyond.items() if found} == {}
    assert {name: found for name, found in broken.items() if found} == {}
    assert {name: found for name, found in colliding.items() if found} == {}
    assert cut == {"text": [], "pictures": [], "distributions": []}
    assert {name: moved[name] for name in STEADY if moved[name] >= MOST_SHIFT} == {}


PHONE = {
    "overview", "overview of one run", "scalars", "text", "graph", "profile", "timeline", "operations",
    "difference", "ranks", "compare", "compare curves",
}  # fmt: skip


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (1440, 900)])
def test_on_a_laptop_nothing_is_beyond_the_screen_and_every_chart_has_its_table(
    server, watch, axe, width, height
):
    watched = watch(server)
    sized(watched, width, height)
    beyond, broken, bare, empty, moved = {}, {}, {}, {}, {}
    for name in VIEWS:
        page, moved[name] = shown(watched, name)
        beyond[name] = page.evaluate(BEYOND)
        broken[name] = page.evaluate(BROKEN)
        bare[name] = page.evaluate(PICTURES)
        if width == 1440:
            axe(page, name)
        button = page.locator(AS_TABLE).first
        if button.count():
            empty[name] = opened_as_table(page, button)
    assert {name: found for name, found in beyond.items() if found} == {}
    assert {name: found for name, found in broken.items() if found} == {}
    assert {name: found for name, found in bare.items() if found} == {}
    assert {name: found for name, found in empty.items() if found} == {}
    assert {name: moved[name] for name in STEADY if moved[name] >= MOST_SHIFT} == {}
    assert len(empty) >= 20


def opened_as_table(page, button):
    """What is wrong with the table of a chart, which is opened and closed without a pointer."""
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("row").nth(1).wait_for()
    wrong = []
    if dialog.get_by_role("columnheader").count() < 1:
        wrong.append("no heads")
    if not dialog.get_by_role("button", name="CSV").is_visible():
        wrong.append("no CSV")
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    return wrong
