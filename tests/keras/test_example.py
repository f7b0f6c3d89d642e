"""examples/keras_fit.py runs as it is, on every backend."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope as ss
from stepscope.store.charts import groups

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "keras_fit.py"


@pytest.mark.slow
def test_it_learns(tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(Path(ss.__file__).parents[1])}
    subprocess.run([sys.executable, EXAMPLE, tmp_path / "run"], check=True, timeout=300, env=environment)
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("run")
        assert (run.state, run.problems, run.info.total_steps) == ("finished", [], 160)
        assert len(run.series("train/loss")) == len(run.series("speed/step_time_ms")) == 160
        evaluated = run.series("eval/loss")["value"].tolist()
        assert len(evaluated) == 5
        assert evaluated[-1] < evaluated[0]
        [chart] = [group for group in groups(run.tags()) if group.metric == "loss"]
        assert [tag for tag, _ in chart.lines] == ["train/loss", "eval/loss"]
        assert "weights" in {record.tag.split("/")[0] for record in run.records()}
