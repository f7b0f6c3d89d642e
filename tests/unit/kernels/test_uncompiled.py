"""The whole reader on kernels that are not compiled: the same answer, and a word about it."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.events import Event, EventFile, EventWriter, Metadata, Shape, Summary, Tensor, Value

SCRIPT = """
import json, sys, warnings
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    from stepscope.events import EventFile
from stepscope.kernels import group, records, scalars
assert all(str(module.__file__).endswith(".py") for module in (group, records, scalars))
assert [warning.category for warning in said] == [RuntimeWarning], said
file = EventFile(sys.argv[1])
batch = file.read()
columns = {c.tag: [c.wall.tolist(), c.step.tolist(), c.value.tolist(), c.position.tolist(), c.value.dtype.str]
           for c in batch.scalars}
print(json.dumps([columns, batch.records.tag, batch.records.position.tolist(), vars(file.status)]))
"""


KERNELS = sorted(path.stem for path in (Path(stepscope.__file__).parent / "kernels").glob("[!_]*.py"))


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_compiled(name):
    assert importlib.import_module(f"stepscope.kernels.{name}").__file__.endswith((".so", ".pyd"))


def read_compiled(path):
    file = EventFile(path)
    batch = file.read()
    columns = {
        c.tag: [c.wall.tolist(), c.step.tolist(), c.value.tolist(), c.position.tolist(), c.value.dtype.str]
        for c in batch.scalars
    }
    return [columns, batch.records.tag, batch.records.position.tolist(), vars(file.status)]


def test_uncompiled_kernels_read_the_same(tmp_path):
    writer = EventWriter(tmp_path / "run")
    for step in range(300):
        writer.scalar("loss", step / 7, step, 1e9 + step)
        writer.scalars([("a", -step), ("big", 1e300)], step, 1e9 + step)
    tensor = Tensor(1, Shape.of(2), float_val=[1, 2])
    writer.event(Event(2e9, 5, summary=Summary([Value("t", tensor=tensor, metadata=Metadata.of("text"))])))
    writer.close()
    content = bytearray(writer.path.read_bytes())
    content[2000] ^= 1
    content[5000:5600] = bytes(600)
    writer.path.write_bytes(content[:-3])

    package = Path(stepscope.__file__).parent
    for name in ("events", "kernels"):
        ignored = shutil.ignore_patterns("*.so", "*.pyd", "__pycache__")
        shutil.copytree(package / name, tmp_path / "stepscope" / name, ignore=ignored)
    for path in package.glob("*.py"):
        shutil.copy(path, tmp_path / "stepscope")
    command = [sys.executable, "-c", SCRIPT, str(writer.path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = read_compiled(writer.path)
    assert expected[3]["zero_bytes"] > 500
    assert expected[3]["skipped_bytes"] > 0
    assert json.loads(done.stdout) == json.loads(json.dumps(expected))
