"""Starting the processes of a job on this machine."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.programs import Program


def free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def start(*arguments: str, output: Path, tf_config: dict[str, Any] | None = None) -> Program:
    """Start a Python program that sees this Stepscope, strict, writing into a file."""
    environment = {name: value for name, value in os.environ.items() if name != "TF_CONFIG"}
    environment.update(STEPSCOPE_STRICT="1", TF_CPP_MIN_LOG_LEVEL="3")
    if tf_config is not None:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    with output.open("w") as stream:
        return Program(
            arguments,
            modules=("tensorflow", "keras"),
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture(scope="session")
def processes() -> SimpleNamespace:
    """The two functions above."""
    return SimpleNamespace(free_addresses=free_addresses, start=start)


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Problems are raised; runs that hooks leave open, such as those of evaluations, end with the test."""
    from stepscope.integrations.tensorflow import runs

    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    monkeypatch.delenv("TF_CONFIG", raising=False)
    yield
    while runs._runs:
        runs._runs.popitem()[1].close()
