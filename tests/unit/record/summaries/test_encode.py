"""The process that encodes what is large."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import stepscope as ss
from stepscope import child
from stepscope.record.summaries import encode
from stepscope.record.summaries.encode import LARGE_BYTES, Offload

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
    encode.write_rows_here(matrix, str(tmp_path / "b"))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert np.array_equal(np.loadtxt(tmp_path / "a", dtype=np.float32), matrix)


def test_what_is_small_is_done_here(process):
    assert process.run("png", PIXELS[:10]) is None
    assert process.child.process is None


def test_a_process_that_dies_is_replaced(process):
    process.run("png", PIXELS)
    os.kill(process.child.process.pid, signal.SIGKILL)
    process.child.process.wait()
    assert process.run("png", PIXELS)


def test_one_that_dies_at_its_work_is_replaced_and_the_next_does_it(process, monkeypatch):
    """Done in the thread beside the training it would hold that up."""
    start, started = child.start, []

    def dying_first(*words, **more):
        made = start(*words, **more)
        started.append(made)
        if len(started) == 1:
            made.kill()
            made.wait()
            monkeypatch.setattr(made, "poll", lambda: None)  # as seen by who has just looked
        return made

    monkeypatch.setattr(child, "start", dying_first)
    assert process.run("png", PIXELS) == encode.png_here(PIXELS)
    assert len(started) == 2


def test_what_ends_every_process_is_tried_twice(process, monkeypatch):
    tried = []
    monkeypatch.setattr(process, "_exchange", lambda *_: tried.append(1) or (_ for _ in ()).throw(EOFError()))
    assert process.run("png", PIXELS) is None
    assert len(tried) == encode.TRIES


def test_a_process_that_cannot_be_had_leaves_the_work_here(process, monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    assert process.run("png", PIXELS) is None
    monkeypatch.setattr(encode, "OFFLOAD", process)
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


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="the kernel tells no waiting times")  # noqa: PTH110
def test_large_summaries_do_not_hold_the_training(tmp_path):
    """The time in which the training's thread neither ran nor waited for a processor: for the interpreter."""
    command = [sys.executable, "-c", TRAIN, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    held, whole = map(float, done.stdout.split())
    assert held < max(0.2 * whole, 0.1), done.stdout  # encoded beside it, half of the time


MEMORY = """
import resource, sys, warnings
import numpy as np
import stepscope as ss
from stepscope.record.summaries.encode import OFFLOAD

warnings.simplefilter("ignore")
most = int(sys.argv[2])
run = ss.Run(sys.argv[1], max_summary_bytes=most)
wide = np.random.default_rng(0).integers(0, 255, (1600, 3200, 3), dtype=np.uint8)
run.image("warm", wide[:200, :200], step=0)
run.flush()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for step in range(40):  # none is contiguous
    run.image("i", wide[:, ::2] if step % 2 else wide[:, :1600].transpose(1, 0, 2), step=step)
run.close(timeout=500)
OFFLOAD.end()  # what it took is known once it has ended
here = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
there = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(here << 10, there << 10, run.problems.get("overflow", 0))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is counted as on Linux")
def test_the_most_memory_that_large_summaries_take_is_part_of_their_bound(tmp_path):
    """Held, copied and encoded, here and in the process that encodes."""
    most, apart = 96 << 20, 70 << 20  # the other process before it has any work
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "run"), str(most)]
    environment = {**os.environ, "STEPSCOPE_STRICT": ""}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True, env=environment)
    here, there, dropped = map(int, done.stdout.split())
    assert there > 20 << 20, done.stdout  # it took part
    assert here + there <= most + apart, done.stdout
    with ss.open(tmp_path, cache=False) as log:
        written = len(log.run("run").record("i")[0])
    assert written > 0
    assert written + dropped == 40


@pytest.mark.parametrize("shape", [(), (0, 3), (3, 4, 5), (1 << 20,)])
def test_memory_apart_is_an_array_like_others(shape):
    array = encode.apart(shape, np.float32)
    array[...] = 2
    assert (array.shape, array.dtype, float(array.sum())) == (shape, np.float32, 2.0 * array.size)
    assert array.flags.c_contiguous
    assert array.flags.writeable
