"""The built page: every file of its folder, found only by its exact name."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from stepscope.serve.reply import Refusal, accepts_gzip, gzipped, is_local

FOLDER = Path(__file__).with_name("page")
NOT_BUILT = """The page of Stepscope has not been built.

In a checkout run:   python hatch_build.py page
then reload. An installed wheel holds the page already. The data are here all the same: api/v1/changes
"""
MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".ico": "image/x-icon",
    ".js": "text/javascript",
    ".json": "application/json",
    ".map": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
COMPRESSIBLE = frozenset({".css", ".html", ".js", ".json", ".map", ".svg", ".txt", ".wasm"})
HASHED = re.compile(r"^assets/.+-[\w-]{8,}\.\w+$")
"""Files that the page's build names by content, so that they never change."""


@dataclass(frozen=True)
class Asset:
    """One file of the page, read once and compressed at most once."""

    name: str
    body: bytes
    stamp: tuple[int, int] = field(compare=False)

    @property
    def suffix(self) -> str:
        """The ending of the name, with the dot."""
        return Path(self.name).suffix

    @cached_property
    def etag(self) -> str:
        """Strong validator of the content."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:20]}"'

    @cached_property
    def compressed(self) -> bytes:
        """The body as gzip, smallest."""
        return gzipped(self.body, level=9)

    @property
    def cache_control(self) -> str:
        """Cached for ever if the name holds a hash; otherwise asked for each time, mostly with a 304."""
        return "private, max-age=31536000, immutable" if HASHED.match(self.name) else "no-cache"


class Page:
    """The folder with the built page.

    Args:
        folder: May be missing or be built again at any time.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        self.folder = folder
        self.assets: dict[str, Asset] = {}
        self.files: dict[str, Path] = {}

    def find(self, name: str) -> Asset | None:
        """Return a file by its name in the folder, with forward slashes; None if there is none."""
        path = self.files.get(name)
        if path is None:
            # Only names that a listing of the folder gave are ever opened: no path is made from a request.
            self.files = dict(listing(self.folder))
            path = self.files.get(name)
        if path is None:
            return None
        try:
            status = path.stat()
            stamp = (status.st_mtime_ns, status.st_size)
            known = self.assets.get(name)
            if known is None or known.stamp != stamp:
                known = self.assets[name] = Asset(name, path.read_bytes(), stamp)
        except OSError:
            self.files.pop(name, None)
            return None
        return known

    def answer(self, request: Request) -> Response:
        """Answer a request for a file of the page; a folder's name stands for its index."""
        name = (
            request.scope["path"].removeprefix(request.scope.get("root_path", "")).lstrip("/") or "index.html"
        )
        asset = self.find(name)
        if asset is None:
            if name == "index.html":
                return PlainTextResponse(NOT_BUILT, 503, headers={"Cache-Control": "no-store"})
            raise Refusal(404, "no such file of the page", "the page is at the path that ends in a slash")
        return asset_response(request, asset)


def asset_response(request: Request, asset: Asset) -> Response:
    """Answer with a file, compressed for remote clients; without a body if the browser has it."""
    headers = {"ETag": asset.etag, "Cache-Control": asset.cache_control, "Vary": "Accept-Encoding"}
    if asset.etag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    body = asset.body
    if asset.suffix in COMPRESSIBLE and not is_local(request) and accepts_gzip(request):
        body, headers["Content-Encoding"] = asset.compressed, "gzip"
    media_type = MEDIA_TYPES.get(asset.suffix, "application/octet-stream")
    return Response(body, media_type=media_type, headers=headers)


def listing(folder: Path) -> list[tuple[str, Path]]:
    """List the regular files of the page; a link that leads out of the folder is left out."""
    root = folder.resolve()
    files = []
    for path in sorted(root.rglob("*")):
        try:
            # Only links are resolved: of a hundred files that takes longer than all else of the first answer.
            inside = not path.is_symlink() or path.resolve(strict=True).is_relative_to(root)
        except (OSError, RuntimeError):
            continue
        if inside and path.is_file() and not path.name.endswith(".sha256"):
            files.append((path.relative_to(root).as_posix(), path))
    return files
