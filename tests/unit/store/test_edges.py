"""Values at the very edge of what the store's small functions tell apart."""

from types import SimpleNamespace

import numpy as np
import pytest

from stepscope.errors import EventFileError
from stepscope.events import Event
from stepscope.store.findings import parse_finding
from stepscope.store.index import samples_of
from stepscope.store.kinds import decode
from stepscope.store.ranks import edges_of
from stepscope.store.records import RecordTag, joined
from stepscope.store.writers import rank_name


@pytest.mark.parametrize(("world_size", "name"), [(None, ""), (1, ""), (2, "rank 1")])
def test_a_rank_has_a_name_where_there_are_two(world_size, name):
    said = SimpleNamespace(rank=1, world_size=world_size, role="worker")
    assert rank_name(SimpleNamespace(said=said)) == name


def test_steps_far_apart_end_before_the_end_of_the_range():
    part = SimpleNamespace(step=np.array([0, 10**9, 2 * 10**9]))
    assert edges_of([part], None, None, 10**9).tolist() == [0, 10**9]


def test_a_value_behind_the_last_is_refused():
    with pytest.raises(EventFileError, match="no such value"):
        decode("scalar", Event(wall_time=1.0, step=0), 0)


def test_a_finding_keeps_its_values_and_thresholds():
    facts = {"rule": "r", "severity": "high", "step": 3, "values": {"z": 9.0}, "threshold": {"limit": 2.0}}
    finding = parse_finding({**facts, "tag": "loss", "title": "t"}, 1)
    assert (finding.values, finding.threshold) == ({"z": 9.0}, {"limit": 2.0})
    assert (finding.tag, finding.title) == ("loss", "t")
    assert parse_finding(facts, 1).tag == ""


@pytest.mark.parametrize(("wall", "step"), [(2.0, 5), (3.0, 5), (1.0, 9)])
def test_the_last_value_of_a_tag_is_the_newest_of_all_series(wall, step):
    places = SimpleNamespace(step=np.array([4, 5]), wall=np.array([0.5, wall]))
    about = SimpleNamespace(kind="image", plugin="images", display_name="", description="here")
    before = RecordTag("x", "image", "images", "name", "", 3, 9, 2.0)
    tag = joined("x", SimpleNamespace(about=about, places=places, count=2), before)
    assert (tag.last_step, tag.last_wall) == (step, max(wall, 2.0))
    assert (tag.display_name, tag.description, tag.count) == ("name", "here", 5)


def test_a_short_file_is_known_by_all_of_its_bytes(tmp_path):
    (tmp_path / "a").write_bytes(b"a" + bytes(99))
    (tmp_path / "b").write_bytes(b"b" + bytes(99))
    both = zip(samples_of(str(tmp_path / "a"), 100), samples_of(str(tmp_path / "b"), 100), strict=True)
    assert [one != other for one, other in both] == [True, True]
