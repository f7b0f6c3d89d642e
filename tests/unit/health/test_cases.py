"""Each health rule on made series: cases.txt holds the series, an approved file all that is found in them.

What is found must not depend on the portions in which the points come.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.cases import VARIABLE, Case, read_table
from support.findings import line_of

from stepscope.health import RULES, Monitor
from stepscope.health.batch import rising_times

START = 1_700_000_000.0
TABLE = Path(__file__).with_name("cases.txt")
PORTIONS = 4


# --- what the series are made of -------------------------------------------------------------------------


def noise(count, scale=1.0, seed=0):
    return scale * np.random.default_rng(seed).normal(size=count)


def wander(count, scale, memory, seed):
    """Noise whose neighbours correlate."""
    values = noise(count, scale, seed)
    for at in range(1, count):
        values[at] += memory * values[at - 1]
    return values


def jit(values, scale, seed=0):
    return values * (1 + noise(len(values), scale, seed))


def lognormal(count, seed, sigma=1.0):
    return np.random.default_rng(seed).lognormal(0, sigma, count)


def fall(count=1200, *, to=0.3, by=2.0, over=150.0, seed=0, scale=0.03):
    """A loss that falls."""
    return to + by * np.exp(-np.arange(count) / over) + noise(count, scale, seed)


def points(steps, values, later=0.0):
    return steps, values, np.asarray(steps) + later


def every(step, values, later=0.0):
    """Points so many steps apart, one second a step."""
    return points(np.arange(1, len(values) + 1) * step - 1, values, later)


def evals(step, values, later=0.5):
    """Evaluations, each after its step."""
    return every(step, values, later)


def rare(values, step=50, *, scale=0.05, seed=0):
    return every(step, values + noise(len(values), scale, seed))


def pair(evaluations, train):
    steps = 100 * np.arange(1, len(evaluations) + 1)
    return {"train/loss": points(steps - 1, train), "eval/loss": points(steps, evaluations)}


def short(turns_at, rise, scale, seed, count=12):
    """A short training: its evaluation falls steeply, and from one evaluation on rises by so much at each."""
    at = np.arange(1, count + 1)
    train = 2 * np.exp(-at / 3.2)
    return pair(train + 0.05 + rise * np.maximum(at - turns_at, 0) + noise(count, scale, seed), train)


def edge(bad, fine, good, opens, closes, before=()):
    """Runs of samples about a limit, after some others."""
    runs = {
        "one too few": [bad] * (opens - 1), "enough": [bad] * opens,
        "a gap": [bad] * (opens - 1) + [good] + [bad] * opens, "on the limit": [fine] * (opens + 10),
        "one too few to close": [bad] * opens + [good] * (closes - 1),
        "enough to close": [bad] * opens + [good] * closes,
    }  # fmt: skip
    if opens == 1:
        del runs["a gap"]
    return {name: [*before, *run] for name, run in runs.items() if [*before, *run]}


def halved(start, times, count=400, every_n=1):
    return start * 0.5 ** np.minimum(np.arange(count) // every_n, times)


def noisy(*stretches, seed=0):
    """Shares with a spread of a third around each level: (steps, level), …"""
    means = np.concatenate([np.full(count, level) for count, level in stretches])
    return np.clip(means * (1 + noise(len(means), seed=seed) / 3), 0, 1)


def waits(ratios, first=0):
    """Steps of 10 ms with these shares of waiting."""
    steps, walls = np.arange(first, first + len(ratios)), 0.01 * np.arange(len(ratios))
    return {
        "speed/step_time_ms": (steps, np.full(len(ratios), 10), walls),
        "speed/data_wait_ms": (steps, 10 * ratios, walls),
    }


def paused(gap, step=1.0, count=50):
    """Steps of a length, then a pause, then further steps."""
    walls = np.r_[np.arange(count) * step, (count - 1) * step + gap + np.arange(3) * step]
    return np.arange(count + 3), np.linspace(2, 1, count + 3), walls


def fell(after, start=2.0, low=0.5, sigma=0.0, rest=80):
    """A loss that falls within 120 points, rests, and what comes then."""
    loss = np.r_[np.full(20, start), np.linspace(start, low, 40), np.full(rest, low), np.array(after, float)]
    return loss + sigma * noise(len(loss))


def stages(seed):
    """A loss that each of four stages lifts, and that falls again."""
    at = np.arange(1000)
    return (0.02 + (1.5 + at // 250) * np.exp(-(at % 250) / 25)) * (1 + noise(1000, 0.1, seed))


def layers(**values):
    """Samples every ten steps of norms of gradients and ratios of updates, by the name of the layer."""
    tags = {"norm": "gradients/{}.weight/norm", "ratio": "updates/{}.weight/weight_ratio"}
    steps = np.arange(40) * 10
    return {
        tags[name.split("__")[1]].format(name.split("__")[0]): points(steps, np.broadcast_to(of, 40), 0.2)
        for name, of in values.items()
    }


def spiky(second):
    """A spike of a loss: with layers of which some grew before it and Adam's second moments, or alone."""
    rng, steps = np.random.default_rng(0), np.arange(200)
    loss = np.where((steps >= 150) & (steps < 153), 3.0, 1 + 0.01 * rng.normal(size=200))
    series = {"train/loss": loss}
    if second is not None:
        for name, begins in (("a", 151), ("b", 149), ("c", 10_000)):
            norms = 1 + 0.01 * rng.normal(size=200)
            series[f"gradients/{name}/norm"] = np.where((steps >= begins) & (steps < 153), 8.0, norms)
        series["optimizer/second_moment/emb"] = np.where(steps == 147, second, 1.0)
    return series


def sparse(seed):
    """A policy that is seldom rewarded."""
    rng, count = np.random.default_rng(seed), 1500
    at = np.arange(count)
    reward = np.where(at < 900, (rng.random(count) < 0.01) * 1.0, np.minimum(1, (at - 900) / 300))
    loss, value = (np.abs(1e-3 + (rng.random(count) < 0.03) * rng.exponential(0.5, count)) for _ in range(2))
    entropy = 1.3 - at / count * 0.5 + noise(count, 0.01, seed)
    return {"rollout/ep_rew_mean": reward, "train/loss": loss, "train/value_loss": value,
            "train/entropy": entropy}  # fmt: skip


def averaged(seed):
    """An exponential mean that begins at 0."""
    mean = np.zeros(1200)
    for at in range(1200):
        mean[at] = 0.99 * mean[at - 1] + 0.01 * (0.3 + 2 * np.exp(-at / 150) + noise(1, 0.1, seed + at)[0])
    return mean


def irregular(seed):
    """Steps at which points were logged."""
    rng = np.random.default_rng(seed)
    gaps = np.where(rng.random(150) < 0.7, rng.integers(1, 12, 150), rng.integers(20, 60, 150))
    gaps[100] = 200
    return np.cumsum(gaps)


STEPS = np.arange(1200)
NAMES = {
    **{name: getattr(np, name) for name in np.__all__ if name not in ("random", "load", "save")},
    **{
        of.__name__: of for of in (
            noise, wander, jit, lognormal, fall, points, every, evals, rare, pair, short, edge, halved, noisy,
            waits, paused, fell, stages, layers, spiky, sparse, averaged, irregular,
        )
    },
    "product": itertools.product,
    "random": lambda count: np.random.default_rng(0).random(count),
    "LOSS": 2 * np.exp(-np.arange(3000) / 800) + 0.3 + noise(3000, 0.03),
    "CLIMBS": np.where(STEPS < 600, fall(), fall()[600] * np.exp(np.minimum((STEPS - 600) / 60, 6))),
    "PART": 0.2 + 1.5 * np.exp(-STEPS / 100) + noise(1200, 0.02),
    "LATE": np.where(STEPS < 800, 0.0, 1.8 * np.exp(-(STEPS - 800) / 200) + np.abs(noise(1200, 0.03))),
    "burst": np.where((np.arange(1000) >= 420) & (np.arange(1000) < 424), 4.0, 0),
}  # fmt: skip


# --- judging them ----------------------------------------------------------------------------------------


@dataclass
class Made:
    """Series of a case under one choice of its repetitions."""

    label: str
    limits: dict[str, Any]
    series: dict[tuple[str, int | None], tuple[np.ndarray, np.ndarray, np.ndarray]]


def made(case: Case, shared: list[str], seed: int = 0) -> Iterator[Made]:
    """Yield the series of a case, one by one of its repetitions."""
    names: dict[str, Any] = {**NAMES, "seed": seed}
    lines = [line for line in (*shared, *case.lines) if not line.startswith("@ ")]
    for line in shared:
        exec(line, names)
    for label, known in case.choices(names):
        limits: dict[str, Any] = {}
        series: dict[tuple[str, int | None], Any] = {}
        for line in lines:
            if line.startswith("! "):
                limits |= eval(f"dict({line[2:]})", known)
            elif line.startswith("** "):
                for tag, value in eval(line[3:], known).items():
                    series[tag if isinstance(tag, tuple) else (tag, None)] = columns(value)
            elif VARIABLE.match(line):
                exec(line, known)
            else:
                tag, _, value = line.partition(": ") if line[0] != "{" else split_braces(line)
                tag = eval(f"f{tag!r}", known) if "{" in tag else tag
                tag, _, rank = tag.partition(" @")
                series[tag, int(rank) if rank else None] = columns(eval(value, known))
        yield Made(label, limits, series)


def split_braces(line: str) -> tuple[str, str, str]:
    """Split at the colon after the braces with which a line begins."""
    tag, _, value = line[line.index("}") :].partition(": ")
    return line[: line.index("}")] + tag, ":", value


def columns(value):
    steps, values, *walls = value if isinstance(value, tuple) else (np.arange(len(value)), value)
    steps = np.asarray(steps)
    return steps, np.asarray(values, float), START + np.asarray(walls[0] if walls else steps, float)


def judged(rule: str | None, of: Made, portions: int) -> Monitor:
    monitor = Monitor({rule: of.limits} if rule else {})
    times = {key: rising_times(walls) for key, (_, _, walls) in of.series.items()}
    last = max(float(each[-1]) for each in times.values())
    cuts = [*np.linspace(START, last, portions + 1)[1:-1].tolist(), np.inf]
    done = dict.fromkeys(of.series, 0)
    for cut in cuts:
        for (tag, rank), column in of.series.items():
            end = int(np.searchsorted(times[tag, rank], cut))
            monitor.take(tag, *(each[done[tag, rank] : end] for each in column), rank=rank)
            done[tag, rank] = end
        if cut < np.inf:
            monitor.advance(cut)
    monitor.finish()
    return monitor


def lines_of(rule: str | None, of: Made, portions: tuple[int, ...]) -> list[str]:
    """Return all that is found as lines."""
    verdicts = [judged(rule, of, count).verdict for count in portions]
    verdict, findings = verdicts[0], [each for each in verdicts[0].findings if rule in (None, each.rule)]
    for other in verdicts[1:]:
        assert repr([each for each in other.findings if rule in (None, each.rule)]) == repr(findings), (
            of.label
        )
    missing = [each.missing for each in verdict.abstained if each.rule == rule]
    if not findings:
        return [f"- ({missing[0]})" if missing else "-"]
    return [line_of(each, START) for each in findings] + [f"and {verdict.more}"] * bool(verdict.more)


SHARED, CASES = read_table(TABLE)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_what_is_found_in_made_series(case: Case, approved) -> None:
    lines = []
    if case.seeds:
        runs = [list(made(case, SHARED, seed)) for seed in range(case.seeds)]
        for column in zip(*runs, strict=True):
            count = sum(lines_of(case.rule, each, (1,))[0][0] != "-" for each in column)
            lines.append(f"{column[0].label}: ".removeprefix(": ") + f"in {count} of {case.seeds}")
    else:
        for number, each in enumerate(made(case, SHARED)):
            rows = lines_of(case.rule, each, (1,) if number % 3 else (1, PORTIONS))
            lines += [f"{each.label}:"] * bool(each.label) + [f"   {row}" for row in rows]
    approved.check("health_cases", case.title, "\n".join(lines))


def test_every_rule_has_cases_and_each_case_is_approved(approved) -> None:
    assert {case.rule for case in CASES if case.rule} | {"nonfinite-activation"} >= set(RULES)
    approved.check_names("health_cases", [case.title for case in CASES])
