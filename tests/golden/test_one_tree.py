"""One step, one tree: on every recorded profile, all that tells of a step adds up to it exactly."""

import numpy as np
import pytest
from support.recordings import DATA, recorded

from stepscope.analyze.advise import Facts
from stepscope.analyze.glance import glance
from stepscope.analyze.options import ViewOptions
from stepscope.analyze.views import view
from stepscope.attribute.step_tree import step_tree
from stepscope.trace import load_trace

EVERYTHING = ViewOptions(max_depth=100_000)
RECORDED = [
    *(
        path.relative_to(DATA).as_posix()
        for kind in ("kineto", "critical_path", "dlrm_8xv100")
        for path in sorted((DATA / "traces" / kind).glob("*.json.gz"))
    ),
    "traces/xplane/jax_mi300_8dev.xplane.pb",
    "traces/dlrm_8xv100",
    "tf_estimator/single/timeline-400.json.gz",
]


@pytest.mark.parametrize("name", RECORDED)
def test_parts_operations_scopes_and_calls_add_up_to_the_step(name):
    trace = load_trace(recorded(name), cache=False)
    tree = step_tree(trace)
    parts = tree.parts_ns()
    assert (parts >= 0).all()
    assert parts.sum(axis=1).tolist() == tree.wall_ns.tolist()
    for what in ("op", "scope", "graph"):
        answer = view(what, trace, EVERYTHING)
        own = answer.tree.own["step_ns"]
        assert (own >= 0).all()
        assert own.sum() == answer.tree.total["step_ns"][0] == tree.wall_ns.sum(), what
        for column in answer.columns:
            if column.key.endswith("_ratio"):
                shares = column.values[np.isfinite(column.values)]
                assert shares.min() >= 0, column.key
                assert shares.max() <= 1 + 1e-9, column.key


@pytest.mark.parametrize("name", RECORDED)
def test_no_share_that_a_glance_says_is_above_the_whole(name):
    trace = load_trace(recorded(name), cache=False)
    found = glance(Facts(trace))
    assert found["steps"]["mean_ns"] == pytest.approx(step_tree(trace).wall_ns.mean(), abs=1)
    assert sum(part["ratio"] for part in found["parts"]) == pytest.approx(1, abs=1e-9)
    shares = [row[key] for row in found["operations"]["rows"] for key in row if key.endswith("_ratio")]
    shares += [piece["ratio"] for piece in found["waited_for"] or ()]
    assert all(0 <= share <= 1 + 1e-9 for share in shares if share is not None)
