"""Plugins of pytest for ``scripts/mutants.py``: which tests reach which lines, and those that are to run."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest


class Watcher:
    """Notes which tests reach which lines of the source.

    What a test's fixtures reach counts for every test of its file, because the first may have made what the
    others share.
    """

    def __init__(self, out: Path, source: Path) -> None:
        import coverage

        self.out, self.source = out, source
        self.seconds: dict[str, float] = defaultdict(float)
        self.coverage = coverage.Coverage(data_file=None, source=[str(source)], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count fixtures to the file of a test, and measure its processor time."""
        self.coverage.switch_context(file_of(item.nodeid))
        start = time.process_time()
        yield
        self.seconds[item.nodeid] += time.process_time() - start
        self.coverage.switch_context("")

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Count what a test reaches to itself."""
        self.coverage.switch_context(item.nodeid)
        yield
        self.coverage.switch_context(file_of(item.nodeid))

    def pytest_unconfigure(self) -> None:
        """Write what was reached."""
        self.coverage.stop()
        data = self.coverage.get_data()
        files = {
            str(Path(path).relative_to(self.source)): {
                line: [name for name in names if name]
                for line, names in data.contexts_by_lineno(path).items()
            }
            for path in data.measured_files()
        }
        self.out.write_text(json.dumps({"files": files, "seconds": self.seconds}))


class Chosen:
    """Runs the named tests alone, in the order of their names here, and notes which failed."""

    def __init__(self, names: Sequence[str], out: Path) -> None:
        self.order = {name: place for place, name in enumerate(names)}
        self.out = out

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out and sort."""
        items[:] = [item for item in items if item.nodeid in self.order]
        items.sort(key=lambda item: self.order[item.nodeid])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the name of a test that failed."""
        if report.failed:
            self.out.write_text(report.nodeid)


def file_of(test: str) -> str:
    """The file of a test."""
    return test.split("::")[0]
