"""The documentation site builds without a warning, is whole, and loads nothing from another host."""

import argparse
import html
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope
from stepscope.cli import COMMANDS, build_parser

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import docs_site  # noqa: E402

NAMES = docs_site.integrations()


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    pytest.importorskip("mkdocs", reason="the extra docs builds the site")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


@pytest.mark.slow
def test_every_page_is_there_and_can_be_searched(site):
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert [str(page) for page in sorted(pages) if not (site / page).is_file()] == []
    index = json.loads((site / "search" / "search_index.json").read_text())
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {str(page) for page in pages} <= places | {"index.html"} | {""}


@pytest.mark.slow
def test_nothing_is_loaded_from_another_host(site):
    loads = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=\"?https?:[^\s\">]+|<link[^>]+rel=\"?(?:stylesheet|preconnect|preload)"
        r"[^>]+href=\"?https?:[^\s\">]+|@import\s+url\(https?:[^)]+|url\(https?:[^)]+"
    )
    found = [
        (path.name, hit)
        for path in site.rglob("*")
        if path.suffix in (".html", ".css")
        for hit in loads.findall(path.read_text())
    ]
    assert found == []


@pytest.mark.slow
def test_both_themes_can_be_chosen(site):
    text = (site / "index.html").read_text()
    assert "data-md-color-scheme=slate" in text.replace('"', "")
    assert "data-md-color-scheme=default" in text.replace('"', "")


@pytest.mark.slow
def test_the_reference_has_every_public_name_and_command(site):
    python, commands = ((site / "reference" / f"{name}.html").read_text() for name in ("python", "commands"))
    names = set(stepscope.__all__) - {"__version__", "integrations", "load_ipython_extension"}
    assert [name for name in sorted(names) if f'.{name}"' not in python and f".{name}</" not in python] == []
    assert [name for name in COMMANDS if f"stepscope {name}" not in commands] == []
    here = [name for names in NAMES.items() if ".integrations." in names[0] for name in names[1]]
    assert len(here) > 25
    assert [name for name in here if f'.{name}"' not in python and f".{name}</" not in python] == []


@pytest.mark.slow
def test_the_reference_has_every_option_of_every_command(site):
    text = html.unescape(re.sub(r"<[^>]+>", "", (site / "reference" / "commands.html").read_text()))
    parser = build_parser(only="*")
    [commands] = [action.choices for action in parser._actions if action.dest == "command"]
    options = {
        (name, option)
        for name in COMMANDS
        for action in commands[name]._actions
        for option in action.option_strings
        if action.help != argparse.SUPPRESS
    }
    assert len(options) > 100
    parts = dict(re.findall(r"^usage: stepscope (\w+)(.*?)(?=^usage: |\Z)", text, re.MULTILINE | re.DOTALL))
    assert (
        sorted(each for each in options if not re.search(rf"(?<!\S){re.escape(each[1])}\b", parts[each[0]]))
        == []
    )
