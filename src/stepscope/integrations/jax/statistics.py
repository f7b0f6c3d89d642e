"""Statistics of whole trees of arrays, computed inside ``jit`` and returned as outputs.

Nothing calls back into Python: a callback in the step costs more than all the statistics. Which of them are
computed is a static argument, so that each kind of step is compiled once and the plain one pays nothing.
Under ``jit`` arrays are whole however they are sharded, and so are the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from stepscope.errors import UsageError
from stepscope.record.edges import BUCKET_OF_KEY, BUCKETS, SHIFT
from stepscope.record.statistics.table import StatisticsTable

lax: Any = jax.lax
LEVELS = ("off", "norm", "full", "histograms")
KINDS = ("gradients", "weights", "updates", "activations")
ACTIVATIONS: dict[str, Callable[[Any], Any] | None] = {
    "relu": None,
    "tanh": jnp.abs,
    "sigmoid": lambda out: jnp.abs(2 * out - 1),
}
"""Kinds of layers: those whose units can be dead, and for the others, how close outputs are to their
bounds.
"""


@dataclass
class TreeStatistics:
    """Statistics of the arrays of one tree.

    Attributes:
        names: Of the arrays.
        sizes: Their numbers of elements.
        floats: float32 [n, 4]: sum, sum of squares, least, most.
        integers: int32 [n, 2]: zeros, non-finite.
        counts: int32 [n, BUCKETS + 1]; None without histograms.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    floats: Any
    integers: Any
    counts: Any

    def table(self) -> StatisticsTable:
        """Return the rows as a table; waits for the device."""
        made = StatisticsTable(len(self.names), histograms=self.counts is not None)
        floats = np.asarray(self.floats, np.float64)
        moments = np.column_stack([self.sizes, floats[:, :2], np.asarray(self.integers), floats[:, 2:]])
        counts = np.zeros((0, 0), np.int64) if self.counts is None else np.asarray(self.counts, np.int64)
        made.add_rows(np.arange(len(self.names)), moments, counts)
        return made


@dataclass
class MeasuredTree:
    """The result of ``measure``: a tree of arrays, to be an output of the jitted step.

    Attributes:
        level: The measured quantities.
        norm: Norm of all gradients; None if none were given.
        clipped: Norm of the clipped gradients; None if none were given.
        rows: By kind: gradients, weights, updates, activations.
        loss: The loss; None if none was given.
        saturated: By name of a tanh or sigmoid, how many of its outputs are saturated.
        active: By name of a ReLU, bool [units]: which put out anything but zeros.
        whole: Whether all parameters are in the rows, and not only those of a turn or of some layers.
    """

    level: str
    norm: Any
    clipped: Any
    rows: dict[str, TreeStatistics]
    loss: Any = None
    saturated: dict[str, Any] = field(default_factory=dict)
    active: dict[str, Any] = field(default_factory=dict)
    whole: bool = True


jax.tree_util.register_pytree_node(
    TreeStatistics,
    lambda rows: ((rows.floats, rows.integers, rows.counts), (rows.names, rows.sizes)),
    lambda fixed, arrays: TreeStatistics(*fixed, *arrays),
)
jax.tree_util.register_pytree_node(
    MeasuredTree,
    lambda one: (
        (one.norm, one.clipped, one.rows, one.loss, one.saturated, one.active),
        (one.level, one.whole),
    ),
    lambda fixed, parts: MeasuredTree(fixed[0], *parts, whole=fixed[1]),
)


def measure(
    level: str,
    *,
    gradients: Any = None,
    clipped: Any = None,
    weights: Any = None,
    updates: Any = None,
    activations: Mapping[str, Any] | None = None,
    kinds: Mapping[str, str] | None = None,
    saturated: float = 0.99,
    loss: Any = None,
    layers: Callable[[str, Any], bool] | None = None,
    axis_name: Any = None,
) -> MeasuredTree | None:
    """Compute statistics of trees of arrays; for use inside a jitted step, which returns the result.

    Args:
        level: "off" for nothing, "norm" for the norm of the gradients and the loss, "full" for all statistics
            except histograms, "histograms" to include those. With the suffix ":1/4", only the second quarter
            of the parameters; with ":1/4,0/2", also only the first half of the activations. It must be
            static: ``jax.jit(step, static_argnames="level")``.
        gradients: Tree of gradients, as returned by ``jax.grad``.
        clipped: The same after clipping, if there is any.
        weights: Tree of parameters before the update.
        updates: Tree of the changes that are added to the parameters.
        activations: Arrays by the name of the layer whose output they are.
        kinds: Kinds of these layers by name: "relu" if units can be dead, "tanh" or "sigmoid" if outputs can
            be saturated. Units are the last dimension.
        saturated: The magnitude from which on an output counts as saturated, as in ``ActivationHook``.
        loss: The loss, a number; with ``axis_name`` its mean is recorded.
        layers: A function of name and array that returns whether its own statistics are wanted; it also
            applies to activations.
        axis_name: Axis, or axes, over which the arrays are split, inside ``shard_map`` or ``pmap``; under
            ``jit`` alone there is none.

    Returns:
        None with "off".

    Raises:
        UsageError: There is no such level, or no such kind of layer.
    """
    word, (turn, tap_turn) = parts_of(level)
    if word == "off":
        return None
    measured = MeasuredTree(level, None, norm_of(clipped, axis_name), {})
    if loss is not None:
        measured.loss = jnp.asarray(loss) if axis_name is None else lax.pmean(loss, axis_name)
    if word != "norm":
        for kind, tree in (("gradients", gradients), ("weights", weights), ("updates", updates)):
            if tree is not None:
                measured.rows[kind] = rows_of(tree, word == "histograms", layers, axis_name, turn)
                measured.whole = measured.whole and len(measured.rows[kind].names) == len(leaves(tree))
        if activations is not None:
            tapped = {
                name: activation
                for name, activation in activations.items()
                if layers is None or layers(name, activation)
            }
            tapped = dict(list(tapped.items())[tap_turn[0] :: tap_turn[1]])
            measured.rows["activations"] = rows_of(tapped, word == "histograms", None, axis_name, (0, 1))
            measured.saturated, measured.active = units_of(tapped, kinds or {}, saturated, axis_name)
    measured.norm = norm_of(gradients, axis_name, measured.rows.get("gradients"))
    return measured


def parts_of(level: str) -> tuple[str, tuple[tuple[int, int], tuple[int, int]]]:
    """Return the word of a level; which part of the parameters is measured, of how many; and of activations.

    Raises:
        UsageError: There is no such level.
    """
    word, _, shown = level.partition(":")
    turns = [turn.partition("/")[::2] for turn in shown.split(",")] if shown else []
    known = word in LEVELS and len(turns) < 3
    if not known or not all(at.isdigit() and of.isdigit() and int(at) < int(of) for at, of in turns):
        raise UsageError(f"level must be one of {', '.join(LEVELS)}, got {level!r:.40}", hint="level='full'")
    pairs = [(int(at), int(of)) for at, of in turns] + [(0, 1)] * 2
    return word, (pairs[0], pairs[1])


def units_of(
    arrays: Mapping[str, Any], kinds: Mapping[str, str], saturated: float, axis_name: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return how many outputs are saturated, and which units are active, of layers of a kind."""
    bounded, active = {}, {}
    for name, kind in kinds.items():
        if kind not in ACTIVATIONS:
            words = ", ".join(ACTIVATIONS)
            raise UsageError(f"kinds must be of {words}; got {kind!r:.40} for {name!r:.40}", hint="kinds={…}")
        out, far = arrays.get(name), ACTIVATIONS[kind]
        if out is not None and far is not None:
            number = jnp.sum(far(out) >= saturated, dtype=jnp.int32)
            bounded[name] = number if axis_name is None else lax.psum(number, axis_name)
        elif out is not None and out.ndim > 1:
            some = jnp.any(out != 0, axis=tuple(range(out.ndim - 1)))
            active[name] = some if axis_name is None else lax.pmax(some.astype(jnp.int32), axis_name) > 0
    return bounded, active


def norm_of(tree: Any, axis_name: Any = None, rows: TreeStatistics | None = None) -> Any:
    """Return the norm of all arrays of a tree together; None for None.

    Args:
        tree: The arrays.
        axis_name: As for ``measure``.
        rows: Statistics of these, or some of these, if they are computed anyway.
    """
    if tree is None:
        return None
    if rows is not None and len(rows.names) == len(leaves(tree)):
        return jnp.sqrt(jnp.sum(rows.floats[:, 1]))
    squares = sum((squares_of(wide(leaf)) for leaf in leaves(tree).values()), jnp.float32(0))
    return jnp.sqrt(squares if axis_name is None else lax.psum(squares, axis_name))


def squares_of(array: Any) -> Any:
    """Return the sum of squared sizes; the array keeps its shape, and stays sharded as it is."""
    everything = tuple(range(array.ndim))
    contracted = ((everything, everything), ((), ()))
    return lax.dot_general(array, array.conj(), contracted, precision=lax.Precision.HIGHEST).real


def rows_of(
    tree: Any,
    histograms: bool,
    layers: Callable[[str, Any], bool] | None,
    axis_name: Any,
    turn: tuple[int, int] = (0, 1),
) -> TreeStatistics:
    """Return the statistics of those arrays of a tree that are measured at this step."""
    wanted = [pair for pair in leaves(tree).items() if layers is None or layers(*pair)]
    arrays = dict(wanted[turn[0] :: turn[1]])
    flat = [real(wide(array)) for array in arrays.values()]
    floats, integers = zip(*map(moments, flat), strict=True) if flat else ((), ())
    table = jnp.stack(floats) if floats else jnp.zeros((0, 4))
    whole = jnp.stack(integers) if integers else jnp.zeros((0, 2), jnp.int32)
    counts = None
    if histograms:
        counts = jnp.stack(list(map(count, flat))) if flat else jnp.zeros((0, BUCKETS + 1), jnp.int32)
    sizes = tuple(array.size for array in flat)
    if axis_name is not None:
        parts = lax.psum(1, axis_name)
        sizes = tuple(size * parts for size in sizes)
        table = over_parts(table, axis_name)
        whole = lax.psum(whole, axis_name)
        counts = None if counts is None else lax.psum(counts, axis_name)
    return TreeStatistics(tuple(arrays), sizes, table, whole, counts)


def moments(values: Any) -> tuple[Any, Any]:
    """Return sum, squares, minimum and maximum of an array's numbers, and its zeros and non-finite values.

    Sum and squares are matrix products; everything else is one pass over the bits as integers, whose sums and
    extremes do not depend on the order, so that compilers may use wide registers, unlike with floats. Several
    passes over floats side by side took XLA ten times as long on the CPU.
    """
    values = values.reshape(1) if values.ndim == 0 else values
    ones = jnp.ones(values.shape[-1], values.dtype)
    total = jnp.sum(jnp.dot(values, ones, precision=lax.Precision.HIGHEST))
    bits = lax.bitcast_convert_type(values, jnp.int32)
    size = bits & _SIZE
    nothing, order = size > _INFINITY, rising(bits)
    parts = (
        jnp.where(nothing, _MAX_ORDER, order),
        jnp.where(nothing, _MIN_ORDER, order),
        (size == 0).astype(jnp.int32),
        (size >= _INFINITY).astype(jnp.int32),
    )
    begin = (_MAX_ORDER, _MIN_ORDER, jnp.int32(0), jnp.int32(0))
    least, most, zeros, nonfinite = lax.reduce(parts, begin, joined, tuple(range(values.ndim)))
    extremes = lax.bitcast_convert_type(rising(jnp.stack([least, most])), jnp.float32)
    return jnp.concatenate([jnp.stack([total, squares_of(values)]), extremes]), jnp.stack([zeros, nonfinite])


_SIZE, _INFINITY = np.int32(0x7FFFFFFF), np.int32(0x7F800000)
"""The bits of a float32 without its sign, and those of infinity, beyond which are NaNs."""
_MAX_ORDER, _MIN_ORDER = _INFINITY, np.int32(-0x7F800001)
"""Infinity and its negative, as ``rising`` gives them."""


def rising(bits: Any) -> Any:
    """Return integers in the order of the float32 whose bits are given, or those bits back."""
    return bits ^ ((bits >> 31) & _SIZE)


def joined(one: Any, other: Any) -> Any:
    """Join least, most and two counts of parts."""
    return (
        jnp.minimum(one[0], other[0]),
        jnp.maximum(one[1], other[1]),
        one[2] + other[2],
        one[3] + other[3],
    )


def count(values: Any) -> Any:
    """Return counts by bucket, with the last place for values that are not finite."""
    keys = lax.bitcast_convert_type(values, jnp.uint32) >> SHIFT
    bucket = jnp.asarray(BUCKET_OF_KEY, jnp.int32)[keys.astype(jnp.int32)]
    return jnp.zeros(BUCKETS + 1, jnp.int32).at[bucket].add(1)


def over_parts(floats: Any, axis_name: Any) -> Any:
    """Return the floats of whole arrays from those of their parts."""
    sums = lax.psum(floats[:, :2], axis_name)
    least, most = lax.pmin(floats[:, 2:3], axis_name), lax.pmax(floats[:, 3:], axis_name)
    return jnp.concatenate([sums, least, most], 1)


def wide(array: Any) -> Any:
    """Return an array as float32, or complex64."""
    array = jnp.asarray(array)
    return array.astype(jnp.complex64 if jnp.iscomplexobj(array) else jnp.float32)


def real(array: Any) -> Any:
    """Return a complex array as its real and imaginary parts, any other as it is."""
    return jnp.stack([array.real, array.imag]) if jnp.iscomplexobj(array) else array


def leaves(tree: Any) -> dict[str, Any]:
    """Return the float and complex arrays of a tree by name, as in ``Dense_0.kernel``."""
    arrays = {}
    for path, array in jax.tree_util.tree_flatten_with_path(tree)[0]:
        if hasattr(array, "dtype") and jnp.issubdtype(array.dtype, jnp.inexact):
            arrays[".".join(map(key_text, path)) or "value"] = array
    return arrays


def key_text(key: Any) -> str:
    """Return one step of a path into a tree."""
    for name in ("key", "idx", "name"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)
