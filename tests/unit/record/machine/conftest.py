"""Trees of the kernel's files."""

import psutil
import pytest


@pytest.fixture
def tree(tmp_path):
    """A function that writes files below a directory and returns its path."""

    def write(files):
        for name, content in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(content))
        return str(tmp_path)

    return write


@pytest.fixture
def proc(tree, monkeypatch):
    """The same, for files that psutil then reads in place of the kernel's."""
    monkeypatch.setattr(psutil, "PROCFS_PATH", tree({}))
    return tree
