"""Imports go one way (the architecture). Read from the source, so imports inside functions count."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import stepscope

ROOT = Path(stepscope.__file__).parent
EVERYWHERE = {
    "cell", "child", "errors", "files", "hosts", "lazy", "lru", "metrics", "names", "patterns", "protos",
    "quiet", "reading", "remote", "scratch", "text", "expression", "urls", "version", "workers",
    "__version__",
}  # fmt: skip
MAY_IMPORT = {
    "cell": set(),
    "child": set(),
    "hosts": set(),
    "errors": set(),
    "lazy": set(),
    "lru": set(),
    "metrics": set(),
    "quiet": set(),
    "reading": set(),
    "patterns": set(),
    "protos": set(),
    "scratch": set(),
    "text": set(),
    "expression": set(),
    "urls": set(),
    "version": set(),
    "workers": set(),
    "files": set(),
    "names": set(),
    "mirror": {"events", "kernels"},
    "remote": set(),
    "kernels": set(),
    "health": {"kernels"},
    "events": {"kernels"},
    "record": {"events", "health", "kernels"},
    "capture": {"record", "events", "health", "kernels"},
    "integrations": {"capture", "record", "events", "health", "kernels"},
    "adopt": {"launch", "record", "events", "kernels"},
    "launch": {"integrations", "capture", "record", "events", "health", "kernels"},
    "compat": {"integrations", "capture", "record", "events", "health", "kernels"},
    "trace": {"events", "kernels", "mirror"},  # TensorFlow 1 keeps profiles in event files
    "attribute": {"trace", "kernels"},
    "analyze": {"attribute", "trace", "health", "kernels"},
    "export": {"analyze", "attribute", "trace", "health", "kernels"},
    "store": {"events", "health", "kernels", "mirror"},
    "job": {"mirror", "store", "analyze", "attribute", "trace", "events", "health", "kernels"},
    "serve": {
        "mirror",
        "job",
        "store",
        "analyze",
        "attribute",
        "export",
        "trace",
        "events",
        "health",
        "kernels",
    },
    "notebook": set(),  # starts the command in a process of its own
    "cli": {
        "mirror",
        "job",
        "serve",
        "store",
        "analyze",
        "attribute",
        "export",
        "trace",
        "events",
        "health",
        "kernels",
    },
}
"""What each package may import besides itself and :data:`EVERYWHERE`."""
FOR_DEMO = {"demo", "serve", "record", "capture", "integrations"}
"""What ``demo`` and its command may import on top: it trains and shows it."""
FOR_WHOAMI = {"record"}
"""What the command ``whoami`` may import on top: it says what a run would take itself for."""
FOR_RUN = {"record"}
"""What the command ``run`` and its card may import on top: the card is the one of a run."""
FOR_SYNC = {"record"}
"""What the command ``sync`` may import on top: it sends what runs have left on this machine."""
FOR_IMPORT = {"adopt"}
"""What the command ``import`` may import on top: it makes runs of the logs of other tools."""
FRAMEWORKS = {
    "torch", "jax", "flax", "tensorflow", "keras", "lightning", "transformers", "sklearn", "accelerate",
    "ray",
}  # fmt: skip


CIRCLES = (
    {"record.protocol", "record.run"},
)  # fmt: skip
"""Modules that import each other and are still to be untied; nothing is ever added here."""


def modules() -> list[tuple[str, Path]]:
    return sorted(
        (".".join(path.relative_to(ROOT).with_suffix("").parts), path) for path in ROOT.rglob("*.py")
    )


@cache
def nodes(source: str) -> list[ast.AST]:
    """What of a module may import: several tests read each, and parsing is most of their time."""
    wanted = (ast.Import, ast.ImportFrom, ast.Call)
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, wanted)]


@cache
def imports(path: Path, module: str) -> list[tuple[int, str]]:
    """Every module that a file imports, with the line; relative imports made absolute."""
    found = []
    for node in nodes(path.read_text()):
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


def allowed(module: str) -> set[str]:
    """What a module may import, by the name of the package."""
    package = module.split(".")[0]
    own = {package, *EVERYWHERE}
    return (
        own
        | MAY_IMPORT.get(package, set())
        | (FOR_DEMO if "demo" in module.split(".") else set())
        | (FOR_WHOAMI if module == "cli.whoami" else set())
        | (FOR_SYNC if module == "cli.sync" else set())
        | (FOR_IMPORT if module == "cli.import" else set())
        | (FOR_RUN if module in ("cli.run", "cli.card") else set())
    )


def against_the_table(module: str, path: Path) -> list[str]:
    """The imports of a module that the table does not allow."""
    package = module.split(".")[0]
    if module in ("__init__", "__main__"):
        return []  # the lazy public names, and the command line
    if package not in MAY_IMPORT and "demo" not in module.split("."):
        return [f"package {package} is not in docs/design/architecture.md and MAY_IMPORT yet"]
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports(path, module)
        if name.split(".")[0] == "stepscope" and [*name.split("."), ""][1] not in allowed(module)
    ]


def frameworks_of(module: str, path: Path) -> list[str]:
    """The imports of a framework where none may be: outside the integrations and the demo."""
    if module.split(".")[0] == "integrations" or "demo" in module.split("."):
        return []
    allowed_here = {"ray"} if module == "workers" else set()  # as a cluster that a command asks for
    return [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for line, name in imports(path, module)
        if name.split(".")[0] in FRAMEWORKS - allowed_here
    ]


def test_directions():
    assert [wrong for module, path in modules() for wrong in against_the_table(module, path)] == []


def test_only_integrations_and_the_demo_import_a_framework():
    assert [wrong for module, path in modules() for wrong in frameworks_of(module, path)] == []


def neighbours(module: str, path: Path, known: dict[str, str]) -> set[str]:
    """The modules of ours that a module imports; ``known`` are all by the name that is imported."""
    package = module.split(".")[:-1]
    found = set()
    for node in nodes(path.read_text()):
        if isinstance(node, ast.ImportFrom):
            home = package[: len(package) - node.level + 1] if node.level else []
            home = [*home, *(node.module or "").removeprefix("stepscope").split(".")]
            home = [part for part in home if part]
            names = [".".join([*home, name.name]) for name in node.names]
            found |= {known.get(name, known.get(".".join(home), "")) for name in names}
        elif isinstance(node, ast.Import):
            found |= {known.get(name.name.removeprefix("stepscope."), "") for name in node.names}
    return found - {"", module}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Modules that import each other, first and last the same, or none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_circle():
    known = {module.removesuffix(".__init__"): module for module, _ in modules() if module != "__init__"}
    graph = {
        module: neighbours(module, path, known) for module, path in modules() if module in known.values()
    }
    for members in CIRCLES:
        for module in members & graph.keys():
            graph[module] -= members
    assert circle(graph) == []


def test_a_circle_is_found(tmp_path):
    known = {name: name for name in ("store.run", "store.frame", "lazy")} | {"store": "store.__init__"}
    source = tmp_path / "run.py"
    source.write_text(
        "def late():\n    from .frame import of\n    from .. import lazy\n    from ..store import x\n"
    )
    assert neighbours("store.run", source, known) == {"store.frame", "lazy", "store.__init__"}
    source.write_text("from stepscope.store import run\nimport stepscope.lazy, os\n")
    assert neighbours("store.frame", source, known) == {"store.run", "lazy"}
    assert circle({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


def test_a_wrong_direction_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    source = tmp_path / "loop.py"
    source.write_text("def late():\n    from stepscope.store import open\n    import torch\n")
    assert against_the_table("record.loop", source) == ["loop.py:2 imports stepscope.store"]
    assert frameworks_of("record.loop", source) == ["loop.py:3 imports torch"]
    assert against_the_table("cli.loop", source) == frameworks_of("integrations.loop", source) == []


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


BEFORE_THREADS = {
    "events", "store", "store.annotations", "record.roles", "record.statistics", "record.summaries",
}  # fmt: skip
"""Packages that are whole before a second thread imports anything: a server opens its log first, a program
makes its run."""


def eager_packages() -> set[str]:
    """Packages whose own modules are imported with them."""
    found = set()
    for path in ROOT.rglob("*/__init__.py"):
        package = ".".join(path.parent.relative_to(ROOT).parts)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith(f"stepscope.{package}."):
                found.add(package)
    return found - BEFORE_THREADS


def test_no_thread_can_be_held_up_by_two_imports() -> None:
    """Python takes a module's lock before its package's: a package that imports its modules waits for them.

    Where one thread imports the package and another one of its modules first, the two wait for each other,
    and one of the imports fails. The command line has one thread.
    """
    packages = eager_packages()
    assert "health.rules" in packages
    wrong = []
    for path in ROOT.rglob("*.py"):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        if name.startswith("cli."):
            continue
        for node in nodes(path.read_text()):
            if isinstance(node, ast.ImportFrom) and node.module:
                wrong += [
                    f"{name}:{node.lineno} imports {node.module}; import it from stepscope.{package}"
                    for package in packages
                    if node.module.startswith(f"stepscope.{package}.") and not name.startswith(f"{package}.")
                ]
    assert not wrong


@pytest.mark.slow
def test_modules_of_a_package_are_imported_by_threads_at_once() -> None:
    code = """
import threading
from importlib import import_module

names = ["stepscope.analyze.health.report", "stepscope.analyze.health.forecast", "stepscope.analyze.health",
         "stepscope.trace.model", "stepscope.trace.load", "stepscope.trace", "stepscope.analyze.views",
         "stepscope.analyze.views.choose", "stepscope.capture.hook", "stepscope.capture"]
ready, failed = threading.Barrier(len(names)), []

def run(name):
    ready.wait()
    try:
        import_module(name)
    except BaseException as error:
        failed.append(f"{name}: {error!r}")

threads = [threading.Thread(target=run, args=(name,)) for name in names]
for each in threads:
    each.start()
for each in threads:
    each.join()
assert not failed, failed
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
