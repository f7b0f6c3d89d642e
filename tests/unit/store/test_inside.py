"""No path leads out of the directory that it is given below."""

import errno
import os

import pytest

from stepscope.errors import LogDirectoryError
from stepscope.files import inside, json_object, regular_bytes


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


def test_a_pipe_or_a_directory_in_the_place_of_a_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "."):
        with pytest.raises(OSError) as caught:
            regular_bytes(tmp_path / name, 100)
        assert caught.value.errno in (errno.EINVAL, errno.EISDIR)
        assert json_object(tmp_path / name, 100) is None


def test_a_file_of_more_bytes_than_may_be_is_not_read(tmp_path):
    with (tmp_path / "long").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(OSError, match="more than 100 bytes"):
        regular_bytes(tmp_path / "long", 100)
    (tmp_path / "fits").write_bytes(b"x" * 100)
    assert regular_bytes(tmp_path / "fits", 100) == b"x" * 100


@pytest.mark.parametrize("text", ["", "[1]", "{", "[" * 200_000, '{"a": ' * 200_000, "\udcff"])
def test_what_is_no_json_object_is_none(tmp_path, text):
    (tmp_path / "a.json").write_text(text, errors="surrogateescape")
    assert json_object(tmp_path / "a.json", 16 << 20) is None


def test_a_json_object_is_read(tmp_path):
    (tmp_path / "a.json").write_text('{"a": ["é"]}')
    assert json_object(tmp_path / "a.json", 100) == {"a": ["é"]}
