"""What a rank writes is what is read back, whatever it logs, in whatever pieces the file grows."""

import math
import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from stepscope.events.framing import frame
from stepscope.events.rank_file import RankFile
from stepscope.events.telemetry import ROWS, Name, TelemetryRow, encoded, stretches

NAME = Name("rank", 0, 1, 1, 0, "h", 1, 0)
single = some.floats(width=32, allow_nan=True)
rows = some.lists(
    some.tuples(
        some.integers(-(1 << 40), 1 << 40),
        some.builds(
            TelemetryRow,
            wall=some.floats(0, 4e9),
            seconds=some.floats(0, 1e6, width=32) | some.just(math.nan),
            waited=some.floats(0, 1e6, width=32) | some.just(math.nan),
            loss=single,
            has_loss=some.booleans(),
            nonfinite=some.integers(0, 1000),
        ),
    ),
    max_size=30,
)


def in_single(values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


@pytest.mark.slow
@settings(deadline=None)
@given(batches=some.lists(rows, max_size=4), cuts=some.lists(some.integers(0, 2000), max_size=5))
def test_rows_come_back(batches, cuts):
    parts = [
        frame(encoded(ROWS, batch[begin:end], (1e9, math.nan)))
        for batch in batches
        for begin, end in stretches(batch)
    ]
    data = b"".join(parts)
    with TemporaryDirectory() as folder:
        path = Path(folder) / str(NAME)
        path.touch()
        file = RankFile(str(path), NAME)
        done = 0
        for cut in [*sorted(cut for cut in cuts if cut < len(data)), len(data)]:
            with path.open("ab") as out:
                out.write(data[done:cut])
            done = max(done, cut)
            os.utime(path, ns=(done + 1, done + 1))
            file.follow()
        found = file.steps()
    given_rows = [row for batch in batches for row in batch]
    assert found.step.tolist() == [step for step, _ in given_rows]
    np.testing.assert_array_equal(found.step_time_s, in_single([row.seconds for _, row in given_rows]))
    np.testing.assert_array_equal(found.data_wait_s, in_single([row.waited for _, row in given_rows]))
    expected = [row.loss if row.has_loss else math.nan for _, row in given_rows]
    np.testing.assert_allclose(found.loss, in_single(expected), rtol=1e-6)
    assert found.nonfinite_count.tolist() == [row.nonfinite for _, row in given_rows]
    assert file.skipped == 0
    assert file.digest().steps == len(given_rows)
