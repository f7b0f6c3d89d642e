"""Ranks that end after the same step; the store by which they agree is a dictionary here."""

import pytest

import stepscope as ss
from stepscope.errors import HaltError

pytest.importorskip("torch")
from stepscope.integrations.torch import stop as module
from stepscope.integrations.torch.stop import Stop


class Store(dict):
    """What a TCPStore does of it."""

    def compare_set(self, key, expected, desired):
        if self.get(key, b"") == expected.encode():
            self[key] = desired.encode()

    def check(self, keys):
        return all(key in self for key in keys)

    def get(self, key, default=None):
        return super().get(key, default)


@pytest.fixture
def ranks(tmp_path, monkeypatch):
    store = Store()
    monkeypatch.setattr(module, "_store", lambda: store)
    runs = [ss.Run(tmp_path / "run", rank=rank, world_size=3) for rank in range(3)]

    def make(every):
        monkeypatch.setattr(module, "_trainings", 0)
        found = []
        for run in runs:
            monkeypatch.setattr(module, "_trainings", 0)  # each process counts for itself
            found.append(Stop(run, every))
        return list(zip(runs, found, strict=True))

    yield make
    for run in runs:
        run.close()


def test_one_process_ends_at_once(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        stop = Stop(run, 50)
        assert not stop.after(3)
        run.request_stop("enough")
        assert stop.after(4)


@pytest.mark.parametrize("asked_rank", [0, 2])
@pytest.mark.parametrize("lag", [0, 1, 9])
def test_all_ranks_end_after_the_same_step(ranks, asked_rank, lag):
    """Each rank takes its steps up to ``lag`` behind the others, in either order."""
    last = {}
    pending = [(step + lag * (rank != asked_rank), rank, step) for step in range(100) for rank in range(3)]
    stops = ranks(10)
    for _, rank, step in sorted(pending):
        if rank in last:
            continue
        run, stop = stops[rank]
        if rank == asked_rank and step == 33:
            run.request_stop("enough", alone=True)
        if stop.after(step):
            last[rank] = step
    assert set(last.values()) == {50}
    assert len(last) == 3


def test_the_first_request_counts(ranks):
    stops = ranks(10)
    for rank, step in ((0, 10), (1, 20)):
        stops[rank][0].request_stop("enough")
        assert not stops[rank][1].after(step) or step == 20
    assert stops[2][1].after(20)
    assert stops[2][0].stop_reason == "another rank requested it"


def test_nothing_is_sent_between_the_looks(ranks, monkeypatch):
    [(run, stop), *_] = ranks(10)
    monkeypatch.setattr(Store, "check", lambda *_: pytest.fail("it looked"))
    run.request_stop("enough")
    assert not any(stop.after(step) for step in range(1, 10))


def test_an_error_that_came_with_the_request_is_raised(tmp_path):
    with ss.Run(tmp_path / "run") as run:
        stop = Stop(run, 1)
        run.request_stop("NaN", error=HaltError("loss is NaN"))
        with pytest.raises(HaltError, match="loss is NaN"):
            stop.after(1)
