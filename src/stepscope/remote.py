"""Stores, through the drivers of fsspec: each call has a time limit, and transient errors are retried.

Drivers act differently when a network fails. Some wait for ever, some retry for half a minute by
themselves, some have one connection that two threads must not use at once and that never recovers once it is
lost. Behind this module all behave in the same way.
"""

from __future__ import annotations

import inspect
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MethodType
from typing import Any, TypeVar

from stepscope.errors import LogDirectoryError
from stepscope.text import counted
from stepscope.urls import PACKAGES, is_url, scheme, shown, without_secrets

T = TypeVar("T")
TRIES = 6
INSIST_SECS = 20.0
"""No further try after this long."""
FIRST_RETRY_SECS, LONGEST_RETRY_SECS = 0.2, 5.0
CALL_SECS = 20.0
"""Seconds after which a small request is given up."""
LIST_SECS = 300.0
"""Seconds for a listing, which may be of a million objects."""
LEAST_BYTES_PER_SEC = 32 << 10
"""The slowest rate at which data may be transferred."""
AT_ONCE = 32
"""Most requests at once, if the driver can make them."""
CONNECTIONS = {"hf": 16}
FEW_CONNECTIONS = 4
"""Connections at once of drivers that belong to one thread; sshd refuses more than ten that begin."""
_BOTO = {
    "max_pool_connections": AT_ONCE,
    "connect_timeout": 10,
    "read_timeout": 30,
    "retries": {"total_max_attempts": 1},
}
_S3 = {"config_kwargs": _BOTO}
_SSH = {"timeout": 10.0, "banner_timeout": 15.0, "auth_timeout": 15.0}
OPTIONS: dict[str, dict[str, Any]] = {"s3": _S3, "s3a": _S3, "sftp": _SSH, "ssh": _SSH}
"""Options without which a driver would make fewer requests at once, or wait for minutes or for ever."""
_LASTING = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, NotImplementedError)
"""Errors that the same request will meet again."""
_PASSING_STATUS = (408, 425, 429)
"""Of the refusals of HTTP those that are worth another try."""
_S3_SCHEMES = ("s3", "s3a")
_SHARED = ("memory", "file", "local")
"""Drivers without a connection."""


def is_lasting(error: BaseException) -> bool:
    """Return whether the same request would meet the same error again."""
    if isinstance(error, _LASTING) or getattr(error, "retryable", True) is False:
        return True
    if type(error) is OSError and str(error).startswith("Forbidden: "):  # so says gcsfs, and gives no status
        return True
    status = status_of(error)
    return status is not None and 400 <= status < 500 and status not in _PASSING_STATUS


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status that a driver's error carries, if any."""
    answer = getattr(error, "response", None)
    if isinstance(answer, Mapping):  # botocore
        code = answer.get("ResponseMetadata", {}).get("HTTPStatusCode")
    else:
        code = getattr(answer, "status_code", None)
    for name in ("status_code", "status", "code"):
        code = getattr(error, name, None) if code is None else code
    try:
        return None if code is None else int(code)
    except (TypeError, ValueError):
        return None


def insistent(
    call: Callable[[], T],
    *,
    pause: Callable[[float], None] = time.sleep,
    again: Callable[[], None] = lambda: None,
) -> T:
    """Return the result of a request; after a transient error it is retried, at growing intervals.

    Args:
        call: The request.
        pause: Waits for so many seconds.
        again: Called before each further try.
    """
    chance = random.Random()  # noqa: S311  its own: the program's seeds stay what they are
    longest, until = FIRST_RETRY_SECS, time.monotonic() + INSIST_SECS
    for left in range(TRIES - 1, -1, -1):
        try:
            return call()
        except Exception as error:
            if not left or is_lasting(error) or time.monotonic() >= until:
                raise
        pause(chance.uniform(0.5, 1.0) * longest)  # readers must not retry in step
        longest = min(2 * longest, LONGEST_RETRY_SECS)
        again()
    raise AssertionError


class Remote:
    """A store. Safe for threads.

    Args:
        url: Of a file or folder in it.
        options: For the driver.
        system: The driver, if there is one already.

    Attributes:
        root: The path of the URL in the store.
        retries: Number of calls that were repeated.

    Raises:
        LogDirectoryError: No driver is installed for it, it is not a URL, or its host cannot be reached.
    """

    def __init__(self, url: str, options: Mapping[str, Any] | None = None, *, system: Any = None) -> None:
        self._url, self._scheme = url, scheme(url) if is_url(url) else "file"
        self._options = {**OPTIONS.get(self._scheme, {}), **(options or {})}
        if self._scheme in _S3_SCHEMES:
            self._options["config_kwargs"] = {**_BOTO, **self._options["config_kwargs"]}
        self.retries = 0
        self._lock = threading.Lock()
        self._free = threading.Semaphore(CONNECTIONS.get(self._scheme, FEW_CONNECTIONS))
        self._idle: list[tuple[int, Any]] = []
        self._epoch = 0
        first, root = _system(url, self._options) if system is None else (system, system._strip_protocol(url))
        self.root = str(root).rstrip("/") if str(root) != "/" else "/"
        self._is_async = bool(getattr(first, "async_impl", False))
        self._shared = first if self._is_async or self._scheme in _SHARED else None
        if self._shared is None:
            self._idle.append((0, first))

    # --- calls --------------------------------------------------------------------------------------

    def find(self, path: str) -> dict[str, dict[str, Any]]:
        """Return all files below a folder, or the file itself, with the facts of each."""
        objects = self._call("find", path, detail=True, seconds=LIST_SECS)
        if not isinstance(objects, dict):  # so some drivers answer for a file
            objects = {name: {} for name in objects}
        return {name: facts if "size" in facts else self.info(name) for name, facts in objects.items()}

    def ls(self, path: str, *, detail: bool) -> Any:
        """Return the entries of a folder."""
        return self._call("ls", path, detail=detail, seconds=LIST_SECS)

    def info(self, path: str) -> dict[str, Any]:
        """Return the facts of a file. Raises FileNotFoundError."""
        facts: dict[str, Any] = self._call("info", path)
        return facts

    def exists(self, path: str) -> bool:
        """Return whether there is something at a path."""
        return bool(self._call("exists", path))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes:
        """Return the bytes of a file, or those of a range that it has."""
        size = (end - start) if start is not None and end is not None else 0
        return bytes(self._call("cat_file", path, start=start, end=end, seconds=_data_secs(size)))

    def read(self, path: str, start: int, end: int) -> bytes:
        """Return exactly these bytes of a file.

        Raises:
            OSError: Other bytes came, again and again.
        """

        def whole(data: bytes) -> bytes:
            if len(data) > end - start and len(data) >= end:
                data = data[start:end]  # a web server that knows no ranges answers with the whole file
            if len(data) != end - start:
                raise OSError(f"received {counted(len(data), 'byte')} of {path}, asked for {end - start}")
            return bytes(data)

        seconds = _data_secs(end - start)
        return bytes(self._call("cat_file", path, start=start, end=end, seconds=seconds, then=whole))

    def pipe_file(self, path: str, data: bytes) -> None:
        """Write a file."""
        self._call("pipe_file", path, data, seconds=_data_secs(len(data)))

    def put_file(self, local: str, path: str, size: int = 0) -> None:
        """Write a file that lies on this machine.

        Args:
            local: Its path here.
            path: Its path there.
            size: Its bytes, which determine the time limit; 0 for no limit.
        """
        self._call("put_file", local, path, seconds=_data_secs(size) if size else None)

    def rm_file(self, path: str) -> None:
        """Delete a file. Raises FileNotFoundError."""
        self._call("rm_file", path)

    def drop_uploads(self, folder: str, wanted: Callable[[str], bool]) -> int:
        """Delete the parts of uploads that were begun and never ended; return how many requests that took.

        S3 keeps them, invisible and paid for, for ever. Other stores let go of them by themselves.

        Args:
            folder: Below which uploads are looked for.
            wanted: Says by its path whether nobody will end an upload.
        """
        if self._scheme not in _S3_SCHEMES or self._shared is None:
            return 0
        bucket, key, _ = self._shared.split_path(f"{folder}/")
        count, more = 0, dict[str, Any]()
        while True:
            count += 1
            listed = self._call("call_s3", "list_multipart_uploads", Bucket=bucket, Prefix=key, **more)
            for upload in listed.get("Uploads", ()):
                if wanted(f"{bucket}/{upload['Key']}"):
                    named = {"Bucket": bucket, "Key": upload["Key"], "UploadId": upload["UploadId"]}
                    with suppress(FileNotFoundError):  # it has just ended
                        self._call("call_s3", "abort_multipart_upload", **named)
                    count += 1
            if not listed.get("IsTruncated"):
                return count
            more = {"KeyMarker": listed["NextKeyMarker"], "UploadIdMarker": listed["NextUploadIdMarker"]}

    def mv(self, old: str, new: str) -> None:
        """Rename a file. It is not tried again: it may have happened, though the store did not say so."""
        with self._borrowed() as system:
            system.mv(old, new)

    def makedirs(self, path: str) -> None:
        """Make a folder, and those above it."""
        self._call("makedirs", path, exist_ok=True)

    def invalidate_cache(self) -> None:
        """Make the driver forget its cached listings."""
        with self._lock:
            self._epoch += 1
        if self._shared is not None:
            self._shared.invalidate_cache()

    # --- how they are made --------------------------------------------------------------------------

    def _call(
        self,
        name: str,
        *words: Any,
        seconds: float | None = CALL_SECS,
        then: Callable[[Any], Any] = lambda answer: answer,
        **more: Any,
    ) -> Any:
        def ask() -> Any:
            with self._borrowed() as system:
                return then(self._ask(system, name, words, more, seconds))

        return insistent(ask, again=self._count_retry)

    def _count_retry(self) -> None:
        with self._lock:
            self.retries += 1

    def _ask(
        self, system: Any, name: str, words: tuple[Any, ...], more: dict[str, Any], seconds: float | None
    ) -> Any:
        work = getattr(system, f"_{name}", None) if self._is_async else None
        if not inspect.iscoroutinefunction(work):
            return getattr(system, name)(*words, **more)
        from fsspec import asyn

        began = time.monotonic()
        try:
            return asyn.sync(system.loop, work, *words, timeout=seconds, **more)
        except TimeoutError:
            raise TimeoutError(f"no answer from the store within {time.monotonic() - began:.0f} s") from None
        except Exception as error:
            if type(error).__name__ == "FSTimeoutError":  # before Python 3.11 asyncio has a type of its own
                raise TimeoutError(
                    f"no answer from the store within {time.monotonic() - began:.0f} s"
                ) from None
            raise

    @contextmanager
    def _borrowed(self) -> Iterator[Any]:
        """Provide a driver that no other thread uses; one whose connection may be lost is not reused."""
        if self._shared is not None:
            yield self._shared
            return
        with self._free:
            with self._lock:
                epoch = self._epoch
                known, system = self._idle.pop() if self._idle else (epoch, None)
            if system is None:
                system, _ = _system(self._url, self._options)
            elif known != epoch:
                system.invalidate_cache()
            try:
                yield system
            except Exception as error:
                if not is_lasting(error):
                    _disconnect(system)
                    system = None
                raise
            finally:
                if system is not None:
                    with self._lock:
                        self._idle.append((epoch, system))


def _data_secs(size: int) -> float:
    return CALL_SECS + size / LEAST_BYTES_PER_SEC


def _system(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, and the path in it. Raises LogDirectoryError."""
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(url, **options, **_apart(url))
    except ImportError as error:
        package = PACKAGES.get(scheme(url), "")
        raise LogDirectoryError(
            f"no driver for {scheme(url)}:// is installed: {without_secrets(error, url, options)}",
            hint=f"pip install {package}" if package else "install the driver that fsspec names",
            path=shown(url),
        ) from None
    except (ValueError, TypeError) as error:
        raise LogDirectoryError(
            f"not the address of a store: {without_secrets(error, url, options)}",
            hint="write it as s3://bucket/runs, and options as the driver of fsspec names them",
            path=shown(url),
        ) from None
    except Exception as error:  # noqa: BLE001  drivers that speak with the host here raise errors of their own
        raise LogDirectoryError(
            f"cannot reach the store: {type(error).__name__}: {without_secrets(error, url, options)}",
            hint="check the address, the network and the permissions",
            path=shown(url),
        ) from None
    _tame(system, scheme(url))
    return system, root


def _apart(url: str) -> dict[str, Any]:
    """Return options that make fsspec create a new driver instead of one that the user may have open."""
    if not is_url(url) or scheme(url) in _SHARED or "::" in url:
        return {}
    if scheme(url) in ("gs", "gcs"):  # what _tame does to it is not to be done to another
        return {"use_listings_cache": False}
    if scheme(url) in (*_S3_SCHEMES, "az", "abfs", "abfss", "adl"):
        return {}
    return {"skip_instance_cache": True}  # one that was used before may have lost its connection


def _tame(system: Any, name: str) -> None:
    """Disable a driver's own retries when a request fails or gets no answer."""
    if name in ("gs", "gcs"):
        # It tries six times, for half a minute, and prints tracebacks where no logging is set up.
        once = getattr(type(system), "_request", None)
        if (plain := getattr(once, "__wrapped__", None)) is not None:
            system._request = MethodType(plain, system)
    elif name in _S3_SCHEMES:
        system.retries = 1  # for each it tries five times, and botocore five for each of these
    elif name in ("sftp", "ssh"):
        with suppress(AttributeError):
            system.client.get_transport().set_keepalive(15)
            system.ftp.get_channel().settimeout(CALL_SECS)


def _disconnect(system: Any) -> None:
    client = getattr(system, "client", None)
    with suppress(Exception):
        if client is not None:
            client.close()
