"""NVIDIA's GPUs, through a library that stands in for the driver's."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope.record.gpus import choose, nvidia

SOURCE = Path(__file__).with_name("nvml.c")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The directory of a library by the driver's name."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler to build the driver's stand-in with")
    directory = tmp_path_factory.mktemp("nvml")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-w", "-o", directory / "libnvidia-ml.so.1", SOURCE], check=True
    )
    return directory


def ask(library, code, **environ):
    """What a process prints that finds the library where it looks for the driver's."""
    environ = {**os.environ, "LD_LIBRARY_PATH": str(library), **environ}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


OURS = """
import json
from stepscope.record.gpus import nvidia
gpus = nvidia()
print(json.dumps([gpus and gpus.names(), gpus and gpus.read(0.0)]))
"""


def test_what_a_gpu_tells_and_does_not(library):
    names, found = ask(library, OURS)
    assert names == {"gpu0": "NVIDIA H200", "gpu1": "NVIDIA H200"}
    first = {tag.removeprefix("system/gpu0/"): value for tag, value in found.items() if "gpu0" in tag}
    assert first == {
        "utilization_ratio": 0.87,
        "memory_utilization_ratio": 0.4,
        "memory_used_bytes": 250,
        "memory_used_ratio": 0.25,
        "power_watts": pytest.approx(512.345),
        "power_limit_watts": 700,
        "temperature_celsius": 61,
        "clock_mhz": 1980,
        "memory_clock_mhz": 3201,
        "slowed": 0,
    }
    assert "system/gpu1/utilization_ratio" not in found  # it does not answer, which is not 0
    assert (found["system/gpu1/slowed"], found["system/gpu1/memory_used_bytes"]) == (1, 0)


@pytest.mark.parametrize(
    ("visible", "names"), [("1", ["gpu1"]), ("GPU-bb,0", ["gpu1", "gpu0"]), ("", None), ("-1", None)]
)
def test_those_that_this_process_may_use(library, visible, names):
    found, _ = ask(library, OURS, CUDA_VISIBLE_DEVICES=visible)
    assert (found and list(found)) == names


@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="this machine has a GPU")
def test_a_machine_without():
    assert nvidia() is None


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [
        (None, [0, 1, 2]), ("2,0", [2, 0]), ("0,5,1", [0]), ("0,-1,1", [0]), (" 1 , 2 ", [1, 2]),
        ("0,0", [0]), ("GPU-b", []), ("GPU-b1", [1]), ("MIG-GPU-a/1/0", []), ("NoDevFiles", []), ("", []),
    ],
)  # fmt: skip
def test_the_list_of_visible_gpus_is_read_as_cuda_reads_it(visible, numbers):
    assert choose(visible, ["GPU-a", "GPU-b1", "GPU-b2"]) == numbers
