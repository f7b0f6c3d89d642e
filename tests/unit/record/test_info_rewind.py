"""What a run can go back to: checkpoints, and the batches of its last steps."""

import numpy as np
import pytest

import stepscope as ss
from stepscope.record.info import MOST_BATCHES, MOST_INDICES, AttemptInfo, Rewind, readable
from stepscope.record.roles import Role


@pytest.mark.parametrize(("bad", "done"), [(5, None), (10, None), (11, 10), (20, 10), (21, 20), (99, 20)])
def test_the_last_good_checkpoint_computed_a_good_step(bad, done):
    rewind = Rewind()
    for each in (20, 10):
        rewind.saved(each, f"{each}.pt")
    good = rewind.last_good(bad)
    assert (good and good.done) == done


def test_a_recipe_names_step_and_path():
    rewind = Rewind()
    assert "no checkpoint from before step 7 is known: add ss.CheckpointHook" in rewind.recipe(7)[0]
    assert "let it save more often" in rewind.recipe(7, saves=True)[0], "no hook that is there is advised"
    assert "add ss" not in rewind.recipe(7, saves=True)[0]
    rewind.saved(4, None)
    assert rewind.recipe(7)[0].startswith("last good checkpoint: after 4 steps")


def test_batches_are_bounded_and_the_newest_of_a_step_counts():
    rewind = Rewind()
    for step in range(MOST_BATCHES + 10):
        rewind.batch(step, {"indices": [step]})
    rewind.batch(20, {"indices": [1, 2]})
    assert rewind.batches([0, 20, 21, 10_000]) == (
        {"step": 20, "indices": [1, 2]},
        {"step": 21, "indices": [21]},
    )


def test_facts_become_plain_and_say_what_was_cut():
    class Broken:
        def tolist(self):
            raise RuntimeError("device is gone")

    found = readable(
        {"indices": np.arange(MOST_INDICES + 1), "shard": "a", "x": Broken(), "api_key": "s3cret"}
    )
    assert found["indices"] == list(range(MOST_INDICES))
    assert found["indices_in_all"] == MOST_INDICES + 1
    assert (found["shard"], found["x"]) == ("a", "not readable: RuntimeError")
    assert "s3cret" not in str(found)


def test_a_batch_said_between_steps_is_that_of_the_next(tmp_path):
    with ss.Run(tmp_path) as run:

        def data():
            for index in range(3):
                run.batch([index])
                yield index

        for _ in run.steps(data()):
            pass
        run.checkpoint_saved("end.pt")
        assert run.rewind.batches(range(3)) == tuple({"step": n, "indices": [n]} for n in range(3))
        assert run.rewind.last_good(4).done == 3


def test_a_checkpoint_within_a_step_has_done_those_before(tmp_path):
    with ss.Run(tmp_path) as run:
        for step in run.steps(range(6)):
            if step == 4:
                run.checkpoint_saved(tmp_path / "a.pt")
        assert run.rewind.last_good(5) == (4, str(tmp_path / "a.pt"))


def test_facts_are_written_again_only_if_they_changed():
    info = AttemptInfo(Role(), {}, [], 1, None, 0.0)

    def changes(call, *words):
        info.changed = False
        call(*words)
        return info.changed

    steps = [
        (info.lack, "gradients", 3, "no gradients come"), (info.lack, "gradients", 4, "no gradients come"),
        (info.have, "gradients", 9), (info.have, "gradients", 10), (info.have, "activations", 9),
        (info.expect, 100), (info.expect, 100), (info.describe, {"lr": 0.1}), (info.describe, {"lr": 0.1}),
    ]  # fmt: skip
    assert [changes(*step) for step in steps] == [True, False, True, False, False, True, False, True, False]
    assert info.unmeasured == {"gradients": {"since": 3, "why": "no gradients come", "until": 9}}
