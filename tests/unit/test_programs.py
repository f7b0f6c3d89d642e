"""``support.programs``: what is forked behaves as a program that an interpreter of its own runs."""

import json
import os
import signal
import subprocess
import sys

import pytest
from support import programs
from support.waiting import until

MODULES = ("json",)
TELL = """
import json, os, sys
print(json.dumps([sys.argv, sys.path[0], os.getcwd(), os.environ["RANK"], os.environ.get("HOME"), __name__]))
print(sys.stdin.read(), file=sys.stderr, end="")
"""


@pytest.mark.parametrize("how", ["code", "file", "module"])
def test_it_has_what_an_interpreter_gives(tmp_path, how):
    (tmp_path / "tell.py").write_text(TELL)
    words = {"code": ["-c", TELL], "file": [str(tmp_path / "tell.py")], "module": ["-m", "tell"]}[how]
    environment = {**os.environ, "RANK": "3"}
    environment.pop("HOME", None)
    more = {"cwd": tmp_path, "env": environment, "input": "said\n", "capture_output": True, "text": True}
    forked = programs.run([*words, "a", "-b"], modules=MODULES, **more)
    assert (forked.returncode, forked.stderr) == (0, "said\n")
    real = subprocess.run([sys.executable, *words, "a", "-b"], check=True, **more)
    assert json.loads(forked.stdout) == json.loads(real.stdout)


@pytest.mark.parametrize(
    ("code", "status"),
    [("raise SystemExit(7)", 7), ("1 / 0", 1), ("import os; os._exit(3)", 3), ("pass", 0)],
)
def test_its_status_is_told(code, status):
    done = programs.run(["-c", code], modules=MODULES, capture_output=True, text=True)
    assert done.returncode == status
    assert ("ZeroDivisionError" in done.stderr) == (status == 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_it_is_ended_by_signals(number):
    code = "import signal; print('here', flush=True)\nwhile True: signal.pause()"
    process = programs.Program(["-c", code], modules=MODULES, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "here\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(number)
        assert process.wait(20) == -number
        process.send_signal(number)  # to nobody


def test_ctrl_c_and_what_runs_at_the_end_are_pythons():
    code = """
import atexit, signal
atexit.register(print, "at the end")
try:
    print("here", flush=True)
    while True:
        signal.pause()
except KeyboardInterrupt:
    print("interrupted")
"""
    process = programs.Program(["-c", code], modules=MODULES, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "here\n"
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=20) == ("interrupted\nat the end\n", None)
    assert process.returncode == 0


def test_programs_run_beside_each_other_and_the_modules_are_there():
    code = "import sys; n = input(); print(n, 'csv' in sys.modules)"
    pipe = subprocess.PIPE
    several = [
        programs.Program(["-c", code], modules=("csv",), stdin=pipe, stdout=pipe, text=True) for _ in range(3)
    ]
    for at in (2, 0, 1):
        assert several[at].communicate(f"{at}\n", timeout=20) == (f"{at} True\n", None)


def test_what_modules_read_when_they_are_imported_is_of_its_own_environment(monkeypatch):
    code = "import os; print(os.getppid())"
    run = {"modules": MODULES, "capture_output": True, "text": True}
    first = programs.run(["-c", code], **run).stdout
    monkeypatch.setenv("RANK", "1")
    assert programs.run(["-c", code], **run).stdout == first
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert programs.run(["-c", code], **run).stdout != first


def test_only_some_servers_are_kept(monkeypatch):
    run = {"modules": MODULES, "capture_output": True, "text": True}
    monkeypatch.setenv("OMP_NUM_THREADS", "99")
    oldest = int(programs.run(["-c", "import os; print(os.getppid())"], **run).stdout)
    for number in range(programs.MAX_SERVERS):
        monkeypatch.setenv("OMP_NUM_THREADS", str(100 + number))
        assert programs.run(["-c", ""], **run).returncode == 0

    def gone():
        try:
            os.kill(oldest, 0)
        except ProcessLookupError:
            return True
        return False

    until(lambda: programs.run(["-c", ""], **run).returncode == 0 and gone(), "the oldest has ended")


def test_a_server_that_is_closed_ends_with_its_last_program(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "200")
    pipe = subprocess.PIPE
    process = programs.Program(["-c", "print(input())"], modules=MODULES, stdin=pipe, stdout=pipe, text=True)
    server = programs.server(MODULES, os.environ)
    for number in range(programs.MAX_SERVERS):
        monkeypatch.setenv("OMP_NUM_THREADS", str(201 + number))
        assert programs.run(["-c", ""], modules=MODULES).returncode == 0
    assert server.process.poll() is None
    assert process.communicate("still here\n", timeout=20) == ("still here\n", None)
    assert process.returncode == 0
    assert server.process.wait(20) == 0
