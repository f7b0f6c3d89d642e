import pytest

from stepscope.errors import EventFileError
from stepscope.events import Event, Histogram, Metadata, PluginData, Shape, Summary, Tensor, Value
from stepscope.events.wire import Message, decode, each_of, encode, length_prefixed, read_varint, varint


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, b"\0"), (127, b"\x7f"), (128, b"\x80\x01"), (300, b"\xac\x02"), (-1, b"\xff" * 9 + b"\x01")],
)
def test_varint(number, data):
    assert varint(number) == data
    assert read_varint(data, 0) == (number & (1 << 64) - 1, len(data))


@pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
def test_a_number_of_more_than_64_bits_is_refused(number):
    with pytest.raises(EventFileError, match="64 bits"):
        varint(number)


UNKNOWN = [
    varint(100 << 3 | 0) + b"\x05",
    varint(100 << 3 | 1) + b"12345678",
    varint(100 << 3 | 2) + b"\x03abc",
    varint(100 << 3 | 5) + b"1234",
    varint(100 << 3 | 3) + b"\x08\x01" + varint(9 << 3 | 3) + varint(9 << 3 | 4) + varint(100 << 3 | 4),
    b"\x08\x01",  # wall_time, but as an integer
]


@pytest.mark.parametrize("field", UNKNOWN)
def test_unknown_fields_are_kept(field):
    event = decode(Event, b"\x10\x05" + field + b"\x10\x06")
    assert event == Event(step=6, unknown=field)
    assert encode(event) == b"\x10\x06" + field


def test_unknown_fields_of_inner_messages_are_kept():
    event = Event(summary=Summary([Value("x", simple_value=1.0, unknown=UNKNOWN[2])], unknown=UNKNOWN[0]))
    assert decode(Event, encode(event)) == event


def test_of_a_oneof_the_last_stays():
    data = encode(Value(simple_value=1.0)) + encode(Value(tensor=Tensor(1)))
    assert decode(Value, data) == Value(tensor=Tensor(1))


def test_of_other_fields_the_last_stays_lists_grow_and_messages_merge():
    one = Value("a", tensor=Tensor(1, float_val=[1.0]), metadata=Metadata(display_name="name"))
    two = Value("b", tensor=Tensor(2, float_val=[2.0]), metadata=Metadata(PluginData("p")))
    merged = Value("b", tensor=Tensor(2, float_val=[1.0, 2.0]), metadata=Metadata(PluginData("p"), "name"))
    assert decode(Value, encode(one) + encode(two)) == merged


def test_lists_of_numbers_are_read_packed_and_not():
    packed = decode(Tensor, encode(Tensor(float_val=[1.0], int_val=[-1, 2])))
    single = decode(Tensor, b"\x2d\x00\x00\x80\x3f" + b"\x38" + varint(-1) + b"\x38\x02")
    assert packed == single == Tensor(float_val=[1.0], int_val=[-1, 2])


def test_a_negative_zero_is_not_left_out():
    assert str(decode(Histogram, encode(Histogram(min=-0.0))).min) == "-0.0"
    assert encode(Histogram(min=0.0)) == b""


def test_a_member_of_a_oneof_is_written_when_it_is_zero():
    assert decode(Value, encode(Value(simple_value=0.0))).simple_value == 0.0
    assert decode(Value, encode(Value())).simple_value is None


def test_text_that_is_no_utf8_is_written_back_as_it_was():
    data = b"\x0a\x02\xff\xfe"
    assert encode(decode(Value, data)) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\x09\x01",
        b"\x2a\x05abc",
        b"\x10",
        b"\x10" + b"\x80" * 10 + b"\x01",
        b"\x00\x01",
        b"\x0f",
        b"\x0c",
        b"\x0b\x08\x01",
        b"\x0b\x14",
        b"\x2a\x04\x0a\x02\x0a\x05",
    ],
)
def test_what_is_no_message_is_refused(data):
    with pytest.raises(EventFileError, match="not a protocol-buffer message"):
        decode(Event, data)


def test_a_list_of_half_a_number_is_refused():
    with pytest.raises(EventFileError, match="not a list of 4-byte numbers"):
        decode(Tensor, b"\x2a\x03abc")


def test_endless_nesting_is_refused():
    with pytest.raises(EventFileError, match="more than 100 deep"):
        decode(Event, b"\x0b" * 200)


def test_messages_are_bytes():
    assert bytes(Shape.of(2)) == b"\x12\x02\x08\x02"
    assert isinstance(Shape.of(2), Message)
    assert length_prefixed(b"ab") == b"\x02ab"


def test_messages_of_a_list_are_read_one_by_one():
    values = [Value("a", simple_value=1.0), Value("b" * 200)]
    data = encode(Summary(values, unknown=UNKNOWN[4]))
    assert list(each_of(Summary, "value", data)) == values == decode(Summary, data).value
    with pytest.raises(EventFileError, match="expected"):
        list(each_of(Summary, "value", data[:-1]))
