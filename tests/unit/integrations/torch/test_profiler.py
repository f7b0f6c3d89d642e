"""Captures of PyTorch as the reader of Kineto traces sees them."""

import json
import subprocess
import sys
import time
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import stepscope as ss
from stepscope.analyze.advise import gradients
from stepscope.analyze.breakdown import breakdown
from stepscope.analyze.views import view
from stepscope.capture.backend import SAME_INPUTS, CaptureOptions
from stepscope.errors import CaptureError
from stepscope.integrations.torch import profiler
from stepscope.integrations.torch.modules import ModuleScopes, label_of
from stepscope.integrations.torch.profiler import TorchProfiler
from stepscope.trace.model import Kind
from stepscope.trace.sampled import load_samples

pytestmark = pytest.mark.filterwarnings("ignore:.*Profiler clears events.*")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.inner(x))


def model_of():
    torch.manual_seed(0)
    return nn.Sequential(Block(), nn.ModuleDict({"head": nn.Linear(8, 2)})["head"])


def step_of(model):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step():
        optimizer.zero_grad()
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()

    return step


def capture(path, step, *, steps=2, backend=None, **wanted):
    backend = backend or TorchProfiler()
    backend.start(CaptureOptions(**wanted))
    for number in range(3, 3 + steps):
        with backend.mark(number):
            step()
    path.touch()
    return backend.stop()(path)


@pytest.fixture
def trace_of(tmp_path):
    def make(step, **options):
        exported = capture(tmp_path / "a.pt.trace.json.gz", step, **options)
        return ss.load_trace(exported.path, cache=False), exported

    return make


def test_steps_modules_and_both_passes_are_recorded(trace_of):
    trace, exported = trace_of(step_of(model_of()))
    assert trace.steps.number.tolist() == [3, 4]
    scopes = {trace.scopes.text(int(number)) for number in set(trace.scope.tolist()) - {-1}}
    inner = next(text for text in scopes if text.endswith("inner"))
    assert [part.removeprefix("nn.Module: ") for part in inner.split("/") if "nn.Module" in part] == [
        "Sequential", "0", "inner",
    ]  # fmt: skip
    backward = [
        row for row in trace.named("AddmmBackward0") if trace.scopes.text(int(trace.scope[row])) == inner
    ]
    assert len(backward) == 2, "one in each step has the scope of its forward operator"
    assert exported.notes == []


def test_the_scope_view_shows_the_modules(trace_of):
    trace, _ = trace_of(step_of(model_of()))
    shown = [line.name for line in view("scope", trace).lines]
    assert any(name.endswith("nn.Module: inner") for name in shown)


def test_the_wait_for_data_is_part_of_the_step(tmp_path):
    def slow():
        for _ in range(9):
            time.sleep(0.02)
            yield torch.ones(4, 8)

    model = model_of()
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="torch")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for batch in run.steps(slow()):
            model(batch).sum().backward()
    (path,) = tmp_path.rglob("*.pt.trace.json.gz")
    trace = ss.load_trace(path, cache=False)
    rows = np.flatnonzero(trace.kind == Kind.DATA_LOADING)
    assert trace.step[rows].tolist() == [5, 6]
    assert (trace.duration_ns[rows] >= 20_000_000).all()
    assert breakdown(trace).ratio("data_loading") >= 0.2


@pytest.mark.slow
def test_a_recording_does_not_import_the_compiler(tmp_path):
    """PyTorch's own start asks the compiler for a setting, and importing it takes seconds of training."""
    program = f"""
import sys, pathlib, torch
from stepscope.capture.backend import SAME_INPUTS, CaptureOptions
from stepscope.integrations.torch.profiler import TorchProfiler
backend, path = TorchProfiler(), pathlib.Path({str(tmp_path / "a.json.gz")!r})
backend.start(CaptureOptions())
with backend.mark(1):
    torch.ones(4) + 1
path.touch()
backend.stop()(path)
assert "torch._inductor" not in sys.modules
import torch._inductor
backend.start(CaptureOptions())
backend.stop()(path)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_hooks_exist_only_while_capturing(tmp_path):
    from torch.nn.modules import module as modules

    before = dict(modules._global_forward_pre_hooks), dict(modules._global_forward_hooks)
    filters = list(warnings.filters)
    backend = TorchProfiler()
    backend.start(CaptureOptions())
    assert len(modules._global_forward_pre_hooks) == len(before[0]) + 1
    export = backend.stop()
    assert (dict(modules._global_forward_pre_hooks), dict(modules._global_forward_hooks)) == before
    assert list(warnings.filters) == filters
    path = tmp_path / "a.json.gz"
    path.touch()
    export(path)


def test_without_modules_there_are_no_scopes(trace_of):
    trace, _ = trace_of(step_of(model_of()), modules=False)
    assert not (trace.kind == Kind.MODULE_SCOPE).any()


def test_a_module_that_raises_closes_its_scope():
    class Bad(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    scopes = ModuleScopes()
    scopes.open()
    try:
        with pytest.raises(ValueError, match="no"):
            Bad()(1)
        assert scopes._local.stack == []
    finally:
        scopes.close()


def called_again(call, model, x, y):
    if call == "the same":
        model(x)
    elif call == "without gradients":
        with torch.no_grad():
            model(x)
    elif call == "in backward":
        checkpoint(model, x, use_reentrant=False).sum().backward()
    elif call == "other inputs":
        model(y)
    elif call == "changed inputs":
        model(x.add_(1))
    elif call == "changed weights":
        torch.optim.SGD(model.parameters(), 0.1).step()
        model(x)
    elif call == "another mode":
        model.eval()(x)
    elif call == "by name":
        model(input=x)
    elif call == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            model(x)


@pytest.mark.parametrize(
    ("call", "marks"),
    {
        "the same": 1, "without gradients": 1, "in backward": 1, "other inputs": 0, "changed inputs": 0,
        "changed weights": 0, "another mode": 0, "by name": 0, "autocast": 0,
    }.items(),
)  # fmt: skip
def test_a_model_that_is_given_the_same_again_is_marked(trace_of, call, marks):
    model = model_of().train()

    def step():
        x, y = torch.ones(4, 8), torch.ones(4, 8)
        model(x).sum().backward()
        called_again(call, model, x, y)

    trace, _ = trace_of(step, steps=1)
    assert gradients._SAME_INPUTS.fullmatch(SAME_INPUTS)
    rows = trace.named(SAME_INPUTS)
    assert len(rows) == marks
    assert {trace.name_of(int(trace.parent[row])) for row in rows} <= {"nn.Module: Sequential"}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_the_type_of_most_parameters_is_kept_with_the_samples(tmp_path, dtype):
    model = model_of().to(dtype)
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, skip_first=0, analyse=False, backend="torch")
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for _ in run.steps(range(4)):
            model(torch.ones(4, 8, dtype=dtype)).sum().backward()
    (path,) = tmp_path.rglob("*.pt.trace.json.gz")
    (samples,) = load_samples(ss.load_trace(path, cache=False)).values()
    assert f"torch.{samples.settings['torch.model_dtype']}" == str(dtype)


def test_inputs_of_calls_are_not_kept():
    scopes, x = ModuleScopes(), torch.ones(4, 8)
    gone = weakref.ref(x)
    scopes.open()
    try:
        model_of()(x)
    finally:
        scopes.close()
    del x
    assert gone() is None


def test_wrappers_have_no_scope_of_their_own(trace_of):
    class DistributedDataParallel(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            return self.module(x)

    trace, _ = trace_of(step_of(DistributedDataParallel(model_of())))
    names = {trace.name_of(int(row)) for row in (trace.kind == Kind.MODULE_SCOPE).nonzero()[0]}
    assert names == {"nn.Module: Sequential", "nn.Module: 0", "nn.Module: inner", "nn.Module: 1"}


@pytest.mark.parametrize(
    ("name", "outer", "label"),
    [
        ("", "", "Linear"),
        ("module", "", "Linear"),
        ("layers.0.attention", "layers.0", "attention"),
        ("module.layers.0", "module", "layers.0"),
        ("_orig_mod.head", "", "head"),
        ("shared", "layers.0", "shared"),
    ],
)
def test_a_scope_is_named_inside_the_one_around_it(name, outer, label):
    assert label_of(nn.Linear(1, 1), name, outer) == label


def test_a_compiled_model_is_not_compiled_anew_and_nobody_is_warned():
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()
    compiled = torch.compile(model_of(), backend=counter)
    data = torch.ones(4, 8)
    compiled(data)
    scopes = ModuleScopes()
    scopes.open()
    compiled(data)
    scopes.close()
    compiled(data)
    assert counter.frame_count == 1


def test_what_is_compiled_while_scopes_are_open_is_compiled_as_without_them():
    """Tracing our own hooks would break the graph at each module, and compile a piece for each."""
    from torch._dynamo.testing import CompileCounter

    counter, model, scopes = CompileCounter(), model_of(), ModuleScopes()

    @torch.compile(backend=counter, dynamic=False, fullgraph=True)
    def step(data):
        return model(data).sum()

    scopes.open()
    try:
        step(torch.ones(4, 8))
        step(torch.ones(5, 8))
    finally:
        scopes.close()
    assert counter.frame_count == 2


def test_memory_is_recorded_by_module(trace_of):
    from stepscope.analyze.memory import memory

    trace, _ = trace_of(step_of(model_of()), show_memory=True)
    (host,) = memory(trace)
    assert {step.step for step in host.steps} == {3, 4}
    assert host.peak.by_scope


def test_shapes_and_stacks_are_recorded_when_asked(trace_of):
    trace, _ = trace_of(step_of(model_of()), record_shapes=True, with_stack=True)
    assert {"shapes", "stacks"} <= trace.recorded


def test_warm_up_steps_are_not_in_the_profile(tmp_path):
    backend, step = TorchProfiler(), step_of(model_of())
    backend.start(CaptureOptions(warmup_steps=1))
    step()
    with backend.mark(9):
        step()
    path = tmp_path / "a.json.gz"
    path.touch()
    trace = ss.load_trace(backend.stop()(path).path, cache=False)
    assert trace.steps.number.tolist() == [9]
    assert len(trace.named("aten::addmm")) == 2


def test_a_warm_up_without_a_step_can_be_ended(tmp_path):
    backend = TorchProfiler()
    backend.start(CaptureOptions(warmup_steps=1))
    path = tmp_path / "a.json.gz"
    path.touch()
    backend.stop()(path)
    capture(tmp_path / "b.json.gz", step_of(model_of()))


def test_the_rank_stands_in_the_file_where_no_process_group_tells_it(tmp_path):
    path = capture(tmp_path / "a.json.gz", step_of(model_of()), rank=3, world_size=4).path
    trace = ss.load_trace(path, cache=False)
    assert (list(trace.ranks), trace.sources[0].world_size) == ([3], 4)


def test_another_profiler_is_left_alone(trace_of):
    theirs = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with theirs, pytest.raises(CaptureError, match="another profiler is already active"):
        TorchProfiler().start(CaptureOptions())
    assert trace_of(step_of(model_of()))[0].steps.number.tolist() == [3, 4]


def test_a_profiler_that_the_user_starts_in_between_works_and_the_reason_is_said(tmp_path):
    backend, step = TorchProfiler(), step_of(model_of())
    backend.start(CaptureOptions())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as theirs:
        step()
    assert any(event.key == "aten::addmm" for event in theirs.key_averages())
    path = tmp_path / "a.json.gz"
    path.touch()
    with pytest.raises(CaptureError, match="ended by another profiler"):
        backend.stop()(path)
    assert len(capture(tmp_path / "b.json.gz", step).path.read_bytes()) > 1000, "the next capture works"


def test_a_device_whose_counters_may_not_be_read_is_said(tmp_path, monkeypatch):
    """The driver refuses, Kineto goes on without, and the file has no kernel."""
    backend = TorchProfiler()
    monkeypatch.setattr(profiler, "synchronize", lambda: None)
    backend.start(CaptureOptions())
    monkeypatch.setattr(profiler, "cuda_in_use", lambda: True)
    path = tmp_path / "a.pt.trace.json.gz"
    path.touch()
    (note,) = backend.stop()(path).notes
    assert "NVreg_RestrictProfilingToAdminUsers" in note


def test_a_text_is_found_across_pieces(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"x" * ((1 << 20) - 4) + b'"kernel"' + b"x")
    assert profiler.contains(path, b'"kernel"')
    assert not profiler.contains(path, b'"kernels"')


@pytest.mark.slow
def test_tensorboard_finds_the_rank_and_the_step_in_the_name(tmp_path):
    """As a user has it, in a separate process: a run of 20 steps, analysed at once."""
    program = f"""
import torch, stepscope as ss
model = torch.nn.Linear(8, 8)
with ss.Run({str(tmp_path)!r}, hooks=[ss.ProfilerHook(save_steps=500)]) as run:
    for _ in run.steps(range(20)):
        model(torch.ones(4, 8)).sum().backward()
run_problems = run.problems
assert not run_problems, run_problems
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads((tmp_path / "profiles" / "chief_rank0_step00000005.profile.json").read_text())
    assert facts["path"] == "profiles/chief_rank0_step00000005.pt.trace.json.gz"
    assert facts["steps"] == [5, 6, 7]


def test_evaluation_between_training_steps_is_captured_by_the_hook_of_its_run(tmp_path):
    model = model_of()
    step = step_of(model)

    def evaluate(run):
        with torch.no_grad():
            for _ in run.steps(range(8)):
                model(torch.ones(4, 8))

    def hook(**options):
        return ss.ProfilerHook(save_steps=10_000, num_steps=2, analyse=False, **options)

    with (
        ss.Run(tmp_path, hooks=[hook()]) as training,
        ss.Run(tmp_path, role="evaluator", hooks=[hook(skip_first=2)]) as evaluation,
    ):
        for _ in range(400):
            for _ in training.steps(range(8)):
                step()
            evaluate(evaluation)
            if list(tmp_path.rglob("evaluator*.profile.json")):
                break
            time.sleep(0.02)
    assert training.problems == evaluation.problems == {}
    found = {path.name: path for path in tmp_path.rglob("*.pt.trace.json.gz")}
    assert {name.partition("_step")[0] for name in found} == {"chief_rank0", "evaluator_rank0"}
    trained = found["chief_rank0_step00000005.pt.trace.json.gz"]
    evaluated = next(path for name, path in found.items() if name.startswith("evaluator_"))
    backward = [
        any("Backward" in name for name in ss.load_trace(path, cache=False).strings.texts())
        for path in (trained, evaluated)
    ]
    assert backward == [True, False]
    pointers = [json.loads(path.read_text()) for path in tmp_path.rglob("evaluator*.profile.json")]
    assert {(each["role"], each["failure"]) for each in pointers} == {("evaluator", None)}
