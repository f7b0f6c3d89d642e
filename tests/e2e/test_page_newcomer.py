"""From opening the page to the line that keeps a run of the demo waiting, in at most three clicks."""

import re
import subprocess
import sys

import pytest

pytest.importorskip("torch")

SLOW_FROM, EPOCHS, PATIENCE_MS = 132, 17, 20_000
TRAIN = """
import sys
from pathlib import Path
from stepscope.demo import training

epochs, slow_from = map(int, sys.argv[2:])
training.train(Path(sys.argv[1]), "torch", learning_rate=1e-3, epochs=epochs, slow_from=slow_from)
"""


@pytest.mark.slow
def test_a_newcomer_finds_the_line_that_a_run_waits_for(tmp_path, serve, watch):
    log = tmp_path / "log"
    command = [sys.executable, "-c", TRAIN, str(log / "slow-disk"), str(EPOCHS), str(SLOW_FROM)]
    subprocess.run(command, check=True, timeout=300)
    watched = watch(serve(log))
    watched.count_clicks()
    page = watched.open()

    def click(button):
        button.wait_for(timeout=PATIENCE_MS)
        button.click()

    findings = page.get_by_role("region", name="Findings")
    finding = findings.get_by_role("listitem").filter(has_text="Waiting for data")
    finding.wait_for(timeout=PATIENCE_MS)
    since = int(re.search(r"Since step ([\d,]+)", finding.inner_text())[1].replace(",", ""))
    assert SLOW_FROM - 20 <= since <= SLOW_FROM + 150  # a busy machine waits before, too
    click(finding.get_by_role("button", name=re.compile("Profile of step")))
    advice = page.get_by_role("region", name="Advice").get_by_role("listitem")
    waits = advice.filter(has_text="waits for data").first  # a busy machine has further advice beside
    click(waits.get_by_role("button", name=re.compile("Show .* in the timeline")))
    panel = page.get_by_role("complementary", name="Selected event")
    panel.get_by_text("Data loading").first.wait_for(timeout=PATIENCE_MS)
    panel.get_by_text("read_from_a_busy_disk").first.wait_for(timeout=PATIENCE_MS)
    assert 1 <= watched.clicks() <= 3
