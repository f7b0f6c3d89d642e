import inspect
from pathlib import Path

import msgspec
import pytest
from support.modules import load

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "page_types.py"


@pytest.fixture
def script():
    return load(SCRIPT)


@pytest.mark.slow
def test_a_file_that_is_as_before_keeps_its_time(script, tmp_path):
    script.TARGET = tmp_path / "api.ts"
    script.main()
    before = script.TARGET.stat().st_mtime_ns
    script.main()
    assert script.TARGET.stat().st_mtime_ns == before
    script.TARGET.write_text("old")
    script.main()
    assert "export interface Changes {" in script.TARGET.read_text()


def test_two_messages_of_one_name_are_refused(script):
    one, other = (msgspec.defstruct("Same", [(name, int)]) for name in "ab")
    with pytest.raises(SystemExit, match="several messages are called Same"):
        script.reachable([one, other])


def test_what_may_be_left_out_is_optional_and_what_may_be_missing_null(script, monkeypatch):
    source = inspect.getsource

    def of_a_module(thing):  # from Python 3.13 on, a class that a decorator has made has no source of its own
        assert inspect.ismodule(thing)
        return source(thing)

    monkeypatch.setattr(inspect, "getsource", of_a_module)
    text = script.module_text()
    assert "  x0?: number | null;" in text
    assert "  split: Split | null;" in text
    assert "  value: number | NonFinite;" in text
    assert "export const MAX_BUCKETS = 2000;" in text
    assert "  dirty: Record<string, string[]>;" in text
