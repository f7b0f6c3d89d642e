"""Modules, and names of a package, that load on first use: importing who uses them loads no library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def names(
    package: str, homes: Mapping[str, str], public: Iterable[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return a package's ``__getattr__`` and ``__dir__``.

    Args:
        package: Its ``__name__``.
        homes: Which of its modules each name is in; "" for a name that is itself a module.
        public: Further names that are there already.
    """
    known = sorted({*homes, *public})

    def get(name: str) -> object:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}; it has {', '.join(known)}")
        module = import_module(f"{package}.{home or name}")
        value = getattr(module, name) if home else module
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: known.copy()


@contextmanager
def needs(package: str) -> Iterator[None]:
    """Say how to install a library that is imported in the block and is not there.

    Args:
        package: The name for pip, such as ``stepscope[frames]``.

    Raises:
        MissingPackageError: The library is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        from stepscope.errors import MissingPackageError

        quote = "'" if "[" in package else ""
        raise MissingPackageError(
            f"{error.name} is not installed", hint=f"pip install {quote}{package}{quote}"
        ) from error


class module:  # noqa: N801  stands for one
    """A module that is imported once something of it is asked for; for checkers of types, import it too.

    Args:
        name: Its full name.
    """

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._loaded: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._loaded is None:
            self._loaded = import_module(self.__name__)
        return getattr(self._loaded, name)
