"""TensorFlow 2 under ``tf.distribute``: two replicas in one process, and two processes that train."""

import ast
from pathlib import Path

import pytest

import stepscope as ss

pytest.importorskip("tensorflow")
KERAS3 = not pytest.importorskip("keras").__version__.startswith("2.")
JOB = str(Path(__file__).with_name("distribute_job.py"))


def losses():
    """What the loss of the job is: the mean of a batch, times the weight."""
    return [(4 * step + 1.5) * 2 * 0.9**step for step in range(10)]


def test_mirrored(tmp_path, processes):
    output = tmp_path / "output.txt"
    job = processes.start(JOB, "mirrored", str(tmp_path / "run"), output=output)
    assert job.wait(120) == 0, output.read_text()
    assert (
        "refused: not recorded: 'each' must be one number, got 2 values, one per replica"
        in output.read_text()
    )
    assert "rank 0 of 1 writes True" in output.read_text()
    with ss.open(tmp_path / "run", cache=False) as log:
        run = log.run(".")
        assert run.series("train/loss")["step"].tolist() == list(range(10))
        assert run.series("train/loss")["value"].tolist() == pytest.approx(losses(), rel=1e-5)
        assert run.series("weight")["value"].tolist() == pytest.approx(
            [2 * 0.9**step for step in range(1, 11)]
        )
        assert len(run.series("speed/data_wait_ms")) == 10


def fitted(run, output):
    """Hold that a run has every step of ``model.fit``, and the losses of evaluation that Keras gives."""
    assert "callback" not in output, output
    assert "training goes on" not in output, output
    assert run.state == "finished"
    steps = run.series("optimizer/lr")
    assert steps["value"].tolist() == pytest.approx([0.1] * len(steps))
    assert run.series("speed/step_time_ms")["step"].tolist()[-1] == 11
    told = ast.literal_eval(output.split("losses ", 1)[1].splitlines()[0])
    assert run.series("eval/loss")["value"].tolist() == pytest.approx(told, rel=1e-4)


def test_fit_on_two_replicas(tmp_path, processes):
    output = tmp_path / "output.txt"
    job = processes.start(JOB, "mirrored", f"fit:{tmp_path / 'run'}", output=output)
    assert job.wait(120) == 0, output.read_text()
    with ss.open(tmp_path / "run", cache=False) as log:
        fitted(log.run("."), output.read_text())


@pytest.mark.slow
@pytest.mark.skipif(KERAS3, reason="Keras 3 itself cannot fit under MultiWorkerMirroredStrategy")
def test_fit_on_two_workers(tmp_path, processes):
    outputs, _ = two_workers(processes, tmp_path, f"fit:{tmp_path / 'run'}")
    with ss.open(tmp_path / "run", cache=False) as log:
        run = log.run(".")
        fitted(run, outputs[0])
        assert run.ranks.count() == 2
        assert [len(run.ranks.steps(rank).step) for rank in range(2)] == [12, 12]


def two_workers(processes, tmp_path, directory):
    """Run the job as two workers and return what they printed, and the processes."""
    cluster = {"worker": processes.free_addresses(2)}
    outputs = [tmp_path / f"{index}.txt" for index in range(2)]
    jobs = [
        processes.start(
            JOB,
            "workers",
            directory,
            output=outputs[index],
            tf_config={"cluster": cluster, "task": {"type": "worker", "index": index}},
        )
        for index in range(2)
    ]
    try:
        assert [job.wait(240) for job in jobs] == [0, 0], [output.read_text() for output in outputs]
    finally:
        for job in jobs:
            job.kill()
    return [output.read_text() for output in outputs], jobs


@pytest.mark.slow
def test_two_workers(tmp_path, processes):
    outputs, jobs = two_workers(processes, tmp_path, str(tmp_path / "run"))
    assert "rank 0 of 2 writes True" in outputs[0]
    assert "rank 1 of 2 writes False" in outputs[1]
    [events] = (tmp_path / "run").glob("*tfevents*")
    assert f".{jobs[0].pid}." in events.name
    assert len(list((tmp_path / "run" / "ranks").iterdir())) == 2
    with ss.open(tmp_path / "run", cache=False) as log:
        run = log.run(".")
        assert run.series("train/loss")["value"].tolist() == pytest.approx(losses(), rel=1e-5)
        assert run.ranks.count() == 2
        assert [len(run.ranks.steps(rank).step) for rank in range(2)] == [10, 10]
