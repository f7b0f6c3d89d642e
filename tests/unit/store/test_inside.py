"""No path leads out of the directory that it is given below."""

from __future__ import annotations

import pytest

from stepscope.errors import LogDirectoryError
from stepscope.inside import inside


@pytest.fixture
def root(tmp_path):
    (tmp_path / "logs" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logs" / "near").symlink_to("a")
    return tmp_path / "logs"


@pytest.mark.parametrize("path", ["a", "a/b", "a/b/c", "a/../a/b", "near/b", "link"])
def test_what_lies_inside(root, path):
    assert inside(root, path).parent.is_relative_to(root)
    assert inside(root, root / path) == inside(root, path)


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../x", "a/../../x", "/etc/passwd", "link/x", "link/x/y", "a/..", "a\0b"]
)
def test_what_leads_out_is_refused(root, path):
    with pytest.raises(LogDirectoryError, match="lies outside of the directory"):
        inside(root, path)
