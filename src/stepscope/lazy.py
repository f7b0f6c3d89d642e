"""Names of a package that load on first use, so that importing it costs nothing and loads no library."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module


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
