"""Worker processes of a DataLoader in captures of their parent."""

import json
import pickle
import subprocess
import sys
import types

import pytest
from torch.utils.data import DataLoader, _utils, dataloader

import stepscope as ss
from stepscope.capture.processes import processes, read_ring
from stepscope.integrations.torch import workers
from stepscope.trace.model import Kind

PROGRAM = """
import json, sys, time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset
import stepscope as ss

class Slow(Dataset):
    def __len__(self):
        return 60
    def __getitem__(self, at):
        time.sleep(0.005)
        return torch.full((8,), float(at))

class Stream(IterableDataset):
    def __iter__(self):
        for at in range(60):
            time.sleep(0.005)
            yield torch.full((8,), float(at))

started = []
model = torch.nn.Linear(8, 8)
kind, backend = (Stream if sys.argv[2] == "stream" else Slow), sys.argv[3]
hook = ss.ProfilerHook(save_steps=100, num_steps=9, analyse=False, backend=backend)
with ss.Run(sys.argv[1], hooks=[hook]) as run:
    loader = DataLoader(kind(), batch_size=4, num_workers=2, worker_init_fn=lambda worker: None)
    own = loader.worker_init_fn
    for batch in run.steps(loader):
        model(batch).sum().backward()
    assert loader.worker_init_fn is own
assert not run.problems, run.problems
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter as iterator
assert "torch" in iterator.__init__.__code__.co_filename, "the loader is as it was"
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "backend"), [("items", "torch"), ("stream", "torch"), ("items", "python")])
def test_workers_are_in_the_profile_with_their_own_process_and_the_same_clock(tmp_path, kind, backend):
    """In a process of its own, as workers are forked."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), kind, backend],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (path,) = (tmp_path / "profiles").glob("*.trace.json.gz")
    trace = ss.load_trace(path, cache=False)
    rows = trace.named("fetch (loader worker)")
    lanes = {trace.lanes[trace.lane[row]].process for row in rows}
    assert lanes == {"DataLoader worker 0", "DataLoader worker 1"}
    begun, ended = trace.steps.start_ns.min(), trace.steps.end_ns.max()
    inside = [row for row in rows if begun < trace.start_ns[row] + trace.duration_ns[row] < ended]
    assert inside, "workers fetched while the steps were captured"
    assert all(trace.duration_ns[row] >= 4 * 5_000_000 for row in rows), "four items of five milliseconds"
    # A fetch that has just ended when the profile is written may have left its collation alone.
    collations = trace.named("collate (loader worker)")
    assert abs(len(collations) - len(rows)) <= 2
    assert (trace.kind[rows] == Kind.ANNOTATION).all(), "it is no work of the training thread"
    (facts,) = (json.loads(each.read_text()) for each in (tmp_path / "profiles").glob("*.profile.json"))
    assert facts["steps"] == list(range(5, 14))


def test_a_fetcher_notes_its_batch_and_works_as_before(tmp_path):
    class Recorder:
        def __init__(self):
            self.found = []

        def add(self, name, begun, ended, number):
            self.found.append((name, number, ended >= begun))

    class Sampler:
        def __init__(self):
            self.seen = []

        def begin(self, around):
            self.seen.append(around.f_code.co_name)

        def end(self):
            self.seen.append("end")

    ring, sampler = Recorder(), Sampler()
    fetch = workers.timed(_utils.fetch._MapDatasetFetcher.fetch, ring, sampler)
    fetcher = _utils.fetch._MapDatasetFetcher([1, 2, 3], True, sum, False)
    collate = fetcher.collate_fn
    assert [fetch(fetcher, [0, 1]), fetch(fetcher, [2])] == [3, 3]
    assert fetcher.collate_fn is collate
    assert ring.found == [
        (what, batch, True) for batch in (0, 1) for what in (workers.COLLATE, workers.FETCH)
    ]
    with pytest.raises(IndexError):
        fetch(fetcher, [9])
    assert ring.found[-1][:2] == (workers.FETCH, 2)
    assert sampler.seen == ["timed_fetch", "end"] * 3, "one that failed has ended, too"


def test_the_users_own_start_is_called_even_where_spans_cannot_be_kept(tmp_path):
    seen = []
    start = workers.AtStart(tmp_path / "nowhere", seen.append)
    start(3)
    assert seen == [3]
    assert pickle.loads(pickle.dumps(workers.AtStart(tmp_path, None))).folder == tmp_path


def test_watching_is_counted_and_ends(monkeypatch):
    original = dataloader._MultiProcessingDataLoaderIter.__init__
    workers.watch()
    workers.watch()
    assert dataloader._MultiProcessingDataLoaderIter.__init__ is not original
    workers.forget()
    assert dataloader._MultiProcessingDataLoaderIter.__init__ is not original
    workers.forget()
    assert dataloader._MultiProcessingDataLoaderIter.__init__ is original
    assert processes.folder is None


def test_a_worker_leaves_its_spans_in_its_own_file(tmp_path, monkeypatch):
    kind = types.SimpleNamespace(
        _MapDatasetFetcher=type("M", (), {"fetch": lambda self, index: index}),
        _IterableDatasetFetcher=type("I", (), {"fetch": lambda self, index: index}),
    )
    monkeypatch.setattr(workers, "_fetchers", kind)
    monkeypatch.setattr(workers.WorkerSampler, "start", lambda self: None)
    workers.AtStart(tmp_path, None)(1)
    fetcher = kind._MapDatasetFetcher()
    fetcher.collate_fn = None
    assert fetcher.fetch([4]) == [4]
    (path,) = tmp_path.glob("*.spans")
    found = read_ring(path, 0, 1 << 62)
    assert (found.name, [span.number for span in found.spans]) == ("DataLoader worker 1", [0])


def test_without_a_hook_loaders_are_left_alone():
    assert not hasattr(DataLoader([1]).worker_init_fn, "folder")
