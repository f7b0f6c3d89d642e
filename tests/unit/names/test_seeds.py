import pytest

from stepscope.names.settings import is_seed

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
