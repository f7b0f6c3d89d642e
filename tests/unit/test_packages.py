"""What packages are built from says the same everywhere: version, requirements, Pythons, commands."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from stepscope import __version__

ROOT = Path(__file__).resolve().parents[2]
if sys.version_info < (3, 11):
    pytest.skip("reads TOML with the standard library", allow_module_level=True)
import tomllib  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RECIPE = (ROOT / "conda" / "meta.yaml").read_text()
CONDA_NAMES = {"isal": "python-isal"}


def test_the_conda_recipe_has_the_version_and_the_requirements_of_the_package():
    assert f'version = "{__version__}"' in RECIPE
    needed = [re.match(r"([\w.-]+)(.*)", each).groups() for each in PROJECT["project"]["dependencies"]]
    found = dict(re.findall(r"- ([\w.-]+) (\S+)", RECIPE.partition("  run:")[2].partition("\ntest:")[0]))
    assert found == {CONDA_NAMES.get(name, name): version for name, version in needed}
    built = RECIPE.partition("  host:")[2].partition("  run:")[0]
    assert all(re.match(r"[\w-]+", each)[0] in built for each in PROJECT["build-system"]["requires"])


FIELDS = {  # docs.conda.io/projects/conda-build/en/latest/resources/define-metadata.html
    "package": {"name", "version"},
    "source": {"path", "url", "sha256", "git_url", "git_rev", "patches", "folder"},
    "build": {"number", "skip", "script", "entry_points", "noarch", "string", "ignore_run_exports"},
    "requirements": {"build", "host", "run", "run_constrained"},
    "test": {"source_files", "files", "requires", "imports", "commands"},
    "about": {"license", "license_file", "summary", "description", "home", "dev_url", "doc_url"},
}


def test_the_conda_recipe_renders_to_fields_that_conda_build_knows():
    yaml = pytest.importorskip("yaml", reason="reads the recipe")
    jinja2 = pytest.importorskip("jinja2", reason="conda-build renders recipes with it")
    template = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(RECIPE)
    recipe = yaml.safe_load(
        template.render(compiler=lambda language: f"{language}_compiler", PYTHON="python")
    )
    assert {name: sorted(part) for name, part in recipe.items() if set(part) - FIELDS.get(name, set())} == {}
    assert recipe["package"] == {"name": "stepscope", "version": __version__}
    root = (ROOT / "conda" / recipe["source"]["path"]).resolve()
    tried = [word for line in recipe["test"]["commands"] for word in line.split() if word.endswith(".py")]
    assert tried
    assert set(tried) <= set(recipe["test"]["source_files"])
    assert all((root / name).is_file() for name in [*tried, recipe["about"]["license_file"]])
    scripts = [f"{name} = {target}" for name, target in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["entry_points"] == scripts


def test_wheels_are_built_for_every_supported_python():
    first = int(re.search(r">=3\.(\d+)", PROJECT["project"]["requires-python"])[1])
    wanted = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert wanted == [f"cp3{minor}-*" for minor in range(first, first + len(wanted))]
    assert f"cp3{sys.version_info.minor}-*" in wanted


def test_the_release_runs_what_is_there():
    yaml = pytest.importorskip("yaml", reason="reads the workflow")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    targets = re.findall(r"\bmake (\w+)", "\n".join(steps))
    rules = (ROOT / "Makefile").read_text()
    assert targets
    assert all(re.search(rf"^{name}:", rules, re.MULTILINE) for name in targets)
    named = re.findall(r"(?:scripts/)?\w+\.py\b", "\n".join(steps))
    assert "scripts/smoke.py" in named
    assert all((ROOT / name).is_file() for name in named)
    assert "smoke.py" in PROJECT["tool"]["cibuildwheel"]["test-command"]
    systems = workflow["jobs"]["wheels"]["strategy"]["matrix"]["os"]
    assert sum("macos" in each for each in systems) == sum("ubuntu" in each for each in systems) == 2


def test_every_night_each_reader_is_fed_for_a_minute():
    """Options are those of the program, targets those of the Makefile, and the time is enough for all."""
    yaml = pytest.importorskip("yaml", reason="reads the workflow")
    fuzz = pytest.importorskip("support.fuzz")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "fuzz.yml").read_text())
    job, explore = workflow["jobs"]["fuzz"], workflow["jobs"]["explore"]
    assert "make explore" in [step.get("run") for step in explore["steps"]]
    runs = [step["run"] for step in job["steps"] if "run" in step]
    assert runs[-1] == 'make fuzz FUZZ="$OPTIONS"'
    assert {".venv/.test", "fuzz"} == set(re.findall(r"\bmake ([\w./-]+)", "\n".join(runs)))
    [options] = [step["env"]["OPTIONS"] for step in job["steps"] if "env" in step]
    usual = workflow[True]["workflow_dispatch"]["inputs"]["options"]["default"]  # "on" is true in YAML
    assert (usual, f"'{usual}'" in options) == ("--seconds 60", True)
    assert 60 * len(fuzz.TARGETS) < 60 * job["timeout-minutes"] / 2
    assert {"$(VENV)/.test", "fuzz", "explore"} <= set(
        re.findall(r"^([\w$()./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )


def interpreter(path, *, whole=True):
    """Put a stand-in for an interpreter somewhere; one that is not whole lacks ensurepip."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {path}\n" if whole else "#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return str(path)


def test_wheels_are_built_here_for_the_pythons_of_the_release_that_this_machine_has(tmp_path):
    """Those on the PATH, else those of pyenv; what cannot make an environment, or is too old, is left out."""
    wanted = [int(each[3:].partition("-")[0]) for each in PROJECT["tool"]["cibuildwheel"]["build"].split()]
    first, second, third, *_, last = wanted
    found = [
        interpreter(tmp_path / "bin" / f"python3.{first}"),
        interpreter(tmp_path / ".pyenv" / "versions" / f"3.{second}.4" / "bin" / "python"),
        interpreter(tmp_path / "bin" / f"python3.{last}"),
    ]
    interpreter(tmp_path / "bin" / f"python3.{second}", whole=False)
    interpreter(tmp_path / "bin" / f"python3.{third}", whole=False)
    interpreter(tmp_path / "bin" / f"python3.{first - 1}")
    environment = {"PATH": str(tmp_path / "bin"), "HOME": str(tmp_path)}
    command = ["/bin/sh", str(ROOT / "scripts" / "pythons.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == found
