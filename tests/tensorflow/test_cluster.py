"""A cluster of chief, two workers, parameter server and evaluator: real processes, one of which is killed."""

import signal
import time
from pathlib import Path

import pytest

import stepscope as ss

tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("the Estimator left with TensorFlow 2.16", allow_module_level=True)
JOB = Path(__file__).with_name("estimator_job.py")
MAX_STEPS = 400
PATIENCE_SECS = 300
"""Five processes that import TensorFlow at once may be slow to begin."""
ROLES = [("ps", 0), ("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]


class Job:
    """The processes, by role; whatever happens none is left behind."""

    def __init__(self, directory, processes):
        addresses = processes.free_addresses(4)
        cluster = {"chief": addresses[:1], "worker": addresses[1:3], "ps": addresses[3:]}
        self.directory, self.processes = directory, {}
        for role in ROLES:
            self.processes[role] = processes.start(
                str(JOB),
                str(directory),
                str(MAX_STEPS),
                output=self.output(role),
                tf_config={"cluster": cluster, "task": {"type": role[0], "index": role[1]}},
            )

    def output(self, role):
        return self.directory / f"{role[0]}{role[1]}.txt"

    def wait_for(self, role, word):
        end = time.monotonic() + PATIENCE_SECS
        while word not in self.output(role).read_text():
            assert self.processes[role].poll() is None, self.output(role).read_text()
            assert time.monotonic() < end, f"{role} did not say {word!r}"
            time.sleep(0.05)

    def wait_for_steps(self, rank, count):
        """Wait until so many steps of a rank are on the disk: a killed process loses its last second's."""
        end, role = time.monotonic() + PATIENCE_SECS, ROLES[1 + rank]
        while time.monotonic() < end:
            assert self.processes[role].poll() is None, self.output(role).read_text()
            with ss.open(self.directory / "run", cache=False) as log:
                found = [run for run in log.runs() if run.name == "." and run.ranks.count() > rank]
                if found and len(found[0].ranks.steps(rank).step) >= count:
                    return
            time.sleep(0.1)
        raise AssertionError(f"rank {rank} left no {count} steps: {self.output(role).read_text()}")

    def end(self):
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture(scope="module")
def job(tmp_path_factory, processes):
    """A whole training, in which worker 1 is killed once every rank trains."""
    job = Job(tmp_path_factory.mktemp("cluster"), processes)
    try:
        for role in ROLES[1:4]:
            job.wait_for(role, "trains")
        job.wait_for_steps(rank=2, count=20)
        job.processes["worker", 1].send_signal(signal.SIGKILL)
        (job.directory / "go").touch()
        alive = [role for role in ROLES if role not in [("ps", 0), ("worker", 1)]]
        job.codes = {role: job.processes[role].wait(PATIENCE_SECS) for role in alive}
        job.ps_lived = job.processes["ps", 0].poll() is None  # it serves until it is ended
        yield job
    finally:
        job.end()


@pytest.mark.slow
def test_nobody_waits_for_the_dead(job):
    said = {role: job.output(role).read_text()[-2000:] for role in ROLES}
    assert job.codes == {("chief", 0): 0, ("worker", 0): 0, ("evaluator", 0): 0}, said
    for role in job.codes:
        assert f"done {role[0]}" in job.output(role).read_text()
    assert job.ps_lived


@pytest.mark.slow
def test_exactly_these_files(job):
    run = job.directory / "run"
    found = sorted(path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file())
    events = [name for name in found if "tfevents" in name]
    pids = {role: process.pid for role, process in job.processes.items()}
    assert len(events) == 2
    assert events[0].startswith("eval/")
    assert f".{pids['evaluator', 0]}." in events[0]
    assert "/" not in events[1]
    assert f".{pids['chief', 0]}." in events[1]
    own = [name for name in found if "events.out.stepscope." in name]  # beside each event file
    assert [name.replace("stepscope", "tfevents").rpartition(".")[0] for name in own] == [
        name.rpartition(".")[0] for name in events
    ]
    telemetry = [name for name in found if name not in events and name not in own]
    assert {name.split("/")[0] for name in telemetry} == {"ranks"}
    assert len(telemetry) == 3, "chief and two workers, neither parameter server nor evaluator"


@pytest.mark.slow
def test_who_wrote_what(job):
    with ss.open(job.directory / "run", cache=False) as log:
        runs = {run.name: run for run in log.runs()}
        assert set(runs) == {".", "eval"}
        train, evaluation = runs["."], runs["eval"]
        loss = train.series("loss")
        assert train.state == evaluation.state == "finished"
        steps = loss["step"].tolist()
        assert steps == sorted(steps)
        assert steps[-1] <= MAX_STEPS + 3
        assert len(steps) < MAX_STEPS, "the other workers' steps are not the chief's"
        tags = {"dnn/hiddenlayer_0/fraction_of_zero_values", "dnn/logits/fraction_of_zero_values"}
        assert tags <= set(train.tags())
        assert {"accuracy", "average_loss", "auc", "loss", "precision"} <= set(evaluation.tags())
        assert evaluation.series("loss")["step"].tolist()[-1] >= MAX_STEPS
        ranks = train.ranks
        assert ranks.count() == 3
        for rank in range(3):
            assert len(ranks.steps(rank).step) >= 20


@pytest.mark.slow
def test_the_chief_records_the_gradients_of_its_own_steps(job):
    with ss.open(job.directory / "run", cache=False) as log:
        runs = {run.name: run for run in log.runs()}
        train = runs["."]
        norms = train.series("gradients/norm")
        kernel = train.series("gradients/dnn/hiddenlayer_0/kernel/norm")
        assert not [tag for tag in runs["eval"].tags() if tag.startswith("gradients/")]
    assert len(norms) >= 20
    assert set(norms["step"].tolist()) <= set(range(MAX_STEPS + 4))
    assert (norms["value"] > 0).all()
    assert (norms["value"] < 100).all()
    assert 1 <= len(kernel) < len(norms)
    together = dict(zip(norms["step"].tolist(), norms["value"].tolist(), strict=True))
    for step, value in zip(kernel["step"].tolist(), kernel["value"].tolist(), strict=True):
        assert 0 < value <= together[step] * (1 + 1e-5)  # both of the same step's gradient
