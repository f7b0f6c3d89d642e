"""Which files are profiles, whose they are, and which of them are one profile of several ranks."""

import gzip
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepscope.errors import TraceError
from stepscope.serve.profiles.find import Finder, run_of
from stepscope.serve.profiles.open_profiles import Profiles
from stepscope.serve.reply import Refusal
from stepscope.trace import load_trace
from stepscope.trace.set import set_files

TRACE = json.dumps(
    {"schemaVersion": 1, "traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": 2}]}
).encode()


@pytest.fixture
def made(tmp_path):
    def put(name, content=TRACE, modified=None):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        if modified is not None:
            os.utime(path, (modified, modified))
        return path

    return put


def test_profiles_are_found_by_content_the_newest_first(tmp_path, made):
    made("old.pt.trace.json.gz", modified=100)
    made("run/new.json", modified=200)
    made("run/config.json", b'{"lr": 1}')
    made("run/notes.json", b'{"a": [1, 2]}')
    made("run/events.out.tfevents.1.host", b"not looked at")
    found, looked_at = Finder(tmp_path).find(["run"])
    assert [(entry.path, entry.run, entry.format) for entry in found] == [
        ("run/new.json", "run", "chrome"),
        ("old.pt.trace.json.gz", None, "chrome"),
    ]
    assert looked_at == 3


def test_the_steps_of_a_capture_are_those_of_the_record_beside_it(tmp_path, made):
    name = "chief_rank0_step00001200"
    made(f"run/profiles/{name}.pt.trace.json")
    made("run/profiles/other.json")
    record = {
        "name": name,
        "path": f"profiles/{name}.pt.trace.json",
        "steps": [1202, 1200, 1201, "x", -1, True],
    }
    made(f"run/profiles/{name}.profile.json", json.dumps(record).encode())
    outside = {"path": "../../elsewhere.json", "steps": [1]}
    made("run/profiles/outside.profile.json", json.dumps(outside).encode())
    made("run/profiles/broken.profile.json", b"{")
    found = {entry.path: entry.steps for entry in Finder(tmp_path).find(["run"])[0]}
    assert found == {f"run/profiles/{name}.pt.trace.json": [1200, 1201, 1202], "run/profiles/other.json": []}


def test_ranks_of_one_profile_are_one_entry_beside_their_files(tmp_path, made):
    for rank in range(3):
        made(f"capture/rank{rank}.json")
    made("mixed/a_rank0.json")
    made("mixed/b_rank1.json")
    found = {entry.path: entry for entry in Finder(tmp_path).find([])[0]}
    assert (found["capture"].files, found["capture"].rank) == (3, None)
    assert found["capture"].size_bytes == 3 * len(TRACE)
    assert found["capture/rank2.json"].rank == 2
    assert "mixed" not in found


def test_the_tasks_of_a_tensorflow_job_are_one_profile_beside_their_files(tmp_path, made):
    for task in ("chief_0", "worker_0", "worker_1"):
        for step in (100, 200):
            made(f"job/{task}/timeline-{step}.json")
    made("alone/worker_0/timeline-1.json")
    made("job/notes_0/timeline-1.json")
    found = {entry.path: entry for entry in Finder(tmp_path).find([])[0]}
    assert (found["job"].files, found["job"].rank, found["job"].size_bytes) == (3, None, 6 * len(TRACE))
    assert found["job/worker_1/timeline-200.json"].files == 1
    assert "alone" not in found


def test_what_all_ranks_captured_at_each_of_several_steps_is_one_profile_each(tmp_path, made):
    for step in (500, 1000):
        for rank, role in enumerate(("chief", "worker", "worker", "worker")):
            made(f"run/profiles/{role}_rank{rank}_step{step:08d}.json", modified=step)
    made("run/profiles/chief_rank0_step00001500.json", modified=1500)
    found = {entry.path: entry for entry in Finder(tmp_path).find(["run"])[0]}
    assert {path: entry.files for path, entry in found.items() if entry.files > 1} == {
        "run/profiles/rank*_step00000500.json": 4,
        "run/profiles/rank*_step00001000.json": 4,
    }
    both = found["run/profiles/rank*_step00001000.json"]
    assert (both.run, both.rank, both.size_bytes) == ("run", None, 4 * len(TRACE))
    trace = load_trace(tmp_path / both.path, cache=False)
    assert trace.ranks == (0, 1, 2, 3)
    assert Path(trace.sources[0].path).name == "chief_rank0_step00001000.json"


def test_a_set_of_ranks_is_read_where_one_of_them_is_damaged_and_is_none_without_files(tmp_path, made):
    made("profiles/chief_rank0_step00000500.json")
    made("profiles/worker_rank1_step00000500.json", b"{")
    made("profiles/worker_rank2_step00000500.json")
    trace = load_trace(tmp_path / "profiles/rank*_step00000500.json", cache=False)
    assert trace.ranks == (0, 2)
    assert any("worker_rank1_step00000500.json could not be read" in note for note in trace.notes)
    with pytest.raises(TraceError):
        load_trace(tmp_path / "profiles/rank*_step00000501.json", cache=False)
    assert set_files(tmp_path / "profiles/rank*_elsewhere.json") == []


def test_what_the_processes_of_a_cluster_captured_at_one_step_is_one_profile(tmp_path, made):
    for step in (0, 400):
        for role, rank in (("chief", 0), ("worker", 1), ("worker", 2)):
            first = step + rank + 6
            folder = f"run/profiles/step{step:08d}/{role}_rank{rank}_step{first:08d}.tfprof"
            for number in range(first, first + 3):
                made(f"{folder}/timeline-{number}.json", modified=100 + step)
    made("other/profiles/chief_rank0_step00000006.tfprof/timeline-6.json", modified=50)
    found, _ = Finder(tmp_path).find(["run", "other"])
    assert [(each.path, each.files, each.rank, each.format) for each in found] == [
        ("run/profiles/step00000400", 3, None, "step_stats"),
        ("run/profiles/step00000000", 3, None, "step_stats"),
        ("other/profiles/chief_rank0_step00000006.tfprof", 1, 0, "step_stats"),
    ]
    assert found[0].size_bytes == 9 * len(TRACE)


def test_a_file_is_looked_into_again_only_after_it_changed(tmp_path, made, monkeypatch):
    from stepscope.serve.profiles import find

    looked = []
    monkeypatch.setattr(find, "format_of", lambda path: looked.append(path.name) or "chrome")
    finder = Finder(tmp_path)
    path = made("a.json")
    finder.find([])
    finder.find([])
    assert looked == ["a.json"]
    path.write_bytes(TRACE + b" ")
    finder.find([])
    assert looked == ["a.json", "a.json"]


def test_a_run_that_is_a_link_has_its_profiles_and_other_links_are_not_followed(tmp_path, made):
    made("elsewhere/a/profiles/one.json")
    made("elsewhere/secret/two.json")
    made("log/b/profiles/three.json")
    (tmp_path / "log" / "a").symlink_to(tmp_path / "elsewhere" / "a")
    (tmp_path / "log" / "latest").symlink_to(tmp_path / "log" / "b")
    (tmp_path / "log" / "b" / "loop").symlink_to(tmp_path / "log")
    (tmp_path / "log" / "other").symlink_to(tmp_path / "elsewhere" / "secret")
    found, _ = Finder(tmp_path / "log").find(["a", "b", "latest"])
    assert sorted((entry.path, entry.run) for entry in found) == [
        ("a/profiles/one.json", "a"),
        ("b/profiles/three.json", "b"),
        ("latest/profiles/three.json", "latest"),
    ]


def test_a_profile_of_a_run_that_is_a_link_opens_and_no_other_link_does(tmp_path, made):
    made("elsewhere/a/profiles/one.json")
    made("elsewhere/secret/two.json")
    (tmp_path / "log").mkdir()
    for name, place in (("a", "a"), ("other", "secret"), ("a/../other", "secret")):
        if "/" not in name:
            (tmp_path / "log" / name).symlink_to(tmp_path / "elsewhere" / place)
    log = SimpleNamespace(runs=lambda: [SimpleNamespace(name="a")], mirror=None)
    opened = Profiles(tmp_path / "log", cache=False, log=lambda: log)
    assert len(opened.get("a/profiles/one.json").trace) == 1
    for path in ("other/two.json", "a/../other/two.json", "a/../../elsewhere/secret/two.json"):
        with pytest.raises(Refusal, match="must lie under the log directory"):
            opened.get(path)


def test_hidden_folders_and_unreadable_files_are_no_profiles(tmp_path, made):
    made(".cache/x.json")
    made("broken.json.gz").write_bytes(b"\x1f\x8b not gzip")
    made("empty.json", b"")
    assert Finder(tmp_path).find([])[0] == []


@pytest.mark.parametrize(
    ("path", "run"),
    [("a/x.json", "a"), ("a/b/x.json", "a/b"), ("ab/x.json", None), ("x.json", None)],
)
def test_a_profile_belongs_to_the_innermost_run(path, run):
    assert run_of(path, ["a/b", "a"], None) == run


def test_the_log_directory_itself_may_be_the_run():
    assert run_of("x.json", [], ".") == "."
