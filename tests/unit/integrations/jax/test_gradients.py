import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.records import numbers

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.integrations.jax import measure, statistics_in, watch, with_statistics
from stepscope.record.edges import BUCKETS, counts

SPECIAL = np.array([0, -0.0, 1, -2.5, np.nan, np.inf, -np.inf, 3e38, 2.0**-64], "f4")


def tree():
    random = np.random.default_rng(0)
    return {
        "dense": {"kernel": random.standard_normal((17, 5)).astype("f4"), "bias": np.zeros(5, "f4")},
        "half": random.standard_normal(7).astype("f2"),
        "steps": np.arange(3),  # integers are not gradients
        "none": np.zeros((0, 3), "f4"),
    }


def test_rows_are_those_of_numpy():
    measured = jax.jit(lambda one: measure("histograms", gradients=one))(tree())
    rows = measured.rows["gradients"]
    assert set(rows.names) == {"dense.kernel", "dense.bias", "half", "none"}
    table = rows.table()
    for at, name in enumerate(rows.names):
        array = tree()["dense"][name[6:]] if "." in name else tree()[name]
        wide = array.astype("f8")
        found = table.moments[at]
        np.testing.assert_allclose(
            found[:5], [wide.size, wide.sum(), (wide**2).sum(), (wide == 0).sum(), 0], rtol=1e-5
        )
        assert (found[5], found[6]) == (wide.min(initial=np.inf), wide.max(initial=-np.inf))
        np.testing.assert_array_equal(table.counts[at, :BUCKETS], counts(array))
    whole = np.concatenate(
        [np.asarray(each, "f8").ravel() for each in (*tree()["dense"].values(), tree()["half"])]
    )
    np.testing.assert_allclose(measured.norm, np.linalg.norm(whole), rtol=1e-6)


def test_what_is_not_finite_is_counted():
    table = (
        jax.jit(lambda one: measure("histograms", gradients={"a": one}))(SPECIAL).rows["gradients"].table()
    )
    assert table.moments[0, 3:5].tolist() == [2, 3]
    assert table.moments[0, 5:].tolist() == [-np.inf, np.inf]
    np.testing.assert_array_equal(table.counts[0, :BUCKETS], counts(SPECIAL))
    assert table.counts[0, BUCKETS] == 3


@pytest.mark.slow
def test_levels_and_layers():
    assert measure("off", gradients=tree()) is None
    assert measure("norm", gradients=tree()).rows == {}
    only = measure(
        "full", gradients=tree(), weights=tree(), layers=lambda name, array: name.endswith("kernel")
    )
    assert only.rows["weights"].names == ("dense.kernel",)
    assert only.rows["weights"].counts is None
    with pytest.raises(UsageError, match="level must be one of off"):
        measure("all")


SHARDED = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from stepscope.integrations.jax import measure
from stepscope.record.edges import BUCKETS, counts

assert len(jax.devices()) == 8
array = np.random.default_rng(1).standard_normal((16, 8)).astype("f4")
mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
spec = PartitionSpec("x", "y")

def look(part):
    return measure("histograms", gradients={"a": part}, axis_name=("x", "y"))

def whole(one):
    return measure("histograms", gradients={"a": one})

cut = jax.jit(jax.shard_map(look, mesh=mesh, in_specs=spec, out_specs=PartitionSpec()))
sharded = jax.device_put(array, NamedSharding(mesh, spec))
for measured in (cut(array), jax.jit(whole)(sharded)):
    table = measured.rows["gradients"].table()
    np.testing.assert_array_equal(table.counts[0, :BUCKETS], counts(array))
    assert table.moments[0, 0] == 128
    wide = array.astype("f8")
    np.testing.assert_allclose(table.moments[0, 1:3], [wide.sum(), (wide * wide).sum()], rtol=1e-5)
    np.testing.assert_allclose(table.moments[0, 5:], [array.min(), array.max()])
    np.testing.assert_allclose(measured.norm, np.linalg.norm(wide), rtol=1e-6)
"""


@pytest.mark.slow
def test_parts_on_eight_devices_are_measured_as_one():
    # In a process of its own: how many devices there are is settled when jax is first used.
    more = {"XLA_FLAGS": "--xla_force_host_platform_device_count=8", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SHARDED], env=os.environ | more, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def loss_of(params, x):
    return jnp.mean((jnp.tanh(x @ params["w"]) @ params["v"]) ** 2)


def params_of():
    random = np.random.default_rng(2)
    return {
        "w": jnp.asarray(random.standard_normal((4, 8)), "f4"),
        "v": jnp.asarray(random.standard_normal((8, 2)), "f4"),
    }


@pytest.mark.slow
def test_a_run_holds_what_the_steps_measured(tmp_path):
    hook = ss.GradientHook(every_n_steps=4, histograms_every=4, dense_steps=0)
    x = jnp.ones((3, 4))
    compiled = []

    with ss.Run(tmp_path, hooks=[hook]) as run:
        watched = watch(run)

        @jax.jit
        def bare(params):
            return jax.grad(loss_of)(params, x)

        def step(params, level):
            compiled.append(level)
            gradients = jax.grad(loss_of)(params, x)
            updates = jax.tree_util.tree_map(lambda one: -0.1 * one, gradients)
            measured = watched.measure(level, gradients=gradients, weights=params, updates=updates)
            return optax.apply_updates(params, updates), measured

        jitted = jax.jit(step, static_argnames="level")
        params = params_of()
        norms = {}
        for number in run.steps(range(9)):
            norms[number] = float(optax.tree.norm(bare(params)))
            params, measured = jitted(params, watched.level(number))
            watched.record(measured, number)
    assert sorted(compiled) == ["histograms", "norm"]  # each kind of step is compiled once
    found = numbers(tmp_path)
    assert found["gradients/norm"] == pytest.approx(norms, rel=1e-6)
    assert sorted(found["gradients/w/norm"]) == [0, 4, 8]
    assert found["updates/w/norm"][0] == pytest.approx(0.1 * found["gradients/w/norm"][0], rel=1e-5)
    ratio = found["updates/w/norm"][4] / found["weights/w/norm"][4]
    assert found["updates/w/weight_ratio"][4] == pytest.approx(ratio, rel=1e-5)
    assert run.problems == {}


@pytest.mark.slow
def test_an_optimizer_state_holds_statistics(tmp_path):
    tx = with_statistics(optax.adam(0.1), clip=optax.clip_by_global_norm(0.01), histograms=True)
    plain = optax.chain(optax.clip_by_global_norm(0.01), optax.adam(0.1))
    params = same = params_of()
    state, other = tx.init(params), plain.init(params)
    compiled = []

    def step(params, state, level):
        compiled.append(level)
        gradients = jax.grad(loss_of)(params, jnp.ones((3, 4)))
        updates, state = tx.update(gradients, state, params, level=level)
        return optax.apply_updates(params, updates), state

    jitted = jax.jit(step, static_argnames="level", donate_argnames="state")
    with ss.Run(tmp_path) as run:
        watched = watch(run, ss.GradientHook())
        for number, level in enumerate(["norm", "full", "norm", "histograms", "off", "norm"]):
            params, state = jitted(params, state, level)
            watched.record(statistics_in(state, level), number)
            gradients = jax.grad(loss_of)(same, jnp.ones((3, 4)))
            updates, other = plain.update(gradients, other, same)
            same = optax.apply_updates(same, updates)
    np.testing.assert_allclose(params["w"], same["w"], atol=1e-3)
    assert sorted(compiled) == ["full", "histograms", "norm", "off"]
    found = numbers(tmp_path)
    assert sorted(found["gradients/norm"]) == [0, 1, 2, 3, 5]
    assert found["gradients/clipped_norm"][2] == pytest.approx(0.01, rel=1e-4)
    assert found["gradients/norm"][2] > 0.01
    layers = [
        found[tag][1]
        for tag in found
        if tag.startswith("gradients/") and tag.count("/") == 2 and "norm" in tag
    ]
    assert np.hypot.reduce(layers) == pytest.approx(found["gradients/clipped_norm"][1], rel=1e-4)
    assert sorted(found["updates/v/std"]) == [1, 3]
    with pytest.raises(UsageError, match="no statistics"):
        statistics_in(other, "norm")


@pytest.mark.slow
def test_saturated_and_dead_units_of_tapped_activations(tmp_path):
    taps = ss.ActivationHook(every_n_steps=1, dense_steps=0, window=3, saturated=0.9, layers="^(a|b|c)$")
    kinds = {"a": "relu", "b": "tanh", "c": "sigmoid"}
    with ss.Run(tmp_path, hooks=[ss.GradientHook(every_n_steps=100, dense_steps=0), taps]) as run:
        watched = watch(run)

        def look(x, level):
            found = {"a": jax.nn.relu(x), "b": jnp.tanh(x), "c": jax.nn.sigmoid(x), "left out": x}
            return watched.measure(level, activations=found, kinds=kinds)

        jitted = jax.jit(look, static_argnames="level")
        x = jnp.array([[-1.0, 1.0, -2.0], [-9.0, 9.0, -8.0]])
        for step in run.steps(range(4)):
            watched.record(jitted(x if step < 3 else -x, watched.level(step)), step)
    found = numbers(tmp_path)
    # Two of three units put out zeros for three samples; then one of them does.
    assert found["activations/a/dead_ratio"] == pytest.approx({2: 2 / 3, 3: 0})
    assert found["activations/b/saturation_ratio"] == pytest.approx(dict.fromkeys(range(4), 4 / 6))
    assert found["activations/c/saturation_ratio"] == pytest.approx(dict.fromkeys(range(4), 3 / 6))
    assert found["activations/a/fraction_of_zero_values"][0] == pytest.approx(4 / 6)
    assert not any("left out" in tag for tag in found)
    with pytest.raises(UsageError, match="kinds must be of relu"):
        measure("full", activations={"a": x}, kinds={"a": "gelu"})


@pytest.mark.slow
def test_parameters_take_turns_and_the_norm_is_of_all(tmp_path):
    hook = ss.GradientHook(every_n_steps=2, dense_steps=0, histograms_every=0, rotate=2)
    gradients = params_of()
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watched = watch(run)
        for step in run.steps(range(6)):
            watched.record(watched.measure(watched.level(step), gradients=gradients), step)
    found = numbers(tmp_path)
    assert list(found["gradients/norm"]) == list(range(6))
    assert found["gradients/norm"][2] == pytest.approx(float(optax.tree.norm(gradients)))
    turns = [sorted(found["gradients/v/norm"]), sorted(found["gradients/w/norm"])]
    assert sorted(turns) == [[0, 4], [2]]
    with pytest.raises(UsageError, match="level must be"):
        measure("full:2/2", gradients=gradients)


@pytest.mark.slow
def test_layers_take_turns_beside_parameters(tmp_path):
    options = {"dense_steps": 0, "histograms_every": 0}
    taps = ss.ActivationHook(every_n_steps=2, rotate=3, window=1, **options)
    hook = ss.GradientHook(every_n_steps=2, rotate=2, **options)
    with ss.Run(tmp_path, hooks=[hook, taps]) as run:
        watched = watch(run)
        outputs = {name: jnp.full((2, 2), float(at)) for at, name in enumerate("abc")}
        levels = []
        for step in run.steps(range(12)):
            levels.append(watched.level(step))
            watched.record(
                watched.measure(
                    levels[-1], gradients=params_of(), activations=outputs, kinds={"a": "relu", "c": "relu"}
                ),
                step,
            )
    assert levels[::2] == [
        "full:0/2,0/3", "full:1/2,1/3", "full:0/2,2/3", "full:1/2,0/3", "full:0/2,1/3", "full:1/2,2/3",
    ]  # fmt: skip
    found = numbers(tmp_path)
    assert [sorted(found[f"activations/{name}/max"]) for name in "abc"] == [[0, 6], [2, 8], [4, 10]]
    assert found["activations/a/dead_ratio"] == {0: 1, 6: 1}
    assert found["activations/c/dead_ratio"] == {4: 0, 10: 0}
    assert sorted(found["gradients/v/norm"] | found["gradients/w/norm"]) == [0, 2, 4, 6, 8, 10]
    with pytest.raises(UsageError, match="level must be"):
        measure("full:0/2,0/3,0/1", gradients=params_of())


def test_the_loss_is_recorded_in_every_step(tmp_path):
    with ss.Run(tmp_path, hooks=[ss.GradientHook(every_n_steps=100)]) as run:
        watched = watch(run)
        step = jax.jit(lambda x, level: measure(level, loss=x**2), static_argnames="level")
        for number in run.steps(range(4)):
            watched.record(step(jnp.float32(number), watched.level(number)), number)
    assert numbers(tmp_path)["train/loss"] == {0: 0, 1: 1, 2: 4, 3: 9}


def test_distances_are_stretched_by_when_results_are_there():
    from stepscope.record.statistics.sampling import ReadyPace

    times = iter([0.0, 5.0, 5.1, 5.2, 5.3, 15.0, 15.3, 15.6, 15.9, 40.0])
    pace = ReadyPace(lambda: next(times))
    for step in range(5):  # the first step of each program compiles
        pace.ready(step, "norm", "norm")
    assert pace.step_seconds == pytest.approx(0.1)
    assert pace.sample_seconds == 0
    for step in range(5, 9):
        pace.ready(step, "full", "full")
    assert pace.sample_seconds == pytest.approx(0.2)
    pace.ready(20, "norm", "norm")  # not the step after the one before
    assert pace.step_seconds == pytest.approx(0.1)


@pytest.mark.slow
def test_the_budget_bounds_samples(tmp_path, monkeypatch):
    hook = ss.GradientHook(every_n_steps=2, dense_steps=0, histograms_every=0, max_overhead=0.1)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watched = watch(run)
        monkeypatch.setattr(type(watched._pace), "step_seconds", 0.1)
        monkeypatch.setattr(type(watched._pace), "sample_seconds", 0.1)
        for step in run.steps(range(40)):
            watched.record(measure(watched.level(step), gradients=params_of()), step)
            watched._rounds.drain(10)
    # A sample costs a step, one in ten may be one: the distance is 2 times the next power of two.
    assert sorted(numbers(tmp_path)["gradients/w/norm"]) == [0, 2, 16, 32]


def test_activations_are_tapped(tmp_path):
    hook = ss.GradientHook()
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watched = watch(run)
        look = jax.jit(lambda x: watched.measure("full", activations={"relu": jax.nn.relu(x)}))
        watched.record(look(jnp.array([-1.0, 1.0, 2.0, -3.0])), 0)
        watched.finish(5)
    found = numbers(tmp_path)
    assert found["activations/relu/fraction_of_zero_values"] == {0: 0.5}
    assert found["activations/relu/max"] == {0: 2}


def test_a_number_alone_and_arrays_of_several_dimensions():
    random = np.random.default_rng(3)
    given = {"cube": random.standard_normal((2, 3, 4)).astype("f4"), "one": np.float32(-2.5)}
    table = jax.jit(lambda one: measure("histograms", weights=one))(given).rows["weights"].table()
    np.testing.assert_array_equal(
        table.moments[:, 5:], [[given["cube"].min(), given["cube"].max()], [-2.5, -2.5]]
    )
    np.testing.assert_allclose(table.moments[:, 2], [(given["cube"] ** 2).sum(), 6.25], rtol=1e-6)
    np.testing.assert_array_equal(table.counts[0, :BUCKETS], counts(given["cube"]))


def test_complex_arrays_count_as_their_parts():
    given = (np.arange(6) - 2 + 1j * np.arange(6)).astype("c8")
    measured = jax.jit(lambda one: measure("full", gradients={"a": one}))(given)
    table = measured.rows["gradients"].table()
    assert table.moments[0].tolist() == [12, 18, 74, 2, 0, -2, 5]
    assert float(measured.norm) == pytest.approx(np.linalg.norm(given))
    alone = jax.jit(lambda one: measure("norm", gradients={"a": one}))(given)
    assert float(alone.norm) == pytest.approx(np.linalg.norm(given))
