"""Every row of CommonLoopUtils' table in docs/compat.md, each held by the test that names it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.rows import Rows
from support.values import values_of
from support.waiting import until

from stepscope.compat import clu_writer
from stepscope.errors import RecordError

ROWS = Rows("compat.md", "| | CommonLoopUtils | here |")
row = ROWS.held_by


def test_every_row_of_the_table_has_a_test_and_every_test_a_row():
    assert ROWS.names
    assert sorted(ROWS.names) == sorted(ROWS.held)


@pytest.fixture
def writer(tmp_path):
    writer = clu_writer.SummaryWriter(tmp_path)
    yield writer
    writer.close()


@row("`write_videos`")
@pytest.mark.parametrize("shape", [(4, 6, 5, 3), (2, 4, 6, 5, 3)])
def test_videos_are_gifs(shape, writer, tmp_path):
    writer.write_videos(1, {"v": np.arange(np.prod(shape)).reshape(shape).astype(np.uint8)})
    writer.close()
    [(step, (data, _, _))] = values_of(tmp_path)[".", "v"]
    assert step == 1
    assert data.count(b"GIF89a") == (1 if len(shape) == 4 else 2)


@row("colours of points")
@pytest.mark.parametrize("colors", [[[[0.0, 0.5, 1.0]]], [[[0, 128, 255]]]])
def test_colours_are_the_same_of_either_kind(colors, writer, tmp_path, tensorboard):
    writer.write_pointcloud(1, {"c": np.zeros((1, 1, 3))}, point_colors={"c": np.array(colors)})
    writer.close()
    assert tensorboard(tmp_path)[".", "c_COLOR"][0][1].tolist() == [[[0, 128, 255]]]


@row("when values can be read")
def test_values_can_be_read_without_a_flush(writer, tmp_path):
    writer.write_hparams({"lr": 0.5})
    assert (".", "_hparams_/session_start_info") in values_of(tmp_path)
    writer.write_scalars(1, {"s": 2.0})
    until(lambda: (".", "s") in values_of(tmp_path))


@row("hyper-parameters of other types")
def test_hyper_parameters_of_other_types_are_text(writer, tmp_path):
    class HyperParam:  # as clu.values has it
        value = Path("from/values")

    clu_writer.write_values(writer, 1, {"place": HyperParam()})
    writer.write_hparams({"path": Path("x/y"), "pair": (1, None)})
    writer.close()
    found = b"".join(data for _, (data, _, _) in values_of(tmp_path)[".", "_hparams_/session_start_info"])
    assert all(word in found for word in (b"from/values", b"x/y", b"pair.0"))


def test_hyper_parameters_of_a_writer_that_takes_a_step_have_one():
    class HyperParam:
        value = 0.5

    class Stepped(clu_writer.LoggingWriter):
        def write_hparams(self, step, hparams):
            told.append((step, hparams))

    told = []
    clu_writer.write_values(Stepped(), 3, {"lr": HyperParam()})
    assert told == [(3, {"lr": 0.5})]


@row("NaN and infinite values")
def test_values_that_are_not_finite_are_in_no_bucket(writer, tmp_path, tensorboard):
    writer.write_histograms(1, {"h": np.array([1.0, np.nan, 2.0, np.inf, -np.inf])})
    writer.close()
    [(_, rows)] = tensorboard(tmp_path)[".", "h"]
    assert rows[:, 2].sum() == 2
    assert (rows[0, 0], rows[-1, 1]) == (1.0, 2.0)


@row("bad values")
def test_bad_values_are_told_and_counted_and_raise_in_strict_mode(tmp_path, monkeypatch):
    bad = {"i": np.zeros((2, 2, 2, 2, 2))}
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    strict = clu_writer.SummaryWriter(tmp_path / "strict")
    with pytest.raises(RecordError, match="not recorded"):
        strict.write_images(1, bad)
    strict.close()
    monkeypatch.delenv("STEPSCOPE_STRICT")
    loose = clu_writer.SummaryWriter(tmp_path / "loose")
    with pytest.warns(RuntimeWarning, match="not recorded"):
        loose.write_images(1, bad)
    assert sum(loose._run.problems.values()) == 1
    loose.close()
