"""``stepscope mcp`` as an agent starts it: over standard input and output, and over HTTP with a token."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.recordings import recorded

import stepscope as ss

pytest.importorskip("mcp", reason="stepscope[mcp]")
import anyio
import httpx2
from mcp import Client, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

COMMAND = [sys.executable, "-m", "stepscope", "mcp"]
TOKEN = "a-token-of-the-test"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    with ss.Run(tmp_path / "logs" / "a") as run:
        run.scalar("train/loss", 1.0, 0)
    return tmp_path / "logs"


def test_over_standard_input_and_output() -> None:
    """A profile is read in a process of its own, which must leave the agent's streams alone."""

    async def play() -> str:
        place = str(recorded("traces/critical_path"))
        server = StdioServerParameters(
            command=COMMAND[0], args=[*COMMAND[1:], place, "--no-cache"], env=dict(os.environ)
        )
        async with Client(stdio_client(server)) as client:
            given = {"profile": "simple_add.json.gz", "limit": 1}
            return (await client.call_tool("operations", given)).content[0].text

    assert "aten::empty_strided" in anyio.run(play)


def test_over_http_with_the_token_alone(logs: Path) -> None:
    words = [*COMMAND, str(logs), "--http", "--port", "0", "--token", TOKEN]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            url = re.search(r"http://\S+/mcp", server.stderr.readline())[0]

            async def play() -> tuple[int, str]:
                async with httpx2.AsyncClient() as stranger:
                    bare = await stranger.post(url, json={})
                headers = {"Authorization": f"Bearer {TOKEN}"}
                async with (
                    httpx2.AsyncClient(headers=headers) as http,
                    Client(streamable_http_client(url, http_client=http)) as client,
                ):
                    return bare.status_code, (await client.call_tool("runs", {})).content[0].text

            status, text = anyio.run(play)
        finally:
            server.terminate()
    assert status == 401
    assert text.startswith("1 run\n")
