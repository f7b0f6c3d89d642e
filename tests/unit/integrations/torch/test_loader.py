"""The indices of a DataLoader's batches reach the run."""

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import stepscope as ss
from stepscope.integrations.torch import IndexedLoader


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "shuffle"), [(0, False), (0, True), (1, True)])
def test_each_step_has_the_indices_of_its_batch(tmp_path, workers, shuffle):
    data = TensorDataset(torch.arange(20.0))
    # Not forked: other tests of this process may have started threads, of JAX for one.
    how = {"num_workers": workers, "multiprocessing_context": "spawn", "persistent_workers": True}
    loader = DataLoader(data, batch_size=4, shuffle=shuffle, **(how if workers else {}))
    seen = {}
    with ss.Run(tmp_path) as run:
        indexed = IndexedLoader(loader, run)
        assert len(indexed) == 5
        for _ in range(2):
            for (batch,) in run.steps(indexed):
                seen[run.current_step] = batch.int().tolist()
        told = {each["step"]: each["indices"] for each in run.rewind.batches(range(10))}
        rounds = [each["round"] for each in run.rewind.batches(range(10))]
    assert told == seen
    assert len(seen) == 10
    assert rounds == [1] * 5 + [2] * 5
    assert isinstance(loader.batch_sampler, torch.utils.data.BatchSampler)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(6))


def test_a_stream_has_no_indices(tmp_path):
    with ss.Run(tmp_path) as run:
        assert len(list(run.steps(IndexedLoader(DataLoader(Stream(), batch_size=2), run)))) == 3
        assert run.rewind.batches(range(3)) == ()
