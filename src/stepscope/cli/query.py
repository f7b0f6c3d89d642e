"""``sql``: ask the tables of a profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepscope import lazy
from stepscope.cli.output import Output
from stepscope.cli.source import ProfileSource
from stepscope.errors import UsageError
from stepscope.text import counted
from stepscope.trace.bounds import hold_polars

if TYPE_CHECKING:
    import polars as pl


def ask_sql(source: ProfileSource, query: str) -> Output:
    """Run a query over the tables, or list them if it is empty.

    Raises:
        UsageError: The query cannot be run.
    """
    hold_polars()
    with lazy.needs("stepscope[frames]"):
        import polars as pl

    tables = source_tables(source)
    if not query.strip():
        return _listing(tables)
    try:
        answer = pl.SQLContext(frames=tables, eager=True).execute(query.strip().rstrip(";"))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError) as error:
        message = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UsageError(f"cannot run the query: {message}", hint=f"tables: {', '.join(tables)}") from None
    with pl.Config(
        tbl_rows=-1, tbl_cols=-1, fmt_str_lengths=200, tbl_width_chars=60_000, tbl_hide_dataframe_shape=True
    ):
        return Output(f"{answer}\n", answer.to_dicts())


def _listing(tables: dict[str, pl.DataFrame]) -> Output:
    lines = [
        f"{name}: {counted(frame.height, 'row')}: {', '.join(frame.columns)}\n"
        for name, frame in tables.items()
    ]
    return Output("".join(lines), {name: frame.columns for name, frame in tables.items()})


def source_tables(source: ProfileSource) -> dict[str, pl.DataFrame]:
    """Return the tables to query: ``nodes`` and ``executions`` for tfprof's data, or those of the trace."""
    profile = source.profile
    if profile is None:
        return source.trace.tables()
    import polars as pl

    nodes = [
        {
            "name": node.name,
            "op": node.op,
            "device": node.canonical_device or None,
            "params": node.parameters,
            "float_ops": node.float_ops,
            "shape": node.shape,
            "inputs": [name for _, name in sorted(node.inputs.items())],
        }
        for node in profile.nodes.values()
    ]
    executions = [
        {
            "name": node.name,
            "step": step,
            "run_count": one.run_count,
            "start_micros": one.start_micros,
            "end_micros": one.end_micros,
            "accelerator_micros": one.accelerator_micros,
            "cpu_micros": one.cpu_micros,
            "bytes": sum(memory.requested for memory in one.memory),
            "peak_bytes": sum(memory.peak for memory in one.memory),
            "residual_bytes": sum(memory.residual for memory in one.memory),
            "output_bytes": sum(memory.output for memory in one.memory),
        }
        for node in profile.nodes.values()
        for step, one in node.executions.items()
    ]
    return {
        "nodes": pl.DataFrame(nodes, schema_overrides={"device": pl.String}, infer_schema_length=None),
        "executions": pl.DataFrame(executions, infer_schema_length=None),
    }
