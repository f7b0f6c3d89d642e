"""Kernels that were compiled from another source than the one beside them: it runs instead, and says so."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.kernels import STAMP, encode, write_stamp

pytestmark = pytest.mark.skipif(
    not str(encode.__file__).endswith((".so", ".pyd")), reason="nothing is compiled"
)
WRITE = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    import stepscope as ss
    with ss.Run("run") as run:
        from stepscope.record.statistics.table import StatisticsWriter
        from stepscope.record.edges import counts, BUCKETS
        import numpy as np
        row = np.append(counts([1.0, 2.0, -3.0]), 0)[None]
        StatisticsWriter(run, ("histogram",)).histograms("gradients", ["w"], row, 0)
from stepscope.kernels import encode, moments
words = sorted({str(one.message) for one in said if one.category is RuntimeWarning})
print(json.dumps([encode.__file__, moments.__file__, words]))
"""


@pytest.fixture
def checkout(tmp_path):
    package = tmp_path / "src" / "stepscope"
    ignored = shutil.ignore_patterns("__pycache__", "page")
    shutil.copytree(Path(stepscope.__file__).parent, package, ignore=ignored)
    (tmp_path / "hatch_build.py").touch()
    write_stamp(sorted((package / "kernels").glob("[!_]*.py")))
    return package


def run(package, code):
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package.parent)!r})\n{code}"]
    return subprocess.run(command, cwd=package.parents[1], capture_output=True, text=True, check=False)


def test_histograms_are_written_though_the_compiled_module_lacks_the_function(checkout):
    for path in (checkout / "kernels" / "encode.py", checkout / "events" / "kinds" / "histogram.py"):
        text = path.read_text()
        new = text.replace("def histograms(", "def histograms_of(").replace(
            "kernel.histograms(", "kernel.histograms_of("
        )
        assert new != text
        path.write_text(new)
    done = run(checkout, WRITE)
    assert done.returncode == 0, done.stderr
    source, compiled, words = json.loads(done.stdout)
    assert source.endswith("encode.py")
    assert not compiled.endswith(".py")  # the others are as they were
    [word] = words
    assert "stepscope.kernels.encode was compiled from another source" in word
    assert "python hatch_build.py kernels" in word
    with stepscope.open(checkout.parents[1] / "run", cache=False) as log:
        [series] = log.run(".").record("gradients/w/histogram")
        assert series[0][:, 2].sum() == 3


@pytest.mark.parametrize("name", ["smooth.py", "native.h", "points.pxd"])
def test_every_file_that_goes_into_a_module_counts(checkout, name):
    with (checkout / "kernels" / name).open("a") as file:
        file.write("\n")
    done = run(checkout, "from stepscope.kernels import smooth; print(smooth.__file__)")
    assert done.stdout.strip().endswith("smooth.py"), done.stderr
    assert "stepscope.kernels.smooth was compiled from another source" in done.stderr


def test_a_build_that_noted_nothing_is_not_trusted(checkout):
    (checkout / "kernels" / STAMP).unlink()
    done = run(checkout, "from stepscope.kernels import smooth; print(smooth.__file__)")
    assert done.stdout.strip().endswith("smooth.py"), done.stderr
    assert "run 'python hatch_build.py kernels'" in done.stderr


def test_as_it_was_compiled_it_is_loaded(checkout):
    done = run(checkout, "from stepscope.kernels import smooth; print(smooth.__file__)")
    assert not done.stdout.strip().endswith(".py")
    assert done.stderr == ""


def test_attributes_of_classes_are_noticed_too_and_what_uses_them_runs_from_its_source(checkout):
    declared, source = checkout / "kernels" / "points.pxd", checkout / "kernels" / "points.py"
    declared.write_text(declared.read_text().replace("public bint taking", "public bint taken"))
    source.write_text(source.read_text().replace("self.taking", "self.taken"))
    recorder = checkout / "record" / "intake.py"
    recorder.write_text(recorder.read_text().replace("self.points.taking", "self.points.taken"))
    steps = checkout / "kernels" / "steps.py"
    steps.write_text(steps.read_text().replace("points.taking", "points.taken"))
    code = """
import stepscope as ss
from stepscope.kernels import points, steps
with ss.Run("run") as run:
    for _ in run.steps(range(7)):
        pass
print(points.__file__, steps.__file__, run.problems)
"""
    done = run(checkout, code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(source), str(steps), "{}"]
    assert "stepscope.kernels.points was compiled from another source" in done.stderr
    with stepscope.open(checkout.parents[1] / "run", cache=False) as log:
        assert len(log.run(".").series("speed/step_time_ms")) == 7


def test_what_is_installed_is_not_looked_at(checkout):
    (checkout.parents[1] / "hatch_build.py").unlink()
    done = run(
        checkout, "import sys, stepscope.kernels; print([type(one).__name__ for one in sys.meta_path])"
    )
    assert "_Checking" not in done.stdout
    assert done.returncode == 0, done.stderr
