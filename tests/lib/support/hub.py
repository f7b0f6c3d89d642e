"""A Hugging Face Hub on this machine: what ``huggingface_hub`` asks of data sets that hold no large files.

``python hub.py PORT`` serves one data set, ``ada/runs``, from memory.
"""

import base64
import hashlib
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

REPO = "ada/runs"
API = f"/api/datasets/{REPO}"
RESOLVE = f"/datasets/{REPO}/resolve/"


class Repo:
    """The files of one branch, and how often it was committed to."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.commits = 0
        self.lock = threading.Lock()

    def commit(self, lines: list[dict[str, Any]]) -> str:
        """Apply a commit as the Hub takes it: all of it, or none."""
        with self.lock:
            files = dict(self.files)
            for line in lines:
                value = line["value"]
                if line["key"] == "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                elif line["key"] == "deletedFile":
                    del files[value["path"]]
                else:
                    assert line["key"] == "header", line
            self.files = files
            self.commits += 1
            return self.sha

    @property
    def sha(self) -> str:
        """The commit."""
        return hashlib.sha1(str(self.commits).encode()).hexdigest()

    def entries(self, folder: str, *, recursive: bool) -> list[dict[str, Any]] | None:
        """Return what a folder holds as the tree of the Hub shows it, None where there is no such folder."""
        prefix = f"{folder}/" if folder else ""
        found: dict[str, dict[str, Any]] = {}
        for path, data in sorted(self.files.items()):
            if not path.startswith(prefix):
                continue
            parts = path.removeprefix(prefix).split("/")
            for depth in range(1, len(parts)):
                above = prefix + "/".join(parts[:depth])
                if recursive or depth == 1:
                    found[above] = {"type": "directory", "path": above, "size": 0, "oid": oid(above.encode())}
            if recursive or len(parts) == 1:
                found[path] = {"type": "file", "path": path, "size": len(data), "oid": oid(data)}
        return list(found.values()) if found or not folder else None


def oid(data: bytes) -> str:
    """Return the name that git gives to a file."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Answers for one repository."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    repo = Repo()

    def do_GET(self) -> None:
        """Listings, facts and files."""
        address = urlsplit(self.path)
        path, query = unquote(address.path), parse_qs(address.query)
        if path.startswith(f"{API}/tree/"):
            _, _, folder = path.removeprefix(f"{API}/tree/").partition("/")
            recursive = query.get("recursive", ["false"])[0].lower() == "true"
            found = self.repo.entries(folder.strip("/"), recursive=recursive)
            if found is None:
                self.answer(404, {"error": f"{folder} does not exist"}, {"X-Error-Code": "EntryNotFound"})
            else:
                self.answer(200, found)
        elif path == API or path.startswith(f"{API}/revision/"):
            facts = {
                "_id": "1",
                "id": REPO,
                "sha": self.repo.sha,
                "siblings": [],
                "tags": [],
                "private": False,
            }
            self.answer(200, facts)
        elif path.startswith(RESOLVE):
            self.give(path.removeprefix(RESOLVE).partition("/")[2])
        else:
            self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        """Commits, and what is asked before one."""
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = unquote(urlsplit(self.path).path)
        if path.startswith(f"{API}/preupload/"):
            files = [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False}
                for each in json.loads(body)["files"]
            ]
            self.answer(200, {"files": files})
        elif path.startswith(f"{API}/commit/"):
            try:
                sha = self.repo.commit([json.loads(line) for line in body.splitlines()])
            except KeyError as error:
                self.answer(404, {"error": f"no {error}"}, {"X-Error-Code": "EntryNotFound"})
                return
            place = f"http://{self.headers['Host']}/datasets/{REPO}/commit/{sha}"
            self.answer(200, {"success": True, "commitOid": sha, "commitUrl": place})
        elif path.startswith(f"{API}/paths-info/"):
            asked = parse_qs(body.decode()).get("paths") or json.loads(body or b"{}").get("paths", [])
            found = [
                {"type": "file", "path": each, "size": len(data), "oid": oid(data)}
                for each in asked
                if (data := self.repo.files.get(each)) is not None
            ]
            self.answer(200, found)
        else:
            self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})

    def give(self, path: str) -> None:
        """Give a file, or a range of it."""
        data = self.repo.files.get(path)
        if data is None:
            self.answer(404, {"error": f"{path} does not exist"}, {"X-Error-Code": "EntryNotFound"})
            return
        headers = {"ETag": f'"{oid(data)}"', "X-Repo-Commit": self.repo.sha, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range", "").removeprefix("bytes=")
        status = 200
        if wanted:
            first, _, last = wanted.partition("-")
            start, end = int(first), int(last) + 1 if last else len(data)
            if start >= len(data):
                self.answer(416, {"error": "no such range"})
                return
            headers["Content-Range"] = f"bytes {start}-{min(end, len(data)) - 1}/{len(data)}"
            data, status = data[start:end], 206
        self.send(status, "application/octet-stream", data, headers)

    def answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        """Answer with JSON."""
        self.send(status, "application/json", json.dumps(content).encode(), headers or {})

    def send(self, status: int, kind: str, data: bytes, headers: dict[str, str]) -> None:
        """Answer with anything."""
        self.send_response(status)
        for name, value in {**headers, "Content-Type": kind, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
