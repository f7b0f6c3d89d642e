"""Random calls leave what torch's writer leaves, wall times where they are given."""

import contextlib
import io
import os

import pytest
from support.random_calls import Arguments
from support.values import events_of, files_of, values_of

from stepscope.compat import SummaryWriter

CALLS = int(os.environ.get("COMPAT_CALLS", "120"))
SEEDS = range(int(os.environ.get("COMPAT_SEEDS", "3")))


def left(directory, *, times):
    """Everything in a directory; wall times only where the call gave one."""
    found = values_of(directory) | {("file", name): data for name, data in files_of(directory).items()}
    if times:
        found["wall times", ""] = {
            run: [event.wall_time for event in events if event.HasField("summary")]
            for run, events in events_of(directory).items()
        }
    return found


def shown(call):
    def word(value):
        return f"{value.dtype}{tuple(value.shape)}" if hasattr(value, "dtype") else repr(value)[:200]

    method, arguments, options = call
    return f"{method}({', '.join(map(word, arguments))}, { {k: word(v) for k, v in options.items()} })"


def made(writer, call):
    """Whether a call and the closing of its writer raised nothing."""
    method, arguments, options = call
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            getattr(writer, method)(*arguments, **options)
        except Exception:  # noqa: BLE001  the original's refusal: nothing to be equal to
            return False
        finally:
            writer.close()
    return True


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_calls_leave_what_the_original_leaves(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    original = pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    pairs = zip(*(Arguments(seed).calls(CALLS) for _ in range(2)), strict=True)
    compared = 0
    for number, (call, same) in enumerate(pairs):
        theirs, ours = tmp_path / f"theirs{number}", tmp_path / f"ours{number}"
        if not made(original(str(theirs)), call):
            continue
        writer = SummaryWriter(str(ours))
        with writer, contextlib.redirect_stdout(io.StringIO()):
            getattr(writer, same[0])(*same[1], **same[2])
        times = "walltime" in call[2]
        expected, found = left(theirs, times=times), left(ours, times=times)
        assert found == expected, shown(call)
        compared += bool(expected)
    assert compared > 0.8 * CALLS
