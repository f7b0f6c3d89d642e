"""Imports go one way (docs/architecture.md). Read from the source, so imports inside functions count."""

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import stepscope

ROOT = Path(stepscope.__file__).parent
MAY_IMPORT = {
    "errors": set(),
    "lazy": set(),
    "scrub": set(),
    "version": set(),
    "kernels": set(),
    "health": {"kernels"},
    "events": {"kernels"},
    "record": {"events", "health", "kernels"},
    "capture": {"record", "events", "health", "kernels"},
    "integrations": {"capture", "record", "events", "health", "kernels"},
    "compat": {"integrations", "capture", "record", "events", "health", "kernels"},
    "trace": {"events", "kernels"},  # TensorFlow 1 keeps profiles in event files
    "analyze": {"trace", "health", "kernels"},
    "export": {"analyze", "trace", "health", "kernels"},
    "store": {"events", "kernels"},
    "serve": {"store", "analyze", "export", "trace", "events", "health", "kernels"},
    "notebook": set(),  # starts the command in a process of its own
    "cli": {"serve", "store", "analyze", "export", "trace", "events", "health", "kernels"},
}
"""What each package may import besides itself, ``errors``, ``lazy``, ``scrub`` and ``version``."""
FOR_DEMO = {"demo", "serve", "record", "capture", "integrations"}
"""What ``demo`` and its command may import on top: it trains and shows it."""
FOR_WHOAMI = {"record"}
"""What the command ``whoami`` may import on top: it says what a run would take itself for."""
FRAMEWORKS = {
    "torch",
    "jax",
    "flax",
    "tensorflow",
    "keras",
    "lightning",
    "transformers",
    "sklearn",
    "accelerate",
    "ray",
}


def modules() -> list[tuple[str, Path]]:
    return sorted(
        (".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in ROOT.rglob("*.py")
    )


def imports(path: Path, module: str) -> list[tuple[int, str]]:
    """Every module that a file imports, with the line; relative imports made absolute."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(node.lineno, name.name) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = ["stepscope", *module.split(".")]
            base = package[: len(package) - node.level] if node.level else []
            home = ".".join([*base, *([node.module] if node.module else [])])
            found += [
                (node.lineno, f"{home}.{name.name}" if home == "stepscope" else home) for name in node.names
            ]
        elif isinstance(node, ast.Call) and called(node) in ("import_module", "__import__") and node.args:
            name = node.args[0]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                found.append((node.lineno, name.value))
    return found


def called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


@pytest.mark.parametrize(
    ("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_imports_point_one_way(module, path):
    package = module.split(".")[0]
    if module in ("__init__", "__main__"):
        return  # the lazy public names, and the command line
    demo = "demo" in module.split(".")
    allowed = (
        MAY_IMPORT.get(package, set())
        | {package, "errors", "lazy", "scrub", "version", "__version__"}
        | (FOR_DEMO if demo else set())
        | (FOR_WHOAMI if module == "cli.whoami" else set())
    )
    assert package in MAY_IMPORT or demo, (
        f"package {package} is not in docs/architecture.md and MAY_IMPORT yet"
    )
    wrong = [
        f"{path.name}:{line} imports {name}"
        for line, name in imports(path, module)
        if name.split(".")[0] == "stepscope" and [*name.split("."), ""][1] not in allowed
    ]
    assert not wrong


@pytest.mark.parametrize(
    ("module", "path"), modules(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_only_integrations_and_the_demo_import_a_framework(module, path):
    if module.split(".")[0] == "integrations" or "demo" in module.split("."):
        return
    wrong = [
        f"{path.name}:{line} imports {name}"
        for line, name in imports(path, module)
        if name.split(".")[0] in FRAMEWORKS
    ]
    assert not wrong


def test_the_reader_of_imports_sees_every_form(tmp_path):
    source = tmp_path / "x.py"
    source.write_text(
        "import stepscope.serve.app\nfrom stepscope import cli\nfrom . import log\n"
        "from stepscope.store import open\n"
        "def lazy():\n    from ..trace import model\n    import_module('stepscope.analyze')\n"
    )
    names = {name for _, name in imports(source, "store.x")}
    assert names == {
        "stepscope.serve.app", "stepscope.cli", "stepscope.store", "stepscope.trace", "stepscope.analyze"
    }  # fmt: skip


def test_the_table_has_no_cycles():
    assert set(TopologicalSorter(MAY_IMPORT).static_order()) == MAY_IMPORT.keys()


def test_what_trains_never_imports_what_reads():
    needed: set[str] = set()
    wanted = {"record", "capture", "integrations", "compat"}
    while wanted:
        needed |= wanted
        wanted = {other for package in wanted for other in MAY_IMPORT[package]} - needed
    assert not needed & {"store", "trace", "analyze", "export", "serve", "cli"}


def test_every_package_is_in_the_table():
    packages = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert packages - {"demo"} <= MAY_IMPORT.keys()
    assert "stepscope" in sys.modules
