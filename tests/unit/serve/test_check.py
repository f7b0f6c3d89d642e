"""A candidate against a baseline: each check passes, fails or cannot tell, as a table of cases."""

from collections.abc import Callable
from pathlib import Path

import pytest
from support.recordings import recorded

import stepscope as ss
from stepscope.errors import ExpressionError, UnknownRunError, UsageError
from stepscope.events import EventWriter
from stepscope.serve.check import (
    Check,
    ProfileFacts,
    RunFacts,
    Side,
    checks_of,
    measured,
    read_baseline,
    save_baseline,
    side_of,
)

START = 1.7e9
NOISE = (0.0, 0.004, 0.002, 0.001, 0.003, 0.002)
"""How much longer the steps of one run are than those of another."""


def side(
    place: Path,
    *,
    runs: int = 5,
    ms: float = 10.0,
    memory: float = 1e9,
    loss: float = 0.3,
    steps: int = 60,
    hours: int = 0,
    spread: float = 1.0,
    leave: tuple[str, ...] = (),
) -> Path:
    """Write runs whose steps take some milliseconds, a little more in each of them."""
    for number in range(runs):
        noise = 1 + spread * NOISE[number % len(NOISE)]
        begin = START + 3600 * hours + 60 * number
        writer = EventWriter(place / f"run-{number}", clock=lambda begin=begin: begin)
        for step in range(steps):
            wall = begin + step
            values = {
                "speed/step_time_ms": ms * noise * (2 if step % 10 == 3 else 1),
                "system/process/memory_bytes": memory * noise * (1 + step % 5 / 100),
                "eval/loss": loss * noise + 1 / (1 + step),
                "speed/tokens_per_second": 1e6 / ms / noise,
            }
            for tag, value in values.items():
                if not tag.startswith(leave or ("-",)):
                    writer.scalar(tag, value, step, wall)
        writer.close()
    return place


def told(checks: list[Check]) -> dict[str, str]:
    """The status of each check, by its kind and subject."""
    return {f"{each.kind} {each.subject}".strip(): each.status for each in checks}


@pytest.fixture
def judged(tmp_path: Path) -> Callable[..., list[Check]]:
    def judge(candidate: dict[str, object], baseline: dict[str, object], **options: object) -> list[Check]:
        a = side_of(str(side(tmp_path / "a", **baseline)), ".", cache=False)
        return checks_of(a, side_of(str(side(tmp_path / "b", **candidate)), ".", cache=False), **options)

    return judge


STEPS, TOKENS, MEMORY, LOSS = (
    "steps speed/step_time_ms",
    "throughput speed/tokens_per_second",
    "memory system/process/memory_bytes",
    "metric eval/loss",
)


@pytest.mark.parametrize(
    ("candidate", "baseline", "states"),
    [
        ({}, {}, dict.fromkeys((STEPS, TOKENS, MEMORY, LOSS), "passed")),
        ({"ms": 10.3}, {}, {STEPS: "failed", TOKENS: "failed", MEMORY: "passed"}),
        ({"ms": 9.0}, {}, {STEPS: "passed", TOKENS: "passed"}),
        ({"ms": 10.06}, {}, {STEPS: "passed"}),
        ({"memory": 1.05e9}, {}, {MEMORY: "failed", STEPS: "passed"}),
        ({"memory": 0.9e9}, {}, {MEMORY: "passed"}),
        ({"loss": 0.33}, {}, {LOSS: "failed", STEPS: "passed"}),
        ({"loss": 0.2}, {}, {LOSS: "passed"}),
        ({"ms": 20.0, "runs": 1}, {"runs": 1}, {STEPS: "cannot tell"}),
        ({"ms": 20.0, "runs": 2}, {"runs": 13}, {STEPS: "failed"}),
        ({"ms": 10.3, "spread": 30}, {"spread": 30}, {STEPS: "cannot tell"}),
        ({"runs": 1}, {"runs": 1}, {STEPS: "passed", MEMORY: "passed", LOSS: "passed"}),
        ({"steps": 80}, {}, {LOSS: "cannot tell", STEPS: "passed"}),
        ({"loss": float("nan")}, {}, {LOSS: "failed"}),
        ({"loss": float("nan")}, {"loss": float("nan")}, {LOSS: "cannot tell"}),
        ({"leave": ("system/",)}, {}, {"memory": "cannot tell"}),
    ],
)
def test_values_are_judged(candidate, baseline, states, judged) -> None:
    found = told(judged(candidate, baseline))
    assert {name: found.get(name) for name in states} == states


def test_what_neither_side_recorded_is_judged_only_if_it_is_asked_for(judged) -> None:
    nothing = {"leave": ("system/",)}
    assert not any(each.startswith("memory") for each in told(judged(nothing, nothing)))


def test_what_is_asked_for_and_not_recorded_cannot_be_told(judged) -> None:
    nothing = {"leave": ("system/",)}
    found = judged(nothing, nothing, only=["memory", "operations"])
    assert told(found) == {"memory": "cannot tell", "operations": "cannot tell"}
    assert [each.missing for each in found] == [
        "add ss.SystemHook()",
        "record a profile with ss.ProfilerHook()",
    ]


@pytest.mark.parametrize(("hours", "turns"), [(0, True), (1, False)])
def test_sides_that_did_not_take_turns_are_told(hours, turns, judged) -> None:
    [steps] = judged({"ms": 12.0, "hours": hours}, {}, only=["steps"])
    assert ("did not take turns" not in steps.text) == turns


@pytest.mark.parametrize(
    ("fail_on", "before", "after", "states"),
    [
        ("high", {}, {}, {"findings": "passed"}),
        ("high", {}, {"a": "high"}, {"findings a": "failed"}),
        ("high", {"b": "high"}, {"a": "high"}, {"findings a": "failed"}),
        ("high", {"a": "low"}, {"a": "high"}, {"findings": "passed"}),
        ("high", {}, {"a": "medium"}, {"findings": "passed"}),
        ("medium", {}, {"a": "medium", "b": "low"}, {"findings a": "failed"}),
        ("info", {}, {"a": "info", "b": "high"}, {"findings a": "failed", "findings b": "failed"}),
        ("never", {}, {"a": "high"}, {}),
    ],
)
def test_only_new_findings_fail(fail_on, before, after, states) -> None:
    sides = [
        Side(
            "x",
            (RunFacts("r", "finished", START, (), {rule: (word, "text") for rule, word in found.items()}),),
        )
        for found in (before, after)
    ]
    assert told(checks_of(*sides, only=["findings"], fail_on=fail_on)) == states


@pytest.mark.parametrize(
    ("condition", "status", "missing"),
    [
        ("last(eval/loss) < 0.5", "passed", ""),
        ("last(eval/loss) < 0.1", "failed", ""),
        ("at(30, eval/loss) < 0.35", "passed", ""),
        ("at(3, eval/loss) < 0.35", "failed", ""),
        ("at(1000, eval/loss) < 0.35", "cannot tell", "the step of at() is not reached"),
        ("last(eval/los) < 0.5", "cannot tell", "did you mean 'eval/loss'"),
        ("mean(eval/loss, 100) < 1", "cannot tell", "points"),
    ],
)
def test_conditions_hold_at_the_end(condition, status, missing, tmp_path: Path) -> None:
    _, [found] = measured(str(side(tmp_path, runs=1)), ".", [condition], cache=False)
    assert (found.status, missing in found.missing) == (status, True), found


def test_a_text_that_is_no_condition_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ExpressionError, match="compare it"):
        measured(str(side(tmp_path, runs=1)), ".", ["eval/loss"], cache=False)


def test_a_run_that_failed_fails(tmp_path: Path) -> None:
    a = side_of(str(side(tmp_path / "a", runs=1)), ".", cache=False)
    run = ss.Run(tmp_path / "b" / "x")
    run.scalar("eval/loss", 1.0, 0)
    run.close(status="failed")
    b = side_of(str(tmp_path / "b"), ".", cache=False)
    assert told(checks_of(a, b, only=["end"])) == {"end x": "failed"}


@pytest.mark.parametrize(
    ("steps", "conv_ms", "states"),
    [
        (6, 5.0, {"operations": "passed"}),
        (6, 5.5, {"operations conv": "failed"}),
        (6, 5.04, {"operations": "passed"}),  # a half percent of the step
        (6, 4.0, {"operations": "passed"}),
        (3, 9.0, {"operations": "cannot tell"}),
    ],
)
def test_operations_of_profiles_are_judged_by_their_steps(steps, conv_ms, states) -> None:
    def profiled(ms: float) -> Side:
        conv = tuple(1e6 * ms * (1 + NOISE[at] / 4) for at in range(steps))
        rest = (3e6,) * steps
        whole = tuple(map(sum, zip(conv, rest, strict=True)))
        return Side("x", (), ProfileFacts("p", 1, whole, {"operators": (("conv", "add"), (conv, rest))}))

    assert told(checks_of(profiled(5.0), profiled(conv_ms), only=["operations"])) == states


def test_a_profile_alone_is_a_side() -> None:
    found = side_of(str(recorded("traces/kineto/resnet50_v100_workers0.json.gz")), ".", cache=False)
    assert not found.runs
    assert found.profile is not None
    assert len(found.profile.steps_ns) == 2
    assert "enumerate(DataLoader)" in " ".join(found.profile.tables["operators"][0])


def test_a_file_of_a_baseline_says_the_same(tmp_path: Path) -> None:
    sides = [
        side_of(str(side(tmp_path / name, ms=ms)), ".", cache=False) for name, ms in (("a", 10), ("b", 11))
    ]
    file = tmp_path / "base.json"
    save_baseline(sides[0], file)
    assert read_baseline(file) == sides[0]
    assert checks_of(side_of(str(file), "."), sides[1]) == checks_of(*sides)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"format": 1, "runs": 3}', "not a baseline"),
        ('{"format": 7, "place": "a", "runs": []}', "a baseline of format 7: expected 2"),
    ],
)
def test_a_damaged_or_newer_file_is_refused(content, told, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=told):
        side_of(str(file), ".")


@pytest.mark.parametrize(
    ("place", "names"),
    [("run-1", ["run-1"]), ("run-1,run-3", None), ("run:run-1,run-3", ["run-1", "run-3"])],
)
def test_a_side_is_a_run_or_a_query(place, names, tmp_path: Path) -> None:
    side(tmp_path, runs=4)
    if names is None:
        with pytest.raises(UnknownRunError, match="is no path, and no run of"):
            side_of(place, str(tmp_path), cache=False)
        return
    assert [run.name for run in side_of(place, str(tmp_path), cache=False).runs] == names
