"""Calls of modules that are told through their class: all else that the class does is as it was."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref

import pytest
import torch
from torch import nn

from stepscope.integrations.torch.calls import on_calls
from stepscope.kernels.marks import Marks, Phases
from stepscope.kernels.steps import Stages, Steps


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)


class OwnCall(Net):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Listener(Marks):
    """Marks the stages of one run."""

    def __init__(self):
        self.steps = Steps(0)
        self.steps.stages = Stages()
        super().__init__(Phases(self.steps, lambda: True), False)

    def hears(self, call):
        """Return whether a call is told."""
        self.steps.begin(0.0)
        call()
        stages = self.steps.stages
        heard = stages.names[stages.running] == "forward"
        self.steps.end(1.0)
        return heard


X = torch.ones(3, 4)


def test_only_the_module_itself_is_told_of_and_the_class_is_given_back():
    net, other, listener = Net(), Net(), Listener()
    copies = [copy.deepcopy(net), pickle.loads(pickle.dumps(net))]
    told = on_calls(net, listener)
    alike = Net.__new__(Net)
    alike.__dict__.update(net.__dict__)
    copies += [copy.deepcopy(net), pickle.loads(pickle.dumps(net)), alike, other]
    assert listener.hears(lambda: net(X))
    assert not any(listener.hears(lambda model=model: model(X)) for model in copies)
    assert not net._forward_pre_hooks
    further = on_calls(other, listener)
    told.remove()
    assert not listener.hears(lambda: net(X))
    assert listener.hears(lambda: other(X))
    further.remove()
    assert "__call__" not in vars(Net)


def test_a_class_that_calls_in_its_own_way_and_a_second_run_get_hooks():
    net, own, first, second = Net(), OwnCall(), Listener(), Listener()
    handles = [on_calls(net, first), on_calls(net, second), on_calls(own, first)]
    assert first.hears(lambda: net(X))
    assert second.hears(lambda: net(X))
    assert first.hears(lambda: own(X))
    assert own._forward_pre_hooks
    for handle in handles:
        handle.remove()
    assert not net._forward_pre_hooks
    assert not own._forward_pre_hooks
    assert not first.hears(lambda: net(X))


class Doubling:
    def __call__(self, *args, **kwargs):
        return 2 * super().__call__(*args, **kwargs)


class Both(Net, Doubling, nn.Module):
    """Its own parents call it in turn, whatever the class before them has been given."""


def test_a_class_below_is_called_through_all_of_its_parents():
    net, both, listener = Net(), Both(), Listener()
    expected = both(X)
    assert torch.equal(expected, 2 * both.forward(X))
    handle = on_calls(net, listener)
    assert torch.equal(both(X), expected)
    handle.remove()


@pytest.mark.filterwarnings("ignore:`torch.jit")
def test_compilers_compile_the_module_as_without_us():
    net, listener = Net(), Listener()
    expected = net(X)
    handle = on_calls(net, listener)
    assert torch.equal(torch.fx.symbolic_trace(net)(X), expected)
    assert torch.equal(torch.jit.trace(net, X)(X), expected)
    assert torch.equal(torch.jit.script(net)(X), expected)
    for whole in (
        torch.compile(net, backend="eager", fullgraph=True),
        torch.export.export(net, (X,)).module(),
    ):
        assert torch.equal(whole(X), expected)
        assert not listener.hears(lambda whole=whole: whole(X))
    assert listener.hears(lambda: net(X))
    handle.remove()
    assert not listener.hears(lambda: net(X))


def test_nothing_is_kept_alive():
    net, listener = Net(), Listener()
    on_calls(net, listener)
    references = weakref.ref(net), weakref.ref(listener)
    del net, listener
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    assert Net()(X).shape == (3, 2)
