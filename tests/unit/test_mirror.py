"""Recordings at a URL: fetched whole, once, and again when they have changed."""

import json
from threading import Event

import pytest

import stepscope as ss
from stepscope import mirror
from stepscope.capture.backend import choose
from stepscope.capture.files import ENDING, SUMMARY, stem
from stepscope.errors import LogDirectoryError
from stepscope.mirror import Mirror, fetched, is_ours, recordings
from stepscope.remote import insistent

TRACE = {"traceEvents": [{"ph": "X", "name": "w", "cat": "cpu_op", "ts": 1, "dur": 5, "pid": 1, "tid": 1}]}


@pytest.fixture(autouse=True)
def place(memory_store):
    return memory_store


def test_a_file_is_fetched_once_and_again_when_it_has_changed(place, monkeypatch):
    place.pipe("/bucket/p/trace.json", json.dumps(TRACE).encode())
    asked = []
    real = type(place).cat_file

    def cat_file(self, path, **options):
        asked.append(path)
        return real(self, path, **options)

    monkeypatch.setattr(type(place), "cat_file", cat_file)
    url = "memory://bucket/p/trace.json"
    assert len(ss.load_trace(url)) == 1
    assert fetched(url).name == "trace.json"
    assert len(asked) == 1
    place.pipe("/bucket/p/trace.json", json.dumps({"traceEvents": TRACE["traceEvents"] * 2}).encode())
    assert len(ss.load_trace(url, cache=False)) == 2
    assert len(asked) == 2


def test_a_directory_is_fetched_without_weights_and_checkpoints(place):
    for name in ("p/a.json", "p/model.safetensors", "p/checkpoint-5/b.json", "p/profiles/c.json"):
        place.pipe(f"/bucket/{name}", b"{}")
    folder = fetched("memory://bucket/p")
    found = sorted(each.relative_to(folder).as_posix() for each in folder.rglob("*") if each.is_file())
    assert found == ["a.json", "profiles/c.json"]
    assert not recordings(["optimizer.pt"])


@pytest.mark.parametrize("backend", ["torch", "jax", "python"])
@pytest.mark.parametrize(("role", "rank"), [("chief", 0), ("worker of 7!", 12345), ("", 3)])
def test_what_a_capture_writes_is_known_by_its_name(backend, role, rank):
    ending = choose(backend).ending
    name = stem(role, rank, 7, 20_000)
    for file in (f"{name}{ending}", f"{name}_2{ending}", f"{name}{ENDING}", f"{name}{SUMMARY}"):
        assert is_ours(f"profiles/step00000007/{file}")
    assert is_ours(f"step00000007/{name}.tfprof/run_meta_7")


OURS = (
    "plugins/profile/step00000007/chief_rank0_step00000007.xplane.pb",
    "profiles/step00000000/chief_rank0_step00000007.tfprof/profile.context",
    "profiles/step00000000/chief_rank0_step00000007.tfprof/run_meta_7",
    "epoch-3/events.out.tfevents.1.h", "epoch-3/notes/of-the-run.json", "epoch-3/ranks/extra.json",
    "ckpts/logs/events.out.tfevents.1.h", "step_100/plugins/profile/2026_11_27/host.xplane.pb",
    "step_100/plugins/profile/2026_11_27/host.trace.json.gz", "a/trace.json",
)  # fmt: skip
THEIRS = (
    "epoch-3/model.pt", "epoch-3/ckpt/0.0", "ckpts/100/default/d/abc", "ckpts/100/default/_METADATA",
    "checkpoint-5/tokenizer.json", "checkpoint-5/model.safetensors", "a/model.pt",
)  # fmt: skip


def test_a_folder_named_as_checkpoints_are_keeps_nothing_of_a_recorder_away():
    assert recordings([*OURS, *THEIRS]) == set(OURS)


def test_neither_does_it_where_the_store_is_so_slow_that_folders_are_listed_one_by_one(place, monkeypatch):
    for name in (*OURS, *THEIRS):
        place.pipe(f"/bucket/checkpoint-1/{name}", b"{}")
    place.pipe("/bucket/checkpoint-1/ckpts/100/_CHECKPOINT_METADATA", b"{}")
    monkeypatch.setattr(mirror, "PATIENCE_SECS", 0.0)
    monkeypatch.setattr(Mirror, "_find", lambda self: Event().wait())
    listed = []
    real = Mirror._entries
    monkeypatch.setattr(Mirror, "_entries", lambda self, folder: listed.append(folder) or real(self, folder))
    copy = Mirror("memory://bucket/checkpoint-1", everything=True)
    found = {each.relative_to(copy.folder).as_posix() for each in copy.folder.rglob("*") if each.is_file()}
    assert found == set(OURS)
    assert "/bucket/checkpoint-1/ckpts/100" in listed
    assert "/bucket/checkpoint-1/ckpts/100/default" not in listed


def test_the_ranks_of_a_job_are_read(place):
    for rank in range(2):
        with ss.Run("memory://bucket/x", rank=rank, world_size=2) as run:
            for _ in run.steps(range(20)):
                pass
    assert ss.load_ranks("memory://bucket/x").ranks == (0, 1)


def test_a_path_stays_a_path(tmp_path):
    assert fetched(tmp_path) == tmp_path
    assert fetched(f"file://{tmp_path}") == tmp_path
    with pytest.raises(LogDirectoryError, match="no such log directory"):
        fetched("memory://bucket/none")


def test_a_request_is_made_again_later_and_later_and_lasting_errors_at_once():
    pauses, left = [], [OSError("503"), OSError("503"), OSError("503")]

    def call():
        if left:
            raise left.pop()
        return "body"

    assert insistent(call, pause=pauses.append) == "body"
    assert [low <= pause <= 2 * low for pause, low in zip(pauses, (0.1, 0.2, 0.4), strict=True)] == [True] * 3
    left[:] = [PermissionError("403")]
    with pytest.raises(PermissionError):
        insistent(call, pause=pauses.append)
    left[:] = [OSError("503")] * 9
    with pytest.raises(OSError, match="503"):
        insistent(call, pause=pauses.append)
    assert len(left) == 3
