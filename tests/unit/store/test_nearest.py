import pytest

from stepscope.store.nearest import hint_nearest


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("los", ["loss", "lr"], "did you mean 'loss'?"),
        ("train/los", ["train/loss", "val/loss", "x"], "did you mean 'train/loss' or 'val/loss'?"),
        ("los", ["a/longer/loss", "train/lr"], "did you mean 'a/longer/loss'?"),
        ("acc", ["a/longer/loss", "b/lr"], "its tags are 'a/longer/loss', 'b/lr'"),
        ("q", ["loss", "lr"], "its tags are 'loss', 'lr'"),
        ("q", list("abcdefg"), "its tags are 'a', 'b', 'c', 'd', 'e' and 2 more"),
        ("q", [], "there is none yet: its tags are empty"),
    ],
)
def test_hints(name, known, hint):
    assert hint_nearest(name, known, "its tags") == hint
