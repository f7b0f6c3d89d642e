"""Configs of the projector, ours and others'; what they name outside the log directory is not read."""

import numpy as np
import pytest

import stepscope as ss
from stepscope.errors import EventFileError
from stepscope.store import projector
from stepscope.store.projector import embeddings_of, labels_of, matrix_of, parse


@pytest.fixture
def opened(tmp_path):
    """Makes a log of one run beside a file that is nobody's business."""
    (tmp_path / "secret.tsv").write_text("1\t2\n")
    with ss.Run(tmp_path / "log" / "a") as run:
        run.scalar("x", 1.0, 0)

    def with_config(text, folder="a", **files):
        place = tmp_path / "log" / folder
        for name, content in files.items():
            (place / name).write_bytes(content)
        (place / "projector_config.pbtxt").write_text(text)
        return ss.open(tmp_path / "log", cache=False)

    return with_config


def test_what_a_run_records_is_found_with_its_labels(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(7, 3)).astype("f4")
    with ss.Run(tmp_path / "a") as run:
        run.embedding("hidden é", vectors, 4, labels=[["a", n] for n in range(7)], columns=["class", "n"])
        run.embedding("plain", vectors, 4, labels=list("abcdefg"))
    with ss.open(tmp_path, cache=False) as log:
        first, second = embeddings_of(log, "a")
        assert first.name == "hidden é:00000004"
        assert (matrix_of(tmp_path.resolve(), first) == vectors).all()
        labels = labels_of(tmp_path.resolve(), first, 7)
        assert (labels.columns, labels.rows[6]) == (["class", "n"], ["a", "6"])
        assert labels_of(tmp_path.resolve(), second, 7).rows[1] == ["b"]
        with pytest.raises(EventFileError, match="7 labels for 8 points"):
            labels_of(tmp_path.resolve(), first, 8)


def test_what_torch_writes_is_read(tmp_path):
    writer = pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path / "t"))
    vectors = np.random.default_rng(0).normal(size=(6, 4)).astype("f4")
    writer.add_scalar("x", 1.0, 0)
    writer.add_embedding(
        vectors, [["x", str(n)] for n in range(6)], tag="e", global_step=3, metadata_header=["k", "n"]
    )
    writer.close()
    with ss.open(tmp_path, cache=False) as log:
        [found] = embeddings_of(log, "t")
        assert np.allclose(matrix_of(tmp_path.resolve(), found), vectors)
        assert labels_of(tmp_path.resolve(), found, 6).columns == ["k", "n"]


def test_a_config_above_runs_is_theirs(opened, tmp_path):
    """Keras writes it beside ``train`` and ``validation``."""
    with ss.Run(tmp_path / "log" / "k" / "train") as run:
        run.scalar("x", 1.0, 0)
    log = opened('embeddings { tensor_name: "e" }', folder="k")
    assert [each.name for each in embeddings_of(log, "k/train")] == ["e"]
    assert embeddings_of(log, "a") == []


def test_bytes_with_a_shape_are_read(opened, tmp_path):
    data = np.arange(6, dtype="<f4")
    log = opened(
        'embeddings { tensor_name: "e" tensor_shape: 2 tensor_shape: 3 tensor_path: "e.bytes" }',
        **{"e.bytes": data.tobytes()},
    )
    [found] = embeddings_of(log, "a")
    assert matrix_of((tmp_path / "log").resolve(), found).tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize(
    "path", ["../../secret.tsv", "/etc/passwd", "x\\000y", "link.tsv", "missing.tsv", ".", "pipe"]
)
def test_nothing_outside_the_log_directory_is_read(opened, tmp_path, path):
    import os

    (tmp_path / "log" / "a" / "link.tsv").symlink_to(tmp_path / "secret.tsv")
    os.mkfifo(tmp_path / "log" / "a" / "pipe")
    [found] = embeddings_of(opened(f'embeddings {{ tensor_name: "e" tensor_path: "{path}" }}'), "a")
    with pytest.raises(EventFileError, match=r"lies outside|is not there"):
        matrix_of((tmp_path / "log").resolve(), found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"1\t2\n3\n", "rows of numbers"),
        (b"a\tb\n", "rows of numbers"),
        (b"1\tnan\n1\t2\n", "1 vectors"),
        (b"\x00\xff\xfe", "rows of numbers"),
    ],
)
def test_files_that_hold_no_vectors_say_so(opened, tmp_path, content, words):
    log = opened('embeddings { tensor_name: "e" tensor_path: "e.tsv" }', **{"e.tsv": content})
    with pytest.raises(EventFileError, match=words):
        matrix_of((tmp_path / "log").resolve(), embeddings_of(log, "a")[0])


def test_many_lines_are_read_some_at_a_time(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(projector, "BLOCK_BYTES", 100)
    numbers = np.random.default_rng(0).normal(size=(300, 3)).astype("f4")
    text = "\n\n".join("\t".join(map(repr, row)) for row in numbers.tolist()) + "\n" * 500
    log = opened('embeddings { tensor_name: "e" tensor_path: "e.tsv" }', **{"e.tsv": text.encode()})
    root = (tmp_path / "log").resolve()
    [found] = embeddings_of(log, "a")
    assert (matrix_of(root, found) == numbers).all()
    for end, words in (("1\t2", "from line .* 2 numbers in a line, 3 in those before"), ("x", "from line")):
        (tmp_path / "log" / "a" / "e.tsv").write_text(text + end)
        with pytest.raises(EventFileError, match=words):
            matrix_of(root, found)


def test_a_line_without_end_is_refused(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(projector, "MAX_LINE_BYTES", 1_000)
    log = opened(
        'embeddings { tensor_name: "e" tensor_path: "e.tsv" }', **{"e.tsv": b"1\t2\n" + b"1" * 2_000}
    )
    with pytest.raises(EventFileError, match="a line of more than 1,000 bytes"):
        matrix_of((tmp_path / "log").resolve(), embeddings_of(log, "a")[0])


def test_numbers_that_would_take_all_memory_are_refused(opened, tmp_path, monkeypatch):
    log = opened('embeddings { tensor_name: "e" tensor_path: "e.tsv" }', **{"e.tsv": b"1\t2\n" * 3})
    root, [found] = (tmp_path / "log").resolve(), embeddings_of(log, "a")
    monkeypatch.setattr(projector, "MAX_NUMBERS", 6)
    assert matrix_of(root, found).shape == (3, 2)
    monkeypatch.setattr(projector, "MAX_NUMBERS", 5)
    with pytest.raises(EventFileError, match="more than 5 numbers"):
        matrix_of(root, found)


@pytest.mark.parametrize(
    "labels",
    [b"\n" * (1 << 25), b"\t" * (1 << 25), b"a\tb\n" + b"\t" * (1 << 25), b"\t" * (1 << 23) + b"\n" * 7],
    ids=["lines", "columns", "one line", "wide"],
)
def test_labels_that_would_take_all_memory_are_refused(opened, tmp_path, labels):
    log = opened(
        'embeddings { tensor_name: "e" tensor_path: "e.tsv" metadata_path: "e.labels" }',
        **{"e.tsv": b"1\n" * 6, "e.labels": labels},
    )
    with pytest.raises(EventFileError, match="more than 16,777,216 labels"):
        labels_of((tmp_path / "log").resolve(), embeddings_of(log, "a")[0], 6)


def test_the_text_format_of_protobuf_is_read():
    text = 'embeddings { tensor_name: "x\\"\\303\\251\\u00e9" \'y\' tensor_shape: [1, 2]; other: -1.5; },'
    more = "# a note\nmodel_checkpoint_path: 'm' later { a: 1 } embeddings < tensor_shape: 3 >"
    first, second = parse(text + more).embeddings
    assert first.tensor_name.decode() == 'x"ééy'
    assert (list(first.tensor_shape), list(second.tensor_shape)) == ([1, 2], [3])


@pytest.mark.parametrize(
    "text", ["{", "a {", "a:", "a: }", "\x00", 'a: "open', "a " + "{ b " * 30, "a { " * 9_999]
)
def test_what_is_no_config_is_refused(text):
    with pytest.raises(EventFileError, match="not a projector config"):
        parse(text)
