import pytest

from stepscope.errors import UsageError
from stepscope.record.roles.role import check_chief, chief_rank, evaluator_directory


@pytest.mark.parametrize("chief", ["middle", -1, True, 1.5, None, "", ["first"]])
def test_what_can_never_be_a_chief_is_refused(chief):
    with pytest.raises(UsageError, match="chief must say which rank writes"):
        check_chief(chief)


@pytest.mark.parametrize(
    ("chief", "rank", "message"),
    [
        (9, 3, "chief=9, but there are only 4 ranks; the last one, rank 3, writes"),
        (lambda size: size, 3, "= 4, but there are only 4 ranks"),
        (lambda size: 1 / 0, 0, "raised ZeroDivisionError"),
        (lambda size: "0", 0, "returned '0' and no rank"),
        (lambda size: -1, 0, "returned -1 and no rank"),
    ],
)
def test_a_wish_that_names_no_rank_leaves_one_that_writes(chief, rank, message):
    found, problem = chief_rank(check_chief(chief), 4)
    assert found == rank
    assert message in str(problem)


@pytest.mark.parametrize(
    ("log_dir", "name", "expected"),
    [
        ("/runs/a", None, "/runs/a/eval"),
        ("/runs/a", "dev", "/runs/a/eval_dev"),
        ("/runs/a/eval", None, "/runs/a/eval"),
        ("/runs/a/eval_dev", None, "/runs/a/eval_dev"),
        ("/runs/a/eval_dev", "dev", "/runs/a/eval_dev"),
        ("/runs/a/eval", "dev", "/runs/a/eval/eval_dev"),
    ],
)
def test_where_an_evaluator_writes(log_dir, name, expected):
    assert evaluator_directory(log_dir, name) == expected


@pytest.mark.parametrize("name", ["../x", "a/b", "", " ", 3])
def test_a_name_that_leaves_the_directory_is_refused(name):
    with pytest.raises(UsageError, match="eval_name must be a word"):
        evaluator_directory("/runs/a", name)
