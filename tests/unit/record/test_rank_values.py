"""What every rank keeps of its own, and the count of what nobody keeps."""

import json
import math
import warnings

import pytest

import stepscope as ss
from stepscope import cli
from stepscope.errors import UsageError
from stepscope.store.ranks import Ranks

SIZE = 3


def job(folder, ranks=range(SIZE), size=SIZE, rank=None, **options):
    """Record three steps of each rank, and return the states and warnings of the ranks."""
    states, said = [], []
    for number in ranks:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with ss.Run(folder / "job", rank=number, world_size=size, **options) as run:
                for step in run.steps(range(3)):
                    run.scalar("tokens", 100.0 * number + step, rank=rank)
                    run.scalars({"waste": float("nan") if number == 2 else number}, rank=rank)
                run.flush()
                run.scalar("tokens", 0.0, 0)
                states.append(run.state)
        said += [str(each.message) for each in caught]
    return states, said


@pytest.mark.parametrize(("rank", "values"), [("own", "chief"), (None, "all"), ("own", "all")])
def test_every_rank_keeps_its_own(tmp_path, rank, values):
    states, said = job(tmp_path, rank=rank, values=values)
    assert not said
    assert not any("not recorded" in state for state in states)
    ranks = Ranks(str(tmp_path / "job"))
    grid = ranks.grid("value/tokens")
    assert grid.labels == ["rank 0", "rank 1", "rank 2"]
    assert grid.steps.tolist() == [0, 1, 2]
    assert grid.mean[:, 1:].tolist() == [[1, 2], [101, 102], [201, 202]]
    tokens, waste = ranks.values()
    assert (tokens.step, tokens.ranks, tokens.mean, tokens.nonfinite) == (2, 3, 102, 0)
    assert (tokens.minimum, tokens.minimum_rank) == (2, "rank 0")
    assert (tokens.maximum, tokens.maximum_rank) == (202, "rank 2")
    assert (waste.nonfinite, waste.mean, waste.maximum_rank) == (1, 0.5, "rank 1")
    assert ss.open(tmp_path, cache=False).run("job").tags().count("tokens") == 1  # the chief's


def test_what_nobody_keeps_is_said_once_and_counted(tmp_path, capsys):
    states, said = job(tmp_path)
    assert [text for text in said if "not recorded" in text] == said[:1]
    assert "values that rank 1 logs are not recorded, 'tokens' first: rank 0 writes what is logged" in said[0]
    assert "values" not in states[0]
    assert "; 6 values that were logged here are not recorded" in states[1]
    members = Ranks(str(tmp_path / "job")).members()
    assert [member.facts.get("unrecorded") for member in members] == [None, 7, 7]
    assert members[1].facts["unrecorded_tags"] == ["tokens", "waste"]
    assert cli.main(["ls", "--ranks", str(tmp_path)]) == 0
    assert "job: 14 values that 2 ranks logged are not recorded" in capsys.readouterr().out


def test_the_card_of_the_chief_counts_it(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_CARD", raising=False)
    with ss.Run(tmp_path / "job", rank=0, world_size=SIZE, card=True) as run:
        for _ in run.steps(range(3)):
            run.scalar("tokens", 1.0)
        job(tmp_path, ranks=[1, 2])
    assert "14 values that 2 ranks logged are not recorded" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "log", "options"),
    [
        (1, lambda run: run.scalar("a", 1.0), {}),
        (2, lambda run: run.record({"hooks/own": 1.0}), {}),
        (2, lambda run: None, {}),
    ],
    ids=["alone", "a hook's", "nothing"],
)
def test_nothing_is_said_if_nothing_is_lost(tmp_path, size, log, options):
    with ss.Run(tmp_path, rank=size - 1, world_size=size, **options) as run:
        for _ in run.steps(range(2)):
            log(run)
        run.flush()
        assert "not recorded" not in run.state
    assert not Ranks(str(tmp_path)).members()[0].facts.get("unrecorded")


def test_a_process_alone_keeps_no_second_copy(tmp_path):
    with ss.Run(tmp_path, values="all") as run:
        for _ in run.steps(range(2)):
            run.scalar("a", 1.0, rank="own")
    assert Ranks(str(tmp_path)).values() == []


def test_steps_that_are_far_apart_and_a_tag_that_comes_later(tmp_path):
    with ss.Run(tmp_path, rank=1, world_size=2, values="all") as run:
        run.scalars({"a": 1.0}, 0)
        run.scalars({"a": 1e300}, 1 << 40)
        run.flush()
        run.scalars({"b": -math.inf}, 7)
    ranks = Ranks(str(tmp_path))
    assert ranks.grid("value/a").steps.tolist() == [0, 1 << 40]
    assert [(value.tag, value.step) for value in ranks.values()] == [("a", 1 << 40), ("b", 7)]


def test_the_newest_step_that_the_ranks_have_in_common(tmp_path):
    for rank, steps in enumerate([5, 3]):
        with ss.Run(tmp_path, rank=rank, world_size=2, values="all") as run:
            for step in run.steps(range(steps)):
                run.scalar("a", float(10 * rank + step))
    (value,) = Ranks(str(tmp_path)).values()
    assert (value.step, value.minimum, value.maximum) == (2, 2, 12)


def test_arguments(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="values must be 'chief' or 'all', got str 'each'"):
        ss.Run(tmp_path, values="each")
    monkeypatch.setenv("STEPSCOPE_STRICT", "0")
    with ss.Run(tmp_path) as run, pytest.warns(RuntimeWarning, match="rank must be 'own', got int 1"):
        run.scalar("a", 1.0, rank=1)
    assert run.problems == {"rank": 1}


def test_what_is_asked_and_listed(tmp_path, capsys):
    job(tmp_path, values="all")
    assert cli.main(["ls", "--ranks", str(tmp_path)]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["job", "tokens", "2", "3", "102", "2", "rank", "0", "202", "rank", "2"] in table
    assert cli.main(["ls", "--ranks", "--json", str(tmp_path)]) == 0
    values = json.loads(capsys.readouterr().out)["runs"][0]["values_of_ranks"]
    assert [value["tag"] for value in values] == ["tokens", "waste"]
    assert "tokens" in str(ss.ask("ranks", tmp_path, run="job"))
