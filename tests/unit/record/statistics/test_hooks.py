import pytest

import stepscope as ss
from stepscope.errors import UsageError
from stepscope.record.statistics.hooks import how_to_attach


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"every_n_steps": 0}, "every_n_steps must be 1 or more"),
        ({"stats": ["norm", "median"]}, "stats must be of norm, mean"),
        ({"of": []}, "of is empty"),
        ({"layers": "("}, "not a regular expression"),
        ({"layers": 3}, "a regular expression or a function"),
        ({"max_overhead": 2}, "max_overhead must be above 0 and at most 1"),
        ({"probability": 0}, "probability must be above 0"),
        ({"histograms_every": -1}, "histograms_every must be an integer"),
    ],
)
def test_arguments_that_cannot_be_right(options, words):
    with pytest.raises(UsageError, match=words):
        ss.GradientHook(**options)


def test_layers_are_named_or_chosen():
    assert ss.GradientHook(layers=r"\.weight$").wants("0.weight", None)
    assert not ss.GradientHook(layers=r"\.weight$").wants("0.bias", None)
    assert ss.ActivationHook(layers=lambda name, layer: layer == 3).wants("x", 3)


def test_histograms_are_ten_times_rarer():
    assert ss.GradientHook(every_n_steps=7).histograms_every == 70
    assert ss.GradientHook(stats=["norm"]).histograms_every == 0


@pytest.mark.parametrize(
    ("imported", "calls"),
    [
        ([], ["torch.watch(model"]),
        (["jax"], ["jax.watch(run"]),
        (["torch"], ["torch.watch(model"]),
        (["keras", "jax"], ["keras.measured(", "jax.watch(run"]),
    ],
)
def test_the_hint_names_the_framework_in_use(imported, calls):
    hint = how_to_attach(imported)
    assert [
        name for name in ("keras.measured(", "torch.watch(model", "jax.watch(run") if name in hint
    ] == calls


class Part:
    def finish(self, timeout):
        pass


@pytest.mark.parametrize("hook", [ss.GradientHook(every_n_steps=5), ss.ActivationHook(every_n_steps=5)])
def test_a_hook_without_anything_to_measure_says_so_after_three_turns(tmp_path, hook):
    steps = iter(range(40))
    with ss.Run(tmp_path, hooks=[hook]) as run:
        with pytest.warns(RuntimeWarning, match=f"{hook.kind} are not measured since step 0: .* nothing to"):
            for _ in run.steps([next(steps) for _ in range(3)]):
                pass
        hook.parts.append(Part())
        list(run.steps(range(2)))
    (fact,) = ss.open(tmp_path, cache=False).run(".").info.unmeasured
    assert (fact.what, fact.since, fact.until) == (hook.kind, 0, 3)


def test_a_hook_that_gets_something_to_measure_in_time_says_nothing(tmp_path):
    hook = ss.GradientHook(every_n_steps=5)
    with ss.Run(tmp_path, hooks=[hook]) as run:
        list(run.steps(range(2)))
        hook.parts.append(Part())
        list(run.steps(range(20)))
    assert ss.open(tmp_path, cache=False).run(".").info.unmeasured == ()
