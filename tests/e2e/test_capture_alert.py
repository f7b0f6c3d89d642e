"""A real run whose loss spikes leaves a profile of the steps after it, with what is known of the spike."""

import json
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import random, sys, time
import stepscope as ss

profiler = ss.ProfilerHook(backend="python", num_steps=2, analyse=False)
hooks = [profiler, ss.HealthHook(capture=True)]
with ss.Run(sys.argv[1], hooks=hooks) as run:
    end = time.monotonic() + 60
    for step in run.steps(range(1_000_000)):
        loss = 1.0 / (1 + step / 50) + 0.01 * random.Random(step).random()
        run.scalar("train/loss", float("nan") if step == 200 else loss)
        time.sleep(0.002)
        if profiler._budget.captures and not profiler._writing.busy or time.monotonic() > end:
            break
"""


def test_an_alert_leaves_a_profile_with_its_reason_its_facts_and_the_steps_before(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    (facts,) = [json.loads(path.read_text()) for path in (tmp_path / "profiles").glob("*.profile.json")]
    assert facts["cause"] == "alert"
    assert facts["reason"].startswith("nonfinite-loss: the loss is NaN at step 200")
    assert facts["facts"]["rule"] == "nonfinite-loss"
    first, _ = facts["steps"]
    assert first > 200
    numbers = [number for number, _, _ in facts["before"]]
    assert numbers == list(range(max(first - 128, 0), first)), "the last steps before it, without a gap"
    assert all(seconds > 0 for _, seconds, _ in facts["before"])
    assert (tmp_path / facts["path"]).stat().st_size > 0
