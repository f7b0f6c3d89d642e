"""Protobuf classes of messages that others defined, declared at run time in pools of their own.

Generated modules would tie users to one protobuf version and collide with TensorFlow's own registration, so
the few fields that are read are declared, one line per message: ``name number type``, ``*`` for repeated,
``?`` for one of the message's alternatives, of which ``WhichOneof("value")`` tells.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

_TYPES = {"bytes": 12, "int64": 3, "int32": 5, "uint32": 13, "uint64": 4, "bool": 8, "double": 1}
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


@cache
def classes(package: str, declared: str) -> Callable[[str], Any]:
    """Return a function that gives the protobuf classes of messages by name.

    Args:
        package: In which the messages are.
        declared: One line per message.
    """
    # Loaded here: who reads other files needs none of it.
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for line in filter(None, declared.splitlines()):
        name, fields = line.split(":")
        message_type = file.message_type.add(name=name)
        for field in fields.split(","):
            _declare(message_type, package, *field.split())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file) if not hasattr(pool, "AddSerializedFile") else pool.AddSerializedFile(
        file.SerializeToString()
    )
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def _declare(message_type: Any, package: str, name: str, number: str, kind: str) -> None:
    field = message_type.field.add(
        name=name, number=int(number), label=_REPEATED if kind[-1] == "*" else _OPTIONAL
    )
    if kind[-1] == "?":
        if not message_type.oneof_decl:
            message_type.oneof_decl.add(name="value")
        field.oneof_index = 0
    kind = kind.rstrip("*?")
    field.type = _TYPES.get(kind, _MESSAGE)
    if kind not in _TYPES:
        field.type_name = f".{package}.{kind}"
