"""Modules that load on first use."""

import subprocess
import sys

CODE = """
import sys
from stepscope import lazy

later = lazy.module("stepscope.record.summaries.media")
assert later.__name__ == "stepscope.record.summaries.media"
before = later.__name__ in sys.modules
later.prepare_image
print(before, later.__name__ in sys.modules)
"""


def test_a_module_is_imported_once_something_of_it_is_asked_for():
    assert subprocess.check_output([sys.executable, "-c", CODE], text=True).split() == ["False", "True"]


def test_a_run_imports_no_module_of_summaries_before_one_is_logged(tmp_path):
    code = f"""
import sys, stepscope as ss
with ss.Run({str(tmp_path)!r}) as run:
    run.scalar("loss", 1.0)
    before = "stepscope.record.summaries.media" in sys.modules
    run.image("picture", [[0.0, 1.0]])
print(before, "stepscope.record.summaries.media" in sys.modules)
"""
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["False", "True"]
