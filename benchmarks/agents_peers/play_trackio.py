"""Logs runs to trackio and plays calls on its MCP server.

``python play_trackio.py DATA.json FOLDER OUT.json``, in an environment with ``trackio[mcp]``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

data = json.loads(Path(sys.argv[1]).read_text())
os.environ["TRACKIO_DIR"] = sys.argv[2]

import trackio  # noqa: E402  reads its folder when it is imported
from mcp import ClientSession  # noqa: E402
from mcp.client.streamable_http import streamablehttp_client  # noqa: E402


def log_runs() -> None:
    """Log every attempt of every run, all values of a step at once."""
    for project, runs in data["projects"].items():
        for name, run in runs.items():
            for number, steps in enumerate(run["attempts"]):
                trackio.init(project, name=name, config=run["config"], resume="must" if number else "never")
                for step, values in steps:
                    trackio.log(values, step=step)
                trackio.finish()


async def play(address: str) -> dict[str, object]:
    """Return the answers by question, and the size of the tools' schemas in characters."""
    async with streamablehttp_client(address) as (read, write, _), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        answers = {}
        for question, calls in data["calls"].items():
            results = [await session.call_tool(tool, given) for tool, given in calls]
            answers[question] = [
                {"text": "".join(getattr(part, "text", "") for part in each.content), "error": each.isError}
                for each in results
            ]
    schemas = sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools)
    return {"version": trackio.__version__, "schemas": schemas, "answers": answers}


log_runs()
_, url, _, _ = trackio.show(mcp_server=True, open_browser=False, block_thread=False)
found = asyncio.run(play(f"{url.partition('?')[0].rstrip('/')}/mcp/"))
Path(sys.argv[3]).write_text(json.dumps(found))
os._exit(0)  # its dashboard's threads go on
