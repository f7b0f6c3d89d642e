"""``stepscope watch``: exit codes, and what is printed, for runs that ended and for runs that go on."""

import json

import pytest
from support.clock import Time

import stepscope as ss
from stepscope import cli
from stepscope.cli import watch


def record(directory, losses, status="finished"):
    run = ss.Run(directory)
    for loss in run.steps(losses):
        run.scalar("train/loss", loss)
    run.close(status)


GOOD = [1.0 - step / 100 for step in range(30)]
BAD = [*GOOD[:20], float("nan"), *GOOD[21:26]]


@pytest.mark.parametrize(
    ("losses", "words", "status", "code"),
    [
        (GOOD, (), "finished", 0),
        (BAD, (), "finished", watch.FOUND),
        (BAD, ("--set", "nonfinite-loss=off"), "finished", 0),
        (GOOD, ("--alert", "last(train/loss, 3) > 0.5"), "finished", watch.FOUND),
        (GOOD, ("--alert", "train/loss > 2"), "finished", 0),
        (GOOD, (), "failed", watch.BROKE),
        (BAD, (), "failed", watch.FOUND),
    ],
)
def test_exit_codes_of_runs_that_ended(tmp_path, capsys, losses, words, status, code):
    record(tmp_path / "a", losses, status)
    assert cli.main(["watch", str(tmp_path), *words]) == code
    assert ("nothing found" in capsys.readouterr().out) == (code != watch.FOUND)


@pytest.mark.parametrize(("least", "code"), [("high", 0), ("low", watch.FOUND)])
def test_the_severity_decides(tmp_path, capsys, least, code):
    with ss.Run(tmp_path / "a") as run:
        for step in run.steps(range(30)):
            run.scalars({"labels/a": 100.0 + step, "labels/b": 1.0})
    assert cli.main(["watch", str(tmp_path), "--fail-on", least]) == code
    assert "low: a: class-imbalance" in capsys.readouterr().out


def test_json_is_one_object_a_line(tmp_path, capsys):
    record(tmp_path / "a", BAD)
    record(tmp_path / "b", GOOD)
    assert cli.main(["watch", str(tmp_path), "--json"]) == watch.FOUND
    [found] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (found["event"], found["log_run"], found["rule"], found["step"]) == (
        "finding", "a", "nonfinite-loss", 20,
    )  # fmt: skip
    assert cli.main(["watch", str(tmp_path), "--json", "--run", "b"]) == 0
    [end] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (end["event"], end["states"]) == ("end", {"b": "finished"})
    assert end["verdicts"]["b"].startswith("nothing wrong found; not judged: generalisation")


def arguments(path, *words):
    return cli.build_parser(only="watch").parse_args(["watch", str(path), *words])


def test_a_run_that_trains_is_followed_until_it_goes_wrong(tmp_path, capsys):
    run, looks = ss.Run(tmp_path / "a"), []

    def sleep(seconds):
        looks.append(seconds)
        run.step()
        run.scalar("train/loss", float("nan") if len(looks) == 4 else 1.0)
        run.flush()

    run.step()
    run.scalar("train/loss", 1.0)
    run.flush()
    code = watch.run(arguments(tmp_path, "--interval", "7"), sleep=sleep)
    run.close()
    assert code == watch.FOUND
    assert looks == [7.0] * 4
    assert "nonfinite-loss" in capsys.readouterr().out


def test_a_run_that_ends_well_ends_the_watch(tmp_path):
    run = ss.Run(tmp_path / "a")
    run.scalar("train/loss", 1.0, 0)
    run.flush()
    assert watch.run(arguments(tmp_path), sleep=lambda seconds: run.close()) == 0


def test_the_time_may_be_over(tmp_path, capsys):
    now = Time(0.0)

    def sleep(seconds):
        now.now += seconds

    with ss.Run(tmp_path / "a") as run:
        run.scalar("train/loss", 1.0, 0)
        run.flush()
        code = watch.run(arguments(tmp_path, "--for", "20"), sleep=sleep, clock=now)
        assert watch.run(arguments(tmp_path, "--once"), sleep=sleep) == 0
    assert code == watch.LATE
    assert now.now == 20.0


def test_a_condition_on_a_series_that_no_run_has_does_not_pass(tmp_path, capsys):
    record(tmp_path / "a", GOOD)
    record(tmp_path / "b", GOOD, "failed")
    wrong = ("--alert", "train/los > 2")
    assert cli.main(["watch", str(tmp_path), "--run", "a", *wrong]) == watch.UNJUDGED
    out = capsys.readouterr().out
    assert "not judged: train/los > 2" in out
    assert "not recorded" in out
    assert cli.main(["watch", str(tmp_path), "--json", *wrong]) == watch.BROKE
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["event"], first["rule"]) == ("not judged", "train/los > 2")


def test_a_condition_on_a_series_that_one_run_has_is_judged(tmp_path, capsys):
    record(tmp_path / "a", GOOD)
    with ss.Run(tmp_path / "b") as run:
        run.scalar("eval/accuracy", 0.5, 0)
    for condition in ("eval/accuracy > 0.9", "train/loss > 2"):
        assert cli.main(["watch", str(tmp_path), "--alert", condition]) == 0
    assert not any(line.startswith("not judged") for line in capsys.readouterr().out.splitlines())


WRONG = [
    ("--alert", "train/loss >"),
    ("--interval", "0"),
    ("--interval", "nan"),
    ("--interval", "inf"),
    ("--for", "-3"),
    ("--for", "nan"),
    ("--run", "none"),
    ("--attempt", "9"),
    ("--attempt", "0"),
    ("--set", "loss-spike.ratio=nan"),
]


@pytest.mark.parametrize("words", WRONG)
def test_what_cannot_be_right_is_the_users_mistake(tmp_path, capsys, words):
    record(tmp_path / "a", [1.0])
    assert cli.main(["watch", str(tmp_path), *words]) == 1
    assert "hint:" in capsys.readouterr().err


def test_an_empty_directory_is_said(tmp_path, capsys):
    assert cli.main(["watch", str(tmp_path)]) == 1
    assert "no event files" in capsys.readouterr().err
