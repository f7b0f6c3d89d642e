"""Whatever a command prints of others' names, a terminal obeys nothing in it."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
from support.programs import CLI, Program
from support.records import write_series

from stepscope.cli import output

RUN, TAG = "\x1b[2Jrun\x9b31m", "\x1b]0;title\x07loss\u202e"
OBEYED = "\x1b\x07\x9b\u202e"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """A log directory and a profile whose names would recolour, retitle and reorder a terminal."""
    root = tmp_path_factory.mktemp("hostile")
    write_series(root / "logs" / RUN, {TAG: [*(1.0 / (step + 1) for step in range(40)), float("nan")]})
    events = [
        {"ph": "X", "cat": category, "name": f"{TAG}{number % 3}", "pid": RUN, "tid": TAG, "ts": 100 * number,
         "dur": 90, "args": {"device": 0, "stream": 7, "correlation": number}}
        for number in range(30)
        for category in ("cpu_op", "cuda_runtime", "kernel")
    ]  # fmt: skip
    (root / f"{RUN}.json").write_text(json.dumps({"traceEvents": events, "schemaVersion": 1}))
    return root


def on_terminal(words, root, home):
    """Return what a command writes to a terminal, which reads nothing from it."""
    reader, terminal = os.openpty()
    environment = {**os.environ, "XDG_CACHE_HOME": str(home), "TERM": "dumb", "NO_COLOR": "1"}
    with Program(
        ["-m", "stepscope", *words], modules=CLI, stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal,
        cwd=root, env=environment,
    ) as process:  # fmt: skip
        os.close(terminal)
        found = b""
        while True:
            try:
                part = os.read(reader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            found += part
    os.close(reader)
    return process.returncode, found.decode()


PROFILE = f"{RUN}.json"


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "logs"],
        ["ls", "logs", "--json"],
        ["ls", "logs", "--tags"],
        ["export", "logs", "--format", "csv"],
        ["export", "logs", "--format", "json"],
        ["watch", "logs", "--once"],
        ["watch", "logs", "--once", "--json"],
        ["report", "logs", "-o", f"{TAG}.html"],
        ["glance", PROFILE],
        ["glance", PROFILE, "--json"],
        ["advise", PROFILE],
        ["advise", PROFILE, "--json"],
        ["profile", "op", PROFILE],
        ["diff", PROFILE, PROFILE],
        ["diff", PROFILE, PROFILE, "--json"],
        ["ranks", "logs"],
        ["ranks", PROFILE, "--json"],
        ["runs", "logs", "note", RUN, TAG],
    ],
    ids=" ".join,
)
def test_a_terminal_obeys_nothing(hostile, tmp_path, words):
    status, text = on_terminal(words, hostile, tmp_path)
    assert "Traceback" not in text
    assert not {letter for letter in OBEYED if letter in text}, text
    assert text.strip()
    assert status in (0, 1, 3), "answered, refused or judged, as asked"


def test_a_pipe_gets_what_was_recorded(hostile, tmp_path):
    command = [sys.executable, "-m", "stepscope", "export", "logs", "--format", "csv"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, cwd=hostile, env=environment, check=True)
    assert f"{RUN},{TAG}," in done.stdout.decode()


TEXT = """\
gpt, attempt 1: 1 high
high   loss-spike: it rose
       do: look at the data
"""


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "variables", "coloured"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (io.StringIO(), {"TERM": "xterm"}, False),
        (Terminal(), {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (Terminal(), {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_alone(stream, variables, coloured, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream)
    text = output.painted(TEXT)
    assert ("\x1b[1;31mhigh\x1b[0m   loss-spike" in text) == coloured
    assert (text == TEXT) != coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", text) == TEXT


def test_states_are_coloured_in_their_column_alone(monkeypatch):
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = output.painted("RUN     STATE    STEP\nfailed  stalled     1  tag failed-steps 3")
    assert text.splitlines()[1].count("\x1b[") == 2
    assert "\x1b[33mstalled\x1b[0m" in text
