"""The reference is complete: each address, series, rule and type that there is, is described in the docs."""

import ast
import inspect
import re
import sys
from pathlib import Path

import pytest

from stepscope.analyze.advise import RULES
from stepscope.record import Run, cost, exits
from stepscope.serve.routes import all_routes

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import docs_site  # noqa: E402

PACKAGE = ROOT / "src" / "stepscope"
DOCS = {
    path.relative_to(ROOT / "docs").as_posix(): path.read_text() for path in (ROOT / "docs").rglob("*.md")
}
WHOLE = "\n".join(DOCS.values())

HTTP = docs_site.http_page()

GROUPS = (
    "speed|system|gradients|activations|optimizer|stepscope|train|eval|test|weights|updates|checkpoint|attention"
    "|router|embeddings"
)
SERIES = re.compile(rf"({GROUPS})/[\w/]+")
NO_SERIES = {
    "stepscope/budget": "a key that processes of JAX share",
    "stepscope/stop": "a key that processes of torch share",
    "stepscope/X": "names of threads in a profile",
    "embeddings/X": "folders of the projector",
}
"""Texts of the source that look like a series and are none."""
PARTS = ("births.py", "options.py")
"""Modules that examples import."""


def tags() -> list[str]:
    """Every series that the source names; what it fills in is X."""
    sources = [
        path for part in ("record", "integrations", "capture") for path in (PACKAGE / part).rglob("*.py")
    ]
    found = {
        text for path in sources for text in texts(ast.parse(path.read_text())) if SERIES.fullmatch(text)
    }
    return sorted(found - set(NO_SERIES))


def texts(node: ast.AST) -> list[str]:
    """All texts of a module, with X for what is filled in."""
    if isinstance(node, ast.JoinedStr):
        parts = [str(each.value) if isinstance(each, ast.Constant) else "X" for each in node.values]
        return ["".join(parts)]
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for each in ast.iter_child_nodes(node) for text in texts(each)]


def described(tag: str, text: str) -> bool:
    """Whether a line names a series, by itself or by its group and its last part."""
    group, _, last = tag.rpartition("/")
    filled = r"(?:<[\w ]+>|[A-Z]+|\\w+|…|\w+)"
    whole, group, last = (re.escape(each).replace("X", filled) for each in (tag, group, last))
    if re.search(rf"(?<![\w/]){whole}(?![\w])", text):
        return True
    return re.search(rf"^.*(?<![\w/]){group}/.*(?<![\w/]){last}(?![\w]).*$", text, re.MULTILINE) is not None


@pytest.mark.parametrize("tag", tags())
def test_a_series_is_described(tag):
    assert described(tag, WHOLE)


@pytest.mark.slow
def test_there_are_many_series_and_one_that_is_none_is_not_described():
    assert len(tags()) > 70
    assert not described("speed/furlongs_per_fortnight", WHOLE)
    assert not described("gradients/X/flavour", WHOLE)


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_of_advice_has_its_formula_and_source_in_the_reference(rule):
    part = docs_site.rules_page().partition(f"\n### {rule}\n")[2].partition("\n### ")[0]
    for cell in ("formula", "fires", "source"):
        assert re.search(rf"^\| {cell} \| \S.* \|$", part, re.MULTILINE), cell


def test_the_reference_has_the_rules_of_advice_that_there_are():
    part = docs_site.rules_page().partition("## Rules of advice")[2]
    assert re.findall(r"^### (.+)$", part, re.MULTILINE) == [*RULES]


@pytest.mark.parametrize("name", sorted(all_routes()))
def test_an_address_is_in_the_reference(name):
    assert re.search(rf"^## (?:GET|POST) api/v1/{re.escape(name)}$", HTTP, re.MULTILINE)


def test_each_type_that_an_address_names_is_in_the_reference():
    named = set(re.findall(r"^\| (?:answer|body) \| ([A-Z]\w+)", HTTP, re.MULTILINE))
    assert len(named) > 40
    assert [name for name in named if f"### {name}\n" not in HTTP] == []


def test_figures_of_the_recorder_are_those_of_the_code():
    """Each of these sentences was false once."""
    text = " ".join(DOCS["guides/recording.md"].split())
    assert (
        f"{round((cost.UNSEEN - 1) * 100)} % are added for what a clock inside the calls does not see" in text
    )
    assert f"closing gives up after {exits.END_SECS:g} s, or {exits.SIGNAL_SECS:g} s after SIGTERM" in text
    bounds = inspect.signature(Run.__init__).parameters
    points, summaries = (bounds[name].default >> 20 for name in ("max_queue_bytes", "max_summary_bytes"))
    assert f"`max_queue_bytes` limits the points that wait to be written, by default to {points} MiB" in text
    assert (
        f"`max_summary_bytes` limits images, histograms and other summaries to another {summaries} MiB"
        in text
    )


def test_every_argument_of_watch_is_described():
    pytest.importorskip("torch")
    from stepscope.integrations.torch import watch

    text = DOCS["guides/frameworks/torch.md"]
    assert [name for name in inspect.signature(watch).parameters if not re.search(rf"`?{name}=?", text)] == []


def test_every_example_is_listed():
    """On the page of the demo, or in the table of the cluster's."""
    listed = DOCS["guides/demo.md"] + DOCS["guides/clusters.md"]
    folder = ROOT / "examples"
    files = [path.relative_to(folder) for path in folder.rglob("*.*") if path.name not in PARTS]
    examples = [path.as_posix() for path in files if path.parent.name != "__pycache__"]
    assert len(examples) > 20
    assert [name for name in examples if f"examples/{name}" not in listed] == []


PACKAGES = {"sklearn": "scikit-learn", "PIL": "pillow", "tensorflow": "tensorflow-cpu==2.15.1"}
THERE_ANYWAY = {"stepscope", "numpy", *sys.stdlib_module_names}
"""What is there once Stepscope is."""


@pytest.mark.parametrize("path", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_an_example_says_what_it_needs(path):
    [row] = [line for line in DOCS["guides/demo.md"].splitlines() if f"`examples/{path.name}`" in line]
    tree = ast.walk(ast.parse(path.read_text()))
    names = {
        (each.module if isinstance(each, ast.ImportFrom) else each.names[0].name).partition(".")[0]
        for each in tree
        if isinstance(each, ast.Import | ast.ImportFrom)
    }
    needed = {PACKAGES.get(name, name) for name in names - THERE_ANYWAY}
    assert needed <= set(re.findall(r"[\w.=-]+", row.rsplit("|", 2)[1]))


@pytest.mark.parametrize("page", sorted(DOCS))
def test_rows_of_a_table_stand_in_their_table(page):
    """With as many cells as its head, and no row without a table above it."""
    columns = 0
    fenced = False
    for line in DOCS[page].splitlines():
        fenced ^= line.lstrip().startswith("```")
        if fenced or not line.startswith("|"):
            columns = 0
            continue
        cells = len(re.findall(r"(?<!\\)\|", re.sub(r"`[^`]*`", "", line))) - 1
        assert columns in (0, cells), line
        if not columns:
            columns = cells


def public_of(run: Run) -> list[str]:
    """Return every name of a run, of its class and of its own, that users may use."""
    return sorted({name for name in [*dir(type(run)), *vars(run)] if not name.startswith("_")})


def test_every_name_of_a_run_has_a_docstring(tmp_path):
    """The reference is made from them."""
    with Run(tmp_path) as run:
        names = public_of(run)
    assert {"current_step", "scalar", "log_dir"} <= set(names)
    own = inspect.getdoc(Run).partition("Attributes:")[2].partition("Raises:")[0]
    documented = {
        name
        for name in names
        if inspect.getdoc(inspect.getattr_static(Run, name, None)) not in (None, inspect.getdoc(None))
    }
    assert [name for name in names if name not in documented and f"    {name}: " not in own] == []
