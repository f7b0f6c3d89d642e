"""``scripts/suite.py``: a test that fails beside others is run again alone, and named."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.durations import by_file

SUITE = Path(__file__).parents[2] / "scripts" / "suite.py"
FAILS_ONCE = """
import pathlib, pytest

@pytest.mark.parametrize("name", {names})
def test_first(name):
    seen = pathlib.Path(__file__).with_name(name)
    before = seen.exists()
    seen.touch()
    assert before

def test_good():
    pass
"""


def suite(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\n")
    (folder / "test_it.py").write_text(text)
    command = [sys.executable, str(SUITE), "-q", *arguments]
    own = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take most of the time to import
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("arguments", [(), ("-n", "1", "--dist", "loadfile", "--no-loadscope-reorder")])
def test_one_that_passes_alone_is_named(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = suite(tmp_path, FAILS_ONCE.format(names=["a", "b"]), *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    named = [line for line in done.stdout.splitlines() if line.startswith("UNSTEADY")]
    assert [line.split(":")[2] for line in named] == ["test_first[a]", "test_first[b]"]
    assert "2 passed" in done.stdout  # the good one is not run again


def test_one_that_fails_again_fails(tmp_path: Path) -> None:
    done = suite(tmp_path, "def test_bad():\n    assert 0\n")
    assert done.returncode == 1
    assert done.stdout.count("assert 0") >= 2
    assert "UNSTEADY" not in done.stdout


def test_many_get_no_second_chance(tmp_path: Path) -> None:
    done = suite(tmp_path, FAILS_ONCE.format(names=list("abcdefg")))
    assert done.returncode == 1
    assert "7 failed" in done.stdout
    assert "alone" not in done.stdout


def test_what_pytest_cannot_do_is_its_status(tmp_path: Path) -> None:
    assert suite(tmp_path, "def test_good():\n    pass\n", "--no-such-option").returncode == 4
    assert suite(tmp_path, "def test_good():\n    pass\n").returncode == 0


def test_the_files_that_took_longest_are_named() -> None:
    def report(name: str, when: str, duration: float) -> pytest.TestReport:
        return pytest.TestReport(f"tests/{name}", ("", 0, ""), {}, "passed", None, when, duration=duration)

    found = by_file(
        [
            report("a.py::test_1", "setup", 2.0), report("a.py::test_1", "call", 0.25),
            report("b.py::test_1", "call", 4.0), report("b.py::test_2", "call", 0.5),
            report("c.py::test_1", "call", 0.5), report("d.py::test_1", "call", 1.0),
        ],
        most=2,
    )  # fmt: skip
    assert found == [
        "    4.5 s     2 tests  tests/b.py",
        "    2.2 s     1 tests  tests/a.py",
        "    1.5 s     2 tests  2 other files",
    ]


def with_our_conftest(folder: Path, *arguments: str, more: str = "") -> str:
    """Return what a session that passes prints, with the conftest of these tests and more in it."""
    tests = SUITE.parents[1] / "tests"
    (folder / "conftest.py").write_text(f"{(tests / 'conftest.py').read_text()}\n{more}\n")
    own = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(tests / "lib")}
    command = [sys.executable, "-m", "pytest", "-q", *arguments]
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_file_that_is_skipped_whole_is_no_harm_to_the_end_of_a_session(tmp_path: Path) -> None:
    """What is collected has no duration: the summary raised, and the session had failed."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_none.py").write_text(
        "import pytest\npytest.skip('not here', allow_module_level=True)\n"
    )
    (tmp_path / "test_one.py").write_text("def test_one():\n    pass\n")
    assert "1 tests  test_one.py" in with_our_conftest(tmp_path, more="WORTH_SAYING_S = 0")


SPREAD = """
import os
import pathlib
import pytest
{of_file}

@pytest.fixture(scope="module", autouse=True)
def shared():
    with pathlib.Path(__file__).with_suffix(".made").open("a") as file:
        file.write(os.environ["PYTEST_XDIST_WORKER"] + "\\n")

{of_test}
@pytest.mark.parametrize("number", range(9))
def test_it(number):
    pass
"""


@pytest.mark.slow
def test_what_a_file_shares_is_made_once_and_files_that_hold_a_time_share_a_worker(tmp_path: Path) -> None:
    """With groups of xdist, which pytest 9.2 lost without a word, each worker made it."""
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -p xdist\nmarkers =\n  timing: holds a time\n")
    timing = {
        "test_a.py": ("pytestmark = pytest.mark.timing", ""),
        "test_f.py": ("pytestmark = [pytest.mark.usefixtures(), pytest.mark.timing]", ""),
        "test_i.py": ("", "@pytest.mark.timing"),
    }
    names = [f"test_{letter}.py" for letter in "abcdefghi"]
    for name in names:
        of_file, of_test = timing.get(name, ("", ""))
        (tmp_path / name).write_text(SPREAD.format(of_file=of_file, of_test=of_test))
    with_our_conftest(tmp_path, "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder")
    made = {name: (tmp_path / name).with_suffix(".made").read_text().split() for name in names}
    assert [len(workers) for workers in made.values()] == [1] * len(names)
    assert len({made[name][0] for name in timing}) == 1
    assert len({worker for (worker,) in made.values()}) > 1
