"""Settings under dotted names."""

import pytest

from stepscope.health.practice import practices_of
from stepscope.names.settings import flatten, is_seed, leaves


@pytest.mark.parametrize(
    ("config", "flat"),
    [
        (
            {"lr": 0.1, "model": {"width": 8, "head": {"bias": True}}},
            {"lr": 0.1, "model.width": 8, "model.head.bias": True},
        ),
        ({"groups": [{"lr": 0.1}, {"lr": 0.2}]}, {"groups.0.lr": 0.1, "groups.1.lr": 0.2}),
        ({"betas": [0.9, 0.99], "mixed": [{"a": 1}, 2]}, {"betas": [0.9, 0.99], "mixed": [{"a": 1}, 2]}),
        (
            {"none": None, "empty": {}, "list": [], "of": [{}]},
            {"none": None, "empty": {}, "list": [], "of.0": {}},
        ),
    ],
    ids=["objects", "lists of objects", "other lists", "empty"],
)  # fmt: skip
def test_settings_have_the_names_of_all_levels(config, flat):
    assert flatten(config) == flat


@pytest.mark.parametrize(("decay", "known"), [(0.01, True), (0, False)])
def test_what_a_group_of_an_optimizer_does_is_known(decay, known):
    config = {"optimizer": {"class": "AdamW", "groups": [{"lr": 0.1, "weight_decay": decay}]}}
    assert ("weight decay" in practices_of(config)) is known


def test_leaves_are_what_mappings_hold_and_lists_stay_values():
    values = {"loss": 1.0, "parts": {"kl": 2.0, "none": {}}, "boxes": [{"score": 3.0}]}
    assert dict(leaves(values, "/")) == {"loss": 1.0, "parts/kl": 2.0, "boxes": [{"score": 3.0}]}


SEEDS = (
    "seed random_seed randomSeed train.seed data_seed seed_everything random_state rng_seed SEED fold rep1"
)
SETTINGS = "lr n_seeds num_seeds use_seed speed replicas_per_host state random_crop folds_dir repeat unseeded"


@pytest.mark.parametrize(
    ("key", "seed"),
    [*((key, True) for key in SEEDS.split()), *((key, False) for key in SETTINGS.split())],
)
def test_a_setting_is_a_seed_by_its_name(key: str, seed: bool) -> None:
    assert is_seed(key) == seed
