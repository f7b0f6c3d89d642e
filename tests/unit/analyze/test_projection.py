"""Principal components and nearest points, against answers that are computed another way."""

import numpy as np
import pytest

from stepscope.analyze.projection import nearest, principal_components


@pytest.mark.parametrize("shape", [(300, 20), (20, 300)])
def test_components_are_those_of_a_singular_value_decomposition(shape):
    matrix = np.random.default_rng(0).normal(size=shape).astype("f4") * np.linspace(5, 1, shape[1])
    found = principal_components(matrix.astype("f4"))
    centred = matrix - matrix.mean(0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    assert np.allclose(np.abs(found.places), np.abs(left[:, :3] * values[:3]), atol=1e-3)
    assert found.explained == pytest.approx(((values**2) / (values**2).sum())[:3], rel=1e-4)
    assert found.exact


def test_a_sketch_finds_what_stands_out_and_says_that_it_is_one():
    random = np.random.default_rng(1)
    matrix = random.normal(size=(400, 3)) @ random.normal(size=(3, 60)) * 10 + random.normal(size=(400, 60))
    exact = principal_components(matrix.astype("f4"))
    sketched = principal_components(matrix.astype("f4"), exact_operations=0)
    assert not sketched.exact
    assert sketched.explained == pytest.approx(exact.explained, rel=1e-3)
    assert np.allclose(np.abs(sketched.places), np.abs(exact.places), atol=0.2)


@pytest.mark.parametrize("matrix", [np.ones((5, 4)), np.zeros((1, 3)), np.arange(4.0)[:, None]])
def test_what_has_no_variance_along_an_axis_is_0_there(matrix):
    found = principal_components(matrix.astype("f4"))
    assert np.isfinite(found.places).all()
    assert found.places.shape == (len(matrix), min(3, *matrix.shape))


def test_nearest_by_angle_and_by_distance():
    matrix = np.array([[1, 0], [10, 0.1], [0, 1], [1.1, 0.5], [0, 0]], "f4")
    order, far = nearest(matrix, 0, 2, "cosine")
    assert order.tolist() == [1, 3]
    assert far.tolist() == pytest.approx([5e-5, 1 - 1.1 / np.hypot(1.1, 0.5)], abs=1e-6)
    order, far = nearest(matrix, 0, 9, "euclidean")
    assert order.tolist() == [3, 4, 2, 1]
    assert far.tolist() == pytest.approx([np.hypot(0.1, 0.5), 1, 2**0.5, np.hypot(9, 0.1)], rel=1e-5)
    assert nearest(matrix, 4, 1, "cosine")[1].tolist() == [1]  # a vector of zeros has no angle
    assert len(nearest(matrix[:1], 0, 3, "cosine")[0]) == 0
