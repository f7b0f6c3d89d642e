"""The HTTP interface as an OpenAPI 3.1 document, made from its routes and the types of its messages."""

from __future__ import annotations

import inspect
import types
from typing import Any, get_args

import msgspec

from stepscope.serve.routes import (
    FRAME,
    JSON,
    NUMBERS,
    Parameter,
    Provider,
    Route,
    all_routes,
    bare_of,
    is_message,
)
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


def document() -> dict[str, Any]:
    """Return the description of every address."""
    routes = all_routes()
    _, components = msgspec.json.schema_components(messages(), ref_template=REFERENCE)
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
            f"/{API}{address}": {route.method.lower(): _operation(route)} for address, route in routes.items()
        },
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
    }


def messages() -> list[type]:
    """Return the types of all messages that are sent, by their names."""
    kinds = {Failure}
    for route in all_routes().values():
        parts = get_args(route.message) or (route.message,)
        kinds.update(kind for kind in (*parts, route.request) if is_message(kind))
    return sorted(kinds, key=lambda kind: kind.__name__)


def _operation(route: Route) -> dict[str, Any]:
    failure = {JSON: {"schema": _schema(Failure)}}
    refusals = {status: {"description": why, "content": failure} for status, why in REFUSALS.items()}
    described = route.message if is_message(route.message) else route.handler
    operation: dict[str, Any] = {
        "operationId": route.address.replace("/", "_").replace(".", "_"),
        "summary": (inspect.getdoc(described) or "").partition("\n")[0].replace("``", ""),
        "tags": [route.handler.__module__.split(".")[2]],
        "parameters": [_parameter(parameter) for parameter in route.parameters],
        "responses": {"200": _success(route), **refusals},
    }
    if route.options:
        operation["parameters"].append(
            {
                "name": "options",
                "in": "query",
                "description": "tfprof's options by name",
                "style": "form",
                "explode": True,
                "schema": {"type": "object", "additionalProperties": {"type": "string"}},
            }
        )
    if route.request is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _schema(route.request)}}}
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    if bare_of(parameter.kind) in Provider.made_by:
        schema: dict[str, Any] = {"type": "string"}
    elif bare_of(parameter.kind) == list[int]:
        schema = {"type": "string", "pattern": NUMBERS}
    else:
        schema = _schema(parameter.kind)
        schema.pop("description", None)
    if not parameter.required and parameter.default not in (None, ""):
        schema = {**schema, "default": parameter.default}
    about = {"description": parameter.about} if parameter.about else {}
    return {"name": parameter.name, "in": "query", **about, "required": parameter.required, "schema": schema}


def _success(route: Route) -> dict[str, Any]:
    content: dict[str, Any] = {media: {} for media in route.media}
    answer = {
        "description": "A message." if route.media == (JSON,) else "The requested bytes.",
        "content": content,
    }
    if JSON in content:
        content[JSON] = {"schema": _schema(route.message)}
    elif route.message is not None and FRAME in content:
        answer["description"] = (
            "A frame: u32 magic 0x31535353, u32 bytes of the header, the header as JSON, zeros to a multiple "
            "of 8, then typed arrays, all little endian."
        )
        content[FRAME] = {"x-frame-header": _schema(route.message)}
    return answer


def _schema(kind: Any) -> dict[str, Any]:
    if isinstance(kind, types.UnionType):
        return {"anyOf": [_schema(part) for part in get_args(kind)]}
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    return dict(schema)
