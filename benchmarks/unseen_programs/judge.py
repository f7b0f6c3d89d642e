"""Judge what `stepscope advise` says of these programs, from one capture and from a run with several.

    nice -n 19 python benchmarks/unseen_programs/judge.py                 # record what is missing, judge all
    python benchmarks/unseen_programs/judge.py recommender --verbose      # one, with its first sentence

Each program runs as a user would run it: `run.steps` around its loop, a `ProfilerHook` that captures four
times, no other options. Recordings are kept in `.cache/unseen_programs` and judged again offline, so a later
figure differs from the first one only by the rules. `--fresh` records again.

`EXPECTED` says which words make a first finding right. It was written from the `cause` texts of the table,
before the product had judged any of these programs. The words name the mistake, not its place or size, so a
finding that says only where the time went is not right, unless the mistake is that this work is there at all.
A line is right if it lies in the statement that makes the mistake, or in a function that the statement
names; `beside` also counts the statements before and after it. A gain is right if the predicted share of the
step is within a quarter of the measured one, or if it is stated as a bound and holds.

`small-kernels` was added to the words of two programs afterwards: it is the name under which the product says
that there are many small operators.
"""

import argparse
import ast
import functools
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import tomllib

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "unseen_programs"
CAPTURES, INTERVAL = 4, 12
EXPECTED = {
    "image_classifier": r"\bload|data ?set|decod|input",
    "text_classifier": r"\bpad",
    "citation_graph": r"\bdense|sparse|mostly zero",
    "electricity_forecast": r"float64|double precision|64-bit|\bf64|x64",
    "speech_commands": r"each step|every step|again|\bonce\b|same values",
    "deep_q_learning": r"torch\.tensor|element by element|(list|tuple)s? of .*arrays|arrays? .*one by one",
    "recommender": r"dense gradient|sparse",
    "poisson_equation": r"jacobian|row by row|small.kernels|(small|tiny|many) operators|backward passes",
    "digit_gan": r"gradients?.* (nobody|unused|no optimizer|never used|not used)|detach",
    "latent_diffusion": r"frozen|same inputs|again|\bonce\b|cached?\b",
    "gaussian_process": r"temporary|intermediate|broadcast|matrix product|larger than",
    "pendulum_policy": r"Python",
    "price_model": r"compil|retrac",
    "heartbeat_classifier": r"callback|called back|NumPy function|Python function",
    "spiral_ode": r"anomaly",
    "word_vectors": r"Python|choice|NumPy",
    "card_fraud": r"metric|roc_auc|grow|evaluat",
    "dynamics_ensemble": r"small.kernels|(small|tiny|many) operators|one after another|one by one",
    "echo_network": r"denormal|subnormal",
    "sensor_network": r"threads",
}


def train(name: str, mended: bool, directory: str) -> None:
    """Run a program under a run with a profiler hook, in this process."""
    import importlib

    import stepscope as ss

    training = importlib.import_module(name).training(mended)
    hook = ss.ProfilerHook(save_steps=INTERVAL, analyse=False)
    with ss.Run(directory, hooks=[hook]) as run:
        for _ in run.steps(range(INTERVAL * (CAPTURES - 1) + 3)):
            run.scalar("loss", next(training))


def captures(directory: Path) -> list[Path]:
    """Return the profiles of a run, in the order in which they were captured."""
    found = {*directory.rglob("*.pt.trace.json.gz"), *directory.rglob("*.xplane.pb")}
    return sorted(found, key=lambda path: (path.stat().st_mtime, path))


def record(name: str, mended: bool, fresh: bool) -> Path:
    """Return the directory of a program's run, which is recorded if it was not yet."""
    directory = CACHE / f"{name}-{'mended' if mended else 'slow'}"
    if fresh:
        subprocess.run(["rm", "-r", "-f", str(directory)], check=True)
    if not captures(directory):
        directory.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "JAX_PLATFORMS": "cpu", "KINETO_LOG_LEVEL": "99"}
        command = [sys.executable, __file__, "--train", name, str(mended), str(directory)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        if len(captures(directory)) < CAPTURES:
            raise SystemExit(f"{name}: {captures(directory)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return directory


def advice(path: Path) -> dict:
    command = [sys.executable, "-m", "stepscope", "advise", str(path), "--profile", "--json", "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        raise SystemExit(f"{path}: {done.stderr}")
    return json.loads(done.stdout)


def places(program: dict) -> tuple[set[int], set[int]]:
    """Return the lines of the mistake, and these with the statements before and after it."""
    tree = ast.parse((HERE / program["file"]).read_text())
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    marked = [
        line
        for line, text in enumerate((HERE / program["file"]).read_text().splitlines(), 1)
        if text.endswith("# cause")
    ]
    own: set[int] = set()
    beside: set[int] = set()
    for line in marked:
        innermost = max(
            (one for one in statements if one.lineno <= line <= (one.end_lineno or 0)),
            key=lambda one: one.lineno,
        )
        own |= set(range(innermost.lineno, (innermost.end_lineno or 0) + 1))
        names = {one.id for one in ast.walk(innermost) if isinstance(one, ast.Name)}
        for function in statements:
            if isinstance(function, ast.FunctionDef) and function.name in names:
                own |= set(range(function.lineno, (function.end_lineno or 0) + 1))
        for block in (
            getattr(node, part)
            for node in ast.walk(tree)
            for part in ("body", "orelse", "finalbody")
            if isinstance(getattr(node, part, None), list)
        ):
            for one, other in itertools.pairwise(block):
                for here, there in ((one, other), (other, one)):
                    if here is innermost:
                        beside |= set(range(there.lineno, (there.end_lineno or 0) + 1))
    return own, own | beside


def named_lines(finding: dict, file: str) -> set[int]:
    """Return the lines of a program that a finding names: its place, and those listed with their times."""
    place = finding["place"]
    named = {place.get("line", 0)} if str(place.get("file", "")).endswith(file) else set()
    return named | {int(line) for line in re.findall(rf"{re.escape(file)}:(\d+)", json.dumps(finding))}


def worth_saying(said: dict) -> list[dict]:
    return [one for one in said["findings"] if one["severity"] != "info"]


def judge(program: dict, said: dict) -> dict:
    """Compare the first finding with what is known."""
    found = said["findings"]
    if not found:
        return {"cause": False, "line": False, "beside": False, "gain": None, "first": said["verdict"]}
    first = found[0]
    text = " ".join([first["rule"], first["summary"], first["action"], *first["chain"]])
    cause = re.search(EXPECTED[program["name"]], text, re.IGNORECASE) is not None
    own, beside = places(program)
    named = named_lines(first, program["file"])
    measured, predicted = 1 - 1 / program["gain"], first["gain_ratio"]
    holds = None
    if cause and predicted is not None:
        bound = "at most" in first["summary"] or "at best" in first["summary"]
        holds = abs(predicted / measured - 1) <= 0.25 or (bound and predicted >= measured)
    return {
        "cause": cause,
        "line": cause and bool(named & own),
        "beside": cause and bool(named & beside),
        "gain": holds,
        "predicted": predicted,
        "measured": measured,
        "first": f"{first['rule']}: {first['summary']} {first['action']}",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs (all, if none is named)")
    parser.add_argument("--verbose", action="store_true", help="print the first finding of each")
    parser.add_argument("--fresh", action="store_true", help="record again")
    parser.add_argument("--train", nargs=3, metavar=("NAME", "MENDED", "DIRECTORY"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train:
        if hasattr(os, "sched_setaffinity"):  # The gains were measured on one processor.
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        train(chosen.train[0], chosen.train[1] == "True", chosen.train[2])
        return
    programs = tomllib.loads((HERE / "programs.toml").read_text())["program"]
    programs = [one for one in programs if not chosen.names or one["name"] in chosen.names]
    show = functools.partial(print, flush=True)
    show(f"{'program':22} {'captures':9} cause line beside  predicted measured gain")
    sums: dict[int, dict[str, int]] = {1: {}, CAPTURES: {}}
    for program in programs:
        runs = {mended: record(program["name"], mended, chosen.fresh) for mended in (False, True)}
        for count in sums:
            paths = {
                mended: captures(run)[0] if count == 1 else run / "profiles" for mended, run in runs.items()
            }
            result = judge(program, advice(paths[False]))
            false = worth_saying(advice(paths[True]))
            counted = {
                "programs": True, "cause": result["cause"], "line": result["line"],
                "beside": result["beside"], "gains": result["gain"] is not None,
                "gain": bool(result["gain"]), "accused": bool(false),
                "high": any(one["severity"] == "high" for one in false),
            }  # fmt: skip
            for key, value in counted.items():
                sums[count][key] = sums[count].get(key, 0) + int(value)
            predicted = result.get("predicted")
            show(
                f"{program['name']:22} {count:<9} {'yes' if result['cause'] else '-':5} "
                f"{'yes' if result['line'] else '-':4} {'yes' if result['beside'] else '-':7} "
                f"{'' if predicted is None else f'{predicted:.0%}':9} {1 - 1 / program['gain']:<8.0%} "
                f"{ {None: '', True: 'yes', False: 'no'}[result['gain']]:4} "
                f"mended: {', '.join(one['rule'] for one in false) or 'nothing'}"
            )
            if chosen.verbose:
                show(f"    {result['first']}")
    for count, one in sums.items():
        show(
            f"{count} capture(s), {one['programs']} programs: cause first {one['cause']}, its line "
            f"{one['line']} (or beside {one['beside']}), gain {one['gain']} of {one['gains']} named; "
            f"mended programs with a finding above info {one['accused']}, a high one {one['high']}"
        )


if __name__ == "__main__":
    main()
