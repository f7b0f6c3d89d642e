"""The process that encodes what is large."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from stepscope.record import offload
from stepscope.record.offload import LARGE_BYTES, Offload
from stepscope.record.summaries import embedding, encode

PIXELS = np.random.default_rng(0).integers(0, 255, (400, 400, 3), dtype=np.uint8)


@pytest.fixture
def process():
    made = Offload()
    yield made
    made.end()


def test_what_it_makes_is_what_is_made_here(process):
    assert PIXELS.nbytes > LARGE_BYTES
    assert process.run("png", PIXELS) == encode.png_here(PIXELS)
    turned = PIXELS.transpose(1, 0, 2)[::-1]
    assert process.run("png", turned) == encode.png_here(turned)
    film = PIXELS.reshape(4, 100, 400, 3)
    assert process.run("gif", film, fps=5.0) == encode.gif_here(film, 5.0)


def test_rows_are_the_numbers(process, tmp_path):
    matrix = np.random.default_rng(0).normal(size=(3000, 40)).astype(np.float32)
    assert process.run("tsv", matrix, path=str(tmp_path / "a")) == b""
    embedding.write_rows_here(matrix, str(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert np.array_equal(np.loadtxt(tmp_path / "a", dtype=np.float32), matrix)


def test_what_is_small_is_done_here(process):
    assert process.run("png", PIXELS[:10]) is None
    assert process._process is None


def test_a_process_that_dies_is_replaced(process):
    process.run("png", PIXELS)
    os.kill(process._process.pid, signal.SIGKILL)
    process._process.wait()
    assert process.run("png", PIXELS)


def test_a_process_that_cannot_be_had_leaves_the_work_here(process, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    assert process.run("png", PIXELS) is None
    monkeypatch.setattr(offload, "OFFLOAD", process)
    assert encode.png(PIXELS).startswith(b"\x89PNG")


def test_a_file_that_cannot_be_written_says_why(process, tmp_path):
    matrix = np.zeros((LARGE_BYTES // 4, 2), np.float32)
    with pytest.raises(FileNotFoundError):
        process.run("tsv", matrix, path=str(tmp_path / "missing" / "a"))
    assert process.run("png", PIXELS)


def test_what_the_function_refuses_is_done_here(process):
    assert process.run("png", np.zeros((400, 400, 9), np.uint8)) is None
    assert process.run("png", PIXELS)


TRAIN = """
import sys, threading, time
import numpy as np
import stepscope as ss

def waits():
    with open(f"/proc/self/task/{threading.get_native_id()}/schedstat") as file:
        ran, waited = file.read().split()[:2]
    return (int(ran) + int(waited)) / 1e9

run = ss.Run(sys.argv[1])
vectors = np.random.default_rng(0).normal(size=(40_000, 64)).astype(np.float32)
labels = [f"label {n}" for n in range(len(vectors))]
picture = np.random.default_rng(0).integers(0, 255, (2000, 2000, 3), dtype=np.uint8)
run.image("warm", picture[:500, :500], step=0)
run.flush()
run.embedding("e", vectors, labels=labels, step=1)
run.image("i", picture, step=1)
began, ran = time.perf_counter(), waits()
while run._log.waits_for_values and time.perf_counter() < began + 60:
    for _ in range(1000):
        pass
print(time.perf_counter() - began - (waits() - ran), time.perf_counter() - began)
run.close()
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the kernel tells no waiting times")  # noqa: PTH110
def test_large_summaries_do_not_hold_the_training(tmp_path):
    """The time in which the training's thread neither ran nor waited for a processor: for the interpreter."""
    command = [sys.executable, "-c", TRAIN, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    held, whole = map(float, done.stdout.split())
    assert held < max(0.2 * whole, 0.1), done.stdout  # encoded beside it, half of the time
