"""Whatever pixels and samples are given, other programs decode what they were."""

import io
import wave

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from PIL import Image

from stepscope.events.kinds import histogram, media
from stepscope.record.summaries import encode

MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
shapes = st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 4))


@given(shapes.flatmap(lambda shape: arrays(np.uint8, shape)))
@settings(max_examples=150, deadline=None)
def test_png(pixels):
    encoded = encode.png(pixels)
    image = Image.open(io.BytesIO(encoded))
    assert image.mode == MODES[pixels.shape[2]]
    np.testing.assert_array_equal(np.asarray(image).reshape(pixels.shape), pixels)
    assert media.size(encoded) == (pixels.shape[1], pixels.shape[0])


@given(
    st.tuples(st.integers(1, 4), st.integers(1, 40), st.integers(1, 40)),
    st.integers(1, 256),
    st.integers(0, 1 << 32),
    st.floats(0.5, 60),
)
@settings(max_examples=60, deadline=None)
def test_gif_of_few_colors_is_exact(shape, count, seed, fps):
    indices = np.random.default_rng(seed).integers(0, count, shape)
    table = np.random.default_rng(seed).choice(1 << 24, 256)
    colors = np.stack([table >> 16, table >> 8 & 255, table & 255], 1).astype(np.uint8)
    encoded = encode.gif(colors[indices], fps)
    film = Image.open(io.BytesIO(encoded))
    shown = []
    for number in range(film.n_frames):  # equal neighbours are one frame that is shown longer
        film.seek(number)
        times = round(film.info["duration"] / (10 * max(2, round(100 / fps))))
        shown += [np.asarray(film.convert("RGB"))] * times
    np.testing.assert_array_equal(shown, colors[indices])
    assert media.size(encoded) == (indices.shape[2], indices.shape[1])


@given(st.tuples(st.integers(0, 50), st.integers(1, 4)).flatmap(lambda shape: arrays(np.int16, shape)))
@settings(max_examples=100, deadline=None)
def test_wav(samples):
    with wave.open(io.BytesIO(encode.wav(samples, 8000))) as read:
        assert read.getparams()[:4] == (samples.shape[1], 2, 8000, len(samples))
        found = np.frombuffer(read.readframes(1000), "<i2").reshape(samples.shape)
    np.testing.assert_array_equal(found, samples)


@given(arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6)), st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_a_histogram_counts_every_value_between_smallest_and_largest(values, buckets):
    rows = histogram.rows_of(values, buckets)
    assert rows.shape == (buckets, 3)
    assert rows[:, 2].sum() == len(values)
    assert (rows[0, 0], rows[-1, 1]) == (values.min(), values.max())
    assert (np.diff(rows[:, 0]) >= 0).all()


@given(st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_no_bytes_break_what_looks_at_them(data):
    assert isinstance(media.mime(data), str)
    for start in (
        b"",
        b"\xff\xd8\xff",
        b"GIF89a",
        b"\x89PNG\r\n\x1a\n",
        b"RIFF0000WEBPVP8X",
        b"RIFF0000WEBPVP8 ",
    ):
        width, height = media.size(start + data)
        assert width >= 0
        assert height >= 0


@pytest.mark.parametrize("value", [1.7e308, -1e308, 5e-324, 2e-323])
def test_huge_and_tiny_values(value):
    rows = histogram.rows_of(np.array([value, -value, 0.0]), 4)
    assert rows[:, 2].sum() == 3
    assert np.isfinite(rows).all()
    assert (rows[0, 0], rows[-1, 1]) == (-abs(value), abs(value))
