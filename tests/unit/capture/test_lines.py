"""The lines of a training, looked at while it runs."""

import json
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest
from support.waiting import until

import stepscope as ss
from stepscope.capture.lines import MOST_LINES, MOST_WINDOWS, LineHook, looks_at
from stepscope.events.rank_file import MOST_FACTS_BYTES
from stepscope.store.lines import spent_s, windows_of, windows_of_run
from stepscope.store.ranks import Ranks

TRAINING = """
import json, time
import stepscope as ss
from stepscope.capture import LineHook

def fetch():
    json.loads(text)  # in the standard library: the line that called it counts

text = json.dumps(list(range(200_000)))
with ss.Run("run", hooks=[LineHook(interval_s=0.002)]) as run:
    for step in run.steps(range(60)):
        fetch()
        time.sleep(0.02 if step < 30 else 0.06)  # token = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
"""


@pytest.mark.slow
def test_lines_have_the_time_that_they_took(tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    subprocess.run([sys.executable, "train.py"], cwd=tmp_path, check=True, timeout=120)
    windows = windows_of_run(Ranks(str(tmp_path / "run")).members())
    assert sum(window.steps for window in windows) == pytest.approx(60, abs=2)
    first, second, *_ = spent_s(windows).items()
    assert {line.line: line.function for line, _ in (first, second)} == {13: "<module>", 7: "fetch"}
    line, seconds = next(
        row for row in (first, second) if row[0].line == 13
    )  # the other is longer on a busy machine
    assert 2.4 <= seconds <= sum(window.seconds for window in windows)
    assert line.text.startswith("time.sleep(0.02 if step < 30 else 0.06)")
    assert "hf_abc" not in line.text


def looked(looks):
    """Return a hook that has seen a training: the line and the step of each look, 0.1 s apart."""
    hook = LineHook()
    hook._steps = SimpleNamespace(current=None, done=0)
    for line, step in looks:
        hook._steps.current, hook._steps.done = step, step
        hook._take(("train.py", line, "main") if line else None, 0.1)
    return hook


def test_a_long_training_keeps_its_course_in_little_room():
    count = 200 * MOST_WINDOWS * 9
    facts = looked((1 + at * 100 // count, at) for at in range(count)).facts()
    windows = windows_of(json.loads(json.dumps(facts)))
    assert MOST_WINDOWS / 2 <= len(windows) <= MOST_WINDOWS
    assert len(json.dumps(facts)) < MOST_FACTS_BYTES / 4
    assert sum(window.steps for window in windows) == count - 1
    assert sum(window.seconds for window in windows) == pytest.approx(count / 10)
    assert [window.first_step for window in windows] == sorted(window.first_step for window in windows)
    assert min(line.line for line in windows[0].spent_s) == 1
    assert max(line.line for line in windows[-1].spent_s) == 100


def test_time_of_no_line_of_the_program_counts_for_the_whole_only():
    [window] = windows_of(looked([(0, 1), (0, 2), (3, 3), (0, 4)]).facts())
    assert window.seconds == pytest.approx(0.4)
    assert [(line.line, seconds) for line, seconds in window.spent_s.items()] == [(3, pytest.approx(0.1))]


def test_a_window_names_the_lines_that_took_most():
    looks = [(line, 1) for line in range(1, 31) for _ in range(line // 6 + 1)]
    [window] = windows_of(looked(looks).facts())
    assert len(window.spent_s) == MOST_LINES
    assert min(line.line for line in window.spent_s) >= 18
    assert window.seconds == pytest.approx(len(looks) / 10)


def test_nothing_was_seen_yet():
    assert LineHook().facts() == {}
    assert LineHook().looks() == {"looks": 0, "shares": {}}


def test_a_capture_gets_what_was_seen_of_the_whole_training():
    looks = looked((3 if at % 4 else 0, at) for at in range(1000)).looks()
    assert looks == {"looks": 1000, "shares": {"train.py(3): main": pytest.approx(0.75)}}


def test_the_thread_ends_with_the_run(tmp_path):
    with ss.Run(tmp_path, hooks=[LineHook(interval_s=0.001)]) as run:
        [thread] = [each for each in threading.enumerate() if each.name == "stepscope-lines"]
        run.step()
        ident = threading.get_ident()
        shares = until(lambda: looks_at(ident).get("shares"))
        own = (": until", ": <lambda>", ": test_the_thread_ends_with_the_run")
        assert all(text.endswith(own) for text in shares), shares
    thread.join(10)
    assert not thread.is_alive()
    assert looks_at(ident) == {}
