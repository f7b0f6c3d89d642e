"""The lock of what development installs: whole, hashed, and without addresses."""

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "test.txt"


@pytest.fixture(scope="module")
def locked():
    """Versions and hashes by name; a package may have several versions, each for some platforms."""
    found = {}
    for line in re.sub(r"\\\n\s*", " ", LOCK.read_text()).splitlines():
        if line.startswith("#") or not line.strip():
            continue
        said, *hashes = re.split(r"\s+--hash=", line.strip())
        requirement = Requirement(said)
        [pin] = requirement.specifier
        assert pin.operator == "==", said
        assert hashes, f"{said}: no hash"
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes), said
        found.setdefault(canonicalize_name(requirement.name), []).append((pin.version, requirement.marker))
    return found


def wanted(extra):
    if sys.version_info < (3, 11):
        pytest.skip("tomllib is newer")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = project["optional-dependencies"][extra] if extra else project["dependencies"]
    return {canonicalize_name(found.name): found for found in map(Requirement, texts)}


def test_what_runs_with_the_package_is_locked(locked):
    missing = wanted("").keys() - locked.keys()
    assert not missing, f"make lock: {missing}"


@pytest.mark.parametrize("extra", ["", "test"])
def test_versions_are_allowed(locked, extra):
    """What was added to the tests since then is locked by ``make lock``, as the release list asks."""
    for name, requirement in wanted(extra).items():
        for version, _ in locked.get(name, []):
            assert requirement.specifier.contains(version), f"{requirement}, locked at {version}: make lock"


def test_no_version_of_a_package_is_locked_twice_for_one_platform(locked):
    for name, versions in locked.items():
        assert len(versions) == 1 or all(marker for _, marker in versions), (name, versions)


def test_it_names_no_address():
    assert not re.search(r"://|--(extra-)?index-url|--find-links|@ ", LOCK.read_text())
