"""What rules once said wrongly, each with cases in which it is true and others in which it must not be said.

`CASES` names trainings of the corpus, `REFERRED` tests elsewhere:

1. a stall, of steady epochs;
2. a jump, of a schedule; twice, of two names of one rate;
3. an explosion, after the loss had converged;
4. no progress, a plateau or a spike, of losses that need not fall;
5. a spike of gradients, as the first plateau ends;
6. overfitting, of noisy evaluations;
7. poor initialization, of easy tasks, of epochs, of targets in large units;
8. outliers, of short steps on a busy machine;
9. nothing, of dead units behind functions and of layers that no optimizer has;
10. norms after clipping as those before, a noise scale of one point, the wrong rank, rates after the end;
11. infinite ratios, what is missing where it is not, one line for each layer and rule;
12. that the broken model was saved.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import numpy as np
import pytest

from stepscope.health import Monitor

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "health_corpus"))
import corpus

TESTS = Path(__file__).resolve().parents[2]

CASES = {
    # The beginnings of healthy trainings' names, and the rules of planted ones.
    1: (("epochs-of-", "pauses-for-", "interrupted-by-"), ("stalled-training",)),
    2: (("warm-restarts", "linear-to-zero", "finetune-frozen-"), ("learning-rate",)),
    3: (("converged-long",), ("exploding-gradient",)),
    4: (
        ("gan-", "rl-", "slow-start-", "mlp-batch2-", "vae-"),
        ("loss-not-decreasing", "loss-spike", "plateau"),
    ),
    5: (("cnn-sgd-plateau-ends-",), ("gradient-spike",)),
    6: (("simclr-", "byol-", "fewshot-", "noisy-validation"), ("overfitting", "overtraining")),
    7: (("easy-", "epochs-of-300", "regress-units-"), ("poor-initialization",)),
    8: (("busy-machine-",), ("step-outliers",)),
}
GRADIENTS = "unit/integrations/torch/test_gradients.py"
ACTIVATIONS = "unit/integrations/torch/test_activations.py"
ATTACH = "unit/integrations/torch/test_attach.py"
HOOK = "unit/record/hooks/test_health.py"
REFERRED = {
    9: [  # missed: functional activations, what no optimizer has, dead units before they are known
        (ACTIVATIONS, "test_activations_that_are_functions_are_measured_under_the_layer_before"),
        (ACTIVATIONS, "test_dead_units_are_those_silent_for_the_whole_window"),
        (GRADIENTS, "test_a_parameter_that_no_optimizer_has_is_told"),
        (GRADIENTS, "test_parameters_of_another_watched_optimizer_are_not_left_out"),
    ],
    10: [  # norms by 1 and infinity, clipping twice, noise scale, ranks, JAX's clip, rates
        (GRADIENTS, "test_the_norm_before_clipping_by_another_norm"),
        (GRADIENTS, "test_clipping_twice_tells_the_norm_before_the_first"),
        (GRADIENTS, "test_ranks_own_gradients_are_looked_at_in_every_measured_step_of_the_run"),
        ("unit/health/test_trainings.py", "test_the_first_rank_with_a_nan_is_named"),
        ("unit/health/test_origins.py", "test_no_rank_is_blamed_where_several_were_bad_at_once"),
        ("unit/integrations/jax/test_gradients.py", "test_an_optimizer_state_holds_statistics"),
        (ATTACH, "test_rates_end_with_the_run"),
        (ATTACH, "test_optimizers_by_parameter_have_the_names_of_the_parameters"),
    ],
    11: [  # texts: folded lines, what a rule lacked, one finding for further layers
        ("unit/cli/test_health.py", "test_a_directory_of_runs_is_judged_run_by_run"),
        ("unit/cli/test_health.py", "test_json_holds_findings_and_abstentions"),
        ("unit/health/test_known_wrong.py", "test_a_layer_that_is_constant_makes_no_infinite_ratio"),
        (HOOK, "test_actions_run_once_for_a_finding_that_further_layers_join"),
    ],
    12: [  # the last good checkpoint instead of the broken model, and the batch
        (HOOK, "test_a_broken_model_is_not_saved_and_the_last_good_one_is_named"),
        (HOOK, "test_without_an_earlier_checkpoint_none_is_named"),
        (HOOK, "test_the_batch_in_which_it_began_is_written"),
    ],
}


def begun(trainings, beginnings):
    found = [each for each in trainings if each.name.startswith(beginnings)]
    assert {start for start in beginnings if any(each.name.startswith(start) for each in found)} == set(
        beginnings
    )
    return found


@pytest.mark.parametrize("number", CASES)
def test_it_is_not_said_where_it_is_not_true(number):
    healthy, _ = CASES[number]
    said = {each.name: corpus.judge(each.attempt).findings for each in begun(corpus.trainings(), healthy)}
    assert {name: found for name, found in said.items() if found} == {}


@pytest.mark.parametrize("number", CASES)
def test_it_is_said_where_it_is_true(number):
    _, rules = CASES[number]
    planted = begun(corpus.trainings(), tuple(f"planted-{rule}-" for rule in rules))
    assert corpus.score(planted).missed == []


@pytest.mark.parametrize("number", REFERRED)
def test_the_tests_that_hold_it_are_there(number):
    for path, name in REFERRED[number]:
        body = ast.parse((TESTS / path).read_text()).body
        assert name in {each.name for each in body if isinstance(each, ast.FunctionDef)}


def test_one_rate_under_two_names_is_one_finding():
    rates = np.full(60, 1e-3)
    rates[40:] = 1e-1
    monitor = Monitor()
    for tag in ("train/lr", "optimizer/lr"):
        monitor.take(tag, np.arange(60), rates, np.arange(60.0))
    monitor.finish()
    assert [found.rule for found in monitor.verdict.findings if found.rule == "learning-rate"] == [
        "learning-rate"
    ]


@pytest.mark.parametrize(
    ("sigmas", "found"), [((0.0, 0.0, 0.0), 0), ((0.0, 1.0, 2.0, 1.0), 0), ((0.0, 1.0, 2.0, 456.0), 1)]
)
def test_a_layer_that_is_constant_makes_no_infinite_ratio(sigmas, found):
    monitor = Monitor()
    steps = np.arange(5)
    for at, sigma in enumerate(sigmas):
        monitor.take(f"activations/c{at}/std", steps, np.full(5, sigma), steps.astype(float))
    monitor.finish()
    said = [each for each in monitor.verdict.findings if each.rule == "poor-initialization"]
    assert len(said) == found
    assert all("inf" not in each.summary and "c0" not in each.summary for each in said)
