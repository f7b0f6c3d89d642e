"""Milliseconds from the answer of rank by step, 1,000 by 10,000, to the picture of it, in headless Chromium.

``python benchmarks/page_ranks.py [--ranks N] [--steps N] [--rounds N]``. The clock starts when the browser
has the last byte of the answer, stops two frames after the picture was painted, and runs in the browser.
"""

from __future__ import annotations

import argparse
import statistics

from page_first_charts import FLAGS, PATIENCE_S, chromium, context
from page_timeline import served
from playwright.sync_api import sync_playwright
from rank_files import telemetry

WATCH = """new MutationObserver((changes) => {
    if (window.__drawn || !changes.some(({ target }) => target.dataset?.drawn === '1')) return;
    window.__drawn = -1;
    requestAnimationFrame(() => requestAnimationFrame(() => { window.__drawn = performance.now(); }));
}).observe(document, { subtree: true, attributes: true, attributeFilter: ['data-drawn'] });"""
ANSWERED = """() => performance.getEntriesByType('resource').filter((one) => one.name.includes('ranks/steps'))
    .map((one) => [one.responseEnd, one.responseEnd - one.requestStart])[0]"""


def main() -> None:
    """Open the page a few times and print medians."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ranks", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    log = telemetry(arguments.ranks, arguments.steps)
    drawn, asked = [], []
    with sync_playwright() as playwright, served(log) as url:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        for _ in range(arguments.rounds):
            with context(browser) as page:
                page.add_init_script(WATCH)
                page.goto(f"{url}#/ranks", wait_until="commit")
                page.wait_for_function("() => window.__drawn > 0", timeout=PATIENCE_S * 1000)
                answered, query = page.evaluate(ANSWERED)
                drawn.append(page.evaluate("window.__drawn") - answered)
                asked.append(query)
        browser.close()
    print(
        f"{arguments.ranks:,} ranks by {arguments.steps:,} steps: drawn {statistics.median(drawn):.0f} ms "
        f"after the answer (worst {max(drawn):.0f}); the query {statistics.median(asked):.0f} ms "
        f"(first {asked[0]:.0f})"
    )


if __name__ == "__main__":
    main()
