"""Addresses of the interface: each is declared once, by a decorator on the function that answers it.

Its parameters are those of the function, read and checked by their types; its answer is the function's
result. Routing, the OpenAPI document and the types of the page follow from that.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta

from stepscope.serve.reply import DESCRIBED, Refusal, refusing

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from stepscope.serve.follow import LogFollower
    from stepscope.serve.threads import ThreadPool
    from stepscope.store import Log

JSON, FRAME = "application/json", "application/octet-stream"
INTEGER = re.compile(r"-?[0-9]{1,19}")
LARGEST = (1 << 63) - 1
NUMBERS = r"^-?[0-9]+(,-?[0-9]+)*$"
MODULES = (
    "endpoints", "metrics", "findings", "changes", "captures", "annotations", "ranks", "points", "values",
    "compare", "records.answers", "records.curves", "records.embeddings", "records.gradients",
    "records.tables", "profiles.find", "profiles.summary", "profiles.outline", "profiles.draw",
    "profiles.levels", "profiles.event", "profiles.range", "profiles.spans", "profiles.tree",
    "profiles.kernels", "profiles.memory", "profiles.work", "profiles.waits", "profiles.compare",
    "profiles.history", "profiles.job", "questions.asked", "questions.sweep",
)  # fmt: skip
"""Modules with addresses. One is imported only when an address is not in those before it."""
ROUTES: dict[str, Route] = {}
"""By address below ``api/v1/``, of the modules imported so far."""
Handler = TypeVar("Handler", bound=Callable[..., Any])
Part = TypeVar("Part")


class Backend:
    """State that the handlers of one server share.

    Args:
        directory: The log directory.
        log: Returns the open log; None before.
        cache: Whether caches may be kept beside files.
        follower: Reads the directory; None outside a server.
        threads: The threads for blocking work; None outside a server.
    """

    def __init__(
        self,
        directory: Path,
        log: Callable[[], Log | None] = lambda: None,
        *,
        cache: bool = True,
        follower: LogFollower | None = None,
        threads: ThreadPool | None = None,
    ) -> None:
        self.directory, self.read, self.cache = directory, log, cache
        self._follower, self._threads = follower, threads
        self._parts: dict[type, Any] = {}
        self._lock = threading.Lock()

    @property
    def log(self) -> Log | None:
        """The directory as read so far; None before the first read."""
        return self.read()

    @property
    def in_server(self) -> bool:
        """Whether a server answers, not a single call."""
        return self._threads is not None

    @property
    def follower(self) -> LogFollower:
        """The reader of the directory."""
        assert self._follower is not None
        return self._follower

    @property
    def threads(self) -> ThreadPool:
        """The threads that do blocking work."""
        assert self._threads is not None
        return self._threads

    def part(self, kind: type[Part]) -> Part:
        """Return the one instance of a class that keeps something from one answer to the next."""
        with self._lock:
            if kind not in self._parts:
                make = getattr(kind, "of_backend", None)
                self._parts[kind] = make(self) if make else kind()
            return cast(Part, self._parts[kind])

    def close(self) -> None:
        """Release everything that must not outlive the server."""
        for part in self._parts.values():
            if hasattr(part, "close"):
                part.close()


@dataclass(frozen=True)
class Provider:
    """Makes an argument from a text of the query.

    Attributes:
        make: Takes the backend and the text.
        about: Describes the text.
        names: Other names in the query, by that of the argument.
    """

    make: Callable[[Backend, str], Any]
    about: str
    names: Mapping[str, str]

    made_by: ClassVar[dict[type, Provider]] = {}


def provide(
    kind: type[Part],
    make: Callable[[Backend, str], Part],
    about: str,
    *,
    names: Mapping[str, str] | None = None,
) -> None:
    """Let handlers take arguments of a type that is looked up by a name in the query."""
    Provider.made_by[kind] = Provider(make, about, names or {})


@dataclass(frozen=True)
class Parameter:
    """One name in the query of an address.

    Attributes:
        argument: Name of the handler's argument.
        name: Name in the query.
        kind: Type, without None.
        about: Its description, a line.
        default: Its value if it is left out; ``inspect.Parameter.empty`` if it is required.
    """

    argument: str
    name: str
    kind: Any
    about: str
    default: Any

    @property
    def required(self) -> bool:
        """Whether the address refuses without it."""
        return self.default is inspect.Parameter.empty

    def read(self, query: QueryParams, backend: Backend) -> Any:
        """Return its value in a query.

        Raises:
            Refusal: It is missing or wrong.
        """
        texts = query.getlist(self.name)
        if not texts:
            if self.required:
                raise Refusal(400, f"no {self.name} given", f"add {self.name}=, {self.about}")
            return self.default
        text, bare = texts[-1], bare_of(self.kind)
        if bare in Provider.made_by:
            return Provider.made_by[bare].make(backend, text)
        if bare is int:
            return self._whole(text)
        if bare == list[str]:
            return texts
        if bare == list[int]:
            parts = [part for part in text.split(",") if part]
            if not all(map(INTEGER.fullmatch, parts)):
                raise Refusal(400, f"{self.name} is {text!r:.40}: expected numbers", f"{self.name}=0,1,2")
            return [int(part) for part in parts]
        pattern = bounds_of(self.kind).get("pattern")
        words = get_args(bare) if get_origin(bare) is Literal else None
        if (words and text not in words) or (pattern and not re.search(pattern, text)):
            expected = " or ".join(words) if words else self.about
            raise Refusal(400, f"{self.name} is {text!r:.60}: expected {expected}", DESCRIBED)
        return text

    def _whole(self, text: str) -> int:
        bounds = bounds_of(self.kind)
        low, high = bounds.get("ge"), bounds.get("le")
        number = int(text) if INTEGER.fullmatch(text) else None
        least, most = -LARGEST if low is None else low, LARGEST if high is None else high
        if number is None or not least <= number <= most:
            limits = "" if high in (None, LARGEST) else f" from {low} to {high}"
            raise Refusal(
                400,
                f"{self.name} is {text!r:.60}: expected a whole number{limits}",
                DESCRIBED,
            )
        return number


@dataclass(frozen=True)
class Route:
    """One address, and the function that answers it.

    Attributes:
        address: Below ``api/v1/``.
        method: ``GET`` or ``POST``.
        handler: Answers. A coroutine runs on the event loop, a function in a thread; the first argument of a
            method is the instance of its class that the backend keeps.
        answer: Type of the message, of the header of a frame, or None for the handler's own return type.
        body: Type of the request's body; None for that of the handler's argument.
        media: Types that the answer may have.
        strict: Whether other names in the query are refused.
        reads: Whether it changes nothing.
    """

    address: str
    method: str
    handler: Callable[..., Any]
    answer: Any = None
    body: Any = None
    media: tuple[str, ...] = (JSON,)
    strict: bool = False
    reads: bool = True

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The types of the handler's arguments."""
        return get_type_hints(self.handler, include_extras=True)

    @cached_property
    def message(self) -> Any:
        """The type of the answer, as far as it has one."""
        kind = self.hints.get("return") if self.answer is None else self.answer
        return kind if is_message(kind) or get_origin(kind) in (Union, types.UnionType, dict) else None

    @cached_property
    def request(self) -> Any:
        """The type of the body; None of a GET."""
        return self.body or self.hints.get("body")

    @cached_property
    def owner(self) -> type | None:
        """The class of a handler that is a method."""
        if "self" not in inspect.signature(self.handler).parameters:
            return None
        name = self.handler.__qualname__.partition(".")[0]
        return cast(type, getattr(sys.modules[self.handler.__module__], name))

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters that the query may have."""
        every = []
        for name, argument in inspect.signature(self.handler).parameters.items():
            if name in ("self", "log", "backend", "body", "options") or is_request(self.hints[name]):
                continue
            kind, about = without_none(self.hints[name])
            provider = Provider.made_by.get(bare_of(kind))
            if hasattr(bare_of(kind), "of_backend"):
                continue
            if provider is not None:
                about = about or provider.about
            asked = provider.names.get(name, name) if provider else name
            every.append(Parameter(name, asked, kind, about, argument.default))
        return tuple(every)

    @cached_property
    def options(self) -> bool:
        """Whether further names in the query are options."""
        return "options" in self.hints

    def arguments(self, query: QueryParams, backend: Backend, body: bytes = b"") -> dict[str, Any]:
        """Return the arguments of the handler for a request, other than the request itself.

        Raises:
            Refusal: One is missing or wrong.
        """
        names = {parameter.name for parameter in self.parameters}
        others = {name: text for name, text in query.items() if name not in names}
        if self.strict and others:
            raise Refusal(400, f"unknown parameter {min(others)!r:.60}", f"use {' and '.join(sorted(names))}")
        with refusing():
            values: dict[str, Any] = {
                parameter.argument: parameter.read(query, backend) for parameter in self.parameters
            }
        for name, kind in self.hints.items():
            if name == "log":
                values[name] = backend.log
            elif name == "backend":
                values[name] = backend
            elif name == "options":
                values[name] = others
            elif name == "body":
                values[name] = body if kind is bytes else message_of(body, kind)
            elif name != "return" and hasattr(bare_of(kind), "of_backend"):
                values[name] = backend.part(bare_of(kind))
        if self.owner is not None:
            values["self"] = backend.part(self.owner)
        return values

    def call(
        self, query: QueryParams, backend: Backend, body: bytes = b"", request: Request | None = None
    ) -> Any:
        """Return the handler's result.

        Raises:
            Refusal: The request cannot be answered.
        """
        values = self.arguments(query, backend, body)
        values |= {name: request for name, kind in self.hints.items() if is_request(kind)}
        with refusing():
            return self.handler(**values)


def get(
    address: str,
    answer: Any = None,
    *,
    frame: Any = None,
    media: tuple[str, ...] = (JSON,),
    strict: bool = False,
) -> Callable[[Handler], Handler]:
    """Declare the address of a function that answers a GET.

    Args:
        address: Below ``api/v1/``.
        answer: Type of the message; by default the function's return type.
        frame: Type of the header, if the answer is a frame.
        media: Types that the answer may have.
        strict: Whether other names in the query are refused.
    """
    media = (FRAME,) if frame is not None else media

    def declare(handler: Handler) -> Handler:
        ROUTES[address] = Route(address, "GET", handler, frame or answer, media=media, strict=strict)
        return handler

    return declare


def post(
    address: str, *, body: Any = None, frame: Any = None, reads: bool = False
) -> Callable[[Handler], Handler]:
    """Declare the address of a function that answers a POST.

    Args:
        address: Below ``api/v1/``.
        body: Type of the request's body; by default that of the argument ``body``.
        frame: Type of the header, if the answer is a frame.
        reads: Whether it changes nothing.
    """
    media = (FRAME,) if frame is not None else (JSON,)

    def declare(handler: Handler) -> Handler:
        ROUTES[address] = Route(address, "POST", handler, frame, body, media, reads=reads)
        return handler

    return declare


def route_of(address: str) -> Route | None:
    """Return the route of an address; imports its module if that has not happened."""
    for name in MODULES:
        if address in ROUTES:
            break
        import_module(f"stepscope.serve.{name}")
    return ROUTES.get(address)


def all_routes() -> dict[str, Route]:
    """Return every address with its route."""
    route_of("")
    return dict(sorted(ROUTES.items()))


def message_of(body: bytes, kind: Any) -> Any:
    """Return the message in a body.

    Raises:
        Refusal: It is none.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Refusal(400, f"not a {kind.__name__}: {error}", DESCRIBED) from None


def is_request(kind: Any) -> bool:
    """Return whether a type is that of a request."""
    from starlette.requests import Request

    return kind is Request


def is_message(kind: Any) -> bool:
    """Return whether a type is a message: a struct, or the frozen result of an analysis."""
    return inspect.isclass(kind) and (
        issubclass(kind, msgspec.Struct) or hasattr(kind, "__dataclass_fields__")
    )


def bare_of(kind: Any) -> Any:
    """Return a type without annotations."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def bounds_of(kind: Any) -> dict[str, Any]:
    """Return the bounds that annotations give a type."""
    metas = [note for note in getattr(kind, "__metadata__", ()) if isinstance(note, Meta)]
    return {
        name: getattr(meta, name)
        for meta in metas
        for name in ("ge", "le", "pattern")
        if getattr(meta, name) is not None
    }


def without_none(hint: Any) -> tuple[Any, str]:
    """Return a type without None, and its description."""
    about = ""
    while True:
        for meta in getattr(hint, "__metadata__", ()):
            about = about or getattr(meta, "description", None) or ""
        inner = bare_of(hint)
        parts = [part for part in get_args(inner) if part is not type(None)]
        if get_origin(inner) not in (Union, types.UnionType) or len(parts) != 1:
            return hint, about
        hint = parts[0]
