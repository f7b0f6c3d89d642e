"""Compilations as time of the running step."""

import threading
from time import perf_counter
from types import SimpleNamespace

import pytest

import stepscope as ss
from stepscope.integrations import compiling
from stepscope.integrations.compiling import COMPILE, TAG, Compilations, follow
from stepscope.store.ranks import Ranks

TRACE, LOWER, BACKEND = (
    f"/jax/core/compile/{name}_duration"
    for name in ("jaxpr_trace", "jaxpr_to_mlir_module", "backend_compile")
)


def works(seconds):
    end = perf_counter() + seconds
    while perf_counter() < end:
        pass


def stages(directory):
    table = Ranks(str(directory)).stages()
    return dict(zip(table.stages, table.durations_s[:, 0].sum(axis=0).tolist(), strict=True))


@pytest.fixture
def compilations(monkeypatch):
    monkeypatch.setattr(compiling, "compilations", own := Compilations())
    return own


def test_a_compilation_is_a_stage_and_a_series(tmp_path, compilations):
    with ss.Run(tmp_path) as run:
        compilations.runs.add(run)
        with run.step(), run.stage("forward"):
            works(0.02)
            compilations.begins()
            works(0.05)
            compilations.ends()
            works(0.01)
        with run.step():
            works(0.01)
    spent = stages(tmp_path)
    assert spent[COMPILE] >= 0.049
    assert spent["forward"] >= 0.029  # without the compilation
    with ss.open(tmp_path, cache=False) as log:
        [series] = log.runs()[0].columns(TAG)
        [times] = log.runs()[0].columns("speed/step_time_ms")
    assert series.step.tolist() == [0]
    assert series.value[0] == pytest.approx(1e3 * spent[COMPILE], rel=0.02)
    assert sum(spent.values()) == pytest.approx(times.value.sum() / 1e3, rel=0.02)


def test_parts_of_a_compilation_of_jax_count_once(compilations):
    begun = perf_counter()
    works(0.005)
    inner = perf_counter()
    works(0.02)
    compilations.of_jax(TRACE, perf_counter() - inner)  # of a function within ...
    works(0.02)
    compilations.of_jax(TRACE, perf_counter() - begun)  # ... the one that is traced
    lowered = perf_counter()
    works(0.01)
    compilations.of_jax(LOWER, perf_counter() - lowered)
    compilations.of_jax("/jax/compilation_cache/compile_time_saved_sec", 100.0)
    assert compilations.take() == pytest.approx(perf_counter() - begun, rel=0.05)
    assert compilations.take() == 0


def test_a_compilation_on_another_thread_is_no_time_of_the_step(tmp_path, compilations):
    with ss.Run(tmp_path) as run:
        compilations.runs.add(run)
        with run.step(), run.stage("forward"):
            thread = threading.Thread(target=compilations.took, args=(0.01,))
            thread.start()
            thread.join()
    assert COMPILE not in stages(tmp_path)


@pytest.mark.parametrize("first", [0, 1])
def test_of_two_runs_within_a_step_the_one_that_began_it_last_compiles(tmp_path, compilations, first):
    runs = [ss.Run(tmp_path / name, rank=0, world_size=1) for name in "ab"]
    compilations.runs.update(runs)
    left, works_on = runs[first], runs[1 - first]
    left.step()
    works_on.step()
    compilations.took(1e-6)
    for run in runs:
        run.close()
    assert COMPILE not in left.step_counter.stages.names
    assert COMPILE in works_on.step_counter.stages.names


def test_a_framework_is_listened_to_once(tmp_path, compilations, monkeypatch):
    heard = []
    jax = SimpleNamespace(
        __name__="jax", monitoring=SimpleNamespace(register_event_duration_secs_listener=heard.append)
    )
    monkeypatch.setitem(compiling.sys.modules, "jax", jax)
    with ss.Run(tmp_path) as run:
        follow(run)
        follow(run)
    assert heard == [compilations.of_jax]


@pytest.mark.parametrize(
    "module",
    [
        SimpleNamespace(__name__="jax"),
        SimpleNamespace(__name__="torch._dynamo.callback", callback_handler=None),
    ],
    ids=lambda module: module.__name__,
)
def test_a_version_that_does_not_tell(compilations, module):
    assert not compilations.listen(module)


def test_real_compilations_of_jax(tmp_path, compilations):
    jax = pytest.importorskip("jax")
    with ss.Run(tmp_path) as run:
        follow(run)
        double = jax.jit(lambda x: x * 2.5 + 1)
        for size in (3, 4, 4, 5):
            with run.step(), run.stage("forward"):
                double(jax.numpy.zeros(size)).block_until_ready()
    with ss.open(tmp_path, cache=False) as log:
        [series] = log.runs()[0].columns(TAG)
    assert set(series.step.tolist()) >= {0, 1, 3}
    assert stages(tmp_path)[COMPILE] > 0


def test_real_compilations_of_torch(tmp_path, compilations):
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch._dynamo.callback")
    double = torch.compile(lambda x: x * 2.5 + 1, backend="eager", dynamic=False)
    with ss.Run(tmp_path) as run:
        follow(run)
        for size in (3, 4, 4, 5):
            with run.step(), run.stage("forward"):
                double(torch.zeros(size))
    with ss.open(tmp_path, cache=False) as log:
        [series] = log.runs()[0].columns(TAG)
    assert series.step.tolist() == [0, 1, 3]
