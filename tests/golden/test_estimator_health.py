"""The health rules over the Estimator's real logs: healthy trainings, and nothing is found."""

import numpy as np
import pytest
from support.recordings import estimator

from stepscope import store
from stepscope.serve.health import report_of

DATA = estimator()
JUDGED = {
    "single": {"nonfinite-loss", "nonfinite-series", "loss-not-decreasing", "dead-relu", "stalled-training"},
}
JUDGED["distributed"] = JUDGED["single"] | {"attempt-discontinuous", "loss-spike"}


@pytest.fixture(scope="module")
def log():
    return store.open(DATA, cache=False)


@pytest.mark.parametrize("name", JUDGED)
def test_a_healthy_training_has_no_finding(log, name):
    verdict = report_of(log, log.run(name)).verdict
    assert verdict.findings == []
    assert set(verdict.passed) == JUDGED[name]
    missing = {each.rule: each.missing for each in verdict.abstained}
    assert missing["overfitting"].startswith("too few points")  # its evaluation is found in the run beside it
    assert missing["gradient-spike"].startswith("not recorded: the global gradient norm")


def test_the_same_log_with_a_nan_has_one(log, tmp_path):
    """So the rules did look at these series."""
    from stepscope.events import EventWriter

    [series] = log.run("single").columns("loss")
    writer = EventWriter(tmp_path / "run")
    values = np.array(series.value, float)
    values[20] = np.nan
    for step, value, wall in zip(series.step.tolist(), values.tolist(), series.wall.tolist(), strict=True):
        writer.scalar("loss", value, step, wall)
    writer.close()
    with store.open(tmp_path, cache=False) as broken:
        [finding] = report_of(broken, broken.run("run")).verdict.findings
    assert (finding.rule, finding.step) == ("nonfinite-loss", int(series.step[20]))
