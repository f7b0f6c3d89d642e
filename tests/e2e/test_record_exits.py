"""How a training process ends, and what its run says then: real processes, real signals."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from support import programs
from support.records import decoded_files, infos_of

PRELUDE = """
import os, signal, sys, threading, warnings
import stepscope as ss

def tell(*words):
    print(*words, flush=True)

def forever():
    while True:
        threading.Event().wait(0.05)  # a signal that comes right before signal.pause() wakes nobody

log_dir = sys.argv[1]
"""


class Process:
    """A training program of a few lines."""

    def __init__(self, directory: Path, program: str, **environment: str) -> None:
        self.directory = directory / "run"
        self.process = programs.Program(
            ["-c", PRELUDE + textwrap.dedent(program), str(self.directory)],
            modules=programs.TORCH if "import torch" in program else programs.RECORDING,
            env={**os.environ, "STEPSCOPE_STRICT": "", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_for(self, line: str) -> None:
        for found in self.process.stdout:
            if found.strip() == line:
                return
        pytest.fail(f"the program ended without {line!r}: {self.process.stderr.read()}")

    def end_by(self, number: int, *, after: str) -> int:
        """Send a signal once the program has printed a line."""
        self.wait_for(after)
        self.process.send_signal(number)
        return self.end()

    def end(self, *, timeout: float = 60) -> int:
        self.out, self.err = self.process.communicate(timeout=timeout)
        return self.process.returncode


@pytest.fixture
def train(tmp_path):
    """A function that starts a training program; every one is ended."""
    with contextlib.ExitStack() as stack:

        def start(program: str, **environment: str) -> Process:
            started = Process(tmp_path, program, **environment)
            stack.enter_context(started.process)
            stack.callback(started.process.kill)
            return started

        yield start


def events(directory: Path):
    """Every whole event of every file, oldest file first; a torn tail is left out."""
    return decoded_files(directory, torn=True)


def values(directory: Path, tag: str) -> list[float]:
    """Values that were recorded under a tag, in order."""
    return [value.simple_value for event in events(directory) for value in event.values if value.tag == tag]


def steps(directory: Path, tag: str) -> list[int]:
    return [event.step for event in events(directory) for value in event.values if value.tag == tag]


def infos(directory: Path) -> list[dict]:
    """What a run said about itself, oldest first."""
    return infos_of(events(directory))


def info(directory: Path) -> dict:
    return infos(directory)[-1]


def end_of(directory: Path) -> tuple[str, str | None]:
    """How a run says that it ended, and why."""
    last = info(directory)
    return last["status"], last["reason"]


# --- kill -9 ------------------------------------------------------------------------------------------


def test_after_kill_9_all_that_was_flushed_is_there(train):
    training = train("""
        run = ss.Run(log_dir, flush_secs=0.01)
        for step in range(10_000):
            run.scalar("loss", 1.0, step)
        run.flush()
        tell("flushed")
        while True:  # it dies in the middle of this
            run.scalar("more", 1.0, step)
            step += 1
    """)
    assert training.end_by(signal.SIGKILL, after="flushed") == -signal.SIGKILL
    assert steps(training.directory, "loss") == list(range(10_000))
    more = steps(training.directory, "more")
    assert more == list(range(9_999, 9_999 + len(more)))
    assert info(training.directory)["status"] == "running"


def test_a_run_killed_at_once_is_there(train):
    training = train("""
        run = ss.Run(log_dir, config={"lr": 0.1})
        tell("made")
        forever()
    """)
    training.end_by(signal.SIGKILL, after="made")
    assert info(training.directory)["config"] == {"lr": 0.1}


# --- SIGTERM ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (signal.SIGTERM, "SIGTERM"),
        (signal.SIGHUP, "SIGHUP"),  # the terminal goes away
        (signal.SIGINT, "KeyboardInterrupt"),
    ],
)
def test_a_signal_writes_everything_and_ends_as_it_would_have(train, number, reason):
    training = train("""
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
        with ss.Run(log_dir, flush_secs=3600.0) as run:
            for step in range(1_000):
                run.scalar("loss", 1.0, step)
            tell("logged")
            forever()
    """)
    assert training.end_by(number, after="logged") == -number
    assert steps(training.directory, "loss") == list(range(1_000))
    assert end_of(training.directory) == ("stopped", reason)
    assert training.err == "" or number == signal.SIGINT, "Python prints the traceback of an interrupt"


def test_sigterm_runs_an_earlier_handler_next(train):
    training = train("""
        def save(number, frame):
            run.scalar("in_handler", 1.0, 7)
            tell("saved")
            sys.exit(3)

        signal.signal(signal.SIGTERM, save)
        with ss.Run(log_dir, flush_secs=3600.0) as run:
            run.scalar("loss", 1.0, 0)
            tell("logged")
            forever()
    """)
    assert training.end_by(signal.SIGTERM, after="logged") == 3
    assert "saved" in training.out
    assert steps(training.directory, "in_handler") == [7]
    assert end_of(training.directory) == ("failed", "SystemExit: 3")


def test_sigterm_that_a_handler_survives_lets_the_run_go_on(train):
    training = train("""
        stop = threading.Event()
        signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
        with ss.Run(log_dir) as run:
            tell("logging")
            step = 0
            while not stop.is_set():
                run.scalar("loss", 1.0, step)
                step += 1
            run.flush()
            tell("stopping")
            run.scalar("checkpoint", 1.0, step)
    """)
    assert training.end_by(signal.SIGTERM, after="logging") == 0
    assert len(steps(training.directory, "checkpoint")) == 1
    statuses = [each["status"] for each in infos(training.directory)]
    assert statuses[0] == "running"
    assert statuses[1] == "stopped", "written before the handler ran: it might not have come back"
    assert statuses[-1] == "stopped"
    assert info(training.directory)["reason"] == "SIGTERM"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_that_was_ignored_stays_ignored(train, name):
    training = train(f"""
        signal.signal(signal.{name}, signal.SIG_IGN)
        with ss.Run(log_dir) as run:
            assert signal.getsignal(signal.{name}) is signal.SIG_IGN
            os.kill(os.getpid(), signal.{name})
            run.scalar("loss", 1.0, 0)
    """)
    assert training.end() == 0
    assert info(training.directory)["status"] == "finished"


@pytest.mark.parametrize("made", ["ss.Run(log_dir, handle_sigterm=False)", "in_thread()"])
def test_the_handler_is_left_alone_when_asked_and_outside_the_main_thread(train, made):
    training = train(f"""
        def in_thread():
            made = []
            thread = threading.Thread(target=lambda: made.append(ss.Run(log_dir)))
            thread.start()
            thread.join()
            return made[0]

        with {made} as run:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
            run.scalar("loss", 1.0, 0)
    """)
    assert training.end() == 0, training.err


def test_several_runs_share_one_handler_which_goes_with_the_last(train):
    training = train("""
        before = signal.getsignal(signal.SIGTERM)
        runs = [ss.Run(f"{log_dir}/{i}") for i in range(3)]
        ours = signal.getsignal(signal.SIGTERM)
        assert ours is not before
        for run in runs:
            assert signal.getsignal(signal.SIGTERM) is ours
            run.close()
        assert signal.getsignal(signal.SIGTERM) is before
        runs = [ss.Run(f"{log_dir}/again/{i}") for i in range(3)]
        for run in runs:
            run.scalar("loss", 1.0, 0)
        tell("logged")
        forever()
    """)
    assert training.end_by(signal.SIGTERM, after="logged") == -signal.SIGTERM
    for i in range(3):
        assert info(training.directory / "again" / str(i))["status"] == "stopped"
        assert steps(training.directory / "again" / str(i), "loss") == [0]


def test_what_is_recorded_is_on_disk_before_a_hook_that_never_ends(train):
    training = train("""
        class Hangs(ss.Hook):
            def end(self, run, status):
                tell("hook ends")
                forever()

        run = ss.Run(log_dir, flush_secs=3600.0, hooks=[Hangs()])
        for step in range(1_000):
            run.scalar("loss", 1.0, step)
        tell("logged")
        forever()
    """)
    training.wait_for("logged")
    training.process.terminate()
    training.wait_for("hook ends")
    training.process.kill()
    assert training.end() == -signal.SIGKILL
    assert steps(training.directory, "loss") == list(range(1_000))
    assert end_of(training.directory) == ("stopped", "SIGTERM")


def test_hooks_share_one_deadline_after_sigterm_and_what_they_log_is_kept(train):
    training = train("""
        class Patient(ss.Hook):
            def __init__(self, name):
                self.name = name

            def end(self, run, status, deadline):
                left = deadline.left()
                run.scalar(f"{self.name}/left", left, 0)
                threading.Event().wait(deadline.left(1.0))
                run.scalar(f"{self.name}/last", 1.0, 0)

        class Earlier(ss.Hook):
            def end(self, run, status):
                run.scalar("earlier/last", 1.0, 0)

        run = ss.Run(log_dir, flush_secs=3600.0, hooks=[Earlier(), Patient("second"), Patient("first")])
        tell("made")
        forever()
    """)
    training.wait_for("made")
    begun = time.monotonic()
    training.process.terminate()
    assert training.end() == -signal.SIGTERM
    assert time.monotonic() - begun < 8.0
    for name in ("earlier/last", "first/last", "second/last"):
        assert steps(training.directory, name) == [0], name
    [first], [second] = (values(training.directory, f"{name}/left") for name in ("first", "second"))
    assert 0 < second <= first - 0.9 < 5.0 - 0.9


def test_a_webhook_that_does_not_answer_does_not_hold_up_sigterm(train):
    training = train("""
        import socket

        deaf = socket.create_server(("127.0.0.1", 0))
        hook = ss.HealthHook(webhook=f"http://127.0.0.1:{deaf.getsockname()[1]}/", severity="info")
        run = ss.Run(log_dir, flush_secs=3600.0, hooks=[hook, ss.SystemHook(), ss.ProfilerHook()])
        for step in run.steps(range(300)):
            run.scalar("train/loss", float("nan") if step > 200 else 1.0)
        tell("logged")
        forever()
    """)
    training.wait_for("logged")
    begun = time.monotonic()
    training.process.terminate()
    assert training.end() == -signal.SIGTERM
    assert time.monotonic() - begun < 8.0
    assert steps(training.directory, "train/loss") == list(range(300))
    assert info(training.directory)["status"] == "stopped"


# --- exceptions and the end of the program ------------------------------------------------------------


@pytest.mark.parametrize(
    ("end", "status", "reason", "code"),
    [
        ("", "finished", None, 0),
        ("raise ValueError('diverged')", "failed", "ValueError: diverged", 1),
        ("sys.exit(0)", "finished", None, 0),
        ("sys.exit()", "finished", None, 0),
        ("sys.exit(3)", "failed", "SystemExit: 3", 3),
        ("sys.exit('no data')", "failed", "SystemExit: no data", 1),
        (
            "os.kill(os.getpid(), signal.SIGINT); signal.pause()",
            "stopped",
            "KeyboardInterrupt",
            -signal.SIGINT,
        ),
    ],
)
def test_a_run_that_nobody_closed_is_closed_at_exit(train, end, status, reason, code):
    training = train(f"""
        run = ss.Run(log_dir, flush_secs=3600.0)
        for step in range(1_000):
            run.scalar("loss", 1.0, step)
        {end}
    """)
    assert training.end() == code
    assert steps(training.directory, "loss") == list(range(1_000))
    assert end_of(training.directory) == (status, reason)


def test_the_exit_is_not_held_up_by_a_device_that_hangs(train):
    training = train("""
        from stepscope.record import exits, values

        class Never:
            def ready(self): return False

        values._readers[Never] = lambda value: value
        exits.END_SECS = 0.2
        run = ss.Run(log_dir)
        run.scalar("loss", Never(), 0)
        run.scalar("other", 1.0, 0)
    """)
    assert training.end(timeout=30) == 0
    assert steps(training.directory, "other") == [0]
    assert info(training.directory)["problems"] == {"device": 1}


def test_the_exit_is_not_held_up_by_a_disk_that_hangs(train):
    training = train("""
        from stepscope.events import EventWriter
        from stepscope.record import exits

        exits.END_SECS = 0.2
        run = ss.Run(log_dir)
        EventWriter.flush = lambda self, sync=False: threading.Event().wait()
        run.scalar("loss", 1.0, 0)
        tell("end")
    """)
    assert training.end(timeout=30) == 0


def test_no_warning_at_exit_even_where_all_are_shown(train):
    training = train("""
        warnings.simplefilter("error")
        with ss.Run(log_dir) as run:
            for _ in run.steps(range(10)):
                run.scalar("loss", 1.0)
    """, PYTHONWARNINGS="error", PYTHONDEVMODE="1")  # fmt: skip
    assert training.end() == 0
    assert training.err == ""


# --- fork ---------------------------------------------------------------------------------------------

FORK = """
warnings.simplefilter("ignore", DeprecationWarning)  # of forking a process that has threads
run = ss.Run(log_dir, flush_secs=3600.0)
for step in range(100):
    run.scalar("parent", 1.0, step)
child = os.fork()
if child == 0:
    {child}
os.waitpid(child, 0)
for step in range(100, 200):
    run.scalar("parent", 1.0, step)
run.close()
"""


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "raise ValueError"])
def test_a_child_never_writes_to_the_file_of_its_parent(train, leave):
    training = train(
        FORK.format(
            child=f"""
    for step in range(100):
        run.scalar("child", 1.0, step)
        run.scalars({{"child": 1.0}}, step)
    assert list(run.steps(range(3))) == [0, 1, 2]
    assert run.flush() is False
    assert run.problems == {{"forked": 200}}
    assert repr(run).endswith("not recording: forked child)")
    run.close()
    {leave}
"""
        )
    )
    assert training.end() == 0, training.err
    assert steps(training.directory, "parent") == list(range(200))
    assert steps(training.directory, "child") == []
    assert len(list(training.directory.iterdir())) == 2
    assert info(training.directory)["status"] == "finished"
    assert training.err.count("this is a forked child") == 1
    assert "AssertionError" not in training.err


def test_a_child_that_ends_by_sigterm_leaves_the_run_of_its_parent_alone(train):
    training = train(
        FORK.format(
            child="""
    tell("forked")
    os.kill(os.getpid(), signal.SIGTERM)
    forever()
"""
        )
    )
    assert training.end() == 0, training.err
    assert steps(training.directory, "parent") == list(range(200))
    assert info(training.directory)["status"] == "finished"


def test_a_child_may_have_a_run_of_its_own(train):
    training = train(
        FORK.format(
            child="""
    with ss.Run(log_dir + "/child") as own:
        own.scalar("child", 1.0, 0)
    os._exit(0)
"""
        )
    )
    assert training.end() == 0, training.err
    assert steps(training.directory / "child", "child") == [0]
    assert steps(training.directory, "parent") == list(range(200))


def test_workers_of_a_data_loader_do_not_disturb_a_run(train):
    pytest.importorskip("torch")
    training = train("""
        import torch
        torch.set_num_threads(1)
        with ss.Run(log_dir) as run:
            loader = torch.utils.data.DataLoader(list(range(64)), batch_size=8, num_workers=2)
            for batch in run.steps(loader):
                run.scalar("sum", batch.sum())
    """)
    assert training.end() == 0, training.err
    assert steps(training.directory, "sum") == list(range(8))
    assert len(list(training.directory.iterdir())) == 3
    assert "stepscope" not in training.err


def test_a_run_that_goes_on_after_an_exit_was_caught_is_finished(train):
    training = train("""
        before = sys.exit
        run = ss.Run(log_dir)
        try:
            sys.exit(3)
        except SystemExit:
            run.scalar("loss", 1.0, 0)
        other = ss.Run(log_dir + "/other")
        other.close()
        run.close()
        assert sys.exit is before
        run = ss.Run(log_dir + "/second")
        try:
            sys.exit(3)
        except SystemExit:
            run.scalar("loss", 1.0, 0)
    """)
    assert training.end() == 0, training.err
    assert info(training.directory / "second")["status"] == "finished"


@pytest.mark.skipif(sys.platform != "linux", reason="arguments are bytes on Linux")
def test_no_text_of_the_program_loses_a_point(tmp_path):
    """Arguments that are no UTF-8, and lone surrogates in config and exceptions."""
    program = """
import sys
import stepscope as ss
with ss.Run(sys.argv[1], config={"name\\udc80": "\\ud800"}) as run:
    for step in run.steps(range(100)):
        run.scalar("loss", step)
    raise ValueError("bad \\udcff text")
""".replace("\\\\", "\\")
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "run"), b"\xff\xfe"],
        env={**os.environ, "STEPSCOPE_STRICT": ""},
        capture_output=True,
    )
    assert b"bad" in done.stderr
    assert b"RuntimeWarning" not in done.stderr, done.stderr
    assert steps(tmp_path / "run", "loss") == list(range(100))
    assert end_of(tmp_path / "run") == ("failed", "ValueError: bad \ufffd text")


ODD = r"""
import sys
import stepscope as ss

class Evil:
    def __str__(self): raise MemoryError
    __repr__ = __str__
    def items(self): raise RuntimeError
class Mapping(dict):
    def items(self): raise RuntimeError("items")
class OddError(Exception):
    def __str__(self): raise MemoryError("text")
around = {}
around["self"] = around
config = [{"a": {1: Evil(), Evil(): 2}}, Mapping(a=1), {"seed": 10 ** 5000}, around, Evil()][int(sys.argv[2])]
errors = [OddError(), KeyError(Evil()), ValueError("\ud800"), OSError(10 ** 5000), UnicodeError()]
error = errors[int(sys.argv[2])]
try:
    with ss.Run(sys.argv[1], config=config) as run:
        for step in run.steps(range(100)):
            run.scalar("loss", step)
        raise error
except Exception as found:
    assert found is error, found
"""


@pytest.mark.parametrize("case", range(5))
def test_whatever_stands_behind_a_config_or_an_exception_no_point_is_lost(tmp_path, case):
    """Objects whose text, items or number cannot be had; the training's own exception comes through."""
    words = [sys.executable, "-c", ODD, str(tmp_path / "run"), str(case)]
    done = subprocess.run(words, env={**os.environ, "STEPSCOPE_STRICT": ""}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning" not in done.stderr, done.stderr
    assert steps(tmp_path / "run", "loss") == list(range(100))
    assert info(tmp_path / "run")["status"] == "failed"


# --- how it ended, by every launcher ------------------------------------------------------------------

LEAVES = """
class EarlyStop(Exception): pass

def train(place, how, steps=30):
    run = ss.Run(place, flush_secs=3600.0)
    for step in run.steps(range(steps)):
        run.scalar("loss", float(step))
        if step == 20:
            if how == "raise": raise RuntimeError("CUDA error")
            if how == "interrupt": raise KeyboardInterrupt
            if how == "exit 3": sys.exit(3)
            if how == "exit text": sys.exit("no data left")
            if how == "exit 0": sys.exit(0)
            if how == "break": break

def train_without_steps(place, how):
    run = ss.Run(place, flush_secs=3600.0)
    for step in range(30):
        run.scalar("loss", float(step), step)
        if step == 20 and how == "raise": raise RuntimeError("CUDA error")
"""
ERROR = "RuntimeError: CUDA error"


@pytest.mark.parametrize(
    ("program", "code", "status", "reason"),
    [
        ("train(log_dir, 'nothing')", 0, "finished", None),
        ("train(log_dir, 'break')", 0, "finished", None),
        ("train(log_dir, 'raise')", 1, "failed", ERROR),
        ("train(log_dir, 'interrupt')", -signal.SIGINT, "stopped", "KeyboardInterrupt"),
        ("train(log_dir, 'exit 0')", 0, "finished", None),
        ("train(log_dir, 'exit 3')", 3, "failed", "SystemExit: 3"),
        ("train(log_dir, 'exit text')", 1, "failed", "SystemExit: no data left"),
        ("raise SystemExit(train(log_dir, 'nothing'))", 0, "finished", None),
        (
            "try: train(log_dir, 'raise')\nexcept Exception as e: print(e); sys.exit(1)",
            1, "failed", f"{ERROR}, then SystemExit: 1",
        ),
        ("try: train(log_dir, 'raise')\nexcept Exception: raise SystemExit(1)", 1, "failed", ERROR),
        ("try: train(log_dir, 'raise')\nexcept Exception as e: print(e)", 0, "failed", ERROR),
        ("try: train(log_dir, 'interrupt')\nexcept KeyboardInterrupt: sys.exit(130)", 130, "stopped",
         "KeyboardInterrupt"),
        ("try: train(log_dir, 'raise')\nexcept Exception: sys.exit(0)", 0, "finished", None),
        (
            "try: train_without_steps(log_dir, 'raise')\nexcept Exception as e: sys.exit(1)",
            1, "failed", f"{ERROR}, then SystemExit: 1",
        ),
        (
            "try: train_without_steps(log_dir, 'raise')\nexcept Exception as e: print(e)",
            0, "failed", "an exception left the code that held the run",
        ),
        (
            "try: train_without_steps(log_dir, 'raise')\nexcept Exception: pass",
            0, "failed", "an exception left the code that held the run",
        ),
        ("try: import no_such_module\nexcept ImportError: train(log_dir, 'nothing')", 0, "finished", None),
        (
            "try: import no_such_module\nexcept ImportError: train_without_steps(log_dir, 'nothing')",
            0, "finished", None,
        ),
        # What the function returns is the exit code.
        (
            "def main():\n    train(log_dir, 'break')\n    return 1\ncode = main()\nsys.exit(code)",
            1, "failed", "SystemExit: 1",
        ),
        (
            "def main():\n    train(log_dir, 'break')\n    return 0\ncode = main()\nsys.exit(code)",
            0, "finished", None,
        ),
        (
            "train(log_dir, 'nothing')\nwith ss.Run(log_dir + '-other') as other: other.scalar('x', 1.0, 0)\n"
            "sys.exit(1)",
            1, "finished", None,
        ),
        # The run goes on, or the caller holds it: then an exception that was caught says nothing of it.
        (
            "run = ss.Run(log_dir)\nfor step in run.steps(range(9)):\n    try: 1 / 0\n"
            "    except ZeroDivisionError as error: last = error\n    run.scalar('loss', 1.0)\n"
            "    if step == 5: break",
            0, "finished", None,
        ),
        (
            "run = ss.Run(log_dir)\ntry:\n    for step in run.steps(range(9)): raise EarlyStop\n"
            "except EarlyStop: run.scalar('test', 1.0)",
            0, "finished", None,
        ),
        ("run = ss.Run(log_dir)\ntry: 1 / 0\nexcept ZeroDivisionError: sys.exit(0)", 0, "finished", None),
        # A progress bar around the loop, and a step as a context.
        (
            "def bar(items):\n    for item in items: yield item\n"
            "def main():\n    run = ss.Run(log_dir)\n"
            "    for step in bar(run.steps(range(9))): raise RuntimeError('CUDA error')\n"
            "try: main()\nexcept Exception: sys.exit(1)",
            1, "failed", f"{ERROR}, then SystemExit: 1",
        ),
        (
            "def main():\n    run = ss.Run(log_dir)\n    with run.step(): raise RuntimeError('CUDA error')\n"
            "try: main()\nexcept Exception as e: print(e)",
            0, "failed", ERROR,
        ),
        # A thread that leaves with sys.exit ends alone.
        (
            "run = ss.Run(log_dir)\nhelper = threading.Thread(target=lambda: sys.exit(3))\n"
            "helper.start(); helper.join()",
            0, "finished", None,
        ),
        (
            "trainer = threading.Thread(target=train, args=(log_dir, 'raise'))\ntrainer.start()\n"
            "trainer.join()",
            0, "failed", ERROR,
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor() as pool:\n"
            "    failed = pool.submit(train, log_dir, 'raise').exception()",
            0, "failed", ERROR,
        ),
        # The process is taken as soon as the function is left that held the run, as Ray takes its workers.
        ("train(log_dir, 'nothing')\nos._exit(0)", 0, "finished", None),
        ("try: train(log_dir, 'raise')\nexcept Exception: pass\nos._exit(0)", 0, "failed", ERROR),
        # A signal takes the process while the exception that left the loop still holds the run, or while
        # the run goes on after it.
        (
            "try: train(log_dir, 'raise')\nexcept Exception as error:\n    held = error\n"
            "os.kill(os.getpid(), signal.SIGTERM)",
            -signal.SIGTERM, "failed", ERROR,
        ),
        (
            "signal.signal(signal.SIGTERM, lambda *_: None)\ntry: train(log_dir, 'raise')\n"
            "except Exception as error:\n    held = error\nos.kill(os.getpid(), signal.SIGTERM)",
            0, "failed", ERROR,
        ),
        (
            "run = ss.Run(log_dir)\ntry:\n    for step in run.steps(range(9)): raise EarlyStop\n"
            "except EarlyStop: run.scalar('test', 1.0)\nos.kill(os.getpid(), signal.SIGTERM)",
            -signal.SIGTERM, "stopped", "SIGTERM",
        ),
    ],
)  # fmt: skip
def test_the_state_follows_the_exception_and_the_exit_code(train, program, code, status, reason):
    training = train(LEAVES + program)
    assert training.end() == code, training.err
    assert end_of(training.directory) == (status, reason)


def launched(tmp_path, program: str, *command: str) -> tuple[dict, int]:
    """Run a file that trains by a launcher; return what its run says and the exit code."""
    script = tmp_path / "program.py"
    script.write_text("import os, sys, threading\nimport stepscope as ss\n" + LEAVES + program)
    done = programs.run(
        [*command, str(script), str(tmp_path / "run")],
        modules=programs.TORCH if "torch" in (*command, program) else programs.RECORDING,
        env={**os.environ, "STEPSCOPE_STRICT": ""}, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    return info(tmp_path / "run"), done.returncode


METHODS = ["fork", "spawn", "forkserver"]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("how", "code", "status", "reason"),
    [
        ("nothing", 0, "finished", None),
        ("raise", 1, "failed", ERROR),
        ("exit 3", 3, "failed", "SystemExit: 3"),
        ("exit 0", 0, "finished", None),
    ],
)
def test_a_child_of_multiprocessing_ends_its_run(tmp_path, method, how, code, status, reason):
    program = f"""
import multiprocessing

def child(place, how):
    global run  # nobody closes it, and it is still there when the function is left
    run = ss.Run(place, flush_secs=3600.0)
    for step in range(30):
        run.scalar("loss", float(step), step)
    if how == "raise": raise RuntimeError("CUDA error")
    if how.startswith("exit"): sys.exit(int(how[5:]))

if __name__ == "__main__":
    try:
        raise ValueError("of the parent, which handles it while it starts the child")
    except ValueError:
        process = multiprocessing.get_context({method!r}).Process(target=child, args=(sys.argv[1], {how!r}))
        process.start()
        process.join()
    sys.exit(process.exitcode)
"""
    found, ended = launched(tmp_path, program)
    assert ended == code
    # A fork in a handler has the parent's exception as its context, as Python's own traceback says.
    known = (found["reason"] or "").removeprefix(
        "ValueError: of the parent, which handles it while it starts the child, then "
    )
    assert (found["status"], known or None) == (status, reason)
    assert steps(tmp_path / "run", "loss") == list(range(30))


@pytest.mark.parametrize("method", METHODS)
def test_a_task_of_a_pool_that_raises_has_failed(tmp_path, method):
    program = f"""
import multiprocessing
from concurrent.futures import ProcessPoolExecutor

if __name__ == "__main__":
    context = multiprocessing.get_context({method!r})
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(train, sys.argv[1], "raise").exception())
    with context.Pool(1) as pool:
        try: pool.apply(train, (sys.argv[1] + "/pool", "raise"))
        except RuntimeError as error: print(error)
"""
    found, ended = launched(tmp_path, program)
    assert ended == 0
    assert (found["status"], found["reason"]) == ("failed", ERROR)
    assert info(tmp_path / "run" / "pool")["reason"] == ERROR


def test_ranks_of_torch_that_raise_have_failed(tmp_path):
    pytest.importorskip("torch")
    program = """
def rank(number, place):
    train(f"{place}/{number}", "raise" if number else "nothing")

if __name__ == "__main__":
    import torch.multiprocessing
    try: torch.multiprocessing.spawn(rank, (sys.argv[1],), nprocs=2)
    except Exception as error: print(error)
"""
    launched(tmp_path, program + LAST)
    assert end_of(tmp_path / "run" / "1") == ("failed", f"{ERROR}, then SystemExit: 1")
    if (tmp_path / "run" / "0").exists():  # else it was stopped before it began its run
        assert info(tmp_path / "run" / "0")["status"] in ("finished", "stopped")


LAST = """
    with ss.Run(sys.argv[1]) as run: run.scalar("done", 1.0, 0)
"""


RECORD = "from torch.distributed.elastic.multiprocessing.errors import record\n@record"


@pytest.mark.parametrize("record", ["", RECORD], ids=["plain", "record"])
def test_a_rank_of_torchrun_that_raises_has_failed(tmp_path, record):
    pytest.importorskip("torch")
    program = f"""
{record}
def main():
    train(sys.argv[1], "raise")

main()
"""
    found, ended = launched(tmp_path, program, "-m", "torch.distributed.run", "--nproc-per-node=1")
    assert ended == 1
    assert (found["status"], found["reason"]) == ("failed", ERROR)


WRAPPERS = {
    # click, and typer with it: an Abort or an error that it knows ends with sys.exit, others pass.
    "click": (
        "import click\n@click.command()\n@click.argument('place')\ndef main(place): train(place, HOW)\n"
        "main()",
        {"nothing": (0, "finished", None), "raise": (1, "failed", ERROR),
         "interrupt": (1, "stopped", "KeyboardInterrupt")},
    ),
    "absl.app": (
        "from absl import app\ndef main(argv): train(argv[1], HOW)\napp.run(main)",
        {"nothing": (0, "finished", None), "raise": (1, "failed", ERROR)},
    ),
    "fire": (
        "import fire\ndef main(place): train(place, HOW)\nfire.Fire(main)",
        {"nothing": (0, "finished", None), "raise": (1, "failed", ERROR)},
    ),
    # What submitit does in a job: it saves the exception, tells of it and leaves.
    "submitit": (
        "import traceback\ntry: train(sys.argv[1], HOW)\nexcept Exception as error:\n"
        "    saved = ('error', traceback.format_exc())\n    raise",
        {"nothing": (0, "finished", None), "raise": (1, "failed", ERROR)},
    ),
    # What a task of Ray does, in compiled code: the exception becomes a text, and the worker lives on.
    "ray": (
        "import ray\n@ray.remote\ndef task(place, how): train(place, how)\nray.init(num_cpus=1)\n"
        "ray.get(task.remote(sys.argv[1] + '/before', 'nothing'))\n"
        "try: ray.get(task.remote(sys.argv[1], HOW))\nexcept Exception as error: print(error)\n"
        "ray.shutdown()",
        {"raise": (0, "failed", ERROR)},
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("wrapper", "how"), [(name, how) for name, (_, hows) in WRAPPERS.items() for how in hows]
)
def test_wrappers_of_a_main_function_and_schedulers(tmp_path, wrapper, how):
    program, hows = WRAPPERS[wrapper]
    if wrapper != "submitit":
        pytest.importorskip(wrapper)
    code, status, reason = hows[how]
    found, ended = launched(tmp_path, program.replace("HOW", repr(how)))
    assert ended == code
    assert found["status"] == status
    assert (found["reason"] or "").startswith(reason or "")
    if (before := tmp_path / "run" / "before").exists():
        assert end_of(before) == ("finished", None)


@pytest.mark.parametrize(
    "hangs",
    [
        # While the constructor waits for the disk, in a hook, and before the thread that writes is known.
        "from stepscope.record import sink\nopened = sink.LogFiles.__init__\n"
        "def slow(*words, **more): reach(); opened(*words, **more)\nsink.LogFiles.__init__ = slow",
        "class Slow(ss.Hook):\n    def begin(self, run): reach()\nhooks.append(Slow())",
        "from stepscope.record import parts\nmade = parts.RunParts.make_loop\n"
        "def slow(*words, **more): reach(); made(*words, **more)\nparts.RunParts.make_loop = slow",
    ],
    ids=["disk", "hook", "parts"],
)
def test_ctrl_c_while_a_run_is_made_leaves_no_thread(train, hangs):
    training = train(
        "hooks = []\n"
        "def reach():\n"
        "    tell('reached')\n"
        "    for _ in range(300): threading.Event().wait(0.1) if not interrupted.is_set() else None\n"
        "interrupted = threading.Event()\n"
        + hangs
        + """
try: run = ss.Run(log_dir, hooks=hooks)
except KeyboardInterrupt: interrupted.set()
else: tell("made")
for _ in range(600):
    left = [each.name for each in threading.enumerate() if each.name.startswith("stepscope")]
    if not left: break
    threading.Event().wait(0.1)
tell("left", left)
from stepscope.record import exits
assert not exits._open
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    )
    assert training.end_by(signal.SIGINT, after="reached") == 0, training.err
    assert training.out.splitlines() == ["left []"]
    if (training.directory).exists():
        assert info(training.directory)["status"] == "stopped"
