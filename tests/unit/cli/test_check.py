"""``stepscope check``: exit codes, files for CI, and the action and the job that call it."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import stepscope as ss
from stepscope.cli import main
from stepscope.cli.check import junit_of, write_markdown
from stepscope.serve.check import Check

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs whose losses end alike in old and new, and higher in worse."""
    place = tmp_path_factory.mktemp("check")
    for side, loss in (("old", 0.3), ("new", 0.3), ("worse", 0.4)):
        for number in range(5):
            with ss.Run(place / side / f"{side}-{number}") as run:
                for step in range(10):
                    run.scalar("eval/loss", loss + number / 1000 if step > 4 else 1.0, step)
    return place


METRIC = ["--only", "metric"]


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["old", "new", *METRIC], 0, "passed: 1 check passed\npassed       metric      eval/loss: 0.302"),
        (["old", "worse", *METRIC], 3, "failed: 1 check failed\nfailed       metric      eval/loss: 0.302"),
        (["old/old-0", "worse/worse-0", *METRIC], 6, "needs 5 runs of each side"),
        (["run:old/*", "run:new/*", *METRIC], 0, "passed: 1 check passed"),
        (["run:old/*", "run:worse/*", *METRIC], 3, "failed: 1 check failed"),
        (["run:old/*", "loss>0.39", *METRIC], 3, "failed: 1 check failed"),
        (["run:old/*", "run:worse/worse-0", "--logs", ".", *METRIC], 6, "needs"),
        (["run:nothing/*", "new", *METRIC], 1, "no run of . matches it"),
        (["old", "new", "--expect", "last(eval/loss) < 0.4"], 0, "last(eval/loss) < 0.4 holds"),
        (["old", "new", "--expect", "last(eval/loss) < 0.302"], 3, "does not hold"),
        (["old", "new", "--expect", "last(eval/los) < 1"], 6, "did you mean"),
        (["old", "new", "--only", "memory"], 6, "needs add ss.SystemHook()"),
        (["old"], 1, "check compares two sides, 1 given"),
        (["old", "new", "old"], 1, "check compares two sides, 3 given"),
        (["old", "nowhere"], 1, "'nowhere' is no path, and no run of . matches it"),
        (["old", "new", "--expect", "eval/loss"], 1, "a number is not a condition"),
        (["old", "new", "--metric", "eval/los"], 6, "recorded none"),
    ],
)
def test_the_exit_code_says_it(words, code, told, logs, monkeypatch, capsys) -> None:
    monkeypatch.chdir(logs)
    extra = METRIC if "--metric" in words else []
    assert main(["check", *words, *extra, "--no-cache"]) == code
    shown = capsys.readouterr()
    assert told in shown.out + shown.err


def test_files_for_ci_say_the_same(logs, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.chdir(logs)
    words = ["check", "old", "worse", *METRIC, "--no-cache", "--json"]
    files = ["--junit", str(tmp_path / "junit.xml"), "--markdown", str(tmp_path / "check.md")]
    assert main([*words, *files]) == 3
    found = json.loads(capsys.readouterr().out)
    assert found["result"] == "failed"
    [check] = found["checks"]
    assert check["before"] == pytest.approx([0.3, 0.301, 0.302, 0.303, 0.304])
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    assert suite[0][0].get("message") == check["text"]
    text = (tmp_path / "check.md").read_text()
    assert "| failed | metric | eval/loss: 0.302 before, 0.402 after" in text
    [picture] = re.findall(r"!\[metric eval/loss\]\((.*)\)", text)
    assert (tmp_path / picture).read_bytes().startswith(b"\x89PNG")


def test_files_for_ci_stay_whole_whatever_a_run_is_called(tmp_path) -> None:
    name = "loss\x1b[31m\x00\uffff\r\n| x |\u202e<img>"
    checks = [
        Check("expect", name, status, f"{name} is worse", f"needs {name}")
        for status in ("failed", "cannot tell", "passed")
    ]
    cases = ElementTree.fromstring(junit_of(checks)).findall("testsuite/testcase")
    assert [[each.tag for each in case] for case in cases] == [["failure"], ["skipped"], ["system-out"]]
    write_markdown(checks, tmp_path / "check.md")
    rows = [line for line in (tmp_path / "check.md").read_text().split("\n") if line.startswith("| ")]
    assert len(rows) == 4
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 4 for row in rows)


def test_a_baseline_is_kept_in_a_file_unless_a_check_failed(logs, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(logs)
    base, next_base = tmp_path / "base.json", tmp_path / "next.json"
    assert main(["check", "old", "--save-baseline", str(base)]) == 0
    assert base.stat().st_size < 5000
    assert main(["check", str(base), "worse", *METRIC, "--save-baseline", str(next_base)]) == 3
    assert not next_base.exists()
    assert main(["check", str(base), "new", *METRIC, "--save-baseline", str(next_base)]) == 0
    assert main(["check", str(next_base), "worse", *METRIC]) == 3


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """In which ``stepscope`` is this checkout's."""
    program = tmp_path / "bin" / "stepscope"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m stepscope "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "BASELINE": "old"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "arguments", "cannot_tell", "code", "result"),
    [
        ("new", "--only metric --expect 'last(eval/loss) < 0.4'", "pass", 0, "passed"),
        ("worse", "--only metric", "pass", 3, "failed"),
        ("new", "--only memory", "pass", 0, "cannot tell"),
        ("new", "--only memory", "fail", 6, "cannot tell"),
        ("nowhere", "", "pass", 1, ""),
        ("new", "--only '$(touch harmed)'", "pass", 2, ""),
    ],
)
def test_the_action_runs(
    candidate, arguments, cannot_tell, code, result, logs, environment, tmp_path
) -> None:
    action = yaml.safe_load((ROOT / "ci/github/action.yml").read_text())
    assert set(action) == {"name", "description", "inputs", "outputs", "runs"}
    [step] = [each for each in action["runs"]["steps"] if each.get("id") == "check"]
    values = {"candidate": candidate, "arguments": arguments, "cannot-tell": cannot_tell, "baseline": "old"}
    given = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
        for name, text in step["env"].items()
    }
    output, summary = tmp_path / "output", tmp_path / "summary"
    output.touch()
    files = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(summary)}
    shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
    done = subprocess.run(shell, cwd=logs, env={**environment, **files, **given}, check=False)
    assert done.returncode == code
    assert output.read_text() == (f"result={result}\n" if result else "")
    assert not (logs / "harmed").exists()
    if result:
        assert summary.read_text().startswith(f"### stepscope check: {result}")
    uses = [each["uses"] for each in action["runs"]["steps"] if "uses" in each]
    assert uses == ["actions/upload-artifact@v4"]
    assert set(re.findall(r"inputs\.([\w-]+)", json.dumps(action["runs"]))) == set(action["inputs"])


@pytest.mark.slow
@pytest.mark.parametrize(("candidate", "code"), [("new", 0), ("worse", 3)])
def test_the_job_runs(candidate, code, logs, environment) -> None:
    about, jobs = yaml.safe_load_all((ROOT / "ci/gitlab/check.yml").read_text())
    [job] = jobs.values()
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", json.dumps(job))) == set(about["spec"]["inputs"])
    assert job["allow_failure"]["exit_codes"] == 6
    script = "\n".join(job["script"]).replace("$[[ inputs.arguments ]]", "--only metric")
    given = {"CANDIDATE": candidate, "VERSION": ""}
    done = subprocess.run(["sh", "-ec", script], cwd=logs, env={**environment, **given}, check=False)
    assert done.returncode == code
    assert (logs / job["artifacts"]["reports"]["junit"]).exists()
