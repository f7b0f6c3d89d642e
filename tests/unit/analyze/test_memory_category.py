"""Categories of a memory snapshot, which has stacks and neither steps nor operators."""

import pickle
from pathlib import Path
from typing import Any

import pytest

import stepscope as ss
from stepscope.analyze.memory import memory
from stepscope.analyze.views.memory import memory_report

PY = "/x/site-packages/torch/"
TOP = ("train.py", 9, "<module>")
MODULE = (f"{PY}nn/modules/module.py", 1790, "_call_impl")
FORWARD = [MODULE, TOP]
LOSS = [(f"{PY}nn/functional.py", 3, "cross_entropy"), TOP]
BACKWARD = [(f"{PY}autograd/__init__.py", 5, "_make_grads"), (f"{PY}_tensor.py", 7, "backward"), TOP]
ENGINE = [("??", 0, "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask>)")]
OPTIMIZER = [(f"{PY}optim/adam.py", 11, "step"), TOP]
NONE: list[tuple[str, int, str]] = []


def held(path: Path, *events: tuple[str, int, list[tuple[str, int, str]]], oom: Any = None) -> dict[str, int]:
    """Return what held the peak by category. Events: ``+name`` or ``-name``, bytes and stack."""
    trace, live, sizes = [], 0, {}
    for time, (what, size, stack) in enumerate(events):
        sizes.setdefault(what[1:], size)
        live += size if what[0] == "+" else -sizes[what[1:]]
        trace.append(
            {
                "action": "alloc" if what[0] == "+" else "free_completed",
                "addr": 1 + list(sizes).index(what[1:]),
                "size": sizes[what[1:]],
                "time_us": 1_700_000_000_000_000 + time,
                "frames": [{"filename": file, "line": line, "name": name} for file, line, name in stack],
            }
        )
    if oom is not None:
        frames = [{"filename": file, "line": line, "name": name} for file, line, name in oom]
        trace.append(
            {"action": "oom", "addr": 0, "size": 1, "time_us": trace[-1]["time_us"], "frames": frames}
        )
    segments = [{"device": 0, "address": 0, "total_size": 10_000, "allocated_size": live, "blocks": []}]
    file = path / "snapshot.pickle"
    file.write_bytes(pickle.dumps({"device_traces": [trace], "segments": segments}))
    [device] = memory(ss.load_trace(file, cache=False))
    assert device.peak.by_category is not None
    assert bool(device.peak.category_missing) == any(one.name == "unknown" for one in device.peak.by_category)
    return {one.name: one.bytes for one in device.peak.by_category}


@pytest.mark.parametrize("engine", [ENGINE, BACKWARD, NONE], ids=["C++", "Python", "no stack"])
def test_what_the_backward_pass_frees_was_kept_for_it(tmp_path: Path, engine: Any) -> None:
    assert held(
        tmp_path,
        ("+work", 1, FORWARD), ("-work", 1, FORWARD), ("+a", 10, FORWARD), ("+loss", 20, LOSS),
        ("+seed", 1, BACKWARD), ("+local", 200, engine), ("+grad", 100, engine), ("-a", 0, engine),
        ("-loss", 0, engine), ("-local", 0, engine), ("-seed", 0, engine), ("+state", 5, OPTIMIZER),
    ) == {"temporary": 201, "gradient": 100, "activation": 30}  # fmt: skip


def test_what_outlives_the_optimizer_is_its_state(tmp_path: Path) -> None:
    assert held(
        tmp_path,
        ("+a", 10, FORWARD), ("+seed", 1, BACKWARD), ("+grad", 100, ENGINE), ("-a", 0, ENGINE),
        ("-seed", 0, BACKWARD), ("+state", 300, OPTIMIZER), ("+square", 50, OPTIMIZER),
        ("-square", 0, OPTIMIZER), ("+b", 10, FORWARD),
    ) == {"gradient": 100, "optimizer_state": 300, "temporary": 50}  # fmt: skip


def test_each_backward_pass_has_the_activations_before_it(tmp_path: Path) -> None:
    """As with accumulated gradients: what the second forward pass frees at once is temporary."""
    assert held(
        tmp_path,
        ("+a", 10, FORWARD), ("+seed", 1, BACKWARD), ("+grad", 100, ENGINE), ("-a", 0, ENGINE),
        ("-seed", 0, BACKWARD), ("+b", 20, FORWARD), ("+work", 500, FORWARD), ("-work", 0, FORWARD),
        ("+seed2", 1, BACKWARD), ("-b", 0, ENGINE), ("+state", 1, OPTIMIZER),
    ) == {"gradient": 100, "activation": 20, "temporary": 500}  # fmt: skip


def test_a_closure_of_the_optimizer_runs_a_backward_pass(tmp_path: Path) -> None:
    assert held(
        tmp_path,
        ("+a", 10, [MODULE, *OPTIMIZER]), ("+seed", 1, [*BACKWARD, *OPTIMIZER]), ("+grad", 100, ENGINE),
        ("-a", 0, ENGINE), ("-seed", 0, BACKWARD), ("+state", 300, OPTIMIZER),
    )["gradient"] == 100  # fmt: skip


def test_without_a_backward_pass_after_it_what_is_kept_is_not_known(tmp_path: Path) -> None:
    assert held(
        tmp_path,
        ("+a", 10, FORWARD), ("+seed", 1, BACKWARD), ("-a", 0, ENGINE), ("-seed", 0, BACKWARD),
        ("+b", 40, FORWARD), ("+work", 5, FORWARD), ("-work", 0, FORWARD), ("+c", 7, FORWARD),
    ) == {"unknown": 47}  # fmt: skip
    text = memory_report(ss.load_trace(tmp_path / "snapshot.pickle", cache=False)).text
    assert "not known (2 allocations)" in text
    assert "not known: this profile records no backward pass after them" in text


def test_where_memory_ran_out_nobody_knows_what_would_have_been_freed(tmp_path: Path) -> None:
    events = (
        ("+a", 10, FORWARD), ("+seed", 1, BACKWARD), ("+grad", 100, ENGINE), ("+local", 200, ENGINE),
    )  # fmt: skip
    assert held(tmp_path, *events, oom=ENGINE) == {"activation": 10, "unknown": 301}
    # A snapshot that the training thread takes lies outside of the pass.
    assert held(tmp_path, *events) == {"activation": 10, "gradient": 301}


def test_what_is_made_in_no_known_part_is_not_known(tmp_path: Path) -> None:
    assert held(
        tmp_path,
        ("+metric", 1000, [TOP]), ("+a", 10, FORWARD), ("+seed", 1, BACKWARD), ("-a", 0, ENGINE),
        ("-seed", 0, BACKWARD),
    ) == {"unknown": 1000, "activation": 10, "temporary": 1}  # fmt: skip
