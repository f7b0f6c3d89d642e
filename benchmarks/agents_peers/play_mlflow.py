"""Logs runs to MLflow and plays calls on its MCP server.

``python play_mlflow.py DATA.json FOLDER OUT.json``, in an environment with ``mlflow[mcp]``. Ids of runs
and experiments are put in for ``{name}``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from itertools import chain
from pathlib import Path

data = json.loads(Path(sys.argv[1]).read_text())
os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{sys.argv[2]}/mlflow.db"

import mlflow  # noqa: E402  reads its place when it is imported
from mcp import ClientSession, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from mlflow.entities import Metric, Param  # noqa: E402


def log_runs() -> dict[str, str]:
    """Log every run; return the ids of experiments and runs by their names."""
    client, ids = mlflow.MlflowClient(), {}
    for project, runs in data["projects"].items():
        ids[project] = client.create_experiment(project, artifact_location=f"file://{sys.argv[2]}/artifacts")
        for name, run in runs.items():
            made = client.create_run(ids[project], run_name=name)
            ids[name] = made.info.run_id
            params = [Param(key, str(value)) for key, value in run["config"].items()]
            points = [
                Metric(re.sub(r"[^\w/. -]", "_", tag), value, 1_700_000_000_000 + number, step)
                for number, (step, values) in enumerate(chain.from_iterable(run["attempts"]))
                for tag, value in values.items()
            ]
            client.log_batch(ids[name], params=params)
            for at in range(0, len(points), 1000):
                client.log_batch(ids[name], metrics=points[at : at + 1000])
            client.set_terminated(ids[name])
    return ids


async def play(ids: dict[str, str]) -> dict[str, object]:
    """Return the answers by question, and the size of the tools' schemas in characters."""
    command = [sys.executable, "-m", "mlflow", "mcp", "run"]
    environment = {**os.environ, "MLFLOW_MCP_TOOLS": "experiments,runs"}
    server = StdioServerParameters(command=command[0], args=command[1:], env=environment)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        answers = {}
        for question, calls in data["calls"].items():
            answers[question] = []
            for tool, given in calls:
                filled = {key: value.format_map(ids) for key, value in given.items()}
                result = await session.call_tool(tool, filled)
                text = "".join(getattr(part, "text", "") for part in result.content)
                answers[question].append({"text": text, "error": result.isError})
    schemas = sum(len(tool.model_dump_json(exclude_none=True)) for tool in tools)
    return {"version": mlflow.__version__, "schemas": schemas, "answers": answers}


found = asyncio.run(play(log_runs()))
Path(sys.argv[3]).write_text(json.dumps(found))
