"""The browser that tests start: which one, and how."""

import shutil

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same engine without windows, which take the others most of a second for each page."""


def executable() -> str:
    """Return the path of a Chromium; the test is skipped if there is none."""
    path = next((path for path in map(shutil.which, BROWSERS) if path), None)
    if path is None:
        pytest.skip("no Chromium found: scripts/browser.sh installs one")
    return path


BEYOND = """() => {
  const say = element =>
    `${element.tagName} ${element.className?.baseVal ?? element.className}` +
    ` "${(element.ariaLabel ?? element.textContent).trim().slice(0, 40)}"`;
  const found = [];
  const main = document.querySelector("main");
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than the screen");
  if (main.scrollWidth > main.clientWidth + 1) found.push("the view is wider than the screen");
  // What scrolls by itself can be reached; what is hidden is for screen readers.
  const scrolls = element => ["auto", "scroll"].includes(getComputedStyle(element).overflowX);
  for (const element of document.querySelectorAll("body *")) {
    const { left, right, width, height } = element.getBoundingClientRect();
    if (!width || !height) continue;
    if (!element.checkVisibility({ visibilityProperty: true, opacityProperty: true })) continue;
    if (element.matches(".hidden, .skip, .hidden *, svg *, tr, thead, tbody")) continue;
    // Names that end in dots end where they are seen to.
    if (element.matches(".cut, .cut *")) continue;
    const control = element.matches("button, a, input, select, textarea, [role=slider]");
    let [low, high, reached] = [0, innerWidth, false];
    for (let above = element.parentElement; above; above = above.parentElement) {
      if (above === main.parentElement) break;
      if (scrolls(above) && above !== main) { reached = true; break }
      if (getComputedStyle(above).overflowX !== "hidden") continue;
      const box = above.getBoundingClientRect();
      [low, high] = [Math.max(low, box.left), Math.min(high, box.right)];
    }
    if (reached) continue;
    // A control that its box cuts off cannot be used; of all else what is seen must lie on the screen.
    const [from, to] = control ? [low, high] : [0, innerWidth];
    const [seenFrom, seenTo] = control ? [left, right] : [Math.max(left, low), Math.min(right, high)];
    if (seenFrom < from - 1 || seenTo > to + 1) found.push(say(element));
  }
  return found.slice(0, 12);
}"""
"""What of a page lies beyond the screen, or is a control that its box cuts off."""
