"""Summaries that are not scalars, whichever tool wrote them: listed, followed, cached, read."""

import io

import numpy as np
import pytest
import torch
from PIL import Image

import stepscope as ss
from stepscope.errors import UnknownTagError
from stepscope.events import Event, EventWriter, Summary, Value
from stepscope.events.kinds import histogram, image, text

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")


def put(writer, value, step, wall=1.7e9):
    writer.event(Event(wall + step, step, summary=Summary([value])))
    writer.flush()


@pytest.mark.parametrize("package", ["torch.utils.tensorboard", "tensorboardX"])
def test_files_of_other_writers(package, tmp_path):
    module = pytest.importorskip(package)
    rng = np.random.default_rng(0)
    picture, values = rng.random((3, 4, 5)), rng.normal(size=200)
    with module.SummaryWriter(str(tmp_path)) as writer:
        writer.add_histogram("h", values, 3)
        writer.add_image("i", picture, 3)
        writer.add_text("t", "*x*", 3)
        writer.add_pr_curve("pr", rng.integers(0, 2, 50), rng.random(50), 3)
        writer.add_mesh("m", torch.rand(1, 6, 3), global_step=3)
        writer.add_custom_scalars({"c": {"q": ["Margin", ["a", "b", "c"]]}})
        if package.startswith("torch"):
            writer.add_audio("a", torch.rand(1, 100), 3)
            writer.add_tensor("raw", torch.arange(4.0), 3)
            writer.add_graph(torch.nn.Linear(2, 3), torch.rand(1, 2))
            writer.add_hparams({"lr": 0.1}, {"m": 1.0}, run_name="below")
    with ss.open(tmp_path, cache=False) as log:
        run = log.run(".")
        kinds = {each.tag: each.kind for each in run.records()}
        rows = run.record("h")[0][0]
        assert rows[:, 2].sum() == 200
        assert (rows[0, 0], rows[-1, 1]) == (values.min(), values.max())
        [blob] = run.record("i")[0][0].blobs
        shown = np.asarray(Image.open(io.BytesIO(blob.data)))
        np.testing.assert_array_equal(shown, (picture.transpose(1, 2, 0) * 255).astype(np.uint8))
        assert run.record("t/text_summary")[0][0].tolist() == ["*x*"]
        assert run.record("pr")[0][0].shape == (6, 127)
        assert run.record("custom_scalars__config__")[0][0].category[0].chart[0].margin.series[0].value == "a"
        assert [kind for tag, kind in kinds.items() if tag.startswith("m_")] == ["mesh"]
        if package.startswith("torch"):
            [clip] = run.record("a")[0][0]
            assert clip.blob.mime == "audio/wav"
            assert run.record("raw")[0][0].tolist() == [0, 1, 2, 3]
            assert kinds["__run_graph__"] == "graph"
            assert kinds["step1"] == "run_metadata"
            assert log.run("below").info.config == {"lr": 0.1}
            [start] = log.run("below").record("_hparams_/session_start_info")
            assert start[0] == {"lr": 0.1}


def test_a_growing_file_is_followed(tmp_path):
    writer = EventWriter(tmp_path / "run")
    put(writer, text.value("t", "one"), 0)
    with ss.open(tmp_path, cache=False) as log:
        [series] = log.run("run").record("t")
        assert (len(series), series.step.tolist()) == (1, [0])
        put(writer, text.value("t", "two"), 1)
        put(writer, text.value("u", "new"), 1)
        assert log.refresh().changed == {"run": {"t", "u"}}
        [series] = log.run("run").record("t")
        assert [value.item() for value in series] == ["one", "two"]
        assert series.wall.tolist() == [1.7e9, 1.7e9 + 1]
        assert log.run("run").tags("text") == ["t", "u"]
        assert log.run("run").tags() == []
    writer.close()


def test_a_run_of_images_alone_has_writers_and_attempts(tmp_path):
    for attempt in range(2):
        wall = 1.7e9 + 1000 * attempt
        writer = EventWriter(tmp_path / "run", clock=lambda wall=wall: wall)
        put(writer, image.value("i", [b"GIF89a" + bytes(9)], 1, 1), attempt, wall=wall)
        writer.close()
    with ss.open(tmp_path, cache=False) as log:
        [writer] = log.run("run").writers
        assert [(s.writer, s.attempt) for s in log.run("run").record("i")] == [(writer.id, 1), (writer.id, 2)]


def restarted(make, *, texts=(), losses=()):
    """A run of ten steps with texts at 2 and 8, started again at step 6."""
    make.append(make.line("a", "loss", range(10)), *(said(make, step, 10 + step) for step in (2, 8)))
    second = make.file("a/events.out.tfevents.1700000100.host.2.0", wall=make.START + 100)
    make.session_start(second, 6, 101)
    make.points(second, "loss", [(step, 101 + step, 1) for step in losses])
    make.append(second, *(said(make, step, 101 + step) for step in texts))
    return make.open().run("a")


def said(make, step, wall):
    return Event(make.START + wall, step, summary=Summary([text.value("t", str(step))]))


@pytest.mark.parametrize(
    ("texts", "losses", "expected"),
    [
        ((12,), (7,), {1: 6, 2: None}),  # its first value comes later than the session began
        ((4,), (7,), {1: 4, 2: None}),  # and here before: what was written counts
        ((), (7,), {1: 6}),
        ((12,), (), {1: 6, 2: None}),
        ((), (), {1: None}),  # nothing was recorded since, so nothing was recorded again
    ],
)
def test_a_session_start_says_for_all_kinds_where_an_attempt_goes_on(make, texts, losses, expected):
    run = restarted(make, texts=texts, losses=losses)
    assert {each.attempt: each.superseded_from for each in run.record("t")} == expected
    scalars = {each.attempt: each.superseded_from for each in run.columns("loss")}
    assert scalars[1] == (None if expected[1] is None else 6)


def test_an_unknown_tag_is_answered_with_those_like_it(tmp_path):
    writer = EventWriter(tmp_path / "run")
    put(writer, text.value("notes", "x"), 0)
    writer.close()
    with ss.open(tmp_path, cache=False) as log, pytest.raises(UnknownTagError, match="notes"):
        log.run("run").record("note")


def test_the_cache_keeps_where_they_are(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    writer = EventWriter(tmp_path / "log" / "run")
    rows = histogram.rows_of(np.arange(10.0))
    for step in range(2000):
        put(writer, histogram.value("h", rows + step, description="d"), step)
    writer.close()
    with ss.open(tmp_path / "log") as log:
        log.refresh()
    with ss.open(tmp_path / "log") as log:
        source = next(iter(log._sources.values()))
        assert source._file is None  # nothing of the file was read again
        [found] = [each for each in log.run("run").records() if each.tag == "h"]
        assert (found.count, found.last_step, found.description) == (2000, 1999, "d")
        [series] = log.run("run").record("h")
        np.testing.assert_array_equal(series[1234], rows + 1234)
    for blob in (tmp_path / "cache").rglob("*.columns"):
        blob.unlink()
    with ss.open(tmp_path / "log") as log:
        [series] = log.run("run").record("h")
        np.testing.assert_array_equal(series[1999], rows + 1999)


def test_old_histograms_of_odd_shape(tmp_path):
    from stepscope.events import Histogram

    writer = EventWriter(tmp_path / "run")
    put(writer, Value("empty", histo=Histogram(0, 0, 0, 0, 0, [1.0, 2.0], [0.0, 0.0])), 0)
    put(writer, Value("one", histo=Histogram(1, 1, 3, 3, 3, [0.5, 1.5], [0.0, 3.0])), 0)
    put(writer, Value("short", histo=Histogram(1, 1, 3, 3, 3, [0.5], [0.0, 3.0])), 0)
    writer.close()
    with ss.open(tmp_path, cache=False) as log:
        run = log.run("run")
        assert run.record("empty")[0][0].shape == (0, 3)
        assert run.record("one")[0][0].tolist() == [[1.0, 1.0, 3.0]]
        assert [record.tag for record in run.records()] == ["empty", "one"]
        assert [(problem.kind, problem.count) for problem in run.problems] == [("malformed", 1)]
