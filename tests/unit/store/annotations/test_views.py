import pytest

from stepscope.errors import UsageError
from stepscope.store.annotations import SavedViews


def test_views_are_kept_by_name(tmp_path):
    views = SavedViews(tmp_path)
    assert views.all() == []
    views.save("Losses  of the sweep", "#/scalars?f=loss")
    views.save("all", "#/overview")
    views.save("all", "#/scalars")
    assert [(view.name, view.hash) for view in SavedViews(tmp_path).all()] == [
        ("all", "#/scalars"), ("Losses of the sweep", "#/scalars?f=loss")
    ]  # fmt: skip
    views.remove("all")
    assert [view.name for view in views.all()] == ["Losses of the sweep"]
    with pytest.raises(UsageError, match="no saved view 'all'"):
        views.remove("all")


@pytest.mark.parametrize(
    ("name", "hash_"), [("", "#/x"), ("x" * 101, "#/x"), ("x", "javascript:1"), ("x", "#/" + "y" * 20_000)]
)
def test_what_is_no_view_is_refused(tmp_path, name, hash_):
    with pytest.raises(UsageError):
        SavedViews(tmp_path).save(name, hash_)


def test_files_that_are_none_are_passed_over(tmp_path):
    views = SavedViews(tmp_path)
    views.save("a", "#/x")
    (views.folder / "odd.json").write_text('{"name": "evil", "hash": "https://elsewhere"}')
    assert [view.name for view in views.all()] == ["a"]
