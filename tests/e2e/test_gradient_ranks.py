"""Four real processes in every kind of parallelism: what the run holds is what the whole gradient is."""

from pathlib import Path

import numpy as np
import pytest
from support.jobs import run_ranks
from support.modules import load
from support.records import decoded

from stepscope.events import EventFile
from stepscope.events.kinds import histogram
from stepscope.record.edges import counts, rows

JOB = Path(__file__).with_name("gradient_ranks.py")
MODES = ("ddp", "fsdp", "hsdp", "tp_fsdp", "tp", "accumulate", "accumulate_bf16")
CUTS = ("cut_ddp", "cut_fsdp", "cut_tp_fsdp")
"""Modes in which values of gradients are clipped before the optimizer's step."""
pytestmark = [
    pytest.mark.slow,
    # Importing what torch needs for FSDP2 and DTensor.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning"),
]


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Run every mode once, in one set of processes: starting them is what takes long."""
    out = tmp_path_factory.mktemp("ranks")
    run_ranks([JOB, out, *MODES, *CUTS], 4, STEPSCOPE_STRICT="1")
    return out


def recorded(directory: Path) -> tuple[dict, dict]:
    """Return numbers by tag and step, and histograms by tag and step."""
    numbers: dict[str, dict[int, float]] = {}
    histograms: dict[str, dict[int, np.ndarray]] = {}
    [path] = directory.glob("*tfevents*")
    for column in EventFile(path).read().scalars:
        numbers[column.tag] = dict(zip(column.step.tolist(), column.value.tolist(), strict=True))
    for step, value in values_of(path):
        if value.tag.endswith("/histogram"):
            histograms.setdefault(value.tag, {})[step] = histogram.read(value)
    return numbers, histograms


def values_of(path: Path):
    for event in decoded(path.read_bytes()):
        for value in event.values:
            yield event.step, value


def statistics(array: np.ndarray) -> dict[str, float]:
    wide = array.astype(np.float64)
    return {
        "norm": np.sqrt((wide * wide).sum()),
        "mean": wide.mean(),
        "std": wide.std(),
        "min": wide.min(),
        "max": wide.max(),
        "zero_ratio": (wide == 0).mean(),
        "nonfinite_count": 0,
    }


def truth(job: Path, mode: str) -> dict[tuple[int, str, str], np.ndarray]:
    with np.load(job / f"{mode}.npz") as found:
        keys = [key.split("/") for key in found if not key.startswith(("rival", "uncut"))]
        return {(int(step), kind, name): found[f"{step}/{kind}/{name}"] for step, kind, name in keys}


def single(mode: str) -> dict[str, np.ndarray]:
    return load(JOB).single(mode)


@pytest.mark.parametrize("mode", MODES)
def test_every_statistic_is_that_of_the_whole_tensor(job, mode):
    numbers, histograms = recorded(job / mode)
    whole = truth(job, mode)
    assert {kind for _, kind, _ in whole} == {"gradients", "weights", "updates"}
    for (step, kind, name), array in whole.items():
        for statistic, expected in statistics(array).items():
            found = numbers[f"{kind}/{name}/{statistic}"][step]
            assert found == pytest.approx(expected, rel=1e-6, abs=1e-8), (kind, name, statistic, step)
        np.testing.assert_array_equal(histograms[f"{kind}/{name}/histogram"][step], rows(counts(array)))
    for step in range(3):
        squares = sum(
            (a.astype("f8") ** 2).sum()
            for (at, kind, _), a in whole.items()
            if (at, kind) == (step, "gradients")
        )
        assert numbers["gradients/norm"][step] == pytest.approx(np.sqrt(squares), rel=1e-6)
        assert numbers["gradients/nonfinite_count"][step] == 0
    assert "gradients/unused/norm" not in numbers  # without a gradient is not the same as zero
    assert "weights/unused/norm" in numbers
    assert not any("again" in tag for tag in numbers)  # tied to the first layer, and counted there


@pytest.mark.parametrize("mode", MODES)
def test_it_is_what_one_process_computes(job, mode):
    """The job itself is exact, so the statistics compared above are those of the single process."""
    whole = truth(job, mode)
    exact = 1 if "bf16" in mode else 2
    compared = 0
    for key, array in single(mode).items():
        step, kind, name = key.split("/")
        if int(step) < exact:
            np.testing.assert_array_equal(whole[int(step), kind, name], array, err_msg=key)
            compared += 1
    assert compared == 4 * exact


@pytest.mark.parametrize("mode", MODES)
def test_a_hook_on_each_parameter_is_wrong_or_absent(job, mode):
    whole = truth(job, mode)
    right = 0
    with np.load(job / f"{mode}.npz") as found:
        for (step, kind, name), array in whole.items():
            if kind == "gradients":
                fired = found[f"rival/{name}"] if f"rival/{name}" in found else np.zeros(0)
                norm = np.sqrt((array.astype("f8") ** 2).sum())
                right += step < len(fired) and abs(fired[step] - norm) <= 1e-6 * norm
    gradients = sum(kind == "gradients" for _, kind, _ in whole)
    assert gradients == 12
    assert right < gradients / 2


@pytest.mark.parametrize("mode", CUTS)
def test_the_norm_before_values_are_clipped_is_that_of_all_ranks(job, mode):
    numbers, _ = recorded(job / mode)
    whole = truth(job, mode)
    with np.load(job / f"{mode}.npz") as found:
        uncut = [float(found[f"uncut/{step}"]) for step in range(3)]
    cut = [
        np.sqrt(
            sum(
                (a.astype("f8") ** 2).sum()
                for (at, kind, _), a in whole.items()
                if (at, kind) == (step, "gradients")
            )
        )
        for step in range(3)
    ]
    assert all(before > 1.1 * after for before, after in zip(uncut, cut, strict=True))
    assert [numbers["gradients/norm"][step] for step in range(3)] == pytest.approx(uncut, rel=1e-6)
    assert [numbers["gradients/clipped_norm"][step] for step in range(3)] == pytest.approx(cut, rel=1e-6)


def test_the_noise_scale_is_there_where_own_gradients_are(job):
    numbers = recorded(job / "ddp")[0]
    sampled = next(tag for tag in numbers if tag.startswith("gradients/") and tag.endswith("/std"))
    noise = set(numbers["gradients/noise_scale"])
    assert len(noise) > 1  # at sampled steps; at none where the estimate of the squared norm is not positive
    assert noise <= set(numbers[sampled])
    assert "gradients/noise_scale" not in recorded(job / "fsdp")[0]


@pytest.mark.parametrize("mode", MODES + CUTS)
def test_no_rank_has_a_problem(job, mode):
    assert {(job / f"{mode}.{rank}.txt").read_text() for rank in range(4)} == {"{}\n"}
