import errno
import os

import pytest

from stepscope.events.source import EventSource


def source_of(path, data):
    path.write_bytes(data)
    return EventSource(path)


def test_behind_the_last_stored_byte_there_is_none(tmp_path):
    with source_of(tmp_path / "a", b"abc") as source:
        assert source.data_from(0) == 0
        assert source.data_from(source.size) == source.size


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_tells_no_holes_is_read_whole(tmp_path, monkeypatch, number):
    def refuse(*_):
        raise OSError(number, os.strerror(number))

    with source_of(tmp_path / "a", b"abc") as source:
        monkeypatch.setattr(os, "lseek", refuse)
        assert source.data_from(1) == 1
