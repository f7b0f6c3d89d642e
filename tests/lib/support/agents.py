"""Questions of people with known answers, and the recorded runs, profiles and jobs that they are about."""

import gzip
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import stepscope as ss
from stepscope.events import EventWriter
from support.everything import staged
from support.recordings import recorded

CORPUS = Path(__file__).parents[2] / "health_corpus" / "runs"
START = 1.7e9
MAX_CALLS, MAX_TOKENS = 4, 8000
"""Calls and tokens in which a question is to be answered; a token is four characters."""


def planted(name: str, into: Path) -> None:
    """Unpack a recorded training of the health corpus as a run."""
    for path in sorted(CORPUS.glob(f"{name}.*gz")):
        part = into / "validation" if ".validation." in path.name else into
        part.mkdir(parents=True, exist_ok=True)
        data = gzip.decompress(path.read_bytes())
        (part / "events.out.tfevents.1700000000.node").write_bytes(data)


def sweep(log_dir: Path) -> None:
    """Twenty-four short runs: the rate matters, and 0.03 is best; the batch size and the seed do not."""
    noise = random.Random(7)
    for number, (rate, batch) in enumerate(
        [(rate, batch) for rate in (0.001, 0.01, 0.03, 0.1) for batch in (16, 32)] * 3
    ):
        config = {"lr": rate, "batch_size": batch, "seed": number}
        worst = abs({0.001: -3.0, 0.01: -1.0, 0.03: 0.0, 0.1: 2.0}[rate])
        with ss.Run(log_dir / f"sweep-{number:02d}", config=config) as run:
            for step in range(40):
                run.scalar("eval/loss", 1 + worst / 5 + 1 / (1 + step) + noise.gauss(0, 0.02), step)


@contextmanager
def places_in(root: Path) -> Iterator[dict[str, Path]]:
    """Make the directories that the questions are about, one of them with a run that still records."""
    places = {name: root / name for name in ("runs", "sweep", "profiles", "live", "job")}
    for place in places.values():
        place.mkdir()
    planted("planted-data-wait-fresh-20271102-33", places["runs"] / "slow")
    planted("planted-vanishing-gradient-fresh-20271102-20", places["runs"] / "vanishing")
    planted("planted-overfitting-fresh-20271102-15", places["runs"] / "overfit")
    planted("mlp-adam-constant-step", places["runs"] / "healthy")
    for attempt, (first, last) in enumerate([(0, 100), (90, 150)]):
        writer = EventWriter(places["runs"] / "resumed", clock=lambda at=attempt: START + 1000 * at)
        for step in range(first, last):
            writer.scalar("train/loss", 1 / (1 + step), step, START + 1000 * attempt + step)
        writer.close()
    sweep(places["sweep"])
    for name in ("resnet50_v100_workers0.json.gz", "resnet50_v100_workers4.json.gz"):
        shutil.copy(recorded(f"traces/kineto/{name}"), places["profiles"])
    staged(places["job"] / "ranks")
    with ss.Run(places["live"] / "now", total_steps=1000) as run:
        for step in range(0, 101, 10):
            run.scalar("speed/steps_per_second", 10.0, step)
        run.flush()
        yield places


QUESTIONS = {
    "why is it slow since step 196": (
        "runs",
        [("explain_step", {"run": "slow"})],
        ["speed/data_wait_ms changed at step 196, from 1 to 73.8 ms"],
    ),
    "what changed, and when": (
        "runs",
        [("changes", {"run": "slow"})],
        ["speed/data_wait_ms"],
    ),
    "since when does a step of the job take longer": (
        "job",
        [("explain_step", {"run": "ranks"})],
        ["step changed at step 60", "most of the change is in forward"],
    ),
    "which rank, which stage": ("job", [("ranks", {})], ["rank 2", "forward", "since step 60"]),
    "which line": (
        "profiles",
        [("explain_step", {"profile": "workers0.json.gz"})],
        ["high input-bound", "lines of code:", "resnet50_profiler_api.py:42"],
    ),
    "which layer's gradient vanishes": (
        "runs",
        [("findings", {"run": "vanishing"})],
        ["vanishing-gradient\tthe gradient of layer 0.weight"],
    ),
    "which setting matters": (
        "sweep",
        [("compare", {})],
        ["lr matters: 9", "batch_size\t-", "within chance"],
    ),
    "best learning rate": (
        "sweep",
        [("runs", {"sort": "eval/loss", "columns": ["lr", "eval/loss"], "limit": 5})],
        ["0.03\t0.9956"],
    ),
    "what changed between A and B and is it real": (
        "sweep",
        [("compare", {"a": "lr:0.1", "b": "lr:0.03"})],
        ["lr\t0.1\t0.03", "B is better", "Welch"],
    ),
    "memory peak and who holds it": (
        "profiles",
        [("profile", {"view": "memory", "profile": "workers0.json.gz"})],
        ["device 0: the peak is 2.60 GiB in step 5, 8.2 %", "activation\t2.53 GiB\t97.5 %"],
    ),
    "when will it finish": ("live", [("run", {})], ["it will finish in 1 min 30 s", "step 100 of 1,000"]),
    "did the resume lose steps": (
        "runs",
        [("run", {"run": "resumed"})],
        ["resumed at step 90 and recorded 10 steps again"],
    ),
    "which operation grew": (
        "profiles",
        [("operations", {"profile": "workers4.json.gz", "against": "workers0.json.gz"})],
        ["enumerate(DataLoader)"],
    ),
    "which rate ends lowest, by SQL": (
        "sweep",
        [
            (
                "sql",
                {
                    "query": "SELECT number AS lr, avg(series.value) AS loss FROM series JOIN settings "
                    "USING (run) WHERE tag = 'eval/loss' AND step = 39 AND key = 'lr' "
                    "GROUP BY lr ORDER BY loss LIMIT 1"
                },
            )
        ],
        ["lr\tloss", "0.03\t"],
    ),
    "which run overfits since when": (
        "runs",
        [("findings", {})],
        ["overfit\tmedium\toverfitting", "\teval/loss\t35\t-"],
    ),
    "is the job healthy": ("runs", [("findings", {"run": "healthy"})], ["generalises: yes"]),
}
