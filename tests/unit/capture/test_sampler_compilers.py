"""What JAX says of compiling is noted while steps are captured, and nobody else sees more than before."""

import logging
import sys

import pytest

from stepscope.capture import sampler
from stepscope.capture.sampler import CompileLog

NAME = "jax._src.interpreters.pxla"
MESSAGE = "Compiling %s with global shapes and types %s. Argument mapping: %s."


class Shaped:
    def str_short(self) -> str:
        return "float32[4,8]"


@pytest.fixture
def logger(monkeypatch):
    """JAX's logger, to which no capture of another test listens any more."""
    monkeypatch.setitem(sys.modules, "jax", sys)
    monkeypatch.setattr(sampler, "_LISTENER", sampler._Listener())
    logger = logging.getLogger(NAME)
    level, filters = logger.level, list(logger.filters)
    logger.filters = []
    logger.setLevel(logging.WARNING)
    yield logger
    logger.setLevel(level)
    logger.filters = filters


def test_what_is_compiled_meanwhile_is_noted_and_not_shown(logger, caplog):
    log = CompileLog(iter(range(10)).__next__)
    log.begin()
    logger.debug(MESSAGE, "jit(step)", [Shaped(), "int32[]"], ())
    logger.debug("something else %s", 1)
    logger.warning(MESSAGE, "jit(told)", [Shaped()], ())
    log.end()
    assert log.found == [(0, "jit(step)", ["float32[4,8]", "int32[]"]), (1, "jit(told)", ["float32[4,8]"])]
    assert [record.args[0] for record in caplog.records] == ["jit(told)"], "as without us"
    assert (logger.level, logger.filters) == (logging.WARNING, [])
    logger.debug(MESSAGE, "jit(later)", [], ())
    assert len(log.found) == 2


def test_captures_that_overlap_hear_the_same_and_the_last_one_cleans_up(logger, caplog):
    first, second = CompileLog(), CompileLog()
    for begun in (first, second):
        begun.begin()
    logger.debug(MESSAGE, "jit(both)", [], ())
    first.end()
    logger.debug(MESSAGE, "jit(second)", [], ())
    second.end()
    first.end()  # again
    names = [[name for _, name, _ in log.found] for log in (first, second)]
    assert names == [["jit(both)"], ["jit(both)", "jit(second)"]]
    assert (logger.level, logger.filters, caplog.records) == (logging.WARNING, [], [])


def test_without_jax_nothing_is_touched(monkeypatch):
    monkeypatch.delitem(sys.modules, "jax", raising=False)
    logger = logging.getLogger(NAME)
    before = (logger.level, list(logger.filters))
    log = CompileLog()
    log.begin()
    assert (logger.level, list(logger.filters)) == before
    log.end()


def test_jax_tells_it_in_this_form():
    """The form of the message is JAX's own and may change with it."""
    jax = pytest.importorskip("jax")
    log = CompileLog()
    log.begin()
    try:
        jax.jit(lambda x: x * 2 + 1)(jax.numpy.ones((3, 5)))
    finally:
        log.end()
    assert any("float32[3,5]" in shapes for _, _, shapes in log.found)
