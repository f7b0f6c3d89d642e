"""What the counters of a file say in words."""

import pytest

from stepscope.events.status import FileStatus


@pytest.mark.parametrize(
    ("torn", "words"), [(1, "the last 1 byte is not a record"), (2, "the last 2 bytes are not a record")]
)
def test_a_tail_that_is_no_record_is_counted_in_words(torn, words):
    status = FileStatus(bytes=100, records=3, torn_bytes=torn)
    status.describe(broken_tail=True)
    assert status.problem == words
