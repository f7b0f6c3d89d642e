"""The ranks of a large job read file by file: the same answer as from all at once, and what fails is told."""

import io
import json

import pytest
from support.clock import Time
from support.recordings import recorded

from stepscope.analyze.ranks.many import reduced
from stepscope.cli import main, ranks
from stepscope.cli.ranks import ProgressLine
from stepscope.job import load_ranks
from stepscope.trace.load import load_file


def told(place, **options):
    return load_ranks(place, cache=False, **options).data()


def test_eight_ranks_file_by_file_are_told_as_all_at_once():
    place = recorded("traces/dlrm_8xv100")
    assert told(place, processes=1) == told(place)


@pytest.mark.slow
def test_processes_tell_the_same(simulated, tmp_path):
    job = simulated(ranks=5, steps=12)
    job.compute[:, :, 3] *= 1.3
    job.load[:, 1] += 900
    job.sequences = False
    job.write(tmp_path)
    told_so_far = []
    found = told(tmp_path, processes=2, progress=lambda *done: told_so_far.append(done[:3]))
    assert found == told(tmp_path)
    assert {row["rank"] for row in found["blame"][:2]} == {1, 3}
    assert told_so_far[:5] == [("read", count, 5) for count in range(1, 6)]
    assert told_so_far[5][0] == "ask"


def test_several_files_of_one_rank_are_told_as_at_once(simulated, tmp_path):
    job = simulated(ranks=2, steps=12)
    job.compute[:, :, 1] *= 1.2
    job.write(tmp_path)
    for rank in range(2):
        in_two(tmp_path / f"rank{rank}.json", "ProfilerStep#6")
    (found, *rest), (whole, *_) = (told(tmp_path, **how)["blame"] for how in ({"processes": 1}, {}))
    assert (found["rank"], found["cause"], found["name"]) == (whole["rank"], whole["cause"], whole["name"])
    # The first collective of a file has none before it to compare with.
    assert abs(found["share"] - whole["share"]) < 0.005
    assert sum(row["share"] for row in rest) < 0.005


def in_two(path, step):
    """Make two files of one, which part where a step begins."""
    document = json.loads(path.read_text())
    events = document["traceEvents"]
    (middle,) = [each["ts"] for each in events if each["name"] == step]
    for name, late in (("a", False), ("b", True)):
        part = [each for each in events if (each["ts"] >= middle) == late]
        path.with_name(f"{path.stem}-{name}.json").write_text(json.dumps({**document, "traceEvents": part}))
    path.unlink()


@pytest.mark.slow
def test_tasks_of_tensorflow_are_told_the_same():
    place = recorded("tf_estimator/distributed")
    assert told(place, processes=1)["parameter_server"] == told(place)["parameter_server"]


def test_dumps_of_a_hang_are_told_the_same():
    place = recorded("traces/flight_recorder/gpu_error_1st")
    assert told(place, processes=1) == told(place)


def test_what_is_kept_of_a_file_grows_with_its_collectives_alone(simulated, tmp_path):
    simulated(ranks=2, steps=4).write(tmp_path)
    path = tmp_path / "rank0.json"
    before = reduced(load_file(path, cache=False), 0).nbytes
    document = json.loads(path.read_text())
    more = [each for each in document["traceEvents"] if each["name"] == "gemm"]
    copies = [
        {**each, "name": f"gemm{n}", "args": {**each["args"], "correlation": -1}}
        for n in range(50)
        for each in more
    ]
    path.write_text(json.dumps({**document, "traceEvents": [*document["traceEvents"], *copies]}))
    trace = load_file(path, cache=False)
    assert len(trace) > 800
    assert reduced(trace, 0).nbytes == before


def test_a_file_that_cannot_be_read_is_told_and_the_rest_go_on(simulated, tmp_path):
    job = simulated(ranks=4)
    job.compute[:, :, 2] *= 1.4
    job.write(tmp_path)
    (tmp_path / "rank1.json").write_text('{"traceEvents": [{"ph": "X"')
    found = load_ranks(tmp_path, cache=False, processes=2)
    assert found.ranks == (0, 2, 3)
    assert found.missing == (1,)
    assert found.stragglers[0].rank == 2
    assert any("rank1.json" in note for note in found.notes)


@pytest.mark.slow
def test_a_rank_at_which_a_process_dies_is_told_and_the_rest_go_on(simulated, tmp_path, monkeypatch):
    """What the kernel ends for the memory that it takes, this stands for."""
    job = simulated(ranks=4)
    job.compute[:, :, 2] *= 1.4
    job.write(tmp_path)
    (tmp_path / "fatal").mkdir()
    (tmp_path / "fatal" / "sitecustomize.py").write_text(
        "import sys\n"
        "def watch(event, arguments):\n"
        "    if event == 'open' and 'rank1.json' in str(arguments[0]):\n"
        "        import os; os._exit(9)\n"
        "if 'stepscope.workers' in ' '.join(sys.orig_argv): sys.addaudithook(watch)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "fatal"))
    found = load_ranks(tmp_path, cache=False, processes=2)
    assert (found.ranks, found.missing) == ((0, 2, 3), (1,))
    assert found.stragglers[0].rank == 2
    assert any(
        "rank1.json could not be read: the process that worked on it died" in note for note in found.notes
    )


@pytest.mark.slow
def test_without_ray_it_says_so_and_falls_back_only_if_asked(simulated, tmp_path, capsys):
    simulated(ranks=2).write(tmp_path)
    asked = ["ranks", str(tmp_path), "--no-cache", "--ray", "127.0.0.1:9"]
    assert main(asked) != 0
    assert "no Ray cluster can be reached at 127.0.0.1:9" in capsys.readouterr().err
    assert main([*asked, "--fall-back"]) == 0
    said = capsys.readouterr()
    assert "without Ray: no Ray cluster can be reached at 127.0.0.1:9" in said.err
    assert "of the time in collectives is waiting" in said.out


def test_progress_says_what_is_left(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    now = Time(0.0)
    monkeypatch.setattr(ranks, "monotonic", now)
    stream = Terminal()
    progress = ProgressLine(stream)
    progress.told("read", 1, 1000, 0.1)
    assert stream.getvalue() == ""
    now.now = 60.0
    progress.told("read", 250, 1000, 60.0)
    assert stream.getvalue() == "\r\x1b[Kread: 250 of 1,000 files, 3 min left"
    progress.end()
    assert stream.getvalue().endswith("\r\x1b[K")
    log = io.StringIO()
    ProgressLine(log).told("read", 250, 1000, 60.0)
    assert log.getvalue() == ""
    quiet = ProgressLine(log)
    now.now = 100.0
    quiet.told("ask", 5, 10, 40.0)
    assert log.getvalue() == "asked what slow ranks did: 5 of 10 files, 40.0 s left\n"
