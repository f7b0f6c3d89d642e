"""The graph of a JAX function and the cost of each operation, for ``run.graph``.

The function is traced to its jaxpr. Nested jaxprs (``jit``, ``scan``, ``cond``, ``custom_vjp``),
``jax.named_scope`` and Flax modules become scopes.

    traced = trace(apply, params, batch)
    run.graph(traced.nodes, costs=traced.costs)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
from jax.extend import core

from stepscope.errors import UsageError
from stepscope.events.kinds.graph import Node, NodeCost, node_name

CALLS = (
    "jit",
    "pjit",
    "closed_call",
    "core_call",
    "remat",
    "checkpoint",
    "custom_jvp_call",
    "custom_vjp_call",
)
"""Operations that only call a jaxpr: their parts are shown, and timed, in their place."""
REPEATS = 3


@dataclass(frozen=True)
class TracedProgram:
    """A graph and the costs of its nodes."""

    nodes: list[Node] = field(default_factory=list)
    costs: list[NodeCost] = field(default_factory=list)


def trace(function: Callable[..., Any], *args: Any, measure: bool = True, **kwargs: Any) -> TracedProgram:
    """Return the graph of a function.

    Args:
        function: A function of arrays, as ``model.apply`` or a loss.
        args: Arguments of the call.
        measure: Also run its operations one by one and time them; they are not fused then, as under ``jit``.
        kwargs: Named arguments.

    Raises:
        UsageError: It is not a function.
    """
    if not callable(function):
        raise UsageError(f"a graph needs a function, got {type(function).__name__}", hint="pass model.apply")
    closed = jax.make_jaxpr(lambda *a: function(*a, **kwargs))(*args)
    maker = Maker()
    inputs = jax.tree_util.tree_flatten_with_path(args)[0]
    names = [maker.add(f"inputs/{path_of(path)}", "Input", [], [shape_of(value)]) for path, value in inputs]
    outputs = maker.walk(closed.jaxpr, names, maker.constants(closed.consts, ""), "")
    for number, source in enumerate(outputs):
        maker.add(f"output_{number}", "Output", [source] if source else [], [])
    leaves = [value for _, value in inputs]
    return TracedProgram(maker.nodes, costs_of(closed, leaves, maker) if measure else [])


def path_of(path: Any) -> str:
    """Return the place of a value in the arguments, as ``0/params/Dense_0/kernel``."""
    parts = (getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))) for key in path)
    return "/".join(str(part) for part in parts)


def shape_of(value: Any) -> tuple[int, ...]:
    """Return a shape, -1 if a size is not fixed."""
    return tuple(size if isinstance(size, int) else -1 for size in getattr(value, "shape", ()))


class Maker:
    """Makes nodes of the operations of a jaxpr, in the order in which they run.

    Attributes:
        nodes: The made nodes.
        of_equation: The node of each operation, by the scope and the number of the operation in it.
    """

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.of_equation: dict[tuple[str, int], str] = {}
        self._taken: dict[str, int] = {}

    def add(
        self, name: str, op: str, inputs: list[str], shapes: list[tuple[int, ...]], **attributes: Any
    ) -> str:
        """Make a node and return its name, unlike those before."""
        name = node_name(name)
        number = self._taken[name] = self._taken.get(name, -1) + 1
        unique = f"{name}_{number}" if number else name
        self.nodes.append(Node(unique, op, inputs, shapes, "", attributes))
        return unique

    def constants(self, values: Any, scope: str) -> list[str]:
        """Make nodes of constants."""
        return [self.add(join(scope, "constant"), "Const", [], [shape_of(value)]) for value in values]

    def walk(self, jaxpr: Any, inputs: list[str], constants: list[str], scope: str) -> list[str]:
        """Make nodes of a jaxpr's operations and return those of its outputs."""
        made: dict[Any, str] = dict(zip(jaxpr.invars, inputs, strict=False))
        made.update(zip(jaxpr.constvars, constants, strict=False))
        for number, equation in enumerate(jaxpr.eqns):
            sources = [made[invar] for invar in equation.invars if is_variable(invar) and invar in made]
            within = join(scope, str(equation.source_info.name_stack))
            inner = called(equation)
            if inner is not None:
                label = str(equation.params.get("name", equation.primitive.name))
                place = join(within, f"{label}_{number}")
                given = [made.get(invar, "") if is_variable(invar) else "" for invar in equation.invars]
                outputs = self.walk(inner.jaxpr, given, self.constants(inner.consts, place), place)
            else:
                shapes = [shape_of(outvar.aval) for outvar in equation.outvars]
                dtype = str(getattr(equation.outvars[0].aval, "dtype", "")) if equation.outvars else ""
                flops = flops_of(equation)
                name = self.add(
                    join(within, equation.primitive.name),
                    equation.primitive.name,
                    list(dict.fromkeys(filter(None, sources))),
                    shapes,
                    dtype=dtype,
                    **({} if flops is None else {"flops": flops}),
                )
                self.of_equation[scope, number] = name
                outputs = [name] * len(equation.outvars)
            made.update(zip(equation.outvars, outputs, strict=False))
        return [made.get(outvar, "") if is_variable(outvar) else "" for outvar in jaxpr.outvars]


def join(*parts: str) -> str:
    """Return parts of a name with slashes between them."""
    return "/".join(part for part in parts if part)


def is_variable(atom: Any) -> bool:
    """Return whether an argument of an operation is a variable and not a literal."""
    return isinstance(atom, core.Var)


def called(equation: Any) -> Any:
    """Return the jaxpr of an operation that only calls one, None for any other operation."""
    if equation.primitive.name not in CALLS:
        return None
    for name in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        value = equation.params.get(name)
        if value is not None:
            return value if hasattr(value, "consts") else core.ClosedJaxpr(value, ())
    return None


OPAQUE = ("scan", "while", "cond", "pallas_call", "custom_call", "ffi_call", "shard_map")
"""Operations whose work is in nested jaxprs, and is not counted again."""


def flops_of(equation: Any) -> int | None:
    """Return the floating point operations of a matrix product or convolution, 0 for others, None: not known.

    A multiplication with its addition is two.
    """
    name = equation.primitive.name
    if name in OPAQUE:
        return None
    if name not in ("dot_general", "conv_general_dilated"):
        return 0
    left, right = (shape_of(invar.aval) for invar in equation.invars[:2])
    outputs = math.prod(shape_of(equation.outvars[0].aval))
    if min((*left, *right, outputs), default=0) < 0:
        return None
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return int(2 * outputs * math.prod(left[axis] for axis in contracted))
    # Of a kernel [features, inputs of a group, *window] all but its features meet each output.
    features = right[equation.params["dimension_numbers"].rhs_spec[0]]
    return int(2 * outputs * math.prod(right) // max(1, features))


# --- time and memory ----------------------------------------------------------------------------------


def costs_of(closed: Any, inputs: list[Any], maker: Maker) -> list[NodeCost]:
    """Return the cost of each operation, run alone and waited for: the shortest of a few times."""
    best: dict[str, NodeCost] = {}
    origin = time.perf_counter()
    for _ in range(REPEATS):
        for cost in run(closed.jaxpr, closed.consts, inputs, maker, "", origin)[1]:
            known = best.get(cost.name)
            if known is None or cost.duration_us < known.duration_us:
                best[cost.name] = cost
    return list(best.values())


def run(
    jaxpr: Any, consts: Any, inputs: Any, maker: Maker, scope: str, origin: float
) -> tuple[list[Any], list[NodeCost]]:
    """Run the operations of a jaxpr one by one; return its outputs and the time of each operation."""
    values: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    values.update(zip(jaxpr.constvars, consts, strict=True))
    costs: list[NodeCost] = []
    for number, equation in enumerate(jaxpr.eqns):
        given = [values[invar] if is_variable(invar) else invar.val for invar in equation.invars]
        inner = called(equation)
        if inner is not None:
            label = str(equation.params.get("name", equation.primitive.name))
            place = join(scope, str(equation.source_info.name_stack), f"{label}_{number}")
            results, more = run(inner.jaxpr, inner.consts, given, maker, place, origin)
            costs += more
        else:
            begun = time.perf_counter()
            results = one(equation, given)
            for array in arrays_of(results):
                array.block_until_ready()
            took = time.perf_counter() - begun
            name = maker.of_equation[scope, number]
            costs.append(cost_of(name, (begun - origin) * 1e6, took * 1e6, results))
        values.update(zip(equation.outvars, results, strict=True))
    return [values[outvar] if is_variable(outvar) else outvar.val for outvar in jaxpr.outvars], costs


def one(equation: Any, given: list[Any]) -> list[Any]:
    """Run one operation."""
    options: Any = equation.primitive.get_bind_params(equation.params)
    functions, params = ((), options) if isinstance(options, dict) else options  # a pair before JAX 0.7
    results = equation.primitive.bind(*functions, *given, **params)
    return list(results) if equation.primitive.multiple_results else [results]


def cost_of(name: str, start_us: float, took_us: float, results: list[Any]) -> NodeCost:
    """Return the cost of an operation."""
    arrays = list(arrays_of(results))
    memory = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)
    device = next((f"{d.platform}:{d.id}" for array in arrays for d in array.devices()), "cpu")
    return NodeCost(name, start_us, took_us, memory, [shape_of(array) for array in arrays], device)


def arrays_of(results: list[Any]) -> Iterator[Any]:
    """Return the arrays among results; random keys have no bytes of their own."""
    return (
        result for result in results if isinstance(result, jax.Array) and hasattr(result.dtype, "itemsize")
    )
