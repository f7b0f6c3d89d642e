"""The cache: near-instant when it holds, never trusted when it may not."""

import os
import shutil
import time
from types import SimpleNamespace

import numpy as np
import pytest
from tensorboard.plugins.hparams import plugin_data_pb2

from stepscope import files, store
from stepscope.errors import LogDirectoryError
from stepscope.events import Event, EventFile, Metadata, Summary, Value
from stepscope.files import UNUSED_SECONDS
from stepscope.store import cache, index
from stepscope.store.cache import Cache, cache_home
from stepscope.store.pyramid import BIG
from stepscope.store.query import buckets


@pytest.fixture(autouse=True)
def small_logs_are_worth_it(monkeypatch):
    monkeypatch.setattr(cache, "WORTH_BYTES", 1)


@pytest.fixture
def untouched(monkeypatch):
    """From its call on, reading an event file is an error."""

    def forbid():
        def read(self, max_bytes=None):
            raise AssertionError(f"read {self.path}")

        monkeypatch.setattr(EventFile, "read", read)

    return forbid


@pytest.fixture
def logs(make):
    """Two runs, one with two attempts, read once with the cache on."""
    make.line("a", "loss", range(100))
    second = make.line("a", "loss", range(50, 120), wall=200)
    make.points(second, "accuracy", [(60, 300, np.nan), (50, 301, np.inf), (60, 302, 0.5)])
    file = make.line("b", "loss", range(30))
    make.info(file, status="finished", config={"lr": 0.1, "layers": [1, 2]}, rank=0)
    open_again(make)
    return make


def open_again(make):
    """Open with the cache, and wait until it is written."""
    with store.open(make.root) as log:
        pass
    assert log.problems == []
    return log


def everything(log):
    """All that a user can see."""
    return {
        run.name: (
            run.info,
            run.condition(now=0),
            run.num_points(),
            [(each.id, each.rank, each.attempt, each.files) for each in run.writers],
            [
                (tag, s.writer, s.attempt, s.superseded_from, s.last, repr(s.points.columns))
                for tag in run.tags()
                for s in run.columns(tag)
            ],
        )
        for run in log.runs()
    }


def folder(make):
    return Cache(str(make.root), cache_home()).folder


def test_the_second_opening_reads_no_event_file(logs, untouched):
    cold = everything(logs.open(cache=False))
    untouched()
    log = store.open(logs.root)
    assert {run.name: run.num_points() for run in log.runs()} == {"a": 173, "b": 30}
    assert [each.superseded_from for each in log.run("a").columns("loss")] == [50, None]
    assert repr(everything(log)) == repr(cold)


def test_the_cache_is_in_the_users_cache_directory(logs, cache_home):
    assert folder(logs).parent == cache_home / "stepscope" / "logs"
    assert sorted(path.name for path in logs.root.iterdir()) == ["a", "b"]
    assert folder(logs).stat().st_mode & 0o77 == 0


@pytest.mark.parametrize(
    ("platform", "environment", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/stepscope/logs"),
        ("linux", {"XDG_CACHE_HOME": "relative", "HOME": "/h"}, "/h/.cache/stepscope/logs"),
        ("linux", {"XDG_CACHE_HOME": "", "HOME": "/h", "LOCALAPPDATA": "/no"}, "/h/.cache/stepscope/logs"),
        ("darwin", {"XDG_CACHE_HOME": "", "HOME": "/h"}, "/h/Library/Caches/stepscope/logs"),
        ("win32", {"XDG_CACHE_HOME": "", "HOME": "/h", "LOCALAPPDATA": "/local"}, "/local/stepscope/logs"),
    ],
)
def test_where_caches_live(monkeypatch, platform, environment, expected):
    monkeypatch.setattr("sys.platform", platform)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert str(cache_home()) == expected


def test_columns_are_read_when_somebody_looks(logs, monkeypatch):
    log = store.open(logs.root)
    looked = []
    real = files.Blob._fetch
    monkeypatch.setattr(files.Blob, "_fetch", lambda self, place: looked.append(place) or real(self, place))
    for run in log.runs():
        assert run.tags()
        assert run.num_points()
        assert all(each.last for tag in run.tags() for each in run.columns(tag))
    assert looked == []
    assert len(log.run("b").columns("loss")[0].value) == 30
    assert len(looked) == 3


def test_a_grown_file_goes_on_from_the_cached_position(logs, monkeypatch):
    file = next((logs.root / "b").iterdir())
    size = file.stat().st_size
    logs.points(file, "loss", [(30, 40, 3.0)])
    logs.points(file, "new", [(30, 40, 3.0)])
    read_from = []
    real = EventFile.read
    monkeypatch.setattr(
        EventFile, "read", lambda self, limit=None: read_from.append(self.position) or real(self, limit)
    )
    log = store.open(logs.root)
    assert min(read_from) == size
    assert log.run("b").columns("loss")[0].step.tolist() == list(range(31))
    assert log.run("b").tags() == ["loss", "new"]
    assert log.run("b").info.config == {"lr": 0.1, "layers": [1, 2]}
    logs.points(file, "loss", [(31, 41, 3.1)])
    assert log.refresh().changed == {"b": {"loss"}}
    assert repr(everything(log)) == repr(everything(logs.open(cache=False)))


def test_a_cached_file_is_followed_while_open(logs):
    log = store.open(logs.root)
    logs.points(next((logs.root / "b").iterdir()), "loss", [(30, 40, 3.0)])
    assert "loss" in log.refresh().changed["b"]
    assert log.run("b").columns("loss")[0].step.tolist() == list(range(31))
    assert repr(everything(log)) == repr(everything(logs.open(cache=False)))


def test_a_little_growth_is_read_again_much_is_written(logs):
    file = next((logs.root / "b").iterdir())
    before = {path.name for path in folder(logs).iterdir()}
    logs.points(file, "loss", [(30, 40, 3.0)])
    open_again(logs)
    assert {path.name for path in folder(logs).iterdir()} == before
    logs.points(file, "loss", [(step, step + 40, 3.0) for step in range(31, 130)])
    open_again(logs)
    assert len({path.name for path in folder(logs).iterdir()} - before) == 1
    assert store.open(logs.root).run("b").num_points() == 130


@pytest.mark.parametrize(("known", "due"), [(0, True), (87, True), (88, False), (100, False)])
def test_only_what_the_cache_does_not_know_makes_it_due(tmp_path, monkeypatch, known, due):
    monkeypatch.setattr(cache, "WORTH_BYTES", 10)
    source = SimpleNamespace(size=100, entry=SimpleNamespace(size=known) if known else None)
    assert Cache(str(tmp_path / "logs"), tmp_path / "home").is_due([source]) == due


def same_size(logs, file):
    """Another file of the same length in place of this one, same inode."""
    content = bytearray(file.read_bytes())
    content[700] ^= 1
    file.write_bytes(content)


def another_inode(logs, file):
    content = bytearray(file.read_bytes())
    content[700] ^= 1
    copy = file.with_name("copy")
    copy.write_bytes(content)
    copy.replace(file)


def other_beginning(logs, file):
    """A longer file with another beginning."""
    logs.line("other", "accuracy", range(200)).replace(file)
    (logs.root / "other").rmdir()


def shorter(logs, file):
    os.truncate(file, file.stat().st_size // 2)


@pytest.mark.parametrize("change", [same_size, another_inode, other_beginning, shorter])
def test_a_changed_file_is_read_again(logs, change):
    change(logs, next((logs.root / "b").iterdir()))
    assert repr(everything(store.open(logs.root))) == repr(everything(logs.open(cache=False)))


def test_a_file_of_the_same_size_that_was_written_to_is_read_again_though_both_ends_are_the_same(logs):
    file = logs.line("long", "loss", range(500))
    open_again(logs)
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    assert middle > index.SAMPLE_BYTES + 1
    content[middle] ^= 1
    file.write_bytes(content)
    assert repr(everything(store.open(logs.root))) == repr(everything(logs.open(cache=False)))


def test_a_copied_log_keeps_its_times_and_its_cache(logs, untouched):
    """As after `cp -a` over it or a remount: other inode, same bytes and time."""
    file = next((logs.root / "b").iterdir())
    shutil.copy2(file, file.with_name("copy"))
    file.with_name("copy").replace(file)
    before = repr(everything(logs.open(cache=False)))
    assert repr(everything(store.open(logs.root))) == before


def damage_index(home):
    content = bytearray((home / "index").read_bytes())
    content[len(content) // 2] ^= 1
    (home / "index").write_bytes(content)


def cut_index(home):
    content = (home / "index").read_bytes()
    (home / "index").write_bytes(content[: len(content) // 2])


def empty_index(home):
    (home / "index").write_bytes(b"")


def damage_blobs(home):
    for path in home.glob("*.columns"):
        content = bytearray(path.read_bytes())
        content[::64] = bytes(byte ^ 1 for byte in content[::64])
        path.write_bytes(content)


def cut_blobs(home):
    for path in home.glob("*.columns"):
        os.truncate(path, 10)


def delete_blobs(home):
    for path in home.glob("*.columns"):
        path.unlink()


DAMAGES = [damage_index, cut_index, empty_index, damage_blobs, cut_blobs, delete_blobs, shutil.rmtree]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_cache_is_not_trusted(logs, damage):
    cold = repr(everything(logs.open(cache=False)))
    damage(folder(logs))
    assert repr(everything(store.open(logs.root))) == cold


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_cache_damaged_while_open_is_not_trusted(logs, damage):
    cold = repr(everything(logs.open(cache=False)))
    log = store.open(logs.root)
    damage(folder(logs))
    assert repr(everything(log)) == cold


def test_when_cache_and_file_are_lost_the_user_is_told(logs):
    log = store.open(logs.root)
    delete_blobs(folder(logs))
    shutil.rmtree(logs.root / "b")
    [series] = log.run("b").columns("loss")
    with pytest.raises(LogDirectoryError, match=r"(?s)lost 'loss'.*hint: open the log directory again"):
        series.points.columns  # noqa: B018  looking is what fails


def test_a_cache_of_another_version_is_as_good_as_none(logs, monkeypatch):
    monkeypatch.setattr(index, "MAGIC", b"stepscope-cache-0\n")
    assert index.load_index(folder(logs) / "index") is None
    assert open_again(logs).run("b").num_points() == 30


def test_a_cache_of_another_log_directory_is_not_used(logs, tmp_path):
    """Should two paths ever have one hash."""
    other = Cache(str(tmp_path / "elsewhere"), cache_home())
    shutil.copytree(folder(logs), other.folder)
    assert Cache(str(tmp_path / "elsewhere"), cache_home())._files == {}


def test_no_cache_leaves_no_trace(make, cache_home):
    make.line("a", "loss", range(100))
    with store.open(make.root, cache=False):
        pass
    assert not cache_home.exists()


def test_small_logs_are_not_cached(make, cache_home, monkeypatch):
    monkeypatch.setattr(cache, "WORTH_BYTES", 1 << 20)
    make.line("a", "loss", range(100))
    open_again(make)
    assert not cache_home.exists()


def test_a_cache_that_cannot_be_written_is_a_problem_of_the_log_only(make, cache_home):
    make.line("a", "loss", range(100))
    cache_home.write_text("a file where the directory should be")
    with store.open(make.root) as log:
        assert log.run("a").num_points() == 100
    [problem] = log.problems
    assert problem.kind == "cache"
    assert "no cache can be kept" in problem.text


def test_a_full_disk_leaves_no_half_cache(make, cache_home, monkeypatch):
    make.line("a", "loss", range(100))

    def write(self, path):
        with files.replacing(path) as file:
            file.write(b"x" * 100)
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.BlobWriter, "write", write)
    with store.open(make.root) as log:
        pass
    assert log.problems[0].text.endswith("No space left on device")
    assert list(folder(make).iterdir()) == []


def test_a_link_to_a_log_directory_shares_its_cache(logs, tmp_path, untouched):
    (tmp_path / "link").symlink_to(logs.root)
    untouched()
    assert store.open(tmp_path / "link").run("b").num_points() == 30


def test_unused_caches_are_deleted(make, cache_home, monkeypatch):
    make.line("a", "loss", range(100))
    stale, fresh = (cache_home / "stepscope" / "logs" / name for name in ("stale", "fresh"))
    for other in (stale, fresh):
        other.mkdir(parents=True)
        (other / "index").write_bytes(b"")
    then = time.time() - UNUSED_SECONDS - 1
    os.utime(stale / "index", (then, then))
    open_again(make)
    assert (stale.exists(), fresh.exists()) == (False, True)
    monkeypatch.setattr(files, "TOTAL_BYTES", 10)
    make.line("b", "loss", range(200))
    open_again(make)
    assert not fresh.exists()
    assert folder(make).exists()


def test_blobs_that_nobody_names_are_deleted_when_old(logs):
    stray, young = folder(logs) / "stray.columns", folder(logs) / "young.columns.tmp"
    stray.touch()
    young.touch()
    os.utime(stray, (1, 1))
    logs.line("c", "loss", range(500))
    open_again(logs)
    assert (stray.exists(), young.exists()) == (False, True)


def test_deleted_files_leave_the_cache(logs):
    shutil.rmtree(logs.root / "b")
    logs.line("c", "loss", range(500))
    open_again(logs)
    assert {name.split("/")[0] for name in index.load_index(folder(logs) / "index").files} == {"a", "c"}


def test_big_series_keep_their_pyramid(make, monkeypatch):
    monkeypatch.setattr(cache, "BIG", 100)
    make.line("a", "loss", range(5000))
    open_again(make)
    [series] = store.open(make.root).run("a").columns("loss")
    built = store.pyramid.extended((), series.value)
    monkeypatch.setattr(store.pyramid, "extended", None)
    for level, expected in zip(series.points.pyramid, built, strict=True):
        for column, wanted in zip(level, expected, strict=True):
            np.testing.assert_array_equal(column, wanted)
    assert BIG > 5000


def test_equal_columns_are_stored_once(make):
    file = make.file("a/events.out.tfevents.1700000000.host.1.0")
    for tag in "abcdefghij":
        make.points(file, tag, [(step, step, step) for step in range(1000)])
    open_again(make)
    size = sum(path.stat().st_size for path in folder(make).glob("*.columns"))
    assert size < 1000 * (4 + 8 + 10 * 4) * 1.1


def test_large_columns_are_mapped(make, monkeypatch):
    monkeypatch.setattr(files, "MAPPED_BYTES", 100)
    make.line("a", "loss", range(1000))
    open_again(make)
    [series] = store.open(make.root).run("a").columns("loss")
    assert series.step.tolist() == list(range(1000))
    assert not series.step.flags.writeable
    assert buckets([series], buckets=10, smoothing=0.5).total_points == 1000


def test_two_processes_may_write_at_once(logs):
    first, second = store.open(logs.root), store.open(logs.root)
    logs.line("c", "loss", range(1000))
    for log in (first, second):
        log.refresh()
    for log in (first, second):
        log.close()
    assert repr(everything(store.open(logs.root))) == repr(everything(logs.open(cache=False)))


def test_what_the_hp_plugin_declares_is_kept(make, untouched):
    proto = plugin_data_pb2.HParamsPluginData()
    proto.experiment.metric_infos.add(display_name="Loss").name.tag = "loss"
    file = make.line("a", "loss", range(30))
    plugin = Metadata.of("hparams", proto.SerializeToString(), data_class=2)
    make.append(file, Event(make.START, 0, summary=Summary([Value("_hparams_/experiment", metadata=plugin)])))
    before = open_again(make).experiment
    untouched()
    with store.open(make.root) as log:
        assert log.experiment == before
        assert [chart.title for chart in store.charts(log)] == ["Loss"]
