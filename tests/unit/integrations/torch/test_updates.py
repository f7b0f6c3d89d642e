"""One pair of hooks on an optimizer, and one on all, through which everybody hears of its steps."""

import gc
import weakref

import pytest
import torch
from torch.optim.optimizer import _global_optimizer_pre_hooks

from stepscope.integrations.torch.updates import Joined
from stepscope.kernels.marks import Gate, Newcomers, RateMarks, Rhythm
from stepscope.kernels.steps import Steps


class Listening(Gate):
    def __init__(self, heard, arguments=None):
        super().__init__(Steps(), Rhythm(0, 1), rests=False)
        self.heard, self.arguments = heard, arguments

    def before_update(self, optimizer, args, kwargs):
        self.heard.append(("before", self, args[1:]))
        return self.arguments

    def after_update(self, optimizer):
        self.heard.append(("after", self, ()))


class Rates(RateMarks):
    recorded = 0

    def record(self):
        self.recorded += 1


@pytest.fixture
def optimizer():
    return torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)


def test_all_who_listen_share_two_hooks(optimizer):
    heard = []
    listeners = [Listening(heard), Listening(heard)]
    rates = Rates(optimizer, None, "lr")
    joined = [Joined(each, optimizer) for each in (*listeners, rates)]
    assert len(optimizer._optimizer_step_pre_hooks) == len(optimizer._optimizer_step_post_hooks) == 1
    optimizer.step()
    first, second = listeners
    assert heard == [
        ("before", first, ()),
        ("before", second, ()),
        ("after", first, ()),
        ("after", second, ()),
    ]
    assert rates.recorded == 1
    joined[0].remove()
    joined[0].remove()
    heard.clear()
    optimizer.step()
    assert [each for _, each, _ in heard] == [second, second]
    for each in joined:
        each.remove()
    assert not optimizer._optimizer_step_pre_hooks
    assert not optimizer._optimizer_step_post_hooks
    Joined(first, optimizer)
    optimizer.step()
    assert heard[-1] == ("after", first, ())


def test_arguments_that_one_changes_reach_the_next_and_the_optimizer(optimizer):
    heard = []

    def closure():
        heard.append("called")
        return torch.zeros(())

    changes, sees = Listening(heard, ((optimizer, closure), {})), Listening(heard)
    Joined(changes, optimizer)
    Joined(sees, optimizer)
    optimizer.step()
    assert heard[:3] == [("before", changes, ()), ("before", sees, (closure,)), "called"]


def test_nothing_keeps_an_optimizer_that_nobody_holds():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1)
    Joined(Rates(optimizer, None, "lr"), optimizer)
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None


def test_one_who_listens_to_all_hears_of_each_that_is_not_known(optimizer):
    met = []
    newcomers = Newcomers(lambda: met.append)
    before = len(_global_optimizer_pre_hooks)
    joined = Joined(newcomers)
    optimizer.step()
    newcomers.known.add(weakref.ref(optimizer))
    optimizer.step()
    joined.remove()
    assert met == [optimizer]
    assert len(_global_optimizer_pre_hooks) == before
