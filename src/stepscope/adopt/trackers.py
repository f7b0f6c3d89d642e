"""Runs that W&B, MLflow and trackio keep in files of their own formats."""

from __future__ import annotations

import json
import re
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from stepscope.adopt.log import Cell, Log, Record, cell, flattened, logs_from
from stepscope.errors import LogDirectoryError
from stepscope.protos import classes

SQLITE = b"SQLite format 3\0"
WANDB = b":W&B"
MLFLOW = "meta.yaml"
"""A file of each run's directory in a store of files."""
_HEADER_BYTES, _BLOCK_BYTES = 7, 1 << 15
_FULL, _LAST = 1, 4
_MESSAGES = """
Record: history 2 History?, run 17 Run?, config 5 Config?
History: item 1 Item*, step 2 Step
Step: num 1 int64
Item: key 1 bytes, nested_key 2 bytes*, value_json 16 bytes
Run: run_id 1 bytes, config 4 Config, display_name 8 bytes
Config: update 1 Item*
"""


def wandb_run(path: Path, name: str, written: float) -> list[Log]:
    """Return the run in a ``.wandb`` file: protobuf records, framed as in LevelDB's log.

    What was recorded of the machine is left out.
    """
    from google.protobuf.message import DecodeError

    record_type = classes("wandb_internal", _MESSAGES)("Record")
    records: list[Record] = []
    settings: dict[str, Any] = {}
    display = ""
    for data in _framed(path.read_bytes()):
        try:
            record = record_type.FromString(data)
        except DecodeError:
            continue  # damaged; the others are whole
        if record.WhichOneof("value") == "history":
            row = _items(record.history.item)
            row.setdefault("_step", record.history.step.num)
            records.append(flattened(row))
        elif record.WhichOneof("value") == "run":
            display = record.run.display_name.decode("utf-8", "replace") or display
            settings |= _items(record.run.config.update)
        elif record.WhichOneof("value") == "config":
            settings |= _items(record.config.update)
    settings = {key: value for key, value in settings.items() if not key.startswith("_wandb")}
    where, _, _ = name.rpartition("/")
    return logs_from(records, "/".join(filter(None, (where, display))) or name, written, settings)


def _framed(data: bytes) -> Iterator[bytes]:
    """Yield the whole records; the last one of a run that was killed may be torn."""
    at, parts = _HEADER_BYTES, list[bytes]()
    while at + _HEADER_BYTES <= len(data):
        left = _BLOCK_BYTES - at % _BLOCK_BYTES
        if left < _HEADER_BYTES:
            at += left
            continue
        _, size, kind = struct.unpack_from("<IHB", data, at)
        parts.append(data[at + _HEADER_BYTES : at + _HEADER_BYTES + size])
        if len(parts[-1]) < size:
            return
        at += _HEADER_BYTES + size
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts.clear()


def _items(items: Any) -> dict[str, Any]:
    return {
        b"/".join(item.nested_key or [item.key]).decode("utf-8", "replace"): content
        for item in items
        if (content := _json(item.value_json)) is not None
    }


def _json(text: bytes | str) -> Any:
    """Return what JSON says, None if it is damaged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _object(text: bytes | str) -> dict[str, Any]:
    content = _json(text)
    return content if isinstance(content, dict) else {}


def mlflow_runs(path: Path, name: str) -> list[Log]:
    """Return the run in a directory of MLflow: one file per metric, with lines of time, value and step."""
    records: list[dict[str, Cell]] = []
    metrics = path / "metrics"
    for file in sorted(file for file in metrics.rglob("*") if file.is_file()):
        key = file.relative_to(metrics).as_posix()
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            time, value, step, *_ = [*map(cell, line.split()), None, None, 0][:3]
            cells = {"key": key, "timestamp": time, "value": value, "step": step or 0}
            records.append({field: content for field, content in cells.items() if content is not None})
    settings = _texts(path / "params")
    run_name = _texts(path / "tags").get("mlflow.runName")
    where, _, run_id = name.rpartition("/")
    above, _, _ = where.rpartition("/")
    experiment = re.search(r"^name: (.+)$", _text(path.parent / MLFLOW), re.MULTILINE)
    where = "/".join(filter(None, (above, experiment[1]))) if experiment else where
    name = "/".join(filter(None, (where, f"{run_name}-{run_id[:8]}" if run_name else run_id)))
    return logs_from(records, name, path.stat().st_mtime, settings)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _texts(directory: Path) -> dict[str, Any]:
    return {
        file.relative_to(directory).as_posix(): cell(file.read_text(encoding="utf-8", errors="replace"))
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }


def sqlite_runs(path: Path, name: str, written: float) -> list[Log]:
    """Return the runs in a database of MLflow or of trackio.

    Raises:
        LogDirectoryError: It is neither.
    """
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as base:
            columns = {row[1] for row in base.execute("PRAGMA table_info(metrics)")}
            if {"key", "value", "run_uuid"} <= columns:
                return _mlflow_database(base, name, written)
            if {"run_name", "step", "metrics"} <= columns:
                return _trackio(base, name, written)
    except sqlite3.Error as error:
        raise LogDirectoryError(
            f"a database that cannot be read: {error}", hint="close what writes to it, or copy it", path=path
        ) from error
    raise LogDirectoryError(
        "a database of neither MLflow nor trackio", hint="export its values as CSV", path=path
    )


def _mlflow_database(base: sqlite3.Connection, name: str, written: float) -> list[Log]:
    logs: list[Log] = []
    for run, run_name, experiment in base.execute(
        "SELECT run_uuid, runs.name, experiments.name FROM runs LEFT JOIN experiments USING (experiment_id) "
        "ORDER BY start_time"
    ).fetchall():
        rows = base.execute(
            "SELECT key, CASE is_nan WHEN 1 THEN 'nan' ELSE value END, timestamp, step FROM metrics "
            "WHERE run_uuid = ? ORDER BY timestamp, step",
            (run,),
        )
        records = [
            {"key": key, "value": content, "timestamp": time, "step": step}
            for key, value, time, step in rows
            if (content := cell(value)) is not None
        ]
        settings = {
            key: cell(value)
            for key, value in base.execute("SELECT key, value FROM params WHERE run_uuid = ?", (run,))
        }
        logs += (
            logs_from(records, f"{name}/{experiment}/{run_name or 'run'}-{run[:8]}", written, settings)
            if records
            else []
        )
    return logs


def _trackio(base: sqlite3.Connection, name: str, written: float) -> list[Log]:
    has_ids = any(row[1] == "run_id" for row in base.execute("PRAGMA table_info(metrics)"))
    run_of = "run_id" if has_ids else "run_name"
    settings = {
        run: {key: value for key, value in _object(text).items() if not key.startswith("_")}
        for run, text in base.execute(f"SELECT {run_of}, config FROM configs").fetchall()  # noqa: S608
    }
    runs: dict[str, tuple[str, list[Record]]] = {}
    for run, run_name, time, step, text in base.execute(
        f"SELECT {run_of}, run_name, timestamp, step, metrics FROM metrics ORDER BY id"  # noqa: S608
    ):
        records = runs.setdefault(run, (run_name, []))[1]
        records.append({**flattened(_object(text)), "step": step, "timestamp": time})
    names = [run_name for run_name, _ in runs.values()]
    return [
        log
        for run, (run_name, records) in runs.items()
        for log in logs_from(
            records,
            f"{name}/{run_name}" + (f"-{run[:8]}" if names.count(run_name) > 1 else ""),
            written,
            settings.get(run),
        )
    ]
