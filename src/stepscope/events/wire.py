"""The protocol-buffer wire format, driven by one table per message.

A message is a dataclass whose fields are made by ``wire``; its table follows from them. This is the cold
path, simple and complete: fields that are not in the table, or have another wire type, are kept as bytes and
written back. Code that runs per scalar is written by hand in ``writer`` and ``kernels``.
"""

from __future__ import annotations

import dataclasses
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

from stepscope.errors import DAMAGED_RECORD, UNUSUAL_SUMMARY, EventFileError

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """Only checkers of types need it; ``typing`` has it from Python 3.11 on."""
        return lambda function: function


VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
LARGE_BYTES = 1 << 16  # from here on a copy costs more than a part of its own
MAX_DEPTH = 100  # as protobuf's own parsers: a message nested deeper is refused, not followed
MOST_PARTS = 1 << 24
"""Numbers, texts and unknown fields of one message with all in it; a message in it counts as MESSAGE_PARTS.

Two bytes make a message of Python's that takes a hundred times as many: without a bound a file of some
megabytes takes all memory.
"""
MESSAGE_PARTS = 16
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_SHORT = [bytes((value,)) for value in range(128)]
M = TypeVar("M", bound="Message")


@dataclass
class Message:
    """A message of the wire format.

    Attributes:
        unknown: Fields not in the table, as they were read; written back after the known ones.
    """

    unknown: bytes = dataclasses.field(default=b"", kw_only=True)
    table: ClassVar[dict[int, Field]] = {}

    def __bytes__(self) -> bytes:
        return encode(self)


@dataclass(frozen=True)
class Field:
    """One row of a table: how a field is written and read."""

    name: str
    number: int
    kind: WireKind
    repeated: bool
    oneof: tuple[str, ...]
    """Names of the fields of which this one excludes the others."""
    optional: bool
    """Absent is None, not the default: members of a oneof and messages."""


@dataclass(frozen=True)
class WireKind:
    """The encoding of one value: its wire type, and how it becomes bytes and back."""

    wire: int
    zero: Any
    put: Callable[[Any], bytes]
    get: Callable[[Any, int], Any]
    pack: str = ""
    """Struct code of a fixed-width number, for packed lists."""


def wire(number: int, kind: Any, *, repeated: bool = False, oneof: str = "") -> Any:
    """Declare a field of a message.

    Args:
        number: Its number on the wire.
        kind: One of KINDS, or the class of the message it holds.
        repeated: A list; numbers in it are packed.
        oneof: Name of the group of which at most one field is set; such a field is None when absent.
    """
    details = {"number": number, "kind": kind, "repeated": repeated, "oneof": oneof}
    if repeated:
        return dataclasses.field(default_factory=list, metadata=details)
    optional = bool(oneof) or kind not in KINDS
    return dataclasses.field(default=None if optional else KINDS[kind].zero, metadata=details)


@dataclass_transform()
def message(cls: type[M]) -> type[M]:
    """Make a class of ``wire`` fields a dataclass, with its table."""
    cls = dataclass(cls)
    declared = [field for field in dataclasses.fields(cls) if field.metadata]
    groups: dict[str, tuple[str, ...]] = {}
    for field in declared:
        if group := field.metadata["oneof"]:
            groups[group] = (*groups.get(group, ()), field.name)
    rows = [_row(field, groups) for field in declared]
    cls.table = {row.number: row for row in sorted(rows, key=lambda row: row.number)}
    return cls


def _row(field: dataclasses.Field[Any], groups: dict[str, tuple[str, ...]]) -> Field:
    details = field.metadata
    kind, group = details["kind"], details["oneof"]
    declared = KINDS[kind] if kind in KINDS else _message_kind(kind)
    optional = not details["repeated"] and (bool(group) or kind not in KINDS)
    return Field(
        field.name, details["number"], declared, details["repeated"], groups.get(group, ()), optional
    )


# --- encoding ---------------------------------------------------------------------------------------


def varint(value: int) -> bytes:
    """Encode an integer of up to 64 bits; a negative one in two's complement, ten bytes long."""
    if 0 <= value < 1 << 14:  # nearly all that are written, without a loop
        return _SHORT[value] if value < 128 else bytes((value & 127 | 128, value >> 7))
    if not -(1 << 63) <= value < 1 << 64:
        raise EventFileError(
            f"{value} does not fit into 64 bits", hint="count from 0, or divide it before it is logged"
        )
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def length_prefixed(data: bytes) -> bytes:
    """Return some bytes with their length before them."""
    return varint(len(data)) + data


def encode(message: Message) -> bytes:
    """Return the message as bytes, fields in the order of their numbers, unknown ones last."""
    return b"".join(encode_parts(message))


def encode_parts(message: Message) -> list[bytes]:
    """Return the parts of a message; bytes in it that are large, as pictures, are a part and not copied."""
    parts: list[bytes] = []
    for field in message.table.values():
        value = getattr(message, field.name)
        if field.repeated:
            parts += _encode_list(field, value)
        elif value is not None and (field.optional or _is_set(value, field.kind)):
            parts.append(varint(field.number << 3 | field.kind.wire))
            parts += _encode_value(field.kind, value)
    parts.append(message.unknown)
    return parts


def _encode_value(kind: WireKind, value: Any) -> Sequence[bytes]:
    if isinstance(value, Message):
        inner = encode_parts(value)
        return [varint(sum(map(len, inner))), *inner]
    if isinstance(value, bytes | memoryview) and len(value) >= LARGE_BYTES:
        return varint(len(value)), cast("bytes", value)
    return (kind.put(value),)


def _is_set(value: Any, kind: WireKind) -> bool:
    if kind.pack and isinstance(value, float):
        return kind.put(value).strip(b"\0") != b""  # -0.0 is not the default
    return bool(value != kind.zero)


def _encode_list(field: Field, values: Any) -> Iterator[bytes]:
    if not len(values):
        return
    kind = field.kind
    if kind.wire == BYTES:
        key = varint(field.number << 3 | BYTES)
        for value in values:
            yield key
            yield from _encode_value(kind, value)
        return
    yield varint(field.number << 3 | BYTES)
    if kind.pack:
        yield length_prefixed(struct.pack(f"<{len(values)}{kind.pack}", *values))
    else:
        yield length_prefixed(b"".join(map(kind.put, values)))


# --- decoding ---------------------------------------------------------------------------------------


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned integer at a place and the place after it."""
    result = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise EventFileError(
                "not a protocol-buffer message: expected an integer, found only a part of one",
                hint=DAMAGED_RECORD,
            )
        byte = data[at]
        at += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return result & (1 << 64) - 1, at
        shift += 7


class _Room(threading.local):
    """Parts that the message may still have that a thread decodes."""

    left = MOST_PARTS

    def take(self, parts: int) -> None:
        self.left -= parts
        if self.left < 0:
            raise EventFileError(
                f"not read: a message of more than {MOST_PARTS:,} parts", hint=UNUSUAL_SUMMARY
            )


_room = _Room()


def decode(cls: type[M], data: bytes, *, depth: int = 0) -> M:
    """Return the message in some bytes.

    Raises:
        EventFileError: The bytes are not a message at all, or one of too many parts. Unknown fields are not
            errors.
    """
    if depth == 0:
        _room.left = MOST_PARTS
    _room.take(MESSAGE_PARTS)
    message = cls()
    merge(message, data, depth)
    return message


def each_of(cls: type[Message], name: str, data: bytes) -> Iterator[Any]:
    """Return the messages of a repeated field of a message one by one: all of them at once are many objects.

    Raises:
        EventFileError: The bytes are not a message at all, or there are too many.
    """
    field = next(field for field in cls.table.values() if field.name == name)
    at = count = 0
    while at < len(data):
        key, at = read_varint(data, at)
        value, at = read_value(data, at, key & 7, key)
        if key >> 3 == field.number and key & 7 == BYTES:
            count += MESSAGE_PARTS
            _room.left = MOST_PARTS - count
            yield field.kind.get(value, 0)


def merge(message: Message, data: bytes, depth: int = 0) -> None:
    """Read bytes into a message: lists grow, messages merge, of other fields the last one stays."""
    if depth > MAX_DEPTH:
        raise EventFileError(f"not read: messages nested more than {MAX_DEPTH} deep", hint=UNUSUAL_SUMMARY)
    at, end, table = 0, len(data), message.table
    unknown: list[bytes] = []
    while at < end:
        start, key = at, data[at]
        at += 1
        if key > 127:
            key, at = read_varint(data, start)
        field, wire_type = table.get(key >> 3), key & 7
        if field is not None and wire_type == BYTES and at < end and data[at] < 128:
            begin, at = at + 1, at + 1 + data[at]  # short texts and messages: nearly all there is
            if at > end:
                raise EventFileError(cut_short(at - begin, end - begin), hint=DAMAGED_RECORD)
            value: Any = data[begin:at]
        else:
            value, at = read_value(data, at, wire_type, key)
        if field is None or not (wire_type == field.kind.wire or (field.repeated and wire_type == BYTES)):
            _room.take(1)
            unknown.append(data[start:at])
        elif field.repeated and wire_type == field.kind.wire:
            _room.take(1)
            getattr(message, field.name).append(field.kind.get(value, depth))
        else:
            _store(message, field, wire_type, value, depth)
    if unknown:
        message.unknown += b"".join(unknown)


def read_value(data: Any, at: int, wire_type: int, key: int) -> tuple[Any, int]:
    """Return the value at a place, an int for VARINT and bytes for the others, and the place after it.

    Args:
        data: Bytes, or a view of bytes, of which then the value is one.
        at: Start of the value, behind its key.
        wire_type: Of the value.
        key: Number and wire type, as they stand before it.

    Raises:
        EventFileError: Nothing of that kind is there.
    """
    if key >> 3 == 0:
        raise EventFileError("not a protocol-buffer message: found a field numbered 0", hint=DAMAGED_RECORD)
    if wire_type == VARINT:
        return read_varint(data, at)
    if wire_type == GROUP:
        return b"", _skip_group(data, at, key >> 3)
    if wire_type == BYTES:
        size, at = read_varint(data, at)
    elif wire_type in (FIXED64, FIXED32):
        size = 8 if wire_type == FIXED64 else 4
    else:
        raise EventFileError(
            f"not a protocol-buffer message: found wire type {wire_type}", hint=DAMAGED_RECORD
        )
    if at + size > len(data):
        raise EventFileError(cut_short(size, len(data) - at), hint=DAMAGED_RECORD)
    return data[at : at + size], at + size


def cut_short(expected: int, left: int) -> str:
    """Return the error for a field that is longer than the rest."""
    return f"not a protocol-buffer message: expected {expected} bytes, found {left}"


def _skip_group(data: Any, at: int, number: int, depth: int = 0) -> int:
    if depth > MAX_DEPTH:
        raise EventFileError(f"not read: groups nested more than {MAX_DEPTH} deep", hint=UNUSUAL_SUMMARY)
    while True:
        key, at = read_varint(data, at)
        if key & 7 == GROUP_END:
            if key >> 3 != number:
                raise EventFileError(
                    "not a protocol-buffer message: a group ends that did not begin", hint=DAMAGED_RECORD
                )
            return at
        if key & 7 == GROUP:
            at = _skip_group(data, at, key >> 3, depth + 1)
        else:
            at = read_value(data, at, key & 7, key)[1]


def _store(message: Message, field: Field, wire_type: int, value: Any, depth: int) -> None:
    kind, name = field.kind, field.name
    if field.repeated:
        getattr(message, name).extend(_unpack(kind, value))
        return
    before = getattr(message, name)
    if isinstance(before, Message):
        merge(before, value, depth + 1)
        return
    for other in field.oneof:
        setattr(message, other, None)
    setattr(message, name, kind.get(value, depth))


def _unpack(kind: WireKind, data: bytes) -> Any:
    if kind.pack:
        width = struct.calcsize(kind.pack)
        if len(data) % width:
            raise EventFileError(
                f"not a protocol-buffer message: {len(data)} bytes are not a list of {width}-byte numbers",
                hint=DAMAGED_RECORD,
            )
        _room.take(len(data) // width)
        return struct.unpack(f"<{len(data) // width}{kind.pack}", data)
    values, at = [], 0
    while at < len(data):
        _room.take(1)
        value, at = read_varint(data, at)
        values.append(kind.get(value, 0))
    return values


# --- kinds ------------------------------------------------------------------------------------------


def _signed32(value: int, depth: int) -> int:
    value &= (1 << 32) - 1
    return value - (1 << 32) if value >> 31 else value


def _text(value: bytes, depth: int) -> str:
    return value.decode("utf-8", "surrogateescape")  # what is no UTF-8 is written back as it was


KINDS: dict[Any, WireKind] = {
    "double": WireKind(FIXED64, 0.0, _DOUBLE.pack, lambda value, depth: _DOUBLE.unpack(value)[0], "d"),
    "float": WireKind(FIXED32, 0.0, _FLOAT.pack, lambda value, depth: _FLOAT.unpack(value)[0], "f"),
    "int64": WireKind(VARINT, 0, varint, lambda value, depth: value - (1 << 64) if value >> 63 else value),
    "int32": WireKind(VARINT, 0, varint, _signed32),
    "uint64": WireKind(VARINT, 0, varint, lambda value, depth: value),
    "uint32": WireKind(VARINT, 0, varint, lambda value, depth: value & 0xFFFFFFFF),
    "bool": WireKind(VARINT, False, varint, lambda value, depth: value != 0),
    "string": WireKind(
        BYTES, "", lambda value: length_prefixed(value.encode("utf-8", "surrogateescape")), _text
    ),
    "bytes": WireKind(BYTES, b"", length_prefixed, lambda value, depth: bytes(value)),
}


def _message_kind(cls: type[Message]) -> WireKind:
    def get(value: bytes, depth: int) -> Message:
        return decode(cls, value, depth=depth + 1)

    return WireKind(BYTES, None, lambda value: length_prefixed(encode(value)), get)
