"""Findings against planted causes: real programs, each recorded here and judged by ``stepscope advise``.

Each program has one cause planted, in a line that says so, or none. Counted are causes that are the first
finding, those whose line is named too, or at least a line of the loop that was planted, and findings of
programs in which nothing was planted, of all judgements.
Not here, as there is no accelerator: memory near the limit and waits of a device, which unit tests hold.
"""

from __future__ import annotations

import argparse
import ast
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import stepscope

PROGRAMS = Path(__file__).resolve().parent / "planted_programs"
RECALL, FALSE = 0.9, 0.02
"""Aims: least share of causes that are first, largest share of false findings among judgements."""


@dataclass(frozen=True)
class Case:
    """A program and the rules of which one must be its first finding; none if nothing was planted.

    Attributes:
        file: Its source, without the ending; begins with the framework.
        training: The function of the file that runs it.
        group: The set of programs that were written at one time.
    """

    file: str
    training: str
    group: str
    program: str
    rules: tuple[str, ...] = ()

    @property
    def framework(self) -> str:
        """The framework that it trains with."""
        return self.file.partition("_")[0]

    @property
    def path(self) -> Path:
        """Its source."""
        return PROGRAMS / f"{self.file}.py"


def read_cases() -> tuple[Case, ...]:
    """Return the programs of the table beside them."""
    cases, place = [], ("", "", "")
    text = (PROGRAMS / "programs.txt").read_text().replace("\n  ", " ")
    for line in text.splitlines():
        if line.startswith("["):
            file, training, group = line.strip("[]").split()
            place = file, training, group
        elif line and not line.startswith("#"):
            rules, _, programs = line.partition(": ")
            planted = () if rules == "none" else tuple(rules.split("/"))
            cases += [Case(*place, program, planted) for program in programs.split()]
    return tuple(cases)


CASES = read_cases()


@functools.cache
def source(path: Path) -> tuple[str, ast.Module]:
    """Return a file's text and its tree."""
    text = path.read_text()
    return text, ast.parse(text)


def planted_lines(case: Case) -> tuple[str, range]:
    """Return the innermost function around the statement that says it was planted, and its lines."""
    text, tree = source(case.path)
    mark = re.compile(rf"# PLANTED {case.program}\b")
    line = next((n for n, each in enumerate(text.splitlines(), 1) if mark.search(each)), 0)
    around = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    statements = [
        node for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0)
    ]  # fmt: skip
    if not around:
        return "", range(0)
    innermost = max(statements, key=lambda node: node.lineno)
    return max(around, key=lambda node: node.lineno).name, range(
        innermost.lineno, (innermost.end_lineno or 0) + 1
    )


def planted_loop(case: Case) -> range:
    """Return the lines of the innermost loop around the planted statement, its own where none is around it.

    A loop over the training's steps is not part of what is planted, and neither is one around the function.
    """
    tree = source(case.path)[1]
    function, lines = planted_lines(case)
    inside = [
        loop
        for each in ast.walk(tree)
        if isinstance(each, ast.FunctionDef) and each.name == function
        for loop in ast.walk(each)
        if isinstance(loop, ast.For | ast.While)
        and loop.lineno <= lines.start < lines.stop <= (loop.end_lineno or 0) + 1
        and "run.step" not in ast.unparse(loop)
    ]
    if not inside:
        return lines
    innermost = max(inside, key=lambda loop: loop.lineno)
    return range(innermost.lineno, (innermost.end_lineno or 0) + 1)


def named_lines(finding: dict, case: Case) -> set[int]:
    """Return the lines of a program that a finding names: the first, and those listed with their times."""
    place, listed = finding["place"], finding["evidence"].get("lines", ())
    named = {place.get("line", 0)} if place.get("file", "").endswith(case.path.name) else set()
    for one in listed:
        file, _, rest = one["name"].partition(":")
        named |= {int(rest.split()[0])} if file.endswith(case.path.name) else set()
    return named


def interpreter(framework: str) -> str:
    """Return the Python that runs a framework's programs, empty where there is none here.

    TensorFlow has an environment of its own, as in the Makefile; ``TFVENV`` says where it lies.
    """
    if framework != "tensorflow":
        return sys.executable
    root = Path(__file__).resolve().parents[1]
    found = Path(os.environ.get("TFVENV", root / ".venv-tensorflow")) / "bin" / "python"
    return str(found) if found.exists() else ""


def recorded(case: Case, directory: Path) -> Path:
    """Run a program and return its profile, of several ranks the directory of their profiles."""
    if not (found := profiles(directory)):
        directory.mkdir(parents=True, exist_ok=True)
        found = _run(case, directory)
    return found[0] if len(found) == 1 else found[0].parent


def profiles(directory: Path) -> list[Path]:
    """Return the profiles in the directory of a run."""
    return [
        path
        for pattern in ("*.pt.trace.json.gz", "*.xplane.pb")
        for path in (directory / "profiles").rglob(pattern)
    ]


def _run(case: Case, directory: Path) -> list[Path]:
    command = [interpreter(case.framework), str(case.path), case.training, case.program, str(directory)]
    environment = {
        **os.environ, "KERAS_BACKEND": "jax", "KINETO_LOG_LEVEL": "99", "JAX_PLATFORMS": "cpu",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }  # fmt: skip
    if case.framework == "tensorflow":
        environment["PYTHONPATH"] = str(Path(stepscope.__file__).parents[1])
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
    if not (found := profiles(directory)):
        raise SystemExit(
            f"{case.framework} {case.program} left no profile:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return found


def advice(profile: Path) -> dict:
    """Return what ``stepscope advise`` says."""
    command = [sys.executable, "-m", "stepscope", "advise", str(profile), "--profile", "--json", "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return json.loads(done.stdout)


def commands_run(findings: list[dict]) -> bool:
    """Run what each finding prints as its command, as it stands; tell those that fail."""
    failed = [one for one in {finding["command"] for finding in findings} if not _runs(one)]
    for command in failed:
        print(f"does not run: {command}", flush=True)
    return not failed


def _runs(command: str) -> bool:
    words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, timeout=300, check=False
    )
    return words[0] == "stepscope" and done.returncode == 0 and bool(done.stdout.strip())


def main() -> int:
    """Run all programs, or those named, print the table, and say whether the aims are met.

    ``--keep DIRECTORY`` keeps what was recorded, and judges again what is kept there already.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wanted", nargs="*", help="FRAMEWORK/PROGRAM, or the name of a set")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--record", action="store_true", help="record alone, judge nothing")
    arguments = parser.parse_args()
    wanted = set(arguments.wanted)
    chosen = [case for case in CASES if not wanted or f"{case.framework}/{case.program}" in wanted]
    chosen += [case for case in CASES if case.group in wanted]
    cases = [case for case in chosen if interpreter(case.framework)]
    if len(cases) < len(chosen):
        print(f"{len(chosen) - len(cases)} programs left out: no environment with TensorFlow (TFVENV)")
    first = lines = loops = listed = planted = false = judged = failed = 0
    print(f"{'program':<28}{'planted':<20}{'first finding':<20}{'gain':>7}  line")
    for case in cases:
        with tempfile.TemporaryDirectory() as directory:
            kept = arguments.keep and arguments.keep / f"{case.framework}-{case.group}-{case.program}"
            profile = recorded(case, kept or Path(directory))
            if arguments.record:
                print(profile, flush=True)
                continue
            said = advice(profile)
            failed += not commands_run(said["findings"])
        findings = [
            one for one in said["findings"] if one["gain_ratio"] is not None or one["severity"] != "info"
        ]
        top = findings[0] if findings else None
        function, wanted_lines = planted_lines(case)
        place = top["place"] if top else {}
        named = place.get("function", "")
        if case.rules:
            planted += 1
            hit = top is not None and top["rule"] in case.rules
            first += hit
            lines += hit and (not function or place.get("line") in wanted_lines)
            loops += hit and (not function or place.get("line") in planted_loop(case))
            listed += hit and (not function or bool(named_lines(top, case).intersection(wanted_lines)))
        else:
            judged += len(said["judged"])
            false += len(findings)
        shown = f"{place['file']}:{place['line']} {named}" if "file" in place else "-"
        gain = f"{top['gain_ratio']:.0%}" if top and top["gain_ratio"] is not None else ""
        what = (
            ", ".join(one["rule"] for one in findings) if not case.rules else (top["rule"] if top else "none")
        )
        print(
            f"{case.framework + ' ' + case.program:<28}{'/'.join(case.rules) or 'nothing':<20}"
            f"{what or 'none':<20}"
            f"{gain:>7}  {shown}"
            + (f" (planted in {function}, line {wanted_lines.start})" if function else ""),
            flush=True,
        )
    print(f"cause first: {first} of {planted}; with its line: {lines} of {planted}; in its loop: {loops}")
    print(f"the line first or among those that the finding lists: {listed} of {planted}")
    print(f"programs with a printed command that does not run: {failed} of {len(cases)}")
    print(f"false findings: {false} of {judged} judgements on programs in which nothing was planted")
    bad = (planted and lines < RECALL * planted) or (judged and false > FALSE * judged)
    return int(bool(bad or failed))


if __name__ == "__main__":
    sys.exit(main())
