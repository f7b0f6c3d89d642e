"""Stores on this machine that speak the protocols of real ones, behind a proxy that does what networks do."""

import http.client
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from support.ports import free_port
from support.ssh import PASSWORD
from support.waiting import until

Fault = Callable[["Request"], str]
"""Says what happens to a request: "" for nothing, "slow", "throttle", "error", "cut", "stale", "expired"."""
_XML = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>{text}</Message></Error>"
_GOOGLE = '{{"error": {{"code": {status}, "message": "{text}", "errors": [{{"reason": "{code}"}}]}}}}'
_WORDS: dict[str, dict[str, tuple[int, str, str]]] = {
    "s3": {
        "throttle": (503, "SlowDown", "Reduce your rate"),
        "error": (500, "InternalError", "Try again"),
        "expired": (403, "ExpiredToken", "The token has expired"),
    },
    "gs": {
        "throttle": (429, "rateLimitExceeded", "The rate limit is exceeded"),
        "error": (503, "backendError", "Backend Error"),
        "expired": (401, "authError", "Invalid Credentials"),
    },
    "az": {
        "throttle": (503, "ServerBusy", "The server is busy"),
        "error": (500, "InternalError", "Try again"),
        "expired": (403, "AuthenticationFailed", "Signature not valid in the specified time frame"),
    },
    "hf": {
        "throttle": (429, "RateLimited", "You have reached the rate limit"),
        "error": (500, "Internal", "Internal Error"),
        "expired": (401, "ExpiredToken", "User Access Token is expired"),
    },
}
"""Status, code and text of what each kind of store answers."""


def refusal(kind: str, what: str) -> tuple[int, list[tuple[str, str]], bytes] | None:
    """Return how a kind of store refuses a request, None where it does not."""
    if what not in _WORDS[kind]:
        return None
    status, code, text = _WORDS[kind][what]
    if kind in ("s3", "az"):
        headers = [("Content-Type", "application/xml"), ("x-ms-error-code", code)]
        return status, headers, _XML.format(code=code, text=text).encode()
    words = _GOOGLE if kind == "gs" else '{{"error": "{text}"}}'
    headers = [("Content-Type", "application/json"), ("X-Error-Message", text)]
    return status, headers, words.format(status=status, code=code, text=text).encode()


class Request:
    """A request as a fault sees it.

    Attributes:
        number: How many came before.
        listing: It asks for a listing.
    """

    def __init__(self, number: int, method: str, path: str) -> None:
        self.number, self.method, self.path = number, method, path
        self.listing = method == "GET" and ("list-type=2" in path or "prefix=" in path)


class Proxy:
    """Passes requests on, but for what a fault says.

    Args:
        port: Of the store.
        kind: Of it, by which it refuses.

    Attributes:
        fault: May be replaced at any time.
        requests: All that came.
        latency_s: How long each takes longer.
    """

    def __init__(self, port: int, kind: str) -> None:
        self.fault: Fault = lambda request: ""
        self.requests: list[Request] = []
        self.latency_s = 0.0
        self._target, self._kind, self._lock = port, kind, threading.Lock()
        self._listings: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def _pass(self) -> None:
                proxy.handle(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = do_PATCH = _pass

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """Say nothing of clients that do not wait for their answer."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        """Stop."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        body = read_body(handler)
        with self._lock:
            request = Request(len(self.requests), handler.command, handler.path)
            self.requests.append(request)
        time.sleep(self.latency_s)
        what = self.fault(request)
        if what == "slow":
            time.sleep(1.0)
        if (refused := refusal(self._kind, what)) is not None:
            return send(handler, *refused)
        if what == "stale" and handler.path in self._listings:
            return send(handler, *self._listings[handler.path])
        status, headers, content = self._forward(handler, body)
        if request.listing:
            self._listings.setdefault(handler.path, (status, headers, content))
        if what == "cut" and len(content) > 1:
            send(handler, status, headers, content, keep=len(content) // 2)
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return None
        return send(handler, status, headers, content)

    def _forward(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._target, timeout=60)
        try:
            headers = {key: value for key, value in handler.headers.items() if key.lower() not in HOPS}
            connection.request(handler.command, handler.path, body or None, headers)
            answer = connection.getresponse()
            content = answer.read()
            kept = [(key, value) for key, value in answer.getheaders() if key.lower() not in HOPS]
            if handler.command == "HEAD":
                kept.append(("Content-Length", answer.getheader("Content-Length") or "0"))
            return answer.status, kept, content
        finally:
            connection.close()


class Wire:
    """Passes bytes on to a server that does not speak HTTP. A fault is asked for each that come back.

    Args:
        port: Of the server.
        denied: A file; while it is there, the server takes no password.

    Attributes:
        fault: As of a :class:`Proxy`; "slow" and "cut" are understood. Of a request of the method CONNECT,
            "throttle" and "expired" are: a connection is closed before the server says anything, as sshd
            does where too many begin, or its password is not taken.
        requests: One for each connection, and one for each portion of bytes that the server sent.
        latency_s: How long each takes longer.
    """

    def __init__(self, port: int, denied: Path) -> None:
        self.fault: Fault = lambda request: ""
        self.requests: list[Request] = []
        self.latency_s = 0.0
        self._target, self._denied = port, denied
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            what = self._asked("CONNECT")
            if what == "throttle":
                client.close()
                continue
            if what == "expired":
                self._denied.touch()
            else:
                self._denied.unlink(missing_ok=True)
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._join, args=(client, server), daemon=True).start()

    def _asked(self, method: str) -> str:
        request = Request(len(self.requests), method, "")
        self.requests.append(request)
        return self.fault(request)

    def _join(self, client: socket.socket, server: socket.socket) -> None:
        with client, server:
            back = threading.Thread(target=self._carry, args=(server, client, True), daemon=True)
            back.start()
            self._carry(client, server, False)
            back.join()

    def _carry(self, source: socket.socket, sink: socket.socket, answers: bool) -> None:
        try:
            while data := source.recv(1 << 16):
                what = ""
                if answers:
                    what = self._asked("")
                time.sleep(self.latency_s * answers + (what == "slow"))
                if what == "cut":
                    sink.sendall(data[: len(data) // 2])
                    break
                sink.sendall(data)
        except OSError:
            pass
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


HOPS = {"connection", "transfer-encoding", "content-length", "keep-alive", "expect"}


def read_body(handler: BaseHTTPRequestHandler) -> bytes:
    """Return the body of a request, in chunks or not."""
    if "chunked" in handler.headers.get("Transfer-Encoding", "").lower():
        parts = []
        while size := int(handler.rfile.readline().split(b";")[0], 16):
            parts.append(handler.rfile.read(size))
            handler.rfile.readline()
        handler.rfile.readline()
        return b"".join(parts)
    return handler.rfile.read(int(handler.headers.get("Content-Length") or 0))


def send(
    handler: BaseHTTPRequestHandler,
    status: int,
    headers: list[tuple[str, str]],
    content: bytes,
    keep: int | None = None,
) -> None:
    """Send an answer, or only so many bytes of one."""
    handler.send_response(status)
    for key, value in headers:
        handler.send_header(key, value)
    if handler.command != "HEAD":
        handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(content[:keep])
        handler.wfile.flush()


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    """A server as a process of its own, until it listens."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(lambda: listens(port) or process.poll() is not None, "the store starts")
        assert process.poll() is None, f"{command} ended"
        yield
    finally:
        process.kill()
        process.wait()


def listens(port: int) -> bool:
    """Whether a port of this machine takes connections."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def server_of(kind: str, port: str) -> list[str]:
    """Return the command of a store that speaks HTTP; that of Azure is Microsoft's Azurite."""
    if kind == "s3":
        return [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", port]
    if kind == "az":
        switches = ["--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck"]
        return [azurite(), "--blobPort", port, *switches]
    return [sys.executable, str(Path(__file__).with_name({"gs": "gcs.py", "hf": "hub.py"}[kind])), port]


def azurite() -> str:
    """Return the program; without it a test is skipped, and fails where CI is set."""
    place = Path(__file__).parents[2] / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    found = str(place) if place.exists() else shutil.which("azurite-blob")
    if found:
        return found
    reason = f"Azurite is not installed: npm ci in {place.parents[2]}"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@contextmanager
def sftp(folder: Path) -> Iterator[Wire]:
    """An SSH server that gives out a folder, behind a wire that may be cut."""
    port = free_port()
    denied = folder.with_name(f"{folder.name}.denied")
    server = [sys.executable, str(Path(__file__).with_name("ssh.py")), str(port), str(folder), str(denied)]
    with running(server, port):
        wire = Wire(port, denied)
        yield wire
        wire.close()


@contextmanager
def store(kind: str, folder: Path | None = None) -> Iterator[Any]:
    """A store of a kind behind a proxy or a wire, with an empty bucket in it.

    Args:
        kind: "s3", "gs", "az", "hf" or "sftp".
        folder: Of one that keeps files.
    """
    if kind == "sftp":
        assert folder is not None
        with sftp(folder) as wire:
            yield wire
        return
    port = free_port()
    with running(server_of(kind, str(port)), port):
        proxy = Proxy(port, kind)
        if kind == "s3":
            with s3_client(proxy) as client:
                client.create_bucket(Bucket="bucket")
        if kind == "az":
            make_container(proxy)
        yield proxy
        proxy.close()


def address(proxy: Proxy | Wire, kind: str) -> str:
    """Return the URL of the bucket."""
    if kind == "sftp":
        return f"sftp://ada:{PASSWORD}@127.0.0.1:{proxy.port}"
    return "hf://datasets/ada/runs" if kind == "hf" else f"{kind}://bucket"


def environment(proxy: Proxy | Wire, kind: str) -> dict[str, str]:
    """Return the variables by which the driver of a store finds it."""
    at = f"http://127.0.0.1:{proxy.port}"
    own = {
        "s3": {
            "AWS_ENDPOINT_URL": at,
            "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEEXAMPLE00",
            "AWS_SECRET_ACCESS_KEY": "a-secret-that-nobody-may-see",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        # The emulator has no control plane, which gcsfs would ask about the kind of the bucket.
        "gs": {"STORAGE_EMULATOR_HOST": at, "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"},
        "az": {"AZURE_STORAGE_CONNECTION_STRING": connection_string(proxy.port)},
        "hf": {"HF_ENDPOINT": at, "HF_TOKEN": "hf_aSecretThatNobodyMaySee"},
    }
    return {**os.environ, **own.get(kind, {})}


def connection_string(port: int) -> str:
    """Return how Azurite is reached, with the account and key that it is delivered with."""
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
    return (
        f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;AccountKey={key};"
        f"BlobEndpoint=http://127.0.0.1:{port}/devstoreaccount1;"
    )


def user_environment(proxy: Proxy | Wire, kind: str, folder: Path) -> dict[str, str]:
    """Return ``environment`` for a user whose spool and cache lie in a folder."""
    own = {"STEPSCOPE_SPOOL": str(folder / "spool"), "XDG_CACHE_HOME": str(folder / "cache")}
    return {**environment(proxy, kind), **own}


@contextmanager
def s3_client(proxy: Proxy | Wire) -> Iterator[Any]:
    """A client of an S3."""
    import boto3

    facts = environment(proxy, "s3")
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{proxy.port}",
        region_name=facts["AWS_DEFAULT_REGION"],
        aws_access_key_id=facts["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=facts["AWS_SECRET_ACCESS_KEY"],
    )
    try:
        yield client
    finally:
        client.close()


def make_container(proxy: Proxy) -> None:
    """Make the container called ``bucket`` in an Azure Blob Storage."""
    from azure.storage.blob import BlobServiceClient

    with BlobServiceClient.from_connection_string(connection_string(proxy.port)) as client:
        client.create_container("bucket")
