"""Memory that answers took goes back to the system."""

import subprocess
import sys

import pytest

from stepscope.serve.memory import EVERY_S, Trimmer

HELD = """
import re, threading
from pathlib import Path
from stepscope.serve.memory import trim

def held():
    return int(re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) >> 10

def take():
    many = [bytes(3_000) for _ in range(30_000)]
    last.append(many.pop())  # keeps the end of the arena in use, so that nothing is given back by itself

last = []
threads = [threading.Thread(target=take) for _ in range(4)]
[each.start() for each in threads]
[each.join() for each in threads]
before = held()
trim()
print(before, held())
"""


def test_it_is_given_back_every_so_often():
    given = []
    trimmer = Trimmer(lambda: given.append(1))
    for now in (100.0, 101.0, 100.0 + EVERY_S - 0.1, 100.0 + EVERY_S, 101.0 + EVERY_S):
        trimmer.look(now)
    assert len(given) == 2


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the C library of Linux")
def test_what_threads_took_is_given_back():
    done = subprocess.run([sys.executable, "-c", HELD], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before - 40
