"""The HTTP interface as an OpenAPI 3.1 document, made from its routes and the types of its messages."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

import msgspec

from stepscope.serve.operations import FRAME, JSON, OPERATIONS, Operation, Parameter
from stepscope.serve.types import API, Failure
from stepscope.version import __version__

VERSION = "3.1.0"
REFERENCE = "#/components/schemas/{name}"
REFUSALS = {
    "400": "The request is wrong.",
    "401": "The token is missing or wrong, or the link has expired.",
    "403": "The host or origin is not allowed, or a change was requested where only reading is allowed.",
    "404": "No such run, tag, profile or address.",
    "405": "The address does not support this method.",
    "408": "The body did not arrive in time.",
    "409": "The request is not possible in the current state.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "422": "A file of the log directory cannot be read.",
    "503": "The server has no capacity left at the moment.",
}
"""Every status except that of success; 500 is a defect."""


def document(groups: Iterable[type[Any]]) -> dict[str, Any]:
    """Return the description of every address of groups of endpoints, as ``serve/endpoints.py`` has them."""
    routes = [
        (address, kind, group, method)
        for group in groups
        for kind, named in (("get", group.gets), ("post", group.posts))
        for address, method in named.items()
    ]
    messages = sorted({*_messages(), Failure}, key=lambda message: message.__name__)
    _, components = msgspec.json.schema_components(messages, ref_template=REFERENCE)
    return {
        "openapi": VERSION,
        "info": {
            "title": "Stepscope",
            "version": __version__,
            "description": "The runs of a log directory: what they recorded, findings, and profiles.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "."}],
        "security": [{"bearer": []}, {}],
        "paths": {
            f"/{API}{address}": {kind: _operation(address, group, method)}
            for address, kind, group, method in sorted(routes, key=lambda route: route[0])
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def _messages() -> list[type]:
    """Return the types of all messages."""
    kinds = [kind for each in OPERATIONS.values() for kind in (*_kinds(each.answer), each.body)]
    return [kind for kind in kinds if inspect.isclass(kind) and issubclass(kind, msgspec.Struct)]


def _kinds(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _operation(address: str, group: type[Any], method: str) -> dict[str, Any]:
    asked = OPERATIONS[address]
    told: dict[str, Any] = {
        "operationId": address.replace("/", "_").replace(".", "_"),
        "summary": _summary(asked, getattr(group, method)),
        "tags": [group.__name__.removesuffix("Endpoints").lower()],
        "parameters": [_parameter(each) for each in asked.query],
        "responses": {"200": _success(asked), **{status: _refusal(why) for status, why in REFUSALS.items()}},
    }
    if asked.options:
        told["parameters"].append(
            {
                "name": "options",
                "in": "query",
                "description": "tfprof's options by name",
                "style": "form",
                "explode": True,
                "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            }
        )
    if asked.body is not None:
        told["requestBody"] = {"required": True, "content": {JSON: {"schema": _schema(asked.body)}}}
    return told


def _summary(asked: Operation, method: Any) -> str:
    """Return what an address answers, from the docstring of its message or else of its method."""
    named = inspect.isclass(asked.answer) and issubclass(asked.answer, msgspec.Struct)
    lines = (inspect.getdoc(asked.answer if named else method) or "").splitlines()
    return lines[0].replace("``", "")


def _parameter(parameter: Parameter) -> dict[str, Any]:
    told = {"name": parameter.name, "in": "query", "description": parameter.about}
    return {**told, "required": parameter.required, "schema": _schema(parameter.kind)}


def _success(asked: Operation) -> dict[str, Any]:
    content: dict[str, Any] = {media: {} for media in asked.media}
    told = {
        "description": "A message." if asked.media == (JSON,) else "The requested bytes.",
        "content": content,
    }
    if JSON in content:
        content[JSON] = {"schema": _schema(asked.answer)}
    elif asked.answer is not None and FRAME in content:
        told["description"] = (
            "A frame: u32 magic 0x31535353, u32 bytes of the header, the header as JSON, zeros to a multiple "
            "of 8, then typed arrays, all little endian."
        )
        content[FRAME] = {"x-frame-header": _schema(asked.answer)}
    return told


def _refusal(why: str) -> dict[str, Any]:
    return {"description": why, "content": {JSON: {"schema": _schema(Failure)}}}


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, tuple):
        return {"anyOf": [_schema(each) for each in kind]}
    (found,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return found
