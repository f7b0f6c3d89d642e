"""Tables of texts: what is found in them, and what is added."""

import pytest

from stepscope.trace.names import Strings


@pytest.mark.parametrize("texts", [[], ["a", "bcd", ""], ["ascii", "größer", "数"]])
def test_texts_are_those_that_were_put_in(texts):
    table = Strings.of(texts)
    assert table.texts() == texts
    assert [table[number] for number in range(len(table))] == texts


@pytest.mark.parametrize("asked", [False, True], ids=["fresh", "after it was asked"])
@pytest.mark.parametrize("more", [3, 200], ids=["few", "many"])
def test_texts_are_added_where_they_are_new(asked, more):
    table = Strings.of(["a", "b"])
    if asked:
        table.find("a")
    added = [f"new {number}" for number in range(more)]
    longer, numbers = table.extended([*added, "b", "new 1", *added])
    assert [longer[number] for number in numbers] == [*added, "b", "new 1", *added]
    assert longer.texts() == ["a", "b", *added]
    assert [longer.find(text) for text in longer.texts()] == list(range(2 + more))
    assert table.texts() == ["a", "b"]
    assert table.find("new 1") == -1


def test_nothing_new_is_the_same_table():
    table = Strings.of(["a", "b"])
    same, numbers = table.extended(["b", "a", "b"])
    assert same is table
    assert numbers.tolist() == [1, 0, 1]
