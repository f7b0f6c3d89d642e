"""What the documents say is true: files exist, every option is described, nothing leaks."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.documents import PAGES, ROOT, blocks, relative

import stepscope
import stepscope.cli
from stepscope.analyze.advise import RULES as ADVICE
from stepscope.health import RULES

sys.path.insert(0, str(ROOT / "scripts"))
import docs_site

FOLDERS = ("src/", "docs/", "web/", "tests/", "benchmarks/", "examples/", "scripts/", ".ci/")
TEXT = {
    "", ".py", ".md", ".toml", ".json", ".ts", ".svelte", ".js", ".css", ".html", ".sh", ".cfg", ".yml",
    ".yaml", ".txt",
}  # fmt: skip


@pytest.fixture(scope="module")
def files() -> list[Path]:
    """Every file that belongs to the repository."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT, check=True, capture_output=True, text=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout: there is no list of what belongs to it")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


@functools.cache
def made_pages() -> set[Path]:
    return {ROOT / "docs" / name for name in docs_site.made()}


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_and_paths_exist(page):
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text) + re.findall(
        r'(?:src|srcset)="([^":]+)"', text
    )
    there = made_pages()
    missing = [
        link
        for link in links
        if not (page.parent / link).exists() and (page.parent / link).resolve() not in there
    ]
    named = re.findall(r"`([\w./-]+)`", text)
    missing += [name for name in named if name.startswith(FOLDERS) and not (ROOT / name).exists()]
    assert not missing


def test_the_readme_says_how_many_rules_there_are():
    found = re.findall(r"(\d+) rules", (ROOT / "README.md").read_text())
    assert {int(each) for each in found} == {len(RULES)}


def test_every_file_that_the_architecture_names_exists():
    """Short names stand for files of the package or of ``record``, which has a table of its own."""
    text = (ROOT / "docs" / "design" / "architecture.md").read_text()
    named = set(re.findall(r"`([\w./-]+\.(?:py|ts|svelte))`", text))
    package = ROOT / "src" / "stepscope"
    homes = (ROOT, package, package / "record")
    assert len(named) > 50
    assert sorted(name for name in named if not any((home / name).is_file() for home in homes)) == []


def test_every_file_of_the_recorder_has_its_reason():
    text = (ROOT / "docs" / "design" / "architecture.md").read_text()
    recorder = ROOT / "src" / "stepscope" / "record"
    files = {path.relative_to(recorder).as_posix() for path in recorder.rglob("*.py")}
    assert sorted(name for name in files if not name.endswith("__init__.py") and f"{name}`" not in text) == []


COMMAND = re.compile(r"^\$?\s*stepscope (\w+)(.*?)(?:\s\s+#.*|\s#\s.*)?$", re.MULTILINE)
"""A command in a block of shell; what stands behind # is for the reader."""


def shown_commands() -> list[tuple[str, str, str]]:
    found = []
    for page in PAGES:
        for block in blocks(page, "sh"):
            found += [(relative(page), name, rest.strip()) for name, rest in COMMAND.findall(block.text)]
    return [each for each in found if each[1] in stepscope.cli.COMMANDS]


@pytest.mark.parametrize(("page", "command", "rest"), shown_commands())
def test_every_command_that_is_shown_has_the_options_it_is_shown_with(page, command, rest):
    known = [*options(command), *options_of_questions(command)]
    given = re.findall(r"(?<!\S)(--[\w-]+)", re.split(r"[|;&]|(?:^|\s)--(?=\s)", rest)[0])
    short = [name.replace("--no-", "--") for name in given]
    assert [name for name in short if name not in known and name != "--help"] == []


def options(command: str) -> list[str]:
    """The long form of each option of a command, and its arguments as the usage line shows them."""
    parser = stepscope.cli.build_parser(only=command)
    [commands] = [action.choices for action in parser._actions if action.dest == "command"]
    return [
        action.option_strings[-1].replace("--no-", "--")
        if action.option_strings
        else action.metavar or action.dest
        for action in commands[command]._actions
        if action.dest != "help"
    ]


def options_of_questions(command: str) -> list[str]:
    """Their descriptions are in the reference, which is made from the parsers."""
    parser = stepscope.cli.build_parser(only=command)
    [commands] = [action.choices for action in parser._actions if action.dest == "command"]
    inner = [action.choices for action in commands[command]._actions if action.dest == "question"]
    return [each for choices in inner for part in choices.values() for each in part._option_string_actions]


@pytest.mark.parametrize("command", stepscope.cli.COMMANDS)
def test_every_option_says_what_it_does(command):
    """In the command's help, of which the reference is made."""
    parser = stepscope.cli.build_parser(only=command)
    [commands] = [action.choices for action in parser._actions if action.dest == "command"]
    silent = [
        action.dest
        for action in commands[command]._actions
        if not (action.help or "").strip() and not isinstance(action.choices, dict)  # of commands within it
    ]
    assert silent == []


@pytest.mark.slow
def test_nothing_of_a_developers_machine_is_in_the_repository(files):
    forbidden = re.compile(
        r"(?<![\w.])/(?:work|root)/\w"  # a checkout or home directory
        r"|registry\.npmjs|registry\.yarnpkg|files\.pythonhosted|pypi\.org/(?:simple|packages)"
        r"|(?:index-url|registry)\s*=\s*https?:"
    )
    found = []
    for path in files:
        if path.suffix not in TEXT or path == Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if forbidden.search(line):
                found.append(f"{relative(path)}:{number}: {line.strip()[:120]}")
    assert not found


def test_the_lock_file_pins_by_hash_and_names_no_host(files):
    locks = [path for path in files if path.name == "package-lock.json"]
    if not locks:
        pytest.skip("no lock file yet")
    for path in locks:
        packages = json.loads(path.read_text())["packages"]
        assert not [name for name, entry in packages.items() if "resolved" in entry]
        assert not [name for name, entry in packages.items() if name and not entry.get("integrity")]


def test_sentences_have_a_subject_and_a_verb(files):
    """A docstring says what something is or does; it does not open with a question word."""
    clumsy = re.compile(r'"""(?:What|Who|Where)\b|\bfor want of\b|\bthat is none\b|\bdear\b')
    ours = [
        path for path in files if path.parts[len(ROOT.parts)] in ("src", "docs", "scripts", "examples", "web")
    ]
    found = [
        f"{relative(path)}: {line.strip()[:100]}"
        for path in [*ours, ROOT / "README.md"]
        if path.suffix in TEXT and path.name != "package-lock.json"
        for line in path.read_text(errors="replace").splitlines()
        if clumsy.search(line)
    ]
    assert len(ours) > 500
    assert found == []


def test_the_rules_that_tutorials_name_are_there():
    """Two of them were called by names that no rule has."""
    tutorials = [page.read_text() for page in PAGES if page.parent.name == "tutorials"]
    cells = [line.rstrip("|").rpartition("|")[2] for text in tutorials for line in text.splitlines()]
    named = {name for cell in cells for name in re.findall(r"`([a-z]+(?:-[a-z]+)+)`", cell)}
    assert len(named) >= 5
    assert sorted(named - set(RULES) - set(ADVICE)) == []


def test_every_name_that_another_tools_user_is_sent_to_is_there():
    rows = re.findall(
        r"^\| .* \| (.*) \| .* \|$",
        (ROOT / "docs" / "guides" / "coming-from.md").read_text(),
        re.MULTILINE,
    )
    here = " ".join(rows)
    of_runs, public = set(re.findall(r"\brun\.(\w+)", here)), set(re.findall(r"\bss\.(\w+)", here))
    assert len(of_runs) > 10
    assert sorted(name for name in of_runs if not hasattr(stepscope.Run, name)) == []
    assert sorted(public - set(stepscope.__all__)) == []


def test_no_example_says_how_long_it_takes():
    """That depends on the machine and on what else runs there; no test could hold it."""
    duration = re.compile(r"[Tt]akes? (?:\w+ ){0,3}(?:seconds?|minutes?|hours?)\b")
    said = {path.name for path in (ROOT / "examples").rglob("*.py") if duration.search(path.read_text())}
    assert said == set()


def test_examples_are_short():
    lengths = {path.name: len(path.read_text().splitlines()) for path in (ROOT / "examples").glob("*.py")}
    assert len(lengths) > 10
    assert {name: lines for name, lines in lengths.items() if lines > 120} == {}
