"""``stepscope changes``, ``run.changes()`` and ``GET changelog`` on one recorded run."""

import json

import numpy as np
import pytest

import stepscope as ss
from stepscope.cli import main
from stepscope.compat import SummaryWriter
from stepscope.serve.changes import ChangeAnswers


def record(path, breaks):
    noise = np.random.default_rng(0).normal(size=300)
    with SummaryWriter(str(path)) as writer:
        for step in range(300):
            broken = breaks and step >= 200
            writer.add_scalar(
                "train/loss", (2.3 if broken else 0.4) + 0.02 * noise[step], step, walltime=1000.0 + step
            )
            writer.add_scalar("lr", 0.1 if broken else 0.001, step, walltime=1000.0 + step)


@pytest.fixture
def runs(tmp_path):
    record(tmp_path / "a", breaks=True)
    record(tmp_path / "b", breaks=False)
    return tmp_path


SENTENCE = "step 200: lr 0.001 → 0.1; train/loss 0.398"


def test_a_change_is_told_in_python_on_the_command_line_and_over_http(runs, capsys):
    with ss.open(runs) as log:
        [group] = log.run("a").changes()
        answer = json.loads(ChangeAnswers().answer("a", log))
    assert group.text.startswith(SENTENCE)
    assert [each["text"] for each in answer["groups"]] == [group.text]
    assert [each["tag"] for each in answer["groups"][0]["changes"]] == ["lr", "train/loss"]
    assert main(["changes", str(runs / "a"), "--no-cache"]) == 0
    assert capsys.readouterr().out == f"  {group.text}\n"
    assert main(["changes", str(runs / "a"), "--json", "--no-cache"]) == 0
    assert json.loads(capsys.readouterr().out)["groups"][0]["text"] == group.text


def test_two_runs_are_told_apart(runs, capsys):
    assert main(["changes", str(runs / "a"), str(runs / "b"), "--no-cache"]) == 0
    settings, none, first, sentence, second, nothing = capsys.readouterr().out.splitlines()
    assert (settings, none) == (f"settings from {runs / 'a'} to {runs / 'b'}", "  no recorded one differs")
    assert (first, second, nothing) == (f"only in {runs / 'a'}", f"only in {runs / 'b'}", "  nothing changed")
    assert sentence.strip().startswith(SENTENCE)


def test_settings_that_differ_explain_two_runs_in_which_nothing_changed(tmp_path, capsys):
    for name, clip in (("a", 0.2), ("b", 0.1)):
        with ss.Run(tmp_path / name, config={"lr": 1e-3, "ppo": {"clip": clip}}, card=False) as run:
            for step in run.steps(range(3)):
                run.scalar("reward", step)
    names = [str(tmp_path / name) for name in "ab"]
    assert main(["changes", *names, "--no-cache"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        f"settings from {names[0]} to {names[1]}",
        "  ppo.clip 0.2 → 0.1",
    ]
    assert main(["changes", *names, "--no-cache", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"] == ["ppo.clip 0.2 → 0.1"]


def test_a_directory_with_several_runs_is_refused(runs, capsys):
    assert main(["changes", str(runs), "--no-cache"]) == 1
    error = capsys.readouterr().err
    assert "2 runs" in error
    assert str(runs / "a") in error


def test_how_long_steps_took_before_is_the_level_that_the_change_log_names(tmp_path):
    """Not a median over all steps before, of which the first half took half as long."""
    noise = np.random.default_rng(0).normal(size=600)
    with SummaryWriter(str(tmp_path / "a")) as writer:
        for step in range(600):
            took = 50.0 if step < 200 else 100.0 if step < 400 else 350.0
            for tag, value in (("step_time_ms", took + noise[step]), ("data_wait_ms", 3.0 + noise[step] / 9)):
                writer.add_scalar(f"speed/{tag}", value, step, walltime=1000.0 + step)
            writer.add_scalar("train/loss", 1.0 + 0.1 * noise[step], step, walltime=1000.0 + step)
    with ss.open(tmp_path) as log:
        answer = json.loads(ChangeAnswers().answer("a", log))
    first, second = (group["changes"][0] for group in answer["groups"])
    assert (first["tag"], second["tag"]) == ("speed/step_time_ms", "speed/step_time_ms")
    before = answer["step_time_before"]
    assert before["step"] == second["first_step"]
    assert before["seconds"] == pytest.approx(second["before"] / 1e3)
    assert before["seconds"] == pytest.approx(0.1, rel=0.01)
    assert before["wait_s"] == pytest.approx(0.003, rel=0.1)


def test_steps_that_are_no_longer_slower_had_no_time_before(tmp_path):
    with SummaryWriter(str(tmp_path / "a")) as writer:
        for step, noise in enumerate(np.random.default_rng(0).normal(size=600)):
            took = 350.0 if 200 <= step < 400 else 100.0
            writer.add_scalar("speed/step_time_ms", took + noise, step, walltime=1000.0 + step)
    with ss.open(tmp_path) as log:
        answer = json.loads(ChangeAnswers().answer("a", log))
    assert len(answer["groups"]) == 2
    assert answer["step_time_before"] is None
