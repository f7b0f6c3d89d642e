import os

import pytest

from stepscope.store import discover
from stepscope.store.discover import FULL_SECONDS, RACY_SECONDS, EventFileTree


def touch(root, *paths):
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def names(tree, **options):
    return {run: [path.rpartition("/")[2] for path in files] for run, files in tree.scan(**options).items()}


def settle(root, seconds=60):
    """Let every directory have changed long ago, so that its time stamp can be relied on."""
    for folder in [root, *root.rglob("*/")]:
        then = folder.stat().st_mtime - seconds
        os.utime(folder, (then, then))


@pytest.fixture
def listed(monkeypatch):
    """The paths of directories that were listed."""
    seen = []
    real = discover.list_directory

    def list_directory(path, *rest):
        seen.append(path.rpartition("/")[2])
        return real(path, *rest)

    monkeypatch.setattr(discover, "list_directory", list_directory)
    return seen


def test_runs_are_directories_that_directly_hold_event_files(tmp_path):
    touch(
        tmp_path,
        "events.out.tfevents.1.h",
        "a/x.tfevents",
        "a/b/c/prefix-tfevents-suffix",
        "a/notes.txt",
        "empty/readme",
        "profiled/events.out.tfevents.1.h.profile-empty",
        ".hidden/tfevents",
    )
    assert names(EventFileTree(str(tmp_path))) == {
        ".": ["events.out.tfevents.1.h"],
        ".hidden": ["tfevents"],
        "a": ["x.tfevents"],
        "a/b/c": ["prefix-tfevents-suffix"],
        "profiled": ["events.out.tfevents.1.h.profile-empty"],
    }


def test_files_are_in_the_order_of_their_names(tmp_path):
    touch(tmp_path, "r/tfevents.10", "r/tfevents.2", "r/tfevents.1")
    assert names(EventFileTree(str(tmp_path))) == {"r": ["tfevents.1", "tfevents.10", "tfevents.2"]}


NAME = "events.out.tfevents.1700000000.host.12.0"


@pytest.mark.parametrize(
    "copy",
    [
        f".{NAME}.Xa3kQz",  # rsync
        f"{NAME}.8aBcDeF0",  # aws s3
        f"{NAME}.8abcdef0.partial",  # rclone
        f"{NAME}_.gstmp",
        f"{NAME}.part",
        f"{NAME}.filepart",
        f"{NAME}~",
        f".syncthing.{NAME}.tmp",
        f".{NAME}.4711.140123456789012",  # a copy of a store by ourselves
    ],
)
def test_a_copy_that_is_being_made_of_a_file_is_left_out(tmp_path, copy):
    for name in (copy, NAME, "events.out.tfevents.1700000000.host.12.1", f"{NAME}.v2", f"{NAME}.valid"):
        (tmp_path / name).touch()
    files = [path.rpartition("/")[2] for path in EventFileTree(str(tmp_path)).scan()["."]]
    assert files == [NAME, f"{NAME}.v2", f"{NAME}.valid", "events.out.tfevents.1700000000.host.12.1"]


def test_a_copy_whose_original_is_gone_is_all_there_is(tmp_path):
    (tmp_path / f"{NAME}.part").touch()
    assert list(EventFileTree(str(tmp_path)).scan()) == ["."]


def test_a_directory_named_like_an_event_file_is_a_directory(tmp_path):
    touch(tmp_path, "tfevents/tfevents.1")
    assert names(EventFileTree(str(tmp_path))) == {"tfevents": ["tfevents.1"]}


def test_links_are_followed_and_loops_end(tmp_path):
    root, elsewhere = tmp_path / "logs", tmp_path / "elsewhere"
    touch(root, "a/tfevents.1")
    touch(elsewhere, "tfevents.2", "sub/tfevents.3")
    (root / "linked").symlink_to(elsewhere)
    (root / "a/self").symlink_to(root / "a")
    (root / "a/up").symlink_to(root)
    (elsewhere / "back").symlink_to(root)
    (root / "a/broken").symlink_to(root / "nowhere")
    (root / "a/tfevents.broken").symlink_to(root / "nowhere")
    (root / "a/tfevents.linked").symlink_to(elsewhere / "tfevents.2")
    assert names(EventFileTree(str(root))) == {
        "a": ["tfevents.1", "tfevents.linked"],
        "linked": ["tfevents.2"],
        "linked/sub": ["tfevents.3"],
    }


def test_runs_and_files_come_and_go(tmp_path):
    tree = EventFileTree(str(tmp_path))
    assert names(tree) == {}
    touch(tmp_path, "a/tfevents.1", "b/c/tfevents.1")
    assert names(tree) == {"a": ["tfevents.1"], "b/c": ["tfevents.1"]}
    touch(tmp_path, "a/tfevents.2")
    (tmp_path / "b/c/tfevents.1").unlink()
    assert names(tree) == {"a": ["tfevents.1", "tfevents.2"]}
    for name in ("tfevents.1", "tfevents.2"):
        (tmp_path / "a" / name).unlink()
    (tmp_path / "a").rmdir()
    assert names(tree) == {}


def test_only_changed_directories_are_listed_again(tmp_path, listed):
    touch(tmp_path, "a/tfevents.1", "b/tfevents.1")
    settle(tmp_path)
    now = tmp_path.stat().st_mtime + 60
    tree = EventFileTree(str(tmp_path))
    tree.scan(now=now)
    listed.clear()
    tree.scan(now=now + 1)
    assert listed == []
    touch(tmp_path, "a/tfevents.2")
    assert names(tree, now=now + 2)["a"] == ["tfevents.1", "tfevents.2"]
    assert listed == ["a"]


def test_a_directory_that_changed_just_now_is_listed_again(tmp_path, listed):
    """Its time stamp would not move for a second change in the same tick of the clock."""
    touch(tmp_path, "a/tfevents.1")
    changed = (tmp_path / "a").stat().st_mtime
    tree = EventFileTree(str(tmp_path))
    tree.scan(now=changed + RACY_SECONDS / 2)
    listed.clear()
    tree.scan(now=changed + RACY_SECONDS * 2)
    assert "a" in listed
    listed.clear()
    tree.scan(now=changed + RACY_SECONDS * 3)
    assert listed == []


def test_everything_is_listed_again_now_and_then(tmp_path, listed):
    """Some file systems keep no honest time stamp of directories."""
    touch(tmp_path, "a/tfevents.1")
    settle(tmp_path)
    now = tmp_path.stat().st_mtime + 60
    tree = EventFileTree(str(tmp_path))
    tree.scan(now=now)
    stamp = (tmp_path / "a").stat()
    touch(tmp_path, "a/tfevents.2")
    os.utime(tmp_path / "a", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert names(tree, now=now + FULL_SECONDS - 1) == {"a": ["tfevents.1"]}
    assert names(tree, now=now + FULL_SECONDS + 1) == {"a": ["tfevents.1", "tfevents.2"]}


def test_a_directory_that_cannot_be_listed_keeps_what_was_seen(tmp_path, monkeypatch):
    touch(tmp_path, "a/tfevents.1", "b/tfevents.1")
    tree = EventFileTree(str(tmp_path))
    tree.scan()
    real = os.scandir

    def scandir(path):
        if str(path).endswith("/a"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
    touch(tmp_path, "a/tfevents.2")
    assert names(tree) == {"a": ["tfevents.1"], "b": ["tfevents.1"]}
    assert {name: error.strerror for name, error in tree.errors.items()} == {"a": "Permission denied"}
    monkeypatch.undo()
    assert names(tree)["a"] == ["tfevents.1", "tfevents.2"]
    assert tree.errors == {}


def test_a_file_that_cannot_be_looked_at_keeps_what_was_seen(tmp_path, monkeypatch):
    touch(tmp_path, "a/tfevents.1")
    tree = EventFileTree(str(tmp_path))
    before = tree.scan()
    real = os.stat

    def stat(path, **options):
        if str(path).endswith("tfevents.1"):
            raise OSError(116, "Stale file handle")
        return real(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    assert tree.scan() == before
    assert list(tree.errors) == ["a/tfevents.1"]


def test_a_log_directory_moved_away_during_a_look_loses_nothing(tmp_path, monkeypatch):
    root = tmp_path / "logs"
    touch(root, "r/tfevents.1")
    tree = EventFileTree(str(root))
    tree.scan()
    visit = tree._visit

    def moved(name, *rest, **options):
        if name == "r":
            root.rename(tmp_path / "moved")
        return visit(name, *rest, **options)

    monkeypatch.setattr(tree, "_visit", moved)
    with pytest.raises(FileNotFoundError):
        tree.scan()
    (tmp_path / "moved").rename(root)
    monkeypatch.setattr(tree, "_visit", visit)
    assert names(tree) == {"r": ["tfevents.1"]}


def test_a_run_moved_away_while_its_files_are_looked_at_is_not_lost(tmp_path, monkeypatch):
    root = tmp_path / "logs"
    touch(root, "tfevents.1")
    tree = EventFileTree(str(root))
    tree.scan()
    stat_files = tree._stat_files

    def moved(*arguments):
        root.rename(tmp_path / "moved")
        return stat_files(*arguments)

    monkeypatch.setattr(tree, "_stat_files", moved)
    with pytest.raises(FileNotFoundError):
        tree.scan()
