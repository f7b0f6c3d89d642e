from stepscope.serve.loop import Connections


class Fake:
    def __init__(self, address="a", *, silent=True, idle=True):
        self.address, self.silent, self.idle, self.dropped = address, silent, idle, False

    def drop(self):
        self.dropped = True


def opened(connections, *made):
    for each in made:
        connections.opened(each)
    return [each.dropped for each in made]


def test_the_longest_silent_ones_of_an_address_are_dropped_once_they_have_been_silent_for_a_while():
    clock = iter([0.0, 0.1, 0.2, 0.3, 1.15, 1.35])
    connections, made = (
        Connections(most=10, most_silent=1, clock=lambda: next(clock)),
        [Fake() for _ in range(4)],
    )
    assert opened(connections, *made) == [False] * 4, "all may just have come"
    assert opened(connections, Fake()) == [False]
    assert [each.dropped for each in made] == [True, False, False, False]
    opened(connections, Fake())
    assert [each.dropped for each in made] == [True, True, True, False]


def test_a_thousand_browsers_that_come_at_once_are_all_taken():
    assert opened(Connections(clock=lambda: 5.0), *(Fake() for _ in range(1000))) == [False] * 1000


def test_those_that_asked_and_those_of_others_do_not_count():
    made = [Fake(), Fake(silent=False), Fake("b"), Fake()]
    clock = iter([0.0, 2.0, 4.0, 6.0])
    assert opened(Connections(most=10, most_silent=2, clock=lambda: next(clock)), *made) == [False] * 4


def test_where_all_are_taken_the_address_with_the_most_gives_one_that_waits():
    busy, waits, other = Fake(silent=False, idle=False), Fake(silent=False), Fake("b", silent=False)
    new = Fake("c")
    assert opened(Connections(most=3), busy, waits, other, new) == [False, True, False, False]


def test_who_was_heard_last_goes_last():
    connections, first, second = Connections(most=2), Fake(silent=False), Fake(silent=False)
    opened(connections, first, second)
    connections.heard(first)
    opened(connections, Fake("b"))
    assert (first.dropped, second.dropped) == (False, True)


def test_where_all_are_busy_the_new_one_goes():
    busy, new = [Fake(silent=False, idle=False) for _ in range(2)], Fake("b")
    connections = Connections(most=2)
    assert opened(connections, *busy, new) == [False, False, True]
    assert len(connections) == 2


def test_one_that_is_gone_is_forgotten():
    connections, one = Connections(most=1), Fake()
    connections.opened(one)
    connections.closed(one)
    connections.closed(one)
    connections.heard(one)
    assert (len(connections), connections.by_address) == (0, {})
