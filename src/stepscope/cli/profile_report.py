"""The HTML report of a profile, for ``advise --html`` and the shell's ``report``."""

from __future__ import annotations

from stepscope.cli.advise import facts_of
from stepscope.cli.session import Output
from stepscope.cli.source import ProfileSource


def write_report(source: ProfileSource, path: str) -> Output:
    """Write one self-contained HTML file.

    Raises:
        UsageError: It cannot be written.
    """
    from stepscope.export.html import write_html

    write_html(facts_of(source), path, title=source.path.name or str(source.path))
    return Output("", {"written": path}, (f"written to {path}",))
