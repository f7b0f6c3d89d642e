"""``stepscope profile`` as a process: tfprof's words, pipes, Ctrl-C, and the prompt on a terminal."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.recordings import recorded

COMMAND = [sys.executable, "-m", "stepscope"]
OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes standard input the controlling terminal of its session, so that Ctrl-C becomes a signal there."""


def run(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], input=stdin, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("model", ["wide_deep", "convnet"])
@pytest.mark.parametrize("name", ["scope_params", "scope_start", "op_time", "code_time", "graph_bytes"])
def test_prints_what_tfprof_writes(model: str, name: str) -> None:
    folder = recorded("tfprof") / model
    options = json.loads((folder / f"{name}.json").read_text())
    words = [options.pop("view"), str(folder / "profile.context")]
    for key, value in options.items():
        words += [f"-{key}", ",".join(value) if isinstance(value, list) else str(value).lower()]
    done = run("profile", *words)
    assert done.stdout == (folder / f"{name}.txt").read_text()
    assert (done.returncode, done.stderr) == (0, "")


def test_a_directory_of_graph_and_metadata_is_a_profile_too(tmp_path: Path) -> None:
    folder = recorded("tfprof/wide_deep")
    for path in [folder / "graph.pb", *folder.glob("run_metadata*")]:
        (tmp_path / path.name).symlink_to(path)
    metadata = ",".join(str(path) for path in sorted(tmp_path.glob("run_metadata*")))
    from_folder = run("profile", "op", str(tmp_path), "-order_by", "micros")
    from_files = run(
        "profile", "op", str(tmp_path / "graph.pb"), "-run_meta_path", metadata, "-order_by", "micros"
    )
    assert from_folder.stdout == from_files.stdout
    assert from_folder.stdout.splitlines()[9].split()[:2] == ["Relu", "134us"]


@pytest.mark.parametrize(("workers", "fires"), [(0, True), (4, False)])
def test_advice_on_input(workers: int, fires: bool) -> None:
    path = recorded(f"traces/kineto/resnet50_v100_workers{workers}.json.gz")
    advice = json.loads(run("advise", str(path), "--json", "--no-cache").stdout)
    assert ("input-bound" in [one["rule"] for one in advice["findings"]]) is fires
    assert "input-bound" not in [one["rule"] for one in advice["abstained"]]


def test_commands_from_a_pipe() -> None:
    done = run("profile", str(recorded("tfprof/wide_deep")), stdin="set -max_depth 2\nop\nsteps\nquit\nop\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Profile:") == 1
    assert "4 steps: min" in done.stdout


def test_a_command_that_fails_in_a_pipe_does_not_stop_the_rest() -> None:
    done = run("profile", str(recorded("tfprof/wide_deep")), stdin="ops\nop -step 77\nsteps\n")
    assert done.returncode == 1
    assert "did you mean 'op'?" in done.stderr
    assert "step 77 was not profiled" in done.stderr
    assert "4 steps: min" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_error() -> None:
    command = f"{' '.join(COMMAND)} profile scope {recorded('tfprof/convnet')} -max_depth 100 | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


class Terminal:
    """A prompt on a pseudo-terminal."""

    def __init__(self, *words: str, state: Path) -> None:
        self.seen = ""
        environment = {**os.environ, "XDG_STATE_HOME": str(state), "TERM": "dumb", "COLUMNS": "200"}
        self.descriptor, terminal = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN_TERMINAL, *COMMAND, *words],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            env=environment,
            start_new_session=True,
        )
        os.close(terminal)

    def expect(self, text: str, *, poke: str = "") -> str:
        """Read until a text has appeared since the last call; ``poke`` is sent in every silent second."""
        silent = 0
        while text not in self.seen:
            if not select.select([self.descriptor], [], [], 1)[0]:
                silent += 1
                assert silent < 60, f"no {text!r} in {self.seen!r}"
                self.send(poke)
                continue
            try:
                read = os.read(self.descriptor, 65536)
            except OSError:
                read = b""
            assert read, f"ended without {text!r}: {self.seen!r}"
            self.seen += read.decode("utf-8", "replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def send(self, text: str) -> None:
        os.write(self.descriptor, text.encode())

    def end(self) -> int:
        while True:
            try:
                if not os.read(self.descriptor, 65536):
                    break
            except OSError:
                break
        os.close(self.descriptor)
        return self.process.wait(timeout=60)


def test_the_prompt(tmp_path: Path) -> None:
    terminal = Terminal("profile", str(recorded("tfprof/wide_deep")), state=tmp_path)
    terminal.expect("stepscope> ")
    # Each answer is waited for by its content: readline may draw the prompt more than once.
    terminal.send("ste\t\n")
    terminal.expect("4 steps: min")
    terminal.expect("stepscope> ")
    terminal.send("op -order_by micros -max_dep\t0\n")
    terminal.expect("134us")
    terminal.expect("stepscope> ")
    terminal.send("op -this is dropped")
    terminal.expect("dropped")
    terminal.send("\x03")
    # The kernel empties a terminal's buffers when it sends the signal, and the new prompt may be in them.
    terminal.expect("stepscope> ", poke="\n")
    terminal.send("ops\n")
    terminal.expect("did you mean 'op'?")
    terminal.expect("stepscope> ")
    terminal.send("quit\n")
    assert terminal.end() == 0
    history = (tmp_path / "stepscope" / "profile_history").read_text().splitlines()
    assert history[:2] == ["steps ", "op -order_by micros -max_depth 0"]
    assert history[-1] == "quit"


def test_the_prompt_ends_with_the_input(tmp_path: Path) -> None:
    terminal = Terminal("profile", str(recorded("tfprof/wide_deep")), state=tmp_path)
    terminal.expect("stepscope> ")
    terminal.send("\x04")
    assert terminal.end() == 0


def test_ctrl_c_in_one_shot_ends_quietly() -> None:
    process = subprocess.Popen(
        [*COMMAND, "profile", str(recorded("tfprof/wide_deep"))],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("steps\n")
    process.stdin.flush()
    process.stdout.readline()  # it runs and waits for the next command
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 130  # its input is still open: nothing else ends it
    _, err = process.communicate(timeout=30)
    assert "Traceback" not in err
