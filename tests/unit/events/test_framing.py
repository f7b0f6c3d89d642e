import pytest
from tensorboard.summary.writer.record_writer import RecordWriter

from stepscope.errors import EventFileError
from stepscope.events import frame, unframe
from stepscope.events.framing import payload_length


@pytest.mark.parametrize("payload", [b"", b"payload", bytes(range(256))])
def test_a_record_is_what_tensorboard_writes(tmp_path, payload):
    with (tmp_path / "file").open("wb") as file:
        RecordWriter(file).write(payload)
    assert (tmp_path / "file").read_bytes() == frame(payload)
    assert unframe(frame(payload)) == payload


@pytest.mark.parametrize(
    "record", [b"", b"short", frame(b"x") + b"\0", frame(b"x")[:-1], frame(b"x")[:-1] + b"\0", bytes(16)]
)
def test_what_is_no_record_is_refused(record):
    with pytest.raises(EventFileError, match="not a record"):
        unframe(record)


def test_a_header_gives_its_length():
    assert payload_length(frame(b"abc")[:12]) == 3
    assert payload_length(bytes(12)) is None
    assert payload_length(b"") is None
