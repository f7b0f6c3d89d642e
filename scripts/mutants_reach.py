"""A plugin of pytest: which test files reach which lines of the source, for ``scripts/mutants.py``."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import coverage
import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options more."""
    parser.addoption("--reach", type=Path, help="file to write to")
    parser.addoption("--reach-of", type=Path, help="the source to watch")


def pytest_configure(config: pytest.Config) -> None:
    """Watch from now on."""
    config.pluginmanager.register(Watcher(config.getoption("--reach"), config.getoption("--reach-of")))


class Watcher:
    """Notes what each test file reaches, fixtures included."""

    def __init__(self, out: Path, source: Path) -> None:
        self.out, self.source = out, source
        self.seconds: dict[str, float] = defaultdict(float)
        self.coverage = coverage.Coverage(data_file=None, source=[str(source)], config_file=False)
        self.coverage.start()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Count what a test reaches to its file."""
        name = item.nodeid.split("::")[0]
        self.coverage.switch_context(name)
        start = time.monotonic()
        yield
        self.seconds[name] += time.monotonic() - start
        self.coverage.switch_context("")

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
