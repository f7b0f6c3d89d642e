"""Names of the parts of a step; cases.txt has how long they took."""

from stepscope.attribute.step_tree import PARTS


def test_parts_are_named():
    assert set(PARTS) >= {"data_loading", "forward", "backward", "optimizer", "communication", "copy", "idle"}
