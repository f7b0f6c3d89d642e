"""Functions as graphs: operations within their scopes, nested ones in their place, time and memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from stepscope.errors import UsageError
from stepscope.integrations.jax.graph import trace


def forward(params, x):
    with jax.named_scope("dense"):
        x = x @ params["kernel"] + params["bias"]
    return jax.nn.relu(x).sum()


PARAMS = {"kernel": jnp.ones((3, 4)), "bias": jnp.zeros(4)}


def test_operations_stand_in_their_scopes_with_edges():
    traced = trace(forward, PARAMS, jnp.ones((2, 3)))
    nodes = {node.name: node for node in traced.nodes}
    assert nodes["inputs/0/kernel"].op == "Input"
    assert list(nodes["inputs/0/kernel"].shapes) == [(3, 4)]
    assert nodes["dense/dot_general"].inputs == ["inputs/1", "inputs/0/kernel"]
    [relu] = [node for node in traced.nodes if node.op == "max"]
    assert "relu" in relu.name
    assert relu.inputs == ["dense/add"]
    assert nodes["output_0"].inputs == ["reduce_sum"]
    assert all(source in nodes for node in traced.nodes for source in node.inputs)


def test_each_operation_has_time_and_memory():
    traced = trace(jax.value_and_grad(jax.jit(forward)), PARAMS, jnp.ones((2, 3)))
    operations = {node.name for node in traced.nodes if node.op not in ("Input", "Output", "Const")}
    costs = {cost.name: cost for cost in traced.costs}
    assert costs.keys() == operations
    assert all(cost.duration_us > 0 for cost in traced.costs)
    [product] = [
        cost for name, cost in costs.items() if name.endswith("dense/dot_general") and "transpose" not in name
    ]
    assert product.memory_bytes == 2 * 4 * 4
    assert product.device.startswith("cpu")


def test_running_its_parts_gives_what_the_function_gives():
    from stepscope.integrations.jax.graph import Maker, run

    def f(x):
        return jax.lax.scan(lambda c, y: (c + y, c * y), 0.0, x)[1].sum() + jax.jit(jnp.sin)(x)[0]

    x = jnp.arange(4.0)
    closed = jax.make_jaxpr(f)(x)
    maker = Maker()
    maker.walk(closed.jaxpr, ["x"], maker.constants(closed.consts, ""), "")
    [found], _ = run(closed.jaxpr, closed.consts, [x], maker, "", 0.0)
    np.testing.assert_allclose(found, f(x), 1e-6)


@pytest.mark.slow
def test_control_flow_random_keys_and_constants():
    table = jnp.arange(5.0)

    def f(key, n):
        noise = jax.random.normal(key, (5,))
        x = jax.lax.cond(n > 0, lambda: table + noise, lambda: table)
        return jax.lax.while_loop(lambda state: state.sum() < 1, lambda state: state + 1, x)

    traced = trace(f, jax.random.key(0), jnp.asarray(1))
    assert {"cond", "while"} <= {node.op for node in traced.nodes}
    assert len({node.name for node in traced.nodes}) == len(traced.nodes)
    assert trace(f, jax.random.key(0), jnp.asarray(1), measure=False).costs == []


@pytest.mark.slow
def test_flax_modules_are_scopes():
    linen = pytest.importorskip("flax.linen")

    class Net(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(2, name="out")(linen.relu(linen.Dense(4, name="hidden")(x)))

    net = Net()
    x = jnp.ones((3, 5))
    params = net.init(jax.random.key(0), x)
    names = {node.name for node in trace(net.apply, params, x, measure=False).nodes}
    assert any(name.endswith("hidden/dot_general") for name in names)
    assert any(name.endswith("out/dot_general") for name in names)
    assert "inputs/0/params/hidden/kernel" in names


def test_what_is_no_function_is_refused():
    with pytest.raises(UsageError, match="needs a function"):
        trace("net", 1)
