"""The code blocks of the docs that need TensorFlow run, each page's in order."""

import os
import subprocess
import sys

import pytest
from support.documents import PAGES, relative, tensorflow_blocks

tf = pytest.importorskip("tensorflow")
ESTIMATOR = tf.__version__.startswith("2.15.")


@pytest.mark.skipif(not ESTIMATOR, reason="the Estimator is in 2.15")
@pytest.mark.parametrize("page", [page for page in PAGES if tensorflow_blocks(page)], ids=relative)
def test_the_code_of_a_page_runs(page, tmp_path):
    code = "\n".join(each.text for each in tensorflow_blocks(page))
    environment = {**os.environ, "STEPSCOPE_STRICT": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment["HOME"] = str(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert list((tmp_path / "runs").glob("*/events.out.tfevents.*"))
