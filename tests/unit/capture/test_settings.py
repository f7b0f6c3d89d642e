"""The program's settings, read when a capture starts."""

import sys
import tracemalloc

import pytest

from stepscope.capture.settings import setters, settings


@pytest.mark.parametrize("on", [False, True])
def test_what_was_left_on_is_read(on: bool) -> None:
    with pytest.importorskip("torch").autograd.set_detect_anomaly(on):
        assert settings()["torch.detect_anomaly"] is on


def test_a_tracer_is_named_by_its_module() -> None:
    assert not settings()["python.tracemalloc"]
    before = sys.getprofile()
    tracemalloc.start()
    sys.setprofile(lambda frame, event, argument: None)
    try:
        found = settings()
    finally:
        sys.setprofile(before)
        tracemalloc.stop()
    assert found["python.profile"] == __name__
    assert found["python.tracemalloc"] is True


def test_nothing_is_imported_for_it_and_what_has_gone_is_unknown(monkeypatch) -> None:
    for name in ("torch", "jax", "tensorflow"):
        monkeypatch.setitem(sys.modules, name, object() if name == "jax" else None)
    assert {name.partition(".")[0] for name in settings()} == {"python", "processors"}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"torch.detect_anomaly": True}, "(4): train"),
        ({"torch.detect_anomaly": False}, None),
        ({"jax_enable_x64": True}, "(1): <module>"),
        ({"torch.num_threads": 16, "processors": 2}, "(5): train"),
    ],
)
def test_the_line_that_changed_a_setting(tmp_path, settings, said) -> None:
    """Neither a comment nor a file that has gone tells; what is as usual has no line."""
    source = (
        "jax.config.update('jax_enable_x64', True)\n"
        "def train(loader):\n"
        "    # detect_anomaly finds nan\n"
        "    torch.autograd.set_detect_anomaly(True)\n"
        "    torch.set_num_threads(16)\n"
    )
    file = tmp_path / "train.py"
    file.write_text(source)
    assert setters(settings, [str(tmp_path / "gone.py"), str(file)]) == (
        {next(iter(settings)): f"{file}{said}"} if said else {}
    )
