"""The stand-in for CommonLoopUtils' writer leaves what ``tf.summary`` leaves, which the original calls."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tensorboard.plugins.hparams import api as hparams_api
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from tensorboard.plugins.text.metadata import create_summary_metadata

from stepscope.compat import clu_writer

SEEDS = int(os.environ.get("COMPAT_SEEDS", "6"))


def original(directory: Path, kind: str, given: dict, extra: object) -> None:
    """The calls that CommonLoopUtils makes."""
    with tf.summary.create_file_writer(str(directory)).as_default() as writer:
        for tag, value in given.items():
            if kind == "scalars":
                tf.summary.scalar(tag, value, step=3)
            elif kind == "images":
                several = value[None] if value.ndim == 3 else value
                tf.summary.image(tag, several, step=3, max_outputs=len(several))
            elif kind == "audios":
                tf.summary.audio(tag, value, sample_rate=extra, step=3, max_outputs=len(value))
            elif kind == "texts":
                tf.summary.text(tag, value, step=3)
            elif kind == "histograms":
                tf.summary.histogram(tag, value, step=3, buckets=extra.get(tag))
            elif kind == "summaries":
                tf.summary.write(tag, value, step=3, metadata=extra.get(tag))
        if kind == "hparams":
            hparams_api.hparams(given)
        writer.close()


def stand_in(directory: Path, kind: str, given: dict, extra: object) -> None:
    writer = clu_writer.SummaryWriter(directory)
    write = getattr(writer, f"write_{kind}")
    if kind == "audios":
        write(3, given, sample_rate=extra)
    elif kind in ("histograms", "summaries"):
        write(3, given, extra)
    elif kind == "hparams":
        write(given)
    else:
        write(3, given)
    writer.close()


def left(directory: Path) -> list[tuple]:
    """Every value in the order of tags: pixels instead of PNGs, no times."""
    found = []
    for path in sorted(directory.glob("events.out.tfevents.*")):
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                about = value.metadata.plugin_data
                pixels: list = []
                if about.plugin_name == "images":
                    parts = list(value.tensor.string_val)
                    pixels = [tf.io.decode_png(part).numpy().tolist() for part in parts[2:]]
                    del value.tensor.string_val[2:]
                if about.plugin_name == "hparams":
                    content = HParamsPluginData.FromString(about.content)
                    content.session_start_info.start_time_secs = 0
                    about.content = content.SerializeToString(deterministic=True)
                data = value.SerializeToString(deterministic=True)
                found.append((value.tag, event.step, data, pixels, str(value)[:500]))
    return sorted(found)


def compare(directory: Path, kind: str, given: dict, extra: object = None) -> int:
    original(directory / "theirs", kind, given, extra)
    stand_in(directory / "ours", kind, given, extra)
    theirs, ours = left(directory / "theirs"), left(directory / "ours")
    assert [each[0] for each in ours] == [each[0] for each in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert mine == other
    return len(theirs)


RNG = np.random.default_rng(1)
FLOATS, SOUNDS = RNG.random((2, 6, 7, 3)), (RNG.random((2, 100, 1)) * 2 - 1).astype(np.float32)
CASES = {
    "scalars": (
        {"float": 0.1, "int": 3, "numpy": np.float32(0.5), "array": np.array(2.5), "nan": float("nan"),
         "infinite": float("inf"), "bool": True, "uint8": np.uint8(4), "int64": np.int64(2**40)}, None,
    ),
    "images": (
        {"several": FLOATS, "one": FLOATS[0], "float32": FLOATS.astype(np.float32),
         "half": FLOATS.astype(np.float16), "beyond": FLOATS * 1.5 - 0.2, "grey": FLOATS[..., :1],
         "uint8": RNG.integers(0, 256, (2, 5, 5, 1), np.uint8), "alpha": RNG.random((1, 3, 3, 4)),
         "uint16": RNG.integers(0, 65536, (1, 3, 3, 3)).astype(np.uint16),
         "int32": RNG.integers(-5, 2**31 - 1, (1, 3, 3, 3)).astype(np.int32),
         "int8": RNG.integers(-128, 128, (1, 3, 3, 3)).astype(np.int8)}, None,
    ),
    "audios": (
        {"mono": SOUNDS, "loud": SOUNDS * 3, "stereo": RNG.random((1, 50, 2)).astype(np.float32)}, 8000,
    ),
    "texts": ({"plain": "*x*", "unicode": "ä 漢", "empty": "", "table": [["a", "b"], ["c", "d"]]}, None),
    "histograms": (
        {"usual": RNG.normal(size=500), "five": RNG.normal(size=500), "constant": np.full(4, 2.0),
         "empty": np.array([]), "ints": np.arange(20), "one": np.array(3.0), "single": RNG.normal(size=5),
         "float32": RNG.normal(size=50).astype(np.float32), "none": np.arange(3.0)},
        {"five": 5, "single": 1, "none": 0},
    ),
    "summaries": (
        {"eye": np.eye(2, dtype=np.float32), "uint8": np.eye(3, dtype=np.uint8), "number": np.float32(1.5),
         "texts": np.array([b"a", b"b"], object), "bool": np.array([True, False]), "int64": np.arange(4)},
        {"texts": create_summary_metadata(None, "said")},
    ),
    "hparams": ({"lr": 0.5, "n": 3, "name": "adam", "flag": True}, None),
}  # fmt: skip


@pytest.mark.parametrize("kind", CASES)
def test_the_values_are_those_of_tensorflow(kind, tmp_path):
    given, extra = CASES[kind]
    assert compare(tmp_path, kind, given, extra) == (1 if kind == "hparams" else len(given))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_random_values_are_those_of_tensorflow(seed, tmp_path):
    rng = np.random.default_rng(seed)
    kinds = [np.float64, np.float32, np.float16]

    def drawn(*shape: int, scale: float = 1.0) -> np.ndarray:
        kind = kinds[int(rng.integers(3))]
        return (rng.normal(size=shape) * scale).astype(kind)

    sizes = [tuple(rng.integers(1, 9, 3)) for _ in range(8)]
    numbers = {f"n{i}": drawn()[()] for i in range(8)}
    pictures = {f"i{i}": drawn(n, h, w, int(rng.integers(1, 5))) for i, (n, h, w) in enumerate(sizes)}
    waves = {f"a{i}": drawn(n, h * w, 2).astype(np.float32) for i, (n, h, w) in enumerate(sizes)}
    spread = {
        f"h{i}": drawn(n, h, w, scale=10.0 ** int(rng.integers(-3, 4))) for i, (n, h, w) in enumerate(sizes)
    }
    buckets = {tag: int(rng.integers(0, 40)) for tag in spread if rng.random() < 0.5}
    assert compare(tmp_path / "s", "scalars", numbers) == 8
    assert compare(tmp_path / "i", "images", pictures) == 8
    assert compare(tmp_path / "a", "audios", waves, 16_000) == 8
    assert compare(tmp_path / "h", "histograms", spread, buckets) == 8
    assert compare(tmp_path / "w", "summaries", spread, {}) == 8
