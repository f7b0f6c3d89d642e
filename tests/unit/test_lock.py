"""The lock of what development installs: whole, hashed, and without addresses."""

from __future__ import annotations

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
    text = re.sub(r"\\\n\s*", " ", LOCK.read_text())
    for line in text.splitlines():
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


def wanted():
    if sys.version_info < (3, 11):
        pytest.skip("tomllib is newer")
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["test"]]


def test_each_package_that_is_asked_for_is_locked_at_a_version_that_it_allows(locked):
    for text in wanted():
        requirement = Requirement(text)
        versions = [version for version, _ in locked.get(canonicalize_name(requirement.name), [])]
        assert versions, f"{text}: make lock"
        assert all(requirement.specifier.contains(each) for each in versions), (text, versions)


def test_no_version_of_a_package_is_locked_twice_for_one_platform(locked):
    for name, versions in locked.items():
        assert len(versions) == 1 or all(marker for _, marker in versions), (name, versions)


def test_it_names_no_address():
    assert not re.search(r"://|--(extra-)?index-url|--find-links|@ ", LOCK.read_text())
