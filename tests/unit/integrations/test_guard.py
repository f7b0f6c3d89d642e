"""What callbacks raise is told and stays out of the training."""

import pytest

from stepscope.errors import HaltError, RecordError
from stepscope.integrations.guard import guarded
from stepscope.record.problems import Problems


class Callback:
    def __init__(self) -> None:
        self.reporter = Problems()

    @guarded
    def act(self, error: Exception | None = None) -> int:
        if error is not None:
            raise error
        return 3


def test_what_is_raised_is_warned_about_once_and_counted(monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    callback = Callback()
    assert callback.act() == 3
    with pytest.warns(RuntimeWarning, match=r"Callback\.act raised ValueError: bad; training goes on"):
        assert callback.act(ValueError("bad")) is None
    assert callback.act(ValueError("bad")) is None
    assert callback.reporter.counts == {"callback": 2}


def test_strict_mode_raises(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    with pytest.raises(RecordError, match=r"Callback\.act raised ValueError") as raised:
        Callback().act(ValueError("bad"))
    assert isinstance(raised.value.__cause__, ValueError)


def test_what_is_meant_to_end_the_training_passes(monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with pytest.raises(HaltError):
        Callback().act(HaltError("NaN"))
    with pytest.raises(KeyboardInterrupt):
        Callback().act(KeyboardInterrupt())
