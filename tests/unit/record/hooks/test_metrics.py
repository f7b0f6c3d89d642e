"""Metrics of a running job, read by prometheus_client's parser and by a receiver of OTLP."""

import math
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.monitoring import collecting, parsed, received
from support.ports import free_port
from support.waiting import until

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.metrics import BY_NAME, MAX_SCALARS


def scrape(port: int, **headers: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def train(run: ss.Run, steps: int = 40) -> None:
    for step in run.steps(range(steps)):
        run.scalar("train/loss", float("nan") if step == steps - 1 else 1 / (1 + step))
    run.flush()


@pytest.fixture
def collector():
    with collecting() as server:
        yield server


def check_of_a_trained_run(values: dict[tuple[str, ...], float], run: ss.Run) -> None:
    assert values["stepscope_step", "run"] == 39
    assert values["stepscope_expected_steps", "run"] == 40
    assert values["stepscope_steps_per_second", "run"] > 0
    assert 0 < values["stepscope_step_seconds", "run"] < 60
    assert 0 <= values["stepscope_data_wait_seconds", "run"] < 60
    assert abs(values["stepscope_updated_timestamp_seconds", "run"] - time.time()) < 600
    assert values["stepscope_nonfinite_scalars", "run"] == 1
    assert values["stepscope_open_findings", "run", "nonfinite-loss", "high"] == 1
    assert values["stepscope_hung_ranks", "run"] == 0
    assert values["stepscope_left_out_scalars", "run"] == 0
    assert values["stepscope_problems_total", "run", "value"] == 1
    assert values["stepscope_dropped_points_total", "run"] == 1
    assert values["stepscope_queued_bytes", "run"] >= 0
    assert 0 <= values["stepscope_overhead_ratio", "run"] < 1
    assert values["stepscope_writer_cpu_ratio", "run"] >= 0
    names = {name for name, *_ in values}
    assert names <= set(BY_NAME)
    assert ("stepscope_runs",) not in names  # the server's


@pytest.fixture
def trained(lenient, real, monkeypatch):
    """A function that makes a run with a hook, which has trained, lost a value and reported its cost."""
    monkeypatch.setattr("stepscope.record.cost.REPORT_SECS", 0.0)

    def make(hook):
        run = real(hooks=[ss.HealthHook(), hook])
        with pytest.warns(RuntimeWarning, match="train/words"):
            run.scalar("train/words", "none", 0)
        train(run)
        run.hooks[0].look(time.time() + 60)
        until(lambda: run.cost.readings.get("stepscope/dropped_points") == 1)
        return run

    return make


def test_a_scrape_of_a_running_training(trained):
    hook = ss.PrometheusHook(0)
    run = trained(hook)
    text = scrape(hook.port)
    values = parsed(text)
    check_of_a_trained_run(values, run)
    assert math.isnan(values["stepscope_scalar", "run", "train/loss"])
    assert 'run="run"' in text
    [info] = [
        family for family in text_string_to_metric_families(text) if family.name == "stepscope_run_info"
    ]
    assert info.samples[0].labels == {
        "run": "run",
        "attempt": "1",
        "state": "running",
        "host": socket.gethostname(),
        "version": ss.__version__,
    }
    run.close()
    with pytest.raises(urllib.error.URLError):
        scrape(hook.port)


def test_a_push_of_a_running_training(trained, collector):
    run = trained(ss.OtlpHook(collector.address, every_secs=0.05))
    begun = len(collector.requests)
    until(lambda: len(collector.requests) > begun + 1)
    values = received(collector.requests[-1])
    check_of_a_trained_run(values, run)
    assert ("stepscope_scalar", "run", "train/loss") not in values
    run.close()
    facts = collector.requests[-1].resource_metrics[0].resource.attributes
    names = {each.key: each.value.string_value for each in facts}
    assert names["service.name"] == "stepscope"
    assert names["service.instance.id"] == f"{socket.gethostname()}:{os.getpid()}"


def test_the_last_values_are_pushed_at_the_end(real, collector):
    run = real(hooks=[ss.OtlpHook(collector.address, every_secs=600)])
    train(run, 3)
    run.close()
    [request] = collector.requests
    assert received(request)["stepscope_step", "run"] == 2


def test_a_collector_that_is_away_costs_one_line_and_no_point(lenient, real, read, monkeypatch):
    monkeypatch.setattr("stepscope.metrics.REQUEST_SECS", 0.1)
    port = free_port()
    run = real(hooks=[ss.OtlpHook(f"http://user:s3cret@127.0.0.1:{port}/v1/metrics", every_secs=0.02)])
    pusher = run.hooks[0]._pusher
    until(lambda: pusher.failures > 2)
    with pytest.warns(RuntimeWarning) as warned:
        train(run)
    begun = time.monotonic()
    run.close()
    assert time.monotonic() - begun < 20
    [line] = [str(each.message) for each in warned]
    assert "metrics were not sent to http://" in line
    assert "s3cret" not in line
    assert run.problems == {}
    assert len(read(run)["train/loss"]) == 40


def test_pushes_resume_once_the_collector_is_back(lenient, real, monkeypatch):
    monkeypatch.setattr("stepscope.metrics.REQUEST_SECS", 0.5)
    port = free_port()
    run = real(hooks=[ss.OtlpHook(f"http://127.0.0.1:{port}/v1/metrics", every_secs=0.02)])
    until(lambda: run.hooks[0]._pusher.failures > 0)
    with collecting(port) as server:
        until(lambda: server.requests)
        with pytest.warns(RuntimeWarning, match="metrics were not sent"):
            run.close()


def test_a_port_that_is_taken_costs_one_line(lenient, real, read):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.warns(RuntimeWarning, match=f"127.0.0.1:{port} cannot be listened on"):
            run = real(hooks=[ss.PrometheusHook(port)])
        train(run)
        run.close()
    assert len(read(run)["train/loss"]) == 40


@pytest.mark.parametrize(("host", "code"), [("localhost:1", 200), ("127.0.0.1", 200), ("[::1]:1", 200),
                                            ("evil.example", 403), ("", 403)])  # fmt: skip
def test_on_loopback_another_host_is_refused(real, host, code):
    hook = ss.PrometheusHook(0)
    real(hooks=[hook])
    try:
        scrape(hook.port, Host=host)
        answer = 200
    except urllib.error.HTTPError as error:
        answer = error.code
    assert answer == code


def test_series_beyond_the_bound_are_counted(real):
    hook = ss.PrometheusHook(0)
    run = real(hooks=[hook])
    run.scalars({f"part {number:03}": number for number in range(MAX_SCALARS + 7)}, 0)
    run.flush()
    values = parsed(scrape(hook.port))
    assert len([name for name in values if name[0] == "stepscope_scalar"]) == MAX_SCALARS
    assert values["stepscope_left_out_scalars", "run"] == 7
    assert ("stepscope_scalar", "run", "part 000") in values


def test_a_finding_that_is_over_counts_as_none(real):
    hook = ss.PrometheusHook(0)
    run = real(hooks=[ss.HealthHook(alerts=["train/loss > 3"]), hook])
    for loss, count in ((5.0, 1), (1.0, 0)):
        for _ in run.steps(range(30)):
            run.scalar("train/loss", loss)
        run.flush()
        run.hooks[0].look(time.time() + 60)
        values = parsed(scrape(hook.port))
        [found] = [value for name, value in values.items() if name[:1] == ("stepscope_open_findings",)
                   and "loss" in name[2]]  # fmt: skip
        assert found == count


def test_a_rank_that_hangs_is_counted(real, tmp_path):
    hook = ss.PrometheusHook(0)
    run = real(hooks=[hook])
    folder = tmp_path / "run" / "ranks"
    folder.mkdir(exist_ok=True)
    for name, age in (("hang-00001.7.json", 0), ("hang-00002.8.json", 0), ("hang-00003.9.json", 3600)):
        (folder / name).write_text("{}")
        os.utime(folder / name, (time.time() + 1 - age,) * 2)
    assert parsed(scrape(hook.port))["stepscope_hung_ranks", "run"] == 2
    run.close()


def test_nothing_of_it_runs_at_a_step(real):
    """Hooks that override no method of a step are not called at steps."""
    run = real(hooks=[ss.PrometheusHook(0)])
    assert (run.step_counter.before, run.step_counter.after) == ((), ())


def test_a_fork_answers_nobody():
    """In a process of its own: other tests load JAX, whose threads make a fork a warning."""
    code = """
import os, tempfile, urllib.request, stepscope as ss
hook = ss.PrometheusHook(0)
with ss.Run(tempfile.mkdtemp(), hooks=[hook]) as run:
    child = os.fork()
    if not child:
        os._exit(hook._server.socket.fileno() >= 0)
    print(os.waitpid(child, 0)[1], urllib.request.urlopen(f"http://127.0.0.1:{hook.port}/metrics").status)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("0 200\n", 0), done.stderr


def test_it_loads_no_library_before_it_is_used():
    code = """
import sys, tempfile, stepscope as ss
with ss.Run(tempfile.mkdtemp()) as run:
    run.scalar("loss", 1.0)
print([name for name in sys.modules if name.startswith(("prometheus_client", "opentelemetry"))])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("make", [
    lambda: ss.PrometheusHook(-1),
    lambda: ss.PrometheusHook(70_000),
    lambda: ss.PrometheusHook(0, host=None),
    lambda: ss.OtlpHook("collector:4318"),
    lambda: ss.OtlpHook(every_secs=0),
])  # fmt: skip
def test_arguments_out_of_range_are_refused(make):
    with pytest.raises(UsageError):
        make()
