"""Judge what `stepscope advise` says of these programs, from one, three and five captures of a run.

    nice -n 19 python benchmarks/unseen_programs/judge.py                 # record what is missing, judge all
    python benchmarks/unseen_programs/judge.py recommender --verbose      # one, with its first sentence
    python benchmarks/unseen_programs/judge.py --set second               # those in the folder `second`

Each program runs as a user would run it: `run.steps` around its loop, a `ProfilerHook` that captures five
times, no other options; with `--bare` without stacks. Complete recordings are kept in
`.cache/unseen_programs` and judged again offline, so a later figure differs from the first one only by the
rules. `--fresh` records again, `--record` records without judging.

`words` in the table says which words make a first finding right, and `ids` which rules do. They were written
from the `cause` texts of the table, before the product had judged any of these programs. The words name the
mistake, not its place or size, so a finding that says only where the time went is not right, unless the
mistake is that this work is there at all. A line is right if it lies in the statement that makes the mistake,
or in a function that the statement names; `beside` also counts the statements before and after it. A gain is
right if the predicted share of the step is within a quarter of the measured one, or if it is stated as a
bound and holds. `also` names rules that are right about the mended program, because it has a second cost
that was mended and measured, too. A program without a known mistake (`legitimate`) is judged right if nothing
above *info* is said of it, and its line if the verdict or the first finding names one that is marked
`# costliest`.

In the first set, `small-kernels` was added to the words of two programs afterwards: it is the name under
which the product says that there are many small operators.
"""

import argparse
import ast
import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import tomllib

HERE = Path(__file__).parent
CACHE = HERE.parents[1] / ".cache" / "unseen_programs"
COUNTS, INTERVAL = (1, 3, 5), 12
"""Numbers of captures that are judged, and the steps from one to the next."""


def train(folder: Path, name: str, mended: bool, directory: str, bare: bool) -> None:
    """Run a program under a run with a profiler hook, in this process."""
    import importlib

    import stepscope as ss

    sys.path.insert(0, str(folder))
    training = importlib.import_module(name).training(mended)
    hook = ss.ProfilerHook(save_steps=INTERVAL, analyse=False, sample_stacks=not bare)
    with ss.Run(directory, hooks=[hook]) as run:
        for step in run.steps(itertools.count()):
            run.scalar("loss", next(training))
            # A capture of short steps may begin late, while the one before is still written.
            if step > INTERVAL * (max(COUNTS) - 1) + 3 and len(captures(Path(directory))) >= max(COUNTS):
                break


def captures(directory: Path) -> list[Path]:
    """Return the profiles of a run, in the order in which they were captured."""
    found = {*directory.rglob("*.pt.trace.json.gz"), *directory.rglob("*.xplane.pb")}
    return sorted(found, key=lambda path: (path.stat().st_mtime, path))


def record(folder: Path, name: str, mended: bool, *, bare: bool, fresh: bool) -> Path:
    """Return the directory of a program's run, which is recorded unless a complete recording is there."""
    own = f"{name}-{'mended' if mended else 'slow'}{'-bare' if bare else ''}"
    directory = CACHE / folder.relative_to(HERE) / own
    if directory.exists() and not fresh:
        return directory
    begun = directory.with_name(f"{own}.begun")
    for path in (begun, directory):
        shutil.rmtree(path, ignore_errors=True)
    begun.mkdir(parents=True)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "KINETO_LOG_LEVEL": "99"}
    options = [str(folder), name, str(mended), str(begun), str(bare)]
    command = [sys.executable, __file__, "--train", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if len(captures(begun)) < max(COUNTS):
        raise SystemExit(f"{name}: {captures(begun)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    begun.rename(directory)
    return directory


@contextlib.contextmanager
def first(run: Path, count: int) -> Iterator[Path]:
    """Yield the profiles of a run as they were after some captures; one capture as a file."""
    paths = captures(run)
    if count == 1:
        yield paths[0]
        return
    later = [f"{path.name.partition('.')[0]}.*" for path in paths[count:]]
    with tempfile.TemporaryDirectory() as scratch:
        yield shutil.copytree(
            run / "profiles", Path(scratch, "profiles"), ignore=shutil.ignore_patterns(*later)
        )


def advice(path: Path) -> dict:
    """Return what ``stepscope advise PATH --profile --json`` answers, without starting a process."""
    from stepscope.cli.advise import advise_source
    from stepscope.cli.source import open_source

    return json.loads(json.dumps(advise_source(open_source(str(path), cache=False)).data))


def places(path: Path) -> tuple[set[int], set[int]]:
    """Return the lines of the mistake, and these with the statements before and after it."""
    tree = ast.parse(path.read_text())
    statements = [node for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    marked = [
        line
        for line, text in enumerate(path.read_text().splitlines(), 1)
        if text.endswith(("# cause", "# costliest"))
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
    place = finding.get("place", {})
    named = {place.get("line", 0)} if str(place.get("file", "")).endswith(file) else set()
    return named | {int(line) for line in re.findall(rf"{re.escape(file)}:(\d+)", json.dumps(finding))}


def worth_saying(said: dict) -> list[dict]:
    return [one for one in said["findings"] if one["severity"] != "info"]


def judge(folder: Path, program: dict, said: dict) -> dict:
    """Compare the first finding with what is known."""
    found = said["findings"]
    own, beside = places(folder / program["file"])
    if program.get("legitimate"):
        spoken = [{"verdict": said["verdict"]}, *found[:1]]
        named = set().union(*(named_lines(one, program["file"]) for one in spoken))
        alone = not worth_saying(said)
        first = " ".join([said["verdict"], *(f"{one['rule']}: {one['summary']}" for one in found[:1])])
        lines = {"line": alone and bool(named & own), "beside": alone and bool(named & beside)}
        return {"cause": alone, **lines, "gain": None, "first": first}
    if not found:
        return {"cause": False, "line": False, "beside": False, "gain": None, "first": said["verdict"]}
    first = found[0]
    text = " ".join([first["rule"], first["summary"], first["action"], *first["chain"]])
    right = first["rule"] in program.get("ids", [])
    cause = right or re.search(program["words"], text, re.IGNORECASE) is not None
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
    parser.add_argument("--record", action="store_true", help="record what is missing, and judge nothing")
    parser.add_argument("--bare", action="store_true", help="without stacks")
    parser.add_argument("--set", default=".", help="the folder with the programs and their table")
    parser.add_argument("--train", nargs=5, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.train:
        if hasattr(os, "sched_setaffinity"):  # The gains were measured on one processor.
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        folder, name, mended, directory, bare = chosen.train
        train(Path(folder), name, mended == "True", directory, bare == "True")
        return
    folder = HERE / chosen.set
    programs = tomllib.loads((folder / "programs.toml").read_text())["program"]
    programs = [one for one in programs if not chosen.names or one["name"] in chosen.names]
    show = functools.partial(print, flush=True)
    show(f"{'program':22} {'captures':9} cause line beside  predicted measured gain")
    sums: dict[tuple[int, str], dict[str, int]] = {}
    for program in programs:
        runs = {
            mended: record(folder, program["name"], mended, bare=chosen.bare, fresh=chosen.fresh)
            for mended in (False, True)
        }
        if chosen.record:
            continue
        kind = "without a mistake" if program.get("legitimate") else "with one"
        for count in COUNTS:
            with first(runs[False], count) as slow, first(runs[True], count) as mended:
                result = judge(folder, program, advice(slow))
                false = [
                    one for one in worth_saying(advice(mended)) if one["rule"] not in program.get("also", [])
                ]
            counted = {
                "programs": True, "cause": result["cause"], "line": result["line"],
                "beside": result["beside"], "gains": result["gain"] is not None,
                "gain": bool(result["gain"]), "accused": bool(false),
                "high": any(one["severity"] == "high" for one in false),
            }  # fmt: skip
            sum_ = sums.setdefault((count, kind), {})
            for key, value in counted.items():
                sum_[key] = sum_.get(key, 0) + int(value)
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
    for (count, kind), one in sorted(sums.items()):
        show(
            f"{count} capture(s), {one['programs']} programs {kind}: right {one['cause']}, its line "
            f"{one['line']} (or beside {one['beside']}), gain {one['gain']} of {one['gains']} named; "
            f"mended programs with a finding above info {one['accused']}, a high one {one['high']}"
        )


if __name__ == "__main__":
    main()
