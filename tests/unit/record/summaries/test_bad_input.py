"""What cannot be recorded: one warning at the user's line and a count, or an error in strict mode."""

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import RecordError

IMAGE = np.zeros((4, 5, 3))
BAD = {
    "image of 7 channels": lambda run: run.image("t", np.zeros((6, 5, 7))),
    "image of rank 5": lambda run: run.image("t", np.zeros((1, 1, 4, 5, 3))),
    "image of the wrong layout": lambda run: run.image("t", IMAGE, dataformats="HW"),
    "image of integers": lambda run: run.image("t", np.zeros((4, 5, 3), np.int64)),
    "image of floats to 255": lambda run: run.image("t", IMAGE + 255.0),
    "image of NaN": lambda run: run.image("t", IMAGE * np.nan),
    "empty image": lambda run: run.image("t", np.zeros((0, 5, 3))),
    "image by its path": lambda run: run.image("t", "image.png"),
    "bytes that are not images": lambda run: run.image("t", b"hello"),
    "too wide an image": lambda run: run.image("t", np.broadcast_to(np.uint8(0), (1, 70_000, 1))),
    "no images": lambda run: run.images("t", []),
    "images in one": lambda run: run.images("t", np.zeros((4, 5))),
    "empty histogram": lambda run: run.histogram("t", []),
    "histogram of NaN": lambda run: run.histogram("t", [np.nan, np.inf]),
    "histogram of complex numbers": lambda run: run.histogram("t", [1j]),
    "histogram of text": lambda run: run.histogram("t", np.array(["a"])),
    "no buckets": lambda run: run.histogram("t", [1.0], buckets=0),
    "counts without edges": lambda run: run.histogram_counts("t", [1, 2], [0, 1]),
    "edges that fall": lambda run: run.histogram_counts("t", [1, 2], [0, 2, 1]),
    "negative counts": lambda run: run.histogram_counts("t", [1, -2], [0, 1, 2]),
    "audio of rank 3": lambda run: run.audio("t", np.zeros((2, 3, 4))),
    "audio of NaN": lambda run: run.audio("t", np.array([np.nan])),
    "audio of int64": lambda run: run.audio("t", np.array([1, 2])),
    "empty audio": lambda run: run.audio("t", np.zeros(0)),
    "no sample rate": lambda run: run.audio("t", np.zeros(4), sample_rate=0),
    "bytes that are not a sound": lambda run: run.audio("t", b"hello"),
    "video of rank 2": lambda run: run.video("t", np.zeros((4, 5))),
    "video of no speed": lambda run: run.video("t", np.zeros((2, 4, 5, 3)), fps=0),
    "bytes that are not a video": lambda run: run.video("t", b"hello"),
    "invalid text": lambda run: run.text("t", 5),
    "text of half characters": lambda run: run.text("t", "\ud800"),
    "text that is no UTF-8": lambda run: run.text("t", b"\xff"),
    "table of numbers": lambda run: run.table("t", 5),
    "table without columns": lambda run: run.table("t", []),
    "rows of unequal length": lambda run: run.table("t", [[1, 2], [3]], columns=["a", "b"]),
    "unequal labels": lambda run: run.pr_curve("t", [1, 0], [0.5]),
    "logits": lambda run: run.pr_curve("t", [1, 0], [5.0, -5.0]),
    "no thresholds": lambda run: run.pr_curve("t", [1], [0.5], num_thresholds=1),
    "mesh in a plane": lambda run: run.mesh("t", np.zeros((5, 2))),
    "mesh of NaN": lambda run: run.mesh("t", np.full((5, 3), np.nan)),
    "mesh of few colors": lambda run: run.mesh("t", np.zeros((5, 3)), colors=np.zeros((4, 3))),
    "vectors in a row": lambda run: run.embedding("t", np.zeros(5)),
    "few labels": lambda run: run.embedding("t", np.zeros((5, 2)), labels=["a"]),
    "few pictures": lambda run: run.embedding("t", np.zeros((5, 2)), images=np.zeros((4, 2, 2, 3))),
    "graph of texts": lambda run: run.graph(["a"]),
    "graph of a number": lambda run: run.graph(5),
    "hparams of a list": lambda run: run.hparams([1]),
    "layout of a list": lambda run: run.layout([1]),
    "half a margin": lambda run: run.layout({"c": {"q": ["Margin", ["a", "b"]]}}),
    "array of objects": lambda run: run.tensor("t", [object()]),
    "tag of a number": lambda run: run.image(5, IMAGE),
    "long tag": lambda run: run.image("t" * 2000, IMAGE),
    "step of text": lambda run: run.image("t", IMAGE, "three"),
    "huge step": lambda run: run.image("t", IMAGE, 1 << 70),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_one_warning_at_the_users_line_and_counted(bad, tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with pytest.warns(RuntimeWarning, match="not recorded") as told, ss.Run(tmp_path) as run:  # noqa: PT031
        bad(run)
        run.flush()
        bad(run)
        run.scalar("fine", 1.0, 0)
    [warning] = told
    assert warning.filename == __file__
    assert "\nhint: " in str(warning.message)
    assert sum(run.problems.values()) == 2
    with ss.open(tmp_path, cache=False) as log:
        stored = log.run(".")
        assert stored.columns("fine")
        assert sum(problem.count for problem in stored.problems if problem.kind == "unrecorded") == 2


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_an_error_in_strict_mode(bad, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    run = ss.Run(tmp_path)
    try:
        with pytest.raises(RecordError):  # noqa: PT012  of the background thread's, at the next call
            bad(run)
            run.flush()
    finally:
        run.close()


def test_a_run_that_is_closed_says_so(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with ss.Run(tmp_path) as run:
        pass
    with pytest.warns(RuntimeWarning, match="the run is closed"):
        run.image("i", IMAGE)
    assert run.problems == {"closed": 1}


def test_code_of_the_user_that_fails_is_told(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)

    class Strange:
        def __array__(self, *arguments, **options):
            raise ZeroDivisionError("mine")

    with pytest.warns(RuntimeWarning, match="ZeroDivisionError"), ss.Run(tmp_path) as run:
        run.histogram("h", Strange())
    assert run.problems == {"value": 1}
