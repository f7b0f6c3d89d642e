"""Many dimensions projected to few: principal components, and the nearest points of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Matrix = npt.NDArray[np.float32]
EXACT_OPERATIONS = 4e10
"""Multiplications up to which components are computed exactly: some seconds on one core."""
OVERSAMPLING, ROUNDS = 10, 4


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Points in few dimensions.

    Attributes:
        places: float32 [points, components], around 0.
        explained: Share of the whole variance along each component, 0 to 1.
        exact: Whether the components are those of the whole matrix; otherwise they are of a random sketch.
    """

    places: Matrix
    explained: list[float]
    exact: bool


def principal_components(
    matrix: Matrix, components: int = 3, *, exact_operations: float = EXACT_OPERATIONS
) -> Projection:
    """Turn points so that each axis has as much of the variance as those before it leave.

    Exactly, by the eigenvectors of the smaller of covariance and Gram matrix in float64. If that takes more
    than ``exact_operations``, by subspace iteration on a random sketch (Halko, Martinsson and Tropp
    2011, algorithm 4.4, 4 rounds, 10 vectors more than asked for, one seed for all). Of each axis the largest
    loading is positive, so that the same points always look the same. Axes without variance are 0.

    Args:
        matrix: [points, dimensions], finite.
        components: How many, at most.
        exact_operations: Multiplications that an exact answer may take.
    """
    points, dimensions = matrix.shape
    count = min(components, points, dimensions)
    centred = np.asarray(matrix, np.float64) - matrix.mean(0, dtype=np.float64)
    total = float(np.sum(centred * centred))
    exact = float(points) * dimensions * min(points, dimensions) <= exact_operations
    axes = exact_axes(centred, count) if exact else sketched_axes(centred, count)
    axes *= np.sign(axes[np.abs(axes).argmax(0), np.arange(axes.shape[1])])
    places = centred @ axes
    shares = (places * places).sum(0) / total if total > 0 else np.zeros(count)
    return Projection(places.astype(np.float32), shares.tolist(), exact)


def exact_axes(centred: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    """Return the first eigenvectors of the covariance, [dimensions, count]."""
    points, dimensions = centred.shape
    if dimensions <= points:
        axes: npt.NDArray[np.float64] = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :count].copy()
        return axes
    values, left = np.linalg.eigh(centred @ centred.T)
    sizes = np.sqrt(np.maximum(values[::-1][:count], 0))
    axes = centred.T @ left[:, ::-1][:, :count]
    axes[:, sizes <= 1e-9 * sizes[0]] = 0
    axes /= np.where(sizes > 0, sizes, 1)
    return axes


def sketched_axes(centred: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.float64]:
    """Return approximate first eigenvectors of the covariance, [dimensions, count]."""
    random = np.random.default_rng(0).standard_normal((centred.shape[1], count + OVERSAMPLING))
    basis = np.linalg.qr(centred @ random)[0]
    for _ in range(ROUNDS):
        basis = np.linalg.qr(centred @ np.linalg.qr(centred.T @ basis)[0])[0]
    axes: npt.NDArray[np.float64] = np.linalg.svd(basis.T @ centred, full_matrices=False)[2][:count].T.copy()
    return axes


def nearest(
    matrix: Matrix, at: int, count: int, metric: str
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float64]]:
    """Return the points nearest to one in all dimensions, and how far they are, nearest first.

    Args:
        matrix: [points, dimensions].
        at: The one, which is not among them.
        count: How many.
        metric: ``cosine``, 1 less the cosine of the angle between two vectors, 1 if one is 0; or
            ``euclidean``.
    """
    one = matrix[at].astype(np.float64)
    if metric == "euclidean":
        far = np.sqrt(np.maximum(np.sum((matrix - one) ** 2, axis=1), 0))
    else:
        lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64)) * np.linalg.norm(one)
        products: Any = matrix @ one
        far = 1 - np.divide(products, lengths, out=np.zeros(len(matrix)), where=lengths > 0)
    far[at] = np.inf
    count = min(count, len(matrix) - 1)
    order = np.argpartition(far, count - 1)[:count] if count > 0 else np.zeros(0, np.intp)
    order = order[np.lexsort((order, far[order]))]
    return order, far[order]
