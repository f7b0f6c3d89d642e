"""The checks for a machine with a GPU: what decides a claim, how a run goes on, and the table of claims."""

import json
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.modules import load

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from gpu.checks import CHECKS, Check
from gpu.claims import Claim, judged

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def runner():
    path = list(sys.path)
    module = load(ROOT / "benchmarks" / "gpu" / "__main__.py", "gpu_runner")
    sys.path[:] = path
    return module


@pytest.mark.parametrize(
    ("least", "most", "value", "held"),
    [
        (None, 1.01, 1.01, True),
        (None, 1.01, 1.011, False),
        (0.998, None, 0.998, True),
        (0.998, None, 0.9979, False),
        (0.6, 1.0, 0.8, True),
        (0.6, 1.0, 1.2, False),
        (None, 0, 0, True),
        (None, 0, float("nan"), False),
        (None, 1.0, None, None),
    ],
)
def test_a_figure_decides_its_claim(least, most, value, held):
    claim = Claim("It holds.", "ratio", least, most)
    figures = {} if value is None else {"ratio": value}
    assert claim.holds(figures) is held
    assert judged([claim], figures, on_gpu=True)[0]["held"] is held


def test_without_a_gpu_no_claim_is_decided():
    claims = [Claim("It holds.", "ratio", most=1.0)]
    assert [one["held"] for one in judged(claims, {"ratio": 9.0}, on_gpu=False)] == [None]


def test_a_check_that_ended_is_not_measured_again(runner, tmp_path, monkeypatch, capsys):
    asked = []

    def of_process(name, kind, out, secs):
        asked.append(name)
        status = "failed" if name == "two" else "measured"
        return {"check": name, "device": kind, "status": status, "seconds": 1.0}

    monkeypatch.setattr(runner, "CHECKS", {name: Check("", 10) for name in ("one", "two", "three")})
    monkeypatch.setattr(runner, "of_process", of_process)
    chosen = SimpleNamespace(out=tmp_path, only=None, again=False, secs=60.0)
    assert runner.run_all(chosen, "cpu")
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"check": "three", "cut off')
    assert runner.run_all(chosen, "cpu")
    assert asked == ["one", "two", "three", "two"]
    assert runner.run_all(chosen, "cuda")  # what the processor measured says nothing about a GPU
    assert asked[4:] == ["one", "two", "three"]
    assert "two: failed" in capsys.readouterr().out


def test_a_claim_that_does_not_hold_fails_the_run(runner, capsys):
    line = {"check": "one", "status": "measured", "figures": {"ratio": 2.0}}
    for held, bad in ((True, False), (None, False), (False, True)):
        claims = [{"claim": "It holds.", "limit": "ratio <= 1", "held": held}]
        assert runner.shown(line | {"claims": claims}) is bad
    assert "DOES NOT HOLD: It holds." in capsys.readouterr().out


def test_a_check_without_an_end_is_ended_and_named(runner, tmp_path):
    assert runner.of_process("scalars", "cpu", tmp_path, 0.5)["status"] == "no time"


def test_a_check_that_raises_is_a_line_with_its_reason(runner, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "HERE", ROOT / "benchmarks" / "nowhere")
    line = runner.of_process("scalars", "cpu", tmp_path, 30.0)
    assert line["status"] == "failed"
    assert "nowhere" in line["reason"]


def test_the_archive_holds_the_lines_first_and_says_what_is_left_out(runner, tmp_path, monkeypatch, capsys):
    (tmp_path / "results.jsonl").write_text("{}\n")
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "small").write_bytes(b"0" * 100)
    (tmp_path / "one" / "large").write_bytes(b"0" * (4 << 20))
    monkeypatch.setattr(runner, "ARCHIVE_BYTES", 3 << 20)
    runner.pack(tmp_path)
    with tarfile.open(tmp_path / "results.tar.gz") as archive:
        assert archive.getnames() == ["results.jsonl", "one/small"]
    assert "left out, as the archive would exceed 16 MiB: one/large" in capsys.readouterr().out


def test_the_documentation_holds_the_table_of_claims(runner):
    pytest.importorskip("torch")
    printed = runner.table(runner.lines_of(runner.KEPT))
    page = (ROOT / "docs" / "design" / "gpu.md").read_text().splitlines()
    assert [line for line in page if line.startswith("|")] == printed


def test_a_figure_of_a_gpu_replaces_the_words_never_measured(runner):
    pytest.importorskip("torch")
    claim = next(iter(runner.claims_of("scalars")))
    line = {"check": "scalars", "card": "NVIDIA H100", "claims": [
        {"claim": claim.text, "limit": claim.limit, "figure": 0, "held": True}]}  # fmt: skip
    rows = runner.table([json.loads(json.dumps(line))])
    assert f"| `scalars` | {claim.text} | `{claim.limit}` | holds: 0 (NVIDIA H100) |" in rows
    assert sum("never measured" in row for row in rows) == sum(
        len(runner.claims_of(name)) for name in CHECKS
    ) - 1  # fmt: skip


def test_all_checks_fit_into_the_time_of_a_run(runner):
    # The budgets are upper bounds; together they may exceed the whole by what ends early.
    assert max(check.secs for check in CHECKS.values()) <= runner.WHOLE_SECS / 4
    assert sum(check.secs for check in CHECKS.values()) <= 1.35 * runner.WHOLE_SECS


def test_a_stage_of_the_device_ends_with_the_last_kernel_that_it_launched(tmp_path):
    pytest.importorskip("torch")
    from gpu.check_stages import of_profiler

    events = []
    for at in (0.0, 200.0, 400.0):
        for name, launched, ends in (("forward", 10, 70), ("backward", 20, 150), ("optimizer", 30, 170)):
            number = len(events)
            begin = at + launched
            events += [
                {"ph": "X", "cat": "user_annotation", "name": f"stage:{name}", "ts": begin, "dur": 8},
                {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": begin + 1, "dur": 1,
                 "args": {"correlation": number}},
                {"ph": "X", "cat": "kernel", "name": "gemm", "ts": at + ends - 5, "dur": 5,
                 "args": {"correlation": number}},
            ]  # fmt: skip
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"traceEvents": events}))
    found = of_profiler(path, on_gpu=True)
    assert found == pytest.approx({"forward": 0.100, "backward": 0.080, "optimizer": 0.020})
    assert of_profiler(path, on_gpu=False) == pytest.approx(dict.fromkeys(found, 0.008))


def test_what_nvidia_smi_prints_is_read_in_our_units(monkeypatch):
    pytest.importorskip("torch")
    from gpu import check_system

    printed = SimpleNamespace(stdout="2048, 350.25, 51, 1980\n")
    monkeypatch.setattr(check_system.subprocess, "run", lambda *_, **__: printed)
    assert check_system.nvidia_smi() == {
        "memory_used_bytes": 2.0 * (1 << 30), "power_watts": 350.25, "temperature_celsius": 51.0,
        "clock_mhz": 1980.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("predicted", "source", "gain", "held"),
    [
        (0.5, "replay", 0.45, True),
        (0.5, "replay", 0.2, False),
        (0.5, "bound", 0.2, True),
        (0.1, "bound", 0.2, False),
        (None, "bound", 0.2, None),
        (0.5, "replay", -0.1, None),
    ],
)
def test_a_predicted_gain_is_near_the_measured_one_or_a_bound_that_holds(predicted, source, gain, held):
    pytest.importorskip("torch")
    from gpu.planted import holds

    assert holds({"gain_ratio": predicted, "gain_from": source}, gain) is held
