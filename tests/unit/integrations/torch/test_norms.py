"""The norm of every step, read beside the optimizer's step."""

import contextlib
import os
import threading

import pytest
import torch
from support.waiting import until
from torch import nn

import stepscope as ss
from stepscope.events import EventFile
from stepscope.integrations.torch import gradients, norms, watch

QUIET = {"every_n_steps": 10**6, "dense_steps": 0}
"""No step is sampled but the first: the others have the norm alone."""


ROUNDS = []
"""What measures the samples of the test's run."""


@pytest.fixture(autouse=True)
def read_beside(monkeypatch):
    """Small gradients too are worth a thread."""
    ROUNDS.clear()
    rounds = gradients.Rounds
    monkeypatch.setattr(gradients, "Rounds", lambda *a, **k: ROUNDS.append(rounds(*a, **k)) or ROUNDS[-1])
    monkeypatch.setattr(norms, "WORTH_WAKING", 1)
    monkeypatch.setattr(norms, "processors", lambda: 2)


def recorded(directory):
    [path] = directory.glob("*tfevents*")
    columns = {c.tag: c for c in EventFile(path).read().scalars}
    found = []
    for name in ("norm", "nonfinite_count"):
        column = columns[f"gradients/{name}"]
        found.append(dict(zip(column.step.tolist(), column.value.tolist(), strict=True)))
    return found


class Changing(torch.optim.SGD):
    """Changes gradients as it steps, from a step on; through ``.data`` no tensor's version counts it."""

    def __init__(self, parameters, since, *, by_data=False):
        super().__init__(parameters, lr=0.01)
        self.since, self.done, self.by_data = since, 0, by_data

    def step(self, closure=None):
        if self.done >= self.since:
            for group in self.param_groups:
                for each in group["params"]:
                    (each.grad.data if self.by_data else each.grad).mul_(3.0)
        self.done += 1
        return super().step(closure)


def trained(path, optimizer_of, steps=30, *, spoil=(), keeps=False):
    """The true norm of each step; all but the first, which is sampled, have the norm alone."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer, wanted = optimizer_of(model.parameters()), {}
    with ss.Run(path, hooks=[ss.GradientHook(**QUIET)]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(steps)):
            if step == 1:  # while a sample is on its way, others are measured with it
                until(lambda: all(each.idle for each in ROUNDS))
            optimizer.zero_grad(set_to_none=not keeps)
            model(torch.randn(16, 64)).square().mean().backward()
            if step in spoil:
                model[2].weight.grad[1, 1:3] = torch.inf
            grads = [each.grad.double() for each in model.parameters()]
            wanted[step] = float(sum(each.square().sum() for each in grads).sqrt())
            with contextlib.suppress(ArithmeticError):
                optimizer.step()
            for each in model.parameters():
                each.data.nan_to_num_(0, 0, 0)
    return wanted


@pytest.mark.parametrize("threads", [1, 2, 6])
@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1),
        lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
        lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1, maximize=True, foreach=True),
        lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
        lambda p: torch.optim.Adagrad(p, lr=0.01),
    ],
    ids=["sgd", "adamw-foreach", "maximize", "fused", "adagrad"],
)
def test_the_norm_of_every_step_is_that_which_the_optimizer_got(tmp_path, monkeypatch, optimizer, threads):
    monkeypatch.setattr(norms.torch, "get_num_threads", lambda: threads)
    asked = []
    ask = norms.Readers.ask
    monkeypatch.setattr(norms.Readers, "ask", lambda *args: (asked.append(1), ask(*args)))
    wanted = trained(tmp_path, optimizer, spoil=(17,))
    norm, bad = recorded(tmp_path)
    assert wanted[17] == torch.inf
    assert norm == pytest.approx(wanted, rel=1e-6)
    assert [step for step, count in bad.items() if count] == [17]
    assert bad[17] == 2
    assert len(asked) == 29 - norms.LEARNT  # the first step is sampled, in the next ones it is learnt


def test_the_first_bad_step_is_told_where_the_weights_stay_broken(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    health = ss.HealthHook()
    with ss.Run(tmp_path, hooks=[ss.GradientHook(**QUIET), health]) as run:
        watch(model, optimizer, run)
        for step in run.steps(range(60)):
            optimizer.zero_grad()
            model(torch.randn(16, 64)).square().mean().backward()
            if step == 41:
                model[0].weight.grad[5, 5] = torch.nan
            optimizer.step()
    found = next(each for each in health.findings if each.rule == "nonfinite-gradient")
    assert (found.step, found.since) == (41, 41)


@pytest.mark.parametrize("since", [0, 2])
def test_an_optimizer_that_changes_gradients_is_learnt_and_loses_no_step(tmp_path, since):
    wanted = trained(tmp_path, lambda p: Changing(p, since))
    norm, _ = recorded(tmp_path)
    assert norm == pytest.approx(wanted, rel=1e-6)


def test_an_optimizer_that_writes_through_data_is_learnt_and_loses_no_step(tmp_path):
    wanted = trained(tmp_path, lambda p: Changing(p, 0, by_data=True))
    norm, _ = recorded(tmp_path)
    assert norm == pytest.approx(wanted, rel=1e-6)


def test_one_that_begins_to_write_through_data_is_found_when_it_is_looked_at_again(tmp_path, monkeypatch):
    monkeypatch.setattr(norms, "LOOK_AGAIN", 8)
    asked = []
    ask = norms.Readers.ask
    monkeypatch.setattr(norms.Readers, "ask", lambda *args: (asked.append(1), ask(*args)))
    wanted = trained(tmp_path, lambda p: Changing(p, 12, by_data=True))
    norm, _ = recorded(tmp_path)
    right = [step for step in wanted if step < 12 or step >= 17]  # the sixteenth was looked at
    assert {step: norm[step] for step in right} == pytest.approx(
        {step: wanted[step] for step in right}, rel=1e-6
    )
    assert len(asked) == 16 - norms.LEARNT - 1  # but the eighth; those that follow are read before the step


def test_one_that_begins_to_change_them_later_loses_the_step_that_it_changed_and_says_so(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"gradient at step 12.*changed as it was read"):
        wanted = trained(tmp_path, lambda p: Changing(p, 12))
    norm, _ = recorded(tmp_path)
    assert sorted(set(wanted) - set(norm)) == [12]
    assert norm == pytest.approx({step: wanted[step] for step in norm}, rel=1e-6)


class Raising(torch.optim.SGD):
    """Raises in steps, so that nobody is told when these were over."""

    def __init__(self, parameters, *steps):
        super().__init__(parameters, lr=0.01)
        self.steps, self.done = steps, 0

    def step(self, closure=None):
        self.done += 1
        if self.done - 1 in self.steps:
            raise ArithmeticError
        return super().step(closure)


def test_a_step_that_raises_while_the_optimizer_is_learnt_is_recorded_before_the_next_one(tmp_path):
    wanted = trained(tmp_path, lambda p: Raising(p, 2, 11), keeps=True)
    norm, _ = recorded(tmp_path)
    assert norm == pytest.approx(wanted, rel=1e-6)


def test_a_later_one_whose_gradients_are_zeroed_after_it_is_lost_and_said(tmp_path):
    with pytest.warns(RuntimeWarning, match=r"gradient at step 11.*changed as it was read"):
        wanted = trained(tmp_path, lambda p: Raising(p, 11, 20), keeps=True)
    norm, _ = recorded(tmp_path)
    assert sorted(set(wanted) - set(norm)) == [11]
    assert norm == pytest.approx({step: wanted[step] for step in norm}, rel=1e-6)


def test_threads_end_when_they_are_closed_and_are_not_expected_in_a_forked_child(tmp_path, monkeypatch):
    before = set(threading.enumerate())
    readers = norms.Readers(3)
    mine = [each for each in threading.enumerate() if each not in before and each.name == "stepscope-norms"]
    assert len(mine) == 3
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert not readers.here
    readers.close()  # nobody to wait for
    monkeypatch.undo()
    readers.close()
    for each in mine:
        each.join(60)
    assert not any(each.is_alive() for each in mine)


def test_the_threads_of_a_run_end_with_it(tmp_path):
    before = set(threading.enumerate())
    trained(tmp_path, lambda p: torch.optim.SGD(p, lr=0.01), steps=8)
    for each in set(threading.enumerate()) - before:
        if each.name == "stepscope-norms":
            each.join(60)
            assert not each.is_alive()


def test_without_a_second_processor_nothing_is_read_beside(tmp_path, monkeypatch):
    monkeypatch.setattr(norms, "processors", lambda: 1)
    monkeypatch.setattr(norms.Readers, "__init__", None)
    wanted = trained(tmp_path, lambda p: torch.optim.SGD(p, lr=0.01))
    assert recorded(tmp_path)[0] == pytest.approx(wanted, rel=1e-6)


def test_time_between_steps_buys_no_measurement(tmp_path):
    """Such as that of an evaluation: a share is one of the time in which the model is trained."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    hook = ss.GradientHook(**QUIET)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        watch(model, optimizer, run)
        [measured] = hook.parts
        trained = []
        for _ in range(3):
            with run.step():
                model(torch.ones(2, 4)).sum().backward()
                optimizer.step()
            trained.append([measured._trained_s() for _ in range(2)])
    assert all(before == after for before, after in trained)
    assert trained[0][0] < trained[1][0] < trained[2][0]
