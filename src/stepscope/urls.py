"""Addresses of stores, as ``s3://bucket/runs``: told from paths, opened, and shown without their secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from urllib.parse import unquote

from stepscope.errors import LogDirectoryError
from stepscope.text import SCRUBBED, scrub_text

PACKAGES = {
    "s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs",
    "abfss": "adlfs", "adl": "adlfs", "hf": "huggingface_hub", "sftp": "paramiko", "ssh": "paramiko",
}  # fmt: skip
"""The package that holds the driver of a scheme; the extra ``stepscope[remote]`` brings all of them."""
OBJECT_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "hf"})
"""Schemes of stores in which an object appears whole or not at all, and folders need not be made."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(?:::[A-Za-z][A-Za-z0-9+.-]*)*://")
_USER = re.compile(r"(://)([^/@]*)@")
_QUERY = re.compile(r"\?[^/]*$")
_LONG = 4
"""Length below which a secret is not looked for in texts: it would be found everywhere."""


def is_url(path: object) -> bool:
    """Return whether a log directory is given as a URL, not as a path."""
    return isinstance(path, str) and _URL.match(path) is not None


def scheme(url: str) -> str:
    """Return ``s3`` for ``s3://bucket``; for a chain, the last scheme."""
    return url.partition("://")[0].rpartition("::")[2].lower()


def shown(url: str) -> str:
    """Return a URL without password and without its query, which may hold a token; a path as it is."""
    if not is_url(url):
        return url
    return _QUERY.sub("", _USER.sub(_without_password, url))


def _without_password(match: re.Match[str]) -> str:
    user, colon, _ = match[2].partition(":")
    return f"{match[1]}{user}:{SCRUBBED}@" if colon else match[0]


def join(url: str, *names: str) -> str:
    """Return the URL of something below a URL."""
    base, mark, query = url.partition("?") if _QUERY.search(url) else (url, "", "")
    return "/".join([base.rstrip("/"), *names]) + mark + query


def without_secrets(text: object, url: str, options: Mapping[str, Any] | None = None) -> str:
    """Return a driver's message without the secrets that it was given."""
    shown = str(text)
    for secret in _secrets(url, options or {}):
        shown = shown.replace(secret, SCRUBBED)
    return scrub_text(shown)


def _secrets(url: str, options: Mapping[str, Any]) -> list[str]:
    user = _USER.search(url)
    password = user[2].partition(":")[2] if user else ""
    query = _QUERY.search(url)
    values = [part.partition("=")[2] for part in query[0][1:].split("&")] if query else []
    secrets = [password, unquote(password), *values, *map(unquote, values), *_texts(options)]
    return sorted({secret for secret in secrets if len(secret) >= _LONG}, key=len, reverse=True)


def _texts(value: object) -> list[str]:
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return [value] if isinstance(value, str) else []


def check_driver(url: str) -> None:
    """Check that a driver exists, without importing it.

    Raises:
        LogDirectoryError: There is none, or it is not installed.
    """
    if not is_url(url):
        return
    from fsspec.registry import known_implementations, registry

    name = scheme(url)
    if name in registry:
        return
    known = known_implementations.get(name)
    module = known["class"].partition(":")[0].partition(".")[0] if known else ""
    package = PACKAGES.get(name, module)
    if not module or find_spec(module) is None or (package == "paramiko" and find_spec(package) is None):
        raise LogDirectoryError(
            f"no driver for {name}:// is installed",
            hint=f"pip install {package}" if package else "schemes that are known: s3, gs, az, hf, sftp",
            path=shown(url),
        )


def local_path(path: str | os.PathLike[str]) -> str:
    """Return a path as text; for ``file:///x``, the path that it names."""
    text = os.fsdecode(path)
    return text.partition("://")[2] if is_url(text) and scheme(text) == "file" else text
