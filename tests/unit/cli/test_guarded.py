"""A command in a separate process: its end is told, signals reach it, and nothing outlives its parent."""

import os
import signal
import subprocess
import sys

import pytest
from support.waiting import until

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no process can be forked")

STUCK = (
    "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}); print('ready', flush=True); time.sleep(100)"
)


def start(work, *, grace=0.4, interactive=False, most_bytes=0):
    """Start a program that has a child do some statements; a file says the child's number."""
    program = f"""
import os, signal, sys, time
from stepscope.cli import guarded
guarded.GRACE_S = {grace}
def work():
    print(os.getpid(), flush=True)
    {work}
    return 0
sys.exit(guarded.guarded(work, interactive={interactive}, most_bytes={most_bytes}))
"""
    return subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123
        return file.read().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        ("pass", 0, ""),
        ("return 3", 3, ""),
        ("sys.exit(2)", 2, ""),
        ("os.kill(os.getpid(), signal.SIGABRT)", 1, "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGKILL)", 1, "SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGBUS)", 1, "SIGBUS"),
        ("os._exit(127)", 1, "exit status 127"),
        ("import atexit; atexit.register(os.kill, os.getpid(), signal.SIGINT)", 130, ""),
    ],
)
def test_the_end_of_the_child_is_told(work, code, said):
    process = start(work)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert said in err
    assert bool(err) is bool(said), err
    assert ("STEPSCOPE_READ_BYTES" in err) is bool(said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_both_and_is_seen(number):
    process = start("time.sleep(100)")
    child = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(timeout=60) == -number
    until(lambda: gone(child))
    process.communicate()


def test_ctrl_c_is_heard():
    process = start(
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "    try:\n        print('ready', flush=True); time.sleep(100)\n"
        "    except KeyboardInterrupt:\n        print('tidied', flush=True); return 130"
    )
    process.stdout.readline()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "tidied\n", "")


def test_ctrl_c_ends_what_hears_no_signal():
    process = start(STUCK)
    child = int(process.stdout.readline())
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == ""
    assert gone(child)


def test_ctrl_c_at_a_prompt_ends_a_line_only():
    lines = "\n    ".join(
        [
            "seen = []",
            "signal.signal(signal.SIGINT, lambda *_: (seen.append(1), print('heard', flush=True)))",
            "print('ready', flush=True)",
            "while len(seen) < 3: time.sleep(0.01)",
            "return 7",
        ]
    )
    process = start(lines, grace=0.05, interactive=True)
    process.stdout.readline()
    process.stdout.readline()
    for _ in range(3):
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "heard\n"
    process.communicate(timeout=60)
    assert process.returncode == 7


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's end")
def test_a_child_does_not_outlive_a_parent_that_is_killed():
    process = start("time.sleep(100)")
    child = int(process.stdout.readline())
    process.kill()
    process.communicate(timeout=60)
    until(lambda: gone(child))


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nobody tells when a process ends")
def test_a_child_that_holds_too_much_is_ended_whatever_it_waits_for():
    process = start("held = b'x' * (300 << 20); time.sleep(100)", most_bytes=200 << 20)
    child = int(process.stdout.readline())
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "more memory than the 200 MiB that is allowed" in err
    assert "STEPSCOPE_READ_BYTES" in err
    assert gone(child)
