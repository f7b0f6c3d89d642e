"""A run on the ranks of a job: who writes what, also where the rank is learnt late or told wrongly."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import stepscope as ss
from stepscope.errors import LogDirectoryError, RoleError
from stepscope.events.telemetry import parse_name
from stepscope.record.run import Run
from stepscope.store.ranks import Ranks


@pytest.fixture
def runtime(monkeypatch):
    """A function that initialises a runtime which says this is some rank."""
    state = SimpleNamespace(client=None, process_id=0, num_processes=1)
    monkeypatch.setitem(sys.modules, "jax._src.distributed", SimpleNamespace(global_state=state))
    for name in ("torch.distributed", "jax._src.xla_bridge"):
        monkeypatch.setitem(sys.modules, name, None)

    def initialise(rank, size):
        state.process_id, state.num_processes, state.client = rank, size, object()

    return initialise


def files(folder: Path) -> list[str]:
    """Everything below a directory, event files by that word and ranks by their labels."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file():
            name = parse_name(path.name)
            label = name.label if name else "events" if path.name.startswith("events.out.") else path.name
            found.append(f"{path.parent.relative_to(folder)}/{label}")
    return sorted(set(found))


def steps(run, count=3):
    for step in run.steps(range(count)):
        run.scalar("loss", 10 * run.role.rank + step)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["./events", "ranks/rank 0"]),
        ({"rank": 0, "world_size": 2}, ["./events", "ranks/rank 0"]),
        ({"rank": 1, "world_size": 2}, ["ranks/rank 1"]),
        ({"rank": 1, "world_size": 2, "chief": "last"}, ["./events", "ranks/rank 1"]),
        ({"rank": 0, "world_size": 2, "chief": 1}, ["ranks/rank 0"]),
        ({"rank": 0, "world_size": 2, "chief": lambda size: size - 1}, ["ranks/rank 0"]),
        ({"role": "evaluator"}, ["eval/events"]),
        ({"role": "evaluator", "eval_name": "dev"}, ["eval_dev/events"]),
        ({"rank": 0, "world_size": 1, "role": "ps"}, ["ranks/ps 0"]),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, dict) else str(value),
)
def test_who_writes_what(tmp_path, options, expected):
    with Run(tmp_path, **options) as run:
        steps(run)
    assert files(tmp_path) == expected


def test_listeners_and_hooks_for_all_work_on_every_rank(tmp_path):
    heard, called = [], []

    class Everywhere(ss.Hook):
        ranks = "all"

        def after_step(self, step):
            called.append(step)

    class ChiefOnly(ss.Hook):
        def after_step(self, step):
            raise AssertionError("not here")

    with Run(tmp_path, rank=1, world_size=2, hooks=[Everywhere(), ChiefOnly()]) as run:
        run.listen(lambda tag, steps, values, walls: heard.extend(values.tolist()), {"loss"})
        steps(run)
        run.event(lambda: 1 / 0)
        assert run.flush()
    assert heard == [10, 11, 12]
    assert called == [0, 1, 2]


class TestARankThatIsLearntLate:
    def test_a_worker_takes_back_its_empty_event_file(self, tmp_path, runtime):
        with Run(tmp_path) as run:
            assert files(tmp_path) == ["./events"]
            runtime(1, 2)
            steps(run)
            assert run.flush()
            assert (run.role.rank, run.role.source) == (1, "jax.distributed")
            assert run.state.startswith("recording telemetry only: worker, rank 1 of 2")
        assert files(tmp_path) == ["ranks/rank 1"]
        assert Ranks(str(tmp_path)).steps(1).step.tolist() == [0, 1, 2]
        assert run.problems == {}

    def test_the_chief_goes_on_and_has_telemetry_too(self, tmp_path, runtime):
        with Run(tmp_path) as run:
            runtime(0, 2)
            steps(run)
        assert files(tmp_path) == ["./events", "ranks/rank 0"]
        with ss.open(tmp_path, cache=False) as log:
            (found,) = log.runs()
            assert found.columns("loss")[0].value.tolist() == [0, 1, 2]
            assert (found.info.rank, found.info.world_size) == (0, 2)

    def test_nothing_changes_where_the_runtime_agrees(self, tmp_path, runtime):
        with Run(tmp_path, rank=0, world_size=2) as run:
            runtime(1, 2)  # the arguments are believed
            steps(run)
            assert run.role.rank == 0
        assert files(tmp_path) == ["./events", "ranks/rank 0"]

    @pytest.mark.usefixtures("lenient")
    def test_a_worker_that_has_written_says_so_and_keeps_what_it_wrote(self, tmp_path, runtime):
        with Run(tmp_path) as run:
            run.scalar("early", 1.0, 0)
            assert run.flush()
            runtime(1, 2)
            with pytest.warns(RuntimeWarning, match="wrote 1 point as if it were alone; it is rank 1 of 2"):
                run.flush()
            steps(run)
        assert files(tmp_path) == ["./events", "ranks/rank 1"]
        with ss.open(tmp_path, cache=False) as log:
            (found,) = log.runs()
            assert found.tags() == ["early"]
            assert (found.info.rank, found.info.status, found.info.reason) == (1, "finished", "rank 0 writes")

    @pytest.mark.usefixtures("lenient")
    def test_a_chief_that_kept_silent_says_so(self, tmp_path, runtime, monkeypatch):
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        with Run(tmp_path) as run:
            run.scalar("early", 1.0, 0)
            assert run.flush()
            runtime(0, 2)
            with pytest.warns(RuntimeWarning, match="it is the chief, rank 0 of 2, and what was logged"):
                run.flush()
            steps(run)
        with ss.open(tmp_path, cache=False) as log:
            (found,) = log.runs()
            assert "early" not in found.tags()
            assert found.columns("loss")[0].value.tolist()[-1] == 2

    def test_hooks_of_the_chief_end_where_it_is_none(self, tmp_path, runtime):
        ended = []

        class Chiefs(ss.Hook):
            def end(self, run, status):
                ended.append(status)

        with Run(tmp_path, hooks=[Chiefs()]) as run:
            runtime(1, 2)
            run.flush()
            steps(run, 1)
            assert ended == ["finished"]
            assert run.hooks == []


class TestBadInput:
    def test_strict_raises_at_the_line_that_makes_the_run(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TF_CONFIG", "{")
        with pytest.raises(RoleError, match="TF_CONFIG is not JSON"):
            Run(tmp_path)

    @pytest.mark.usefixtures("lenient")
    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            ({"TF_CONFIG": "{"}, "TF_CONFIG is not JSON"),
            ({"RANK": "9", "WORLD_SIZE": "4"}, "rank 9 is not below the world size 4"),
            (
                {"RANK": "0", "WORLD_SIZE": "3", "OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
                "contradicts Open MPI",
            ),
        ],
    )
    def test_else_one_warning_there_and_training_goes_on(self, tmp_path, monkeypatch, environ, message):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        with pytest.warns(RuntimeWarning, match=message) as caught:
            run = Run(tmp_path)
        assert len(caught) == 1
        assert caught[0].filename == __file__
        steps(run)
        run.close()
        assert run.problems == {"role": 1}
        with ss.open(tmp_path, cache=False) as log:
            (found,) = log.runs()
            assert len(found.columns("loss")[0]) == 3
            assert found.columns("stepscope/dropped_points")[0].value[-1] == 0  # no point is lost by it

    def test_a_worker_whose_directory_cannot_be_written_says_so(self, tmp_path):
        (tmp_path / "ranks").write_text("")
        with pytest.raises(LogDirectoryError, match="cannot write the run"):
            Run(tmp_path, rank=1, world_size=2)

    @pytest.mark.usefixtures("lenient")
    def test_else_it_warns_and_writes_once_it_can(self, tmp_path):
        (tmp_path / "ranks").write_text("")
        with pytest.warns(RuntimeWarning, match="cannot write the run"):
            run = Run(tmp_path, rank=1, world_size=2)
        steps(run)
        (tmp_path / "ranks").unlink()
        assert run.flush()
        run.close()
        assert run.problems == {}
        assert Ranks(str(tmp_path)).steps(1).loss.tolist() == [10, 11, 12]

    @pytest.mark.usefixtures("lenient")
    def test_a_deleted_file_is_begun_anew(self, tmp_path):
        with Run(tmp_path, rank=1, world_size=2) as run:
            steps(run)
            assert run.flush()
            (path,) = (tmp_path / "ranks").iterdir()
            path.unlink()
            steps(run)
            with pytest.warns(RuntimeWarning, match="the file of this rank was deleted"):
                run.flush()
            steps(run)
            assert run.flush()
        assert Ranks(str(tmp_path)).steps(1).step.tolist() == [6, 7, 8]
        assert run.problems == {"file_deleted": 3}
