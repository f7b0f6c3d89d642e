"""What the build does again, and what it leaves as it is."""

import os
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace

import pytest
from support.modules import load

BUILD = Path(__file__).resolve().parents[2] / "hatch_build.py"


@pytest.fixture
def build(tmp_path, monkeypatch):
    module = load(BUILD)
    monkeypatch.setattr(module, "WEB", tmp_path / "web")
    monkeypatch.setattr(module, "PAGE", tmp_path / "page")
    monkeypatch.setattr(module, "types_are_current", lambda: True)  # whether this checkout's are is not asked
    monkeypatch.setattr(module, "find_node", lambda: ("/node/bin/node", ["/node/bin/npm"]))
    monkeypatch.delenv("STEPSCOPE_PAGE", raising=False)
    ran = []

    def run(command, **options):
        ran.append(command[1])
        (tmp_path / "page").mkdir(exist_ok=True)

    monkeypatch.setattr(module, "run", run)
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / "package-lock.json").write_text("{}")
    return module, tmp_path / "web", ran


def test_from_nothing_the_packages_are_installed(build):
    module, _, ran = build
    module.build_page()
    assert ran == ["ci", "node_modules/vite/bin/vite.js"]


@pytest.mark.parametrize(("age_s", "commands"), [(-60, ["ci"]), (0, []), (60, [])])
def test_packages_are_installed_again_only_where_their_list_is_newer(build, age_s, commands):
    module, web, ran = build
    installed = web / "node_modules" / ".package-lock.json"
    installed.parent.mkdir()
    installed.write_text("{}")
    wanted = (web / "package-lock.json").stat().st_mtime
    os.utime(installed, (wanted + age_s, wanted + age_s))
    module.build_page()
    assert ran == [*commands, "node_modules/vite/bin/vite.js"]


def test_page_and_kernels_are_built_at_the_same_time(build, monkeypatch):
    module, _, _ = build
    together = Barrier(2)
    monkeypatch.delenv("STEPSCOPE_SKIP_PAGE", raising=False)
    monkeypatch.setattr(module, "build_page", lambda: together.wait(60))

    def build_kernels():
        together.wait(60)
        return [module.KERNELS / "one.so"]

    monkeypatch.setattr(module, "build_kernels", build_kernels)
    data = {"artifacts": []}
    module.CustomBuildHook.initialize(SimpleNamespace(target_name="wheel"), "standard", data)
    assert data["artifacts"] == ["src/stepscope/kernels/one.so"]
    assert data["infer_tag"]


def test_a_page_that_cannot_be_built_fails_the_build(build, monkeypatch):
    module, _, _ = build

    def build_page():
        raise SystemExit("cannot build the page")

    monkeypatch.delenv("STEPSCOPE_SKIP_PAGE", raising=False)
    monkeypatch.setattr(module, "build_page", build_page)
    monkeypatch.setattr(module, "build_kernels", list)
    with pytest.raises(SystemExit, match="cannot build the page"):
        module.CustomBuildHook.initialize(SimpleNamespace(target_name="wheel"), "standard", {"artifacts": []})
