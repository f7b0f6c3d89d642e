"""What a run wrote about its health, beside what its values show: which findings are the same."""

from dataclasses import asdict

import pytest

from stepscope.health import Finding, Verdict
from stepscope.serve.health import joined
from stepscope.store.findings import WrittenFinding

SHOWN = Finding(
    rule="nonfinite-loss",
    severity="high",
    title="NaN",
    summary="the loss is NaN",
    tag="train/loss",
    run="",
    layer=None,
    rank=2,
    first_step=7,
    step=7,
    wall=0.0,
)


def written(**other: object) -> WrittenFinding:
    facts = asdict(SHOWN) | {"stack": "at line 3", "number": 0} | other
    return WrittenFinding(**{**facts, "attempt": 1})


@pytest.mark.parametrize("step", [7, 12])
def test_one_with_the_same_onset_is_the_same(step: int) -> None:
    [finding] = joined(Verdict([SHOWN]), [written(step=step)]).findings
    assert (finding.step, finding.stack) == (7, "at line 3")


@pytest.mark.parametrize(
    "other", [{"rank": 3}, {"first_step": 8}, {"tag": "eval/loss"}, {"rule": "nonfinite-series"}]
)
def test_one_of_another_rank_onset_series_or_rule_is_another(other: dict[str, object]) -> None:
    findings = joined(Verdict([SHOWN]), [written(step=12, **other)]).findings
    assert [finding.stack for finding in findings] == [SHOWN.stack, "at line 3"]
