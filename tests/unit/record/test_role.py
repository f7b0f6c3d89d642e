import pytest

from stepscope.errors import UsageError
from stepscope.record.role import detect


def test_a_single_process_is_the_chief():
    role = detect(None, None, None, {})
    assert (role.rank, role.world_size, role.name, role.writes) == (0, 1, "chief", True)
    assert str(role) == "chief, rank 0 of 1 (single process)"


def test_torchrun_says_the_rank():
    role = detect(None, None, None, {"RANK": "3", "WORLD_SIZE": "8"})
    assert (role.rank, role.world_size, role.name, role.writes) == (3, 8, "worker", False)
    assert str(role) == "worker, rank 3 of 8 (RANK and WORLD_SIZE)"


@pytest.mark.parametrize("environ", [{"RANK": "x", "WORLD_SIZE": "8"}, {"RANK": "1"}, {"WORLD_SIZE": "4"}])
def test_half_an_environment_is_none(environ):
    assert detect(None, None, None, environ).rank == 0


def test_arguments_win():
    role = detect(1, 2, "evaluator", {"RANK": "3", "WORLD_SIZE": "8"})
    assert (role.rank, role.world_size, role.name) == (1, 2, "evaluator")


def test_a_rank_alone_is_of_as_many_as_it_implies():
    assert detect(2, None, None, {}).world_size == 3


@pytest.mark.parametrize(("rank", "size"), [(-1, 4), (4, 4), (0, 0)])
def test_a_rank_outside_its_world_is_refused(rank, size):
    with pytest.raises(UsageError, match="rank must be from 0"):
        detect(rank, size, None, {})
