from stepscope.lru import Current, Lru


def test_the_least_recently_used_goes_first():
    known = Lru(2)
    assert known.put("a", 1) == known.put("b", 2) == []
    assert known.get("a") == 1
    assert known.put("c", 3) == [2]
    assert known.items() == [("a", 1), ("c", 3)]
    assert known.get("b") is None


def test_sizes_add_up_and_the_newest_stays():
    known = Lru(10, len)
    known.put("a", "xxxx")
    known.put("a", "xxxxxx")
    known.put("b", "xxxx")
    assert (known.total, len(known)) == (10, 2)
    assert known.put("c", "x" * 50) == ["xxxxxx", "xxxx"]
    assert (known.total, "c" in known) == (50, True)
    known.remove("c", "nothing")
    assert (known.total, len(known)) == (0, 0)


def test_a_value_holds_for_a_state():
    made = []
    known = Current(2, len)
    for state in (1, 1, 2, 2, 1):
        assert known.of("a", state, lambda: made.append(state) or str(made)) == str(made)  # noqa: B023
    assert made == [1, 2, 1]
    known.of("b", 1, lambda: "xx")
    assert [key for key, _ in known.items()] == ["b"]
