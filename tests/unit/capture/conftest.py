"""A backend that records nothing, and a run around it."""

import json
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import stepscope as ss
from stepscope.capture.backend import Exported


class FakeBackend:
    """Notes what it was asked; ``fail`` maps one of start, stop, export to what it raises.

    It calls ``wait`` before it exports.
    """

    name, format, ending = "fake", "chrome", ".trace.json"

    def __init__(self, wait=lambda: None, **fail):
        self.wait, self.fail, self.told, self.wanted = wait, fail, [], None

    def _act(self, what):
        self.told.append(what)
        if what in self.fail:
            raise self.fail[what]

    def start(self, wanted):
        self.wanted = wanted
        self._act("start")

    @contextmanager
    def mark(self, step):
        self.told.append(step)
        yield
        self.told.append(("end", step))

    @contextmanager
    def span(self, name):
        self.told.append(name)
        yield
        self.told.append(("end", name))

    def memory(self):
        return {"resident_bytes": 7}

    def stop(self):
        self._act("stop")

        def export(path):
            self.wait()
            self._act("export")
            path.write_text("{}")
            return Exported(path, dropped={"events": 1}, notes=["a note"])

        return export


def pointers(directory):
    paths = sorted((directory / "profiles").glob("*.profile.json"))
    return [json.loads(path.read_text()) for path in paths]


def recorded(directory):
    """What the event file says, failures included."""
    from stepscope.store.captures import recorded as read

    with ss.open(directory, cache=False) as log:
        (run,) = [run for run in log.runs() if run.name == "."]
        return read(run)


@pytest.fixture(autouse=True)
def strict(monkeypatch):
    """Problems are raised."""
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")


@pytest.fixture
def lenient(monkeypatch):
    """Problems are counted, as for users."""
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)


@pytest.fixture
def fake():
    return SimpleNamespace(Backend=FakeBackend, pointers=pointers, recorded=recorded)
