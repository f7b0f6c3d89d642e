from types import SimpleNamespace

import pytest

from stepscope.capture.backend import choose, framework, mark, memory_facts
from stepscope.errors import CaptureError

V = SimpleNamespace(__version__="1")


def keras(name):
    return SimpleNamespace(config=SimpleNamespace(backend=lambda: name))


@pytest.mark.parametrize(
    ("modules", "name"),
    [
        ({}, "python"),
        ({"numpy": V}, "python"),
        ({"torch": V}, "torch"),
        ({"torch": V, "jax": V}, "torch"),
        ({"jax": V, "tensorflow": V}, "jax"),
        ({"tensorflow": V}, "tensorflow"),
        ({"keras": keras("jax"), "tensorflow": V, "jax": V}, "jax"),
        ({"keras": keras("torch"), "jax": V}, "torch"),
        ({"keras": keras("numpy"), "tensorflow": V}, "tensorflow"),
        ({"torch": SimpleNamespace()}, "python"),
        ({"torch": None}, "python"),
    ],
)
def test_the_framework_is_the_one_that_the_program_has_imported(modules, name):
    assert framework(modules) == name


def test_an_object_is_taken_as_it_is(fake):
    backend = fake.Backend()
    assert choose(backend) is backend


def test_an_unknown_name_is_answered_with_the_known_ones():
    with pytest.raises(CaptureError, match="expected torch, jax, tensorflow, python"):
        choose("caffe")


def test_a_backend_needs_only_two_methods():
    class Least:
        name = format = "least"
        ending = ".x"

        def start(self, wanted):
            pass

        def stop(self):
            pass

    with mark(Least(), 3):
        pass
    assert memory_facts(Least()) == {}
