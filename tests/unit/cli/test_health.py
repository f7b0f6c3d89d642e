"""``stepscope advise`` on runs."""

import json
import shlex

import pytest
from support.records import write_scalars

import stepscope as ss
from stepscope.cli import main


@pytest.fixture
def runs(tmp_path):
    write_scalars(tmp_path / "good", [3.0 * 0.99**step for step in range(300)])
    write_scalars(tmp_path / "bad", [1.0, 0.9, float("nan"), 0.8])
    write_scalars(tmp_path / "bad" / "eval", [1.0, 0.9], "loss")
    return tmp_path


def advise(capsys, *words):
    code = main(["advise", *map(str, words)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_directory_of_runs_is_judged_run_by_run(runs, capsys):
    code, out, _ = advise(capsys, runs, "--no-cache")
    assert code == 0
    assert "bad, attempt 1: 1 high;" in out
    assert "good, attempt 1: nothing wrong found; not judged: generalisation, " in out
    assert "learns: yes, finite: yes, generalises: not judged, steady: not judged" in out
    assert "high   nonfinite-loss: the loss is NaN at step 2" in out
    assert "do: load a checkpoint" in out
    assert "could not tell: " not in out
    _, out, _ = advise(capsys, runs, "--no-cache", "-v")
    assert out.count("could not tell: ") == 2
    assert "       not recorded: nonfinite-gradient" in out
    assert "to judge more, record ss.GradientHook(), ss.ActivationHook(), ss.SystemHook()" in out


def test_a_finding_takes_four_lines_and_the_last_shows_its_evidence(runs, capsys):
    _, out, _ = advise(capsys, runs, "--run", "bad", "--no-cache")
    headline, covered, *lines = out.splitlines()
    assert covered.strip().startswith("learns: not judged, finite: no")
    assert "1 high" in headline
    assert len(lines) == 4
    assert lines[1].strip() == "bad: train/loss, since step 2, still open"
    assert main(shlex.split(lines[3].strip().removeprefix("see: stepscope "))) == 0
    shown = capsys.readouterr().out
    assert "threshold: opens 1, calm 100" in shown
    assert "last finite" in shown


class Silent(ss.GradientHook):
    """Is in the run and measures nothing: no model is watched."""

    def begin(self, run):
        pass

    def after_step(self, step):
        pass


Silent.__name__ = "GradientHook"


def test_what_the_run_has_is_not_advised(tmp_path, capsys):
    with ss.Run(tmp_path / "bare") as run:
        run.scalar("train/loss", 1.0, 1)
    with ss.Run(tmp_path / "full", hooks=[ss.SystemHook(), Silent()]) as run:
        for step in run.steps(range(30)):
            run.scalar("train/loss", 1.0 / (1 + step))
            run.scalar("train/learning_rate", 1e-3)
            run.scalar("activations/a/dead_ratio", 0.0)
            run.scalar("eval/loss", 1.0 / (1 + step))
    _, out, _ = advise(capsys, tmp_path / "bare", "--no-cache", "-v")
    hooks = "ss.GradientHook(), ss.ActivationHook(), ss.SystemHook(), run.steps(loader)"
    assert f"record {hooks}, an evaluation loss, as eval/loss, the learning rate;" in out
    _, out, _ = advise(capsys, tmp_path / "full", "--no-cache", "-v")
    assert "could not tell: " in out
    assert "to judge more" not in out
    assert "attached, but recorded nothing: GradientHook" in out


def test_hooks_are_facts_of_the_run(tmp_path):
    with ss.Run(tmp_path, hooks=[ss.StepCounterHook()]) as run:
        run.add_hook(ss.HealthHook())
        run.scalar("train/loss", 1.0, 1)
    with ss.open(tmp_path, cache=False) as log:
        assert log.run(".").info.hooks == ("StepCounterHook", "HealthHook")


def test_json_holds_findings_and_abstentions(runs, capsys):
    code, out, _ = advise(capsys, runs / "bad", "--json", "--no-cache")
    answer = json.loads(out)
    assert code == 0
    [finding] = answer["findings"]
    assert (finding["run"], finding["attempt"]) == ("bad", 1)
    assert (finding["rule"], finding["step"]) == ("nonfinite-loss", 2)
    assert finding["values"] == {"value": "NaN", "last_finite": pytest.approx(0.9)}
    assert {each["rule"] for each in answer["abstained"]} >= {"data-wait", "overfitting", "rank-divergence"}
    assert [run["run"] for run in answer["runs"]] == ["bad"]
    missing = {each["rule"]: each["missing"] for each in answer["abstained"]}
    assert missing["stalled-training"] == (
        "too few points to know the usual interval; it needs 5 intervals between points of one series"
    )


def test_one_run_rules_and_roles(runs, capsys):
    write_scalars(runs / "odd", [float("inf")], "objective")
    assert json.loads(advise(capsys, runs, "--run", "good", "--json")[1])["findings"] == []
    off = advise(capsys, runs, "--run", "bad", "--set", "nonfinite-loss=off", "--json")[1]
    assert json.loads(off)["findings"] == []
    found = json.loads(advise(capsys, runs, "--run", "odd", "--role", "objective=loss", "--json")[1])
    assert [each["tag"] for each in found["findings"]] == ["objective"]
    strict = advise(capsys, runs, "--run", "bad", "--set", "nonfinite-loss.calm=1", "--json")[1]
    assert json.loads(strict)["findings"][0]["threshold"]["calm"] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--run", "none"], "no run 'none'"),
        (["--set", "loss-spik=off"], "no health rule 'loss-spik'"),
        (["--set", "loss-spike.q=1"], "has no threshold 'q'"),
        (["--set", "loss-spike=3"], "sets nothing"),
        (["--set", "plateau"], "is not of the form"),
        (["--role", "a=los"], "no role 'los'"),
        (["--html", "r.html"], "--html writes the report of a profile"),
    ],
    ids=str,
)
def test_what_cannot_be_right_is_the_users_mistake(runs, capsys, words, said):
    code, out, err = advise(capsys, runs, "--no-cache", *words)
    assert (code, out) == (1, "")
    assert said in err


@pytest.fixture
def parts(tmp_path):
    """A run of Keras' own callback: two directories, and the metrics of epochs in both."""
    epochs = range(30)
    write_scalars(tmp_path / "keras" / "x" / "train", [0.7 * 0.9**epoch for epoch in epochs], "epoch_loss")
    rising = [0.7 * 0.9**epoch if epoch < 4 else 0.46 + 0.03 * epoch for epoch in epochs]
    write_scalars(tmp_path / "keras" / "x" / "validation", rising, "epoch_loss")
    return tmp_path


@pytest.mark.parametrize("named", [[], ["--run", "keras/x"]])
def test_the_parts_of_a_run_are_judged_together(parts, capsys, named):
    code, out, _ = advise(capsys, parts, "--json", "--no-cache", *named)
    answer = json.loads(out)
    assert code == 0
    assert [run["run"] for run in answer["runs"]] == ["keras/x"]
    assert {each["rule"]: each for each in answer["findings"]}["overfitting"]["run"] == "keras/x"


def test_a_part_that_is_named_is_judged_alone(parts, capsys):
    _, out, _ = advise(capsys, parts, "--json", "--no-cache", "--run", "keras/x/validation")
    answer = json.loads(out)
    assert [run["run"] for run in answer["runs"]] == ["keras/x/validation"]
    assert "overfitting" in {each["rule"] for each in answer["abstained"]}
