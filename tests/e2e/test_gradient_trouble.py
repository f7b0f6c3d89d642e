"""Ranks that skip, stay away, die or have other parameters: told once, and nobody waits for them."""

from pathlib import Path

import pytest
from support.jobs import run_ranks

from stepscope.events import EventFile

JOB = Path(__file__).with_name("gradient_trouble.py")
RANKS = 3
pytestmark = pytest.mark.slow


def launch(out: Path, trouble: str) -> dict[int, list[str]]:
    """Return what each rank that came to its end says: seconds, then warnings."""
    run_ranks([JOB, out, trouble], RANKS, timeout=120)
    return {int(path.stem): path.read_text().split("\n") for path in out.glob("?.txt")}


def steps_of(out: Path, tag: str) -> list[int]:
    [path] = (out / "run").glob("*tfevents*")
    return next((each.step.tolist() for each in EventFile(path).read().scalars if each.tag == tag), [])


@pytest.mark.parametrize("trouble", ["skips", "dies", "absent", "layout"])
def test_the_others_go_on(tmp_path, trouble):
    said = launch(tmp_path, trouble)
    assert len(said) == RANKS - (trouble == "dies")
    for lines in said.values():
        loop, ended, slowest = map(float, lines[0].split())
        assert loop < 20
        assert ended < 7
        assert slowest < 5
    for rank, lines in said.items():
        told = [line for line in lines if line.startswith("stepscope: ")]
        # A rank with other parameters states that they changed; the ranks make a new layout together.
        expected = {0, 1, 2} if trouble == "layout" else {0} if (trouble, rank) == ("absent", 1) else {1}
        assert len(told) in expected, lines
    measured = steps_of(tmp_path, "weights/0.weight/norm")
    # While the ranks make a new layout together, steps measured by the old one are left out.
    assert trouble == "layout" or measured[:3] == [0, 1, 2]
    if trouble in ("skips", "layout"):
        assert trouble == "layout" or "the ranks measured" in said[0][1]
        assert measured[-1] == 25  # back in line
    else:
        assert "switched off" in said[0][1]
    assert steps_of(tmp_path, "gradients/norm")[-1] >= (24 if trouble != "absent" else 4)
