import math

import numpy as np
import pytest
from support.errors import raises

from stepscope.record.problems import RefusalError
from stepscope.record.values import Delayed, as_step, as_tag


class Later:
    """A value on a device, there once ``there`` is set."""

    def __init__(self, number: float, *, there: bool = True) -> None:
        self.number, self.there = number, there

    def ready(self) -> bool:
        return self.there

    def read(self) -> float:
        return self.number


@pytest.mark.parametrize("tag", ["loss", "train/loss", "Verlust/süß", "a b", "x" * 1024, np.str_("n")])
def test_text_is_a_tag(tag):
    assert as_tag(tag) == tag
    assert type(as_tag(tag)) is str


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        (3, "text, got int 3"),
        (None, "text, got None"),
        (b"loss", "text, got bytes"),
        (["a"], "text, got list"),
        ("", "1 to 1024 characters, got 0"),
        ("x" * 1025, "1 to 1024 characters, got 1025"),
        ("\ud800", "Unicode text"),
    ],
)
def test_what_is_no_tag_is_refused(tag, found):
    with pytest.raises(RefusalError) as caught:
        as_tag(tag)
    assert caught.value.reason == "tag"
    assert found in caught.value.found


@pytest.mark.parametrize(
    ("step", "number"),
    [
        (0, 0),
        (-5, -5),
        (True, 1),
        (np.int64(7), 7),
        (np.uint8(7), 7),
        (2**63 - 1, 2**63 - 1),
        (-(2**63), -(2**63)),
    ],
)
def test_integers_are_steps(step, number):
    assert as_step(step) == number
    assert type(as_step(step)) is int


@pytest.mark.parametrize("step", [1.0, 1.5, "1", None, math.nan, np.float32(1), [1], 2**63, -(2**63) - 1])
def test_what_is_no_integer_is_refused(step):
    with raises(RefusalError, reason="step"):
        as_step(step)


def test_a_torch_integer_is_a_step():
    torch = pytest.importorskip("torch")
    assert as_step(torch.tensor(12)) == 12
    with pytest.raises(RefusalError, match=r"integer, got 1\.5"):
        as_step(torch.tensor(1.5))


def test_a_jax_integer_is_a_step_later():
    assert as_step(pytest.importorskip("jax.numpy").int32(12)).read() == 12


def test_a_delayed_point_knows_its_step_once_it_is_read():
    value, step = Later(0.5, there=False), Later(7.0, there=False)
    point = Delayed(value, step)
    assert not point.ready()
    value.there = True
    assert not point.ready()
    step.there = True
    assert point.ready()
    assert (point.read(), point.step) == (0.5, 7)
    assert (Delayed(0.25, step).read()) == 0.25


def test_a_delayed_step_that_is_no_integer_is_refused():
    with pytest.raises(RefusalError, match="integer"):
        Delayed(0.5, Later(1.5)).read()
