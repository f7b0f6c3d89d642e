"""Twelve questions of people, asked of our MCP server and of trackio's and MLflow's: answers, calls, tokens.

The same runs are logged to all three; what another tracker cannot record, such as profiles, it is not asked
about. Each is asked by the calls that need fewest, found by hand, and by a client of the official SDK. Ours
counts as answered if its text says the known answer. The others return numbers, so they count as answered if
the answer can be worked out from all that they returned, by the function beside the calls: they are given the
reader who does that. An answer within the bounds takes four calls and 8,000 tokens, of four characters each.

The others are installed into ``build/peers``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import numpy as np
from mcp import Client

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "lib"))

from support.agents import MAX_CALLS, MAX_TOKENS, QUESTIONS, places_in  # noqa: E402
from support.everything import RANKS, SINCE, SLOW, STEPS  # noqa: E402

import stepscope as ss  # noqa: E402
from stepscope.serve.questions.protocol import Tools, desks_of, server_of  # noqa: E402

Calls = list[tuple[str, dict[str, Any]]]
DEPTHS = ("0", "12", "24")
"""The first layer of the network whose gradient vanishes, one in its middle, and its last."""
SWEEP = [f"sweep-{number:02d}" for number in range(24)]
POINTS = re.compile(r'"step": (\d+),\s+"value": ([-+.\deE]+|NaN)')
NUMBER = r'": ([-+.\deE]+)'


class Way(NamedTuple):
    """The calls to a peer's tools for one question, and whether the answer follows from their texts."""

    calls: Calls
    follows: Callable[[list[str]], bool]


def points(text: str) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and values in trackio's answer."""
    pairs = POINTS.findall(text)
    return np.array([int(step) for step, _ in pairs]), np.array([float(value) for _, value in pairs])


def setting(text: str, key: str) -> float:
    """Return a setting in the description of a run, of either peer."""
    match = re.search(rf'"{key}": "?([-+.\deE]+)', text)
    assert match, text[:200]
    return float(match[1])


def settings_matter(rates: np.ndarray, batches: np.ndarray, losses: np.ndarray) -> bool:
    """Return whether losses show that the rate matters and the batch size does not."""

    def explained(key: np.ndarray) -> float:
        means = np.array([losses[key == each].mean() for each in key])
        return 1 - ((losses - means) ** 2).mean() / losses.var()

    return bool(explained(rates) > 0.9 and explained(batches) < 0.1)


def best_rate(rates: np.ndarray, losses: np.ndarray) -> float:
    """Return the rate with the least mean loss."""
    return min(set(rates.tolist()), key=lambda rate: losses[rates == rate].mean())


def is_worse(rates: np.ndarray, losses: np.ndarray) -> bool:
    """Return whether the rate 0.1 is worse than 0.03 by more than three standard errors."""
    a, b = losses[rates == 0.1], losses[rates == 0.03]
    return bool(a.mean() - b.mean() > 3 * np.hypot(a.std() / len(a) ** 0.5, b.std() / len(b) ** 0.5))


def values_of(run: str, metric: str, project: str = "runs", **more: int) -> tuple[str, dict[str, Any]]:
    """Return the call for values of a metric of trackio."""
    return "get_metric_values", {"project": project, "run": run, "metric_name": metric, **more}


def trackio_sweep(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rates, batch sizes and final losses of the sweep."""
    configs, values = texts[1 : 1 + len(SWEEP)], texts[1 + len(SWEEP) :]
    return (
        np.array([setting(text, "lr") for text in configs]),
        np.array([setting(text, "batch_size") for text in configs]),
        np.array([points(text)[1][-1] for text in values]),
    )


def mlflow_sweep(texts: list[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The same of MLflow."""
    names = ("lr", "batch_size", "eval/loss")
    rates, batches, losses = (np.array([setting(text, name) for text in texts[1:]]) for name in names)
    return rates, batches, losses


def since(texts: list[str]) -> bool:
    """Return whether the wait for data is seen to rise at step 196."""
    steps, values = (np.concatenate(parts) for parts in zip(*map(points, texts[2:]), strict=True))
    return int(steps[values > 10].min()) == 196 and bool((steps[values < 10] == 195).any())


def least_gradient(texts: list[str]) -> bool:
    """Return whether the first layer's weight has the least of all gradients of weights at the end."""
    found = dict(re.findall(r'"gradients/([\w.]+\.weight)/norm": ([-+.\deE]+)', texts[-1]))
    return bool(found) and min(found, key=lambda name: float(found[name])) == "0.weight"


def turns(texts: list[str]) -> bool:
    """Return whether one run's evaluation is seen to be best long before its end, at step 35."""
    curves = [points(text) for text in texts[1:]]
    early = [
        steps[values.argmin()]
        for steps, values in curves
        if len(values) and values.argmin() < len(values) / 4
    ]
    return [int(step) for step in early] == [35]


def learns(texts: list[str]) -> bool:
    """Return whether both losses are seen to fall, and the evaluation's to end near its best."""
    (_, train), (_, held_out) = points(texts[1]), points(texts[2])
    return bool(train[-1] < train[0] and held_out[-1] < held_out[0] and held_out[-1] < 1.1 * held_out.min())


IN_SWEEP: Calls = [
    ("get_project_summary", {"project": "sweep"}),
    *(("get_run_summary", {"project": "sweep", "run": run}) for run in SWEEP),
    *(values_of(run, "eval/loss", "sweep", step=39) for run in SWEEP),
]
IN_MLFLOW: Calls = [
    ("list_runs", {"experiment_id": "{sweep}"}),
    *(("describe_run", {"run_id": f"{{{run}}}"}) for run in SWEEP),
]
TRACKIO = {
    "why is it slow since step 196": Way(
        [
            ("get_metrics_for_run", {"project": "runs", "run": "slow"}),
            values_of("slow", "speed/step_time_ms", max_points=40),
            values_of("slow", "speed/data_wait_ms", max_points=40),
            values_of("slow", "speed/data_wait_ms", around_step=196, window=8),
        ],
        since,
    ),
    "which layer's gradient vanishes": Way(
        [
            ("get_metrics_for_run", {"project": "runs", "run": "vanishing"}),
            *(values_of("vanishing", f"gradients/{layer}.weight/norm", max_points=10) for layer in DEPTHS),
        ],
        lambda texts: list(finals := [points(text)[1][-1] for text in texts[1:]]) == sorted(finals),
    ),
    "which setting matters": Way(IN_SWEEP, lambda texts: settings_matter(*trackio_sweep(texts))),
    "best learning rate": Way(
        IN_SWEEP, lambda texts: best_rate(trackio_sweep(texts)[0], trackio_sweep(texts)[2]) == 0.03
    ),
    "what changed between A and B and is it real": Way(
        IN_SWEEP, lambda texts: is_worse(trackio_sweep(texts)[0], trackio_sweep(texts)[2])
    ),
    "when will it finish": Way(
        [
            ("get_run_summary", {"project": "live", "run": "now"}),
            values_of("now", "speed/steps_per_second", "live", max_points=5),
        ],
        lambda texts: round((setting(texts[0], "total_steps") - 1 - setting(texts[0], "last_step"))
                            / points(texts[1])[1][-1], 1) == 89.9,
    ),
    "did the resume lose steps": Way(
        [values_of("resumed", "train/loss")],
        lambda texts: len(points(texts[0])[0]) - len(set(points(texts[0])[0].tolist())) == 10,
    ),
    "which run overfits since when": Way(
        [
            ("get_project_summary", {"project": "runs"}),
            *(values_of(run, "eval/loss") for run in ("healthy", "overfit", "resumed", "slow", "vanishing")),
        ],
        turns,
    ),
    "is the job healthy": Way(
        [
            ("get_metrics_for_run", {"project": "runs", "run": "healthy"}),
            values_of("healthy", "train/loss", max_points=40),
            values_of("healthy", "eval/loss", max_points=40),
        ],
        learns,
    ),
}  # fmt: skip
"""Of the other questions trackio has nothing: it takes no profiles and no telemetry of ranks."""
MLFLOW = {
    "which layer's gradient vanishes": Way(
        [("list_runs", {"experiment_id": "{runs}"}), ("describe_run", {"run_id": "{vanishing}"})],
        least_gradient,
    ),
    "which setting matters": Way(IN_MLFLOW, lambda texts: settings_matter(*mlflow_sweep(texts))),
    "best learning rate": Way(
        IN_MLFLOW, lambda texts: best_rate(mlflow_sweep(texts)[0], mlflow_sweep(texts)[2]) == 0.03
    ),
    "what changed between A and B and is it real": Way(
        IN_MLFLOW, lambda texts: is_worse(mlflow_sweep(texts)[0], mlflow_sweep(texts)[2])
    ),
}
"""Its server has no history of a metric: only the last value of each, without its step."""
TWELVE = (
    ("why is it slow since step 196",),
    ("since when does a step of the job take longer", "which rank, which stage", "which line"),
    ("which layer's gradient vanishes",),
    ("which setting matters",),
    ("best learning rate",),
    ("what changed between A and B and is it real",),
    ("memory peak and who holds it",),
    ("when will it finish",),
    ("did the resume lose steps",),
    ("which operation grew",),
    ("which run overfits since when",),
    ("is the job healthy",),
)
"""The questions; one has three parts."""


class Played(NamedTuple):
    """One question as it was answered."""

    answered: bool
    calls: int
    tokens: float

    def cell(self) -> str:
        """Return it as a cell of a table."""
        if not self.calls:
            return "no | - | -"
        within = self.calls <= MAX_CALLS and self.tokens <= MAX_TOKENS
        word = "no" if not self.answered else "yes" if within else "beyond the bounds"
        return f"{word} | {self.calls} | {self.tokens:,.0f}"


def projects_in(places: dict[str, Path]) -> dict[str, Any]:
    """Return the runs as the peers are to log them: settings, and values by step of each attempt."""
    projects: dict[str, Any] = {}
    for project in ("runs", "sweep", "live", "job"):
        projects[project] = {}
        for run in ss.open(places[project]).runs():
            attempts: dict[int, dict[int, dict[str, float]]] = {}
            for tag in run.tags():
                for series in run.columns(tag) if not tag.startswith("stepscope/") else ():
                    steps = attempts.setdefault(series.attempt, {})
                    for step, value in zip(series.step.tolist(), series.value.tolist(), strict=True):
                        steps.setdefault(step, {})[tag] = value
            more = {"total_steps": run.info.total_steps} if run.info.total_steps else {}
            projects[project][run.name] = {
                "config": {**run.info.config, **more},
                "attempts": [sorted(steps.items()) for _, steps in sorted(attempts.items())],
            }
    projects["job"]["ranks"]["attempts"] = [[
        (step, {f"rank{rank}/forward_s": 0.1 if step >= SINCE and rank == SLOW else 0.05
                for rank in range(RANKS)})
        for step in range(STEPS)
    ]]  # fmt: skip
    return projects


def ours(places: dict[str, Path]) -> dict[str, Played]:
    """Play the questions on our server."""
    played = {}
    for parts in TWELVE:
        texts, answered = [], True
        for question in parts:
            place, calls, told = QUESTIONS[question]

            async def play(place: str = place, calls: Calls = calls) -> list[str]:
                desks = desks_of([str(places[place])], cache=False)
                async with Client(server_of(Tools(desks))) as client:
                    results = [await client.call_tool(tool, given) for tool, given in calls]
                for desk in desks.values():
                    desk.close()
                return [
                    "".join(part.text for part in each.content if part.type == "text") for each in results
                ]

            part = anyio.run(play)
            answered = answered and all(each in "\n".join(part) for each in told)
            texts += part
        played[parts[0]] = Played(answered, len(texts), sum(map(len, texts)) / 4)
    return played


def peer(name: str, projects: dict[str, Any], ways: dict[str, Way]) -> tuple[str, dict[str, Played]]:
    """Play the questions on the server of a peer; return its version and how each was answered."""
    folder = ROOT / "build" / "peers" / name
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", f"{name}[mcp]"], check=True)
    with tempfile.TemporaryDirectory() as place:
        data, out = Path(place, "data.json"), Path(place, "out.json")
        calls = {question: way.calls for question, way in ways.items()}
        data.write_text(json.dumps({"projects": projects, "calls": calls}))
        script = Path(__file__).parent / "agents_peers" / f"play_{name}.py"
        done = subprocess.run([python, script, data, place, out], capture_output=True, text=True, check=False)
        assert out.exists(), done.stderr[-2000:]
        found = json.loads(out.read_text())
    played = {}
    for question, way in ways.items():
        answers = found["answers"][question]
        assert not any(each["error"] for each in answers), answers
        texts = [each["text"] for each in answers]
        played[question] = Played(way.follows(texts), len(texts), sum(map(len, texts)) / 4)
    return found["version"], played


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as root, places_in(Path(root)) as places:
        projects = projects_in(places)
        columns = {"Stepscope": ours(places)}
        for name, ways in (("trackio", TRACKIO), ("mlflow", MLFLOW)):
            version, played = peer(name, projects, ways)
            columns[f"{name} {version}"] = played
    heads = " | ".join(f"{name} | calls | tokens" for name in columns)
    print(f"| question | {heads} |\n|---|{'---|' * 3 * len(columns)}")
    nothing = Played(False, 0, 0.0)
    for parts in TWELVE:
        cells = " | ".join(played.get(parts[0], nothing).cell() for played in columns.values())
        print(f"| {'; '.join(parts)} | {cells} |")
    for name, played in columns.items():
        cells = [each.cell() for each in played.values()]
        within = sum(cell.startswith("yes") for cell in cells)
        beyond = sum(cell.startswith("beyond") for cell in cells)
        print(f"{name}: {within} of {len(TWELVE)} within the bounds, {beyond} beyond them")


if __name__ == "__main__":
    main()
