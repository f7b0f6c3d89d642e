"""What every test session needs, whoever starts it."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.approved import Approved
from support.durations import by_file
from support.gate import in_gate, may_hold
from support.recordings import NOT_HERE

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS")

FIRST = ("tests/e2e/test_stores.py", "tests/e2e/test_run_command.py")
"""Files that take several minutes each: the others would wait for a worker that begins one of them last."""

LONGEST = (
    "tests/unit/test_docs_code.py", "tests/property/test_odd_values.py", "tests/unit/serve/test_openapi.py",
    "tests/unit/test_site.py", "tests/unit/cli/top/test_app.py", "tests/unit/test_suite.py",
)  # fmt: skip
"""Files that take about a minute, of those that are not in the first folder of ``testpaths``."""

LAST = (
    "tests/tensorflow/test_distribute.py",
    "tests/tensorflow/test_cluster.py",
    "tests/tensorflow/test_birthweight.py",
)
"""Jobs of many processes: the session beside this one has ended by then, and they have its processor, too."""

WORTH_SAYING_S = 60
"""Seconds of a session from which it says where they went."""

try:
    from hypothesis import settings
except ImportError:  # the environments of TensorFlow have no property tests
    pass
else:
    # A test gives the same answer on every machine and every day. The nightly job explores with the second.
    settings.register_profile("suite", derandomize=True, database=None, print_blob=True)
    settings.register_profile("explore", derandomize=False, print_blob=True)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


def pytest_addoption(parser: pytest.Parser) -> None:
    choice = parser.getgroup("stepscope").addoption
    choice("--gate", action="store_true", help="only the tests of make test")
    choice("--beyond-gate", action="store_true", help="only the tests that make test leaves out")
    choice("--approve", action="store_true", help="only the tests of approved texts, and rewrite these")


def pytest_configure(config: pytest.Config) -> None:
    """Give the session a directory for caches, and have signals work in the programs that tests start.

    The session may run in the background: a shell lets what it starts with ``&`` ignore SIGINT, and nohup
    SIGHUP, and programs inherit that. Where each processor has a worker of its own, a pool of threads in each
    would only have them wait for each other.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    own = tempfile.TemporaryDirectory(prefix="stepscope-cache-", ignore_cleanup_errors=True)
    os.environ["XDG_CACHE_HOME"] = own.name  # no test touches the user's caches
    config.add_cleanup(own.cleanup)
    if hasattr(config, "workerinput"):
        for name in THREADS:
            os.environ.setdefault(name, "1")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave files alone from which only tests are left out."""
    gate, beyond = config.getoption("--gate"), config.getoption("--beyond-gate")
    if gate == beyond or not collection_path.name.startswith("test_") or collection_path.suffix != ".py":
        return None
    name = collection_path.relative_to(config.rootpath).as_posix()
    return None if may_hold(name, collection_path.read_text(), gate=gate) else True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage while tests are collected, nor later at what was imported and made by then.

    Those million objects stay to the end. To look at them took a third of the time of the collection, and
    0.7 s each time afterwards.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes long: a worker that begins it last would leave the others idle."""
    gate, beyond = config.getoption("--gate"), config.getoption("--beyond-gate")
    approve = config.getoption("--approve")
    if gate != beyond or approve:
        left_out = [
            item for item in items
            if (approve and "approved" not in getattr(item, "fixturenames", ()))
            or (gate != beyond and in_gate(item.nodeid, (mark.name for mark in item.iter_markers())) != gate)
        ]  # fmt: skip
        config.hook.pytest_deselected(items=left_out)
        skip = set(left_out)
        items[:] = [item for item in items if item not in skip]
    items.sort(
        key=lambda item: (
            item.nodeid.startswith(LAST),
            not item.nodeid.startswith(FIRST),
            not item.nodeid.startswith(("tests/e2e/", *LONGEST)),
        )
    )  # fmt: skip


@pytest.fixture(scope="session")
def approved(request: pytest.FixtureRequest) -> Iterator[Approved]:
    """Compare texts with approved ones, or rewrite these."""
    texts = Approved(rewrite=request.config.getoption("--approve"))
    yield texts
    texts.write()


@pytest.hookimpl(optionalhook=True)  # where pytest-xdist is installed
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep the tests of a file on one worker, and all files that measure time on one."""
    if config.getvalue("dist") != "loadfile":
        return None
    from support.spread import FilesTogether

    return FilesTogether(config, log)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which files took longest, and how many tests did not run because a whole recording is missing."""
    reports = [
        each for found in terminalreporter.stats.values() for each in found if hasattr(each, "duration")
    ]
    if sum(each.duration for each in reports) >= WORTH_SAYING_S:
        terminalreporter.section("seconds by file")
        for line in by_file(reports):
            terminalreporter.write_line(line)
    skipped = [
        report for report in terminalreporter.getreports("skipped") if NOT_HERE in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.write_line(
            f"{len(skipped)} tests need whole recordings that are not here: make recordings fetches them",
            yellow=True,
        )
