"""The run behind a callback."""

import pickle

import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.integrations.holder import RunHolder


def test_a_run_is_made_when_needed_and_again_after_its_end(tmp_path):
    holder = RunHolder(tmp_path / "run", {"tags": ["a"]})
    assert holder.opened is None
    assert holder.own
    holder.describe({"lr": 0.1})
    run = holder.run()
    assert run is holder.run() is holder.opened
    assert run.config == {"lr": 0.1}
    for _ in run.steps(range(3)):
        run.scalar("x", 1.0)
    holder.end()
    assert run.state == "finished"
    again = holder.run()
    assert again is not run
    assert again.config == {"lr": 0.1}
    for _ in again.steps(range(2)):
        again.scalar("x", 2.0)
    holder.end("failed", "it broke")
    holder.end()
    stored = ss.open(tmp_path, cache=False).run("run")
    assert stored.series("x")["step"].tolist() == [0, 1, 2, 3, 4]
    assert stored.series("x")["attempt"].tolist() == [1, 1, 1, 2, 2]
    assert (stored.info.status, stored.info.reason) == ("failed", "it broke")


def test_the_users_run_is_never_closed(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        holder = RunHolder(run, {})
        assert holder.run() is holder.opened is run
        assert not holder.own
        assert holder.reporter is run
        holder.end()
        assert run.state == "recording"


def test_options_beside_a_run_are_refused(tmp_path):
    refused = pytest.raises(UsageError, match="takes no options, got config, tags")
    with ss.Run(tmp_path / "run") as run, refused:
        RunHolder(run, {"tags": ["a"], "config": {}})


def test_a_copy_in_another_process_makes_its_own_run(tmp_path):
    holder = RunHolder(tmp_path / "run", {"tags": ["a"]})
    run = holder.run()
    copy = pickle.loads(pickle.dumps(holder))
    assert holder.opened is run
    assert copy.opened is None
    assert copy.reporter.counts == {}
    assert copy.run() is not run
    copy.end()
    holder.end()
