"""What the counters of a file say in words."""

import bz2
import gzip
import lzma

import pytest
from support.records import write_series

from stepscope.events import EventFile, EventWriter
from stepscope.events.status import FileStatus


@pytest.mark.parametrize(
    ("torn", "words"), [(1, "the last 1 byte is not a record"), (2, "the last 2 bytes are not a record")]
)
def test_a_tail_that_is_no_record_is_counted_in_words(torn, words):
    status = FileStatus(bytes=100, records=3, torn_bytes=torn)
    status.describe(broken_tail=True)
    assert status.problem == words


@pytest.mark.parametrize(
    ("pack", "words"),
    [
        (gzip.compress, "it is compressed with gzip; unpack it with gunzip"),
        (lzma.compress, "it is compressed with xz; unpack it with unxz"),
        (bz2.compress, "it is compressed with bzip2; unpack it with bunzip2"),
        (
            lambda content: b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 99\n",
            "it is a pointer of Git LFS; fetch the file itself with git lfs pull",
        ),
        (
            lambda content: b"<!DOCTYPE html>\n<html><title>404</title></html>",
            "it is a web page, such as a server sends in place of a file; download it again",
        ),
    ],
    ids=["gzip", "xz", "bzip2", "lfs", "html"],
)
@pytest.mark.parametrize("zeros", [0, 4096])
def test_a_file_that_is_something_else_says_what_it_is(tmp_path, pack, words, zeros):
    writer = EventWriter(tmp_path)
    for step in range(100):
        writer.scalar("loss", 1.0, step, 1.7e9)
    writer.close()
    path = tmp_path / "events.out.tfevents.1.packed"
    path.write_bytes(pack(writer.path.read_bytes()) + bytes(zeros))
    file = EventFile(path)
    file.read()
    assert file.status.problem == f"not an event file: {words}"


def test_an_event_file_is_not_taken_for_something_else(tmp_path):
    write_series(tmp_path, {"<html": [1.0]})
    file = EventFile(*tmp_path.iterdir())
    file.read()
    assert file.status.problem is None
