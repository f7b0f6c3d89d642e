"""Which function a line of the program calls, also one that is written in C."""

import io
import json
import pickle
import sys
import time

import pytest

from stepscope.capture.sampler import StackSampler, called_text

columns = pytest.mark.skipif(sys.version_info < (3, 11), reason="Python tells no columns before 3.11")


class Stands:
    """Looks at where its caller stands."""

    def dump(self, *_: object) -> str:
        frame = sys._getframe(1)
        code, at = frame.f_code, frame.f_lasti
        while code.co_code[at] == 0:  # a call of Python stands behind its instruction
            at -= 2
        return called_text(code, at)

    __call__ = dump


stands = Stands()


@columns
def test_what_a_line_calls_is_told_by_its_source():
    assert stands() == "<call of stands>"
    assert stands.dump(1) == "<call of stands.dump>"
    assert [stands][0].dump() == "<call of .dump>"
    found = stands.dump(
        "over several",
        "lines",
    )
    assert found == "<call of stands.dump>"
    assert len("ä" + stands.dump("ä")) == len("ä<call of stands.dump>"), "columns count bytes"
    (stands)()  # a bracket is no other name
    assert (lambda: stands())() == "<call of stands>"


def test_nothing_is_told_where_nothing_of_the_programs_own_is_called():
    code = test_nothing_is_told_where_nothing_of_the_programs_own_is_called.__code__
    assert called_text(code, 0) == "", "the first instruction calls nothing"
    assert called_text(code, 10**6) == ""
    assert called_text(json.dumps.__code__, len(json.dumps.__code__.co_code) - 6) == ""
    made: dict = {}
    exec(compile("def f(): return g()", "/nowhere/gone.py", "exec"), made)
    assert {called_text(made["f"].__code__, at) for at in range(0, len(made["f"].__code__.co_code), 2)} == {
        ""
    }


def save(values: list) -> None:
    for _ in range(20):
        pickle.dump(values, io.BytesIO())


@columns
def test_a_sampled_stack_tells_what_is_called_in_c():
    values = [str(n) for n in range(50_000)]
    sampler = StackSampler()
    sampler.start()
    deadline = time.monotonic() + 60
    try:
        while len(sampler._times) < 20 and time.monotonic() < deadline:
            save(values)
    finally:
        sampler.stop()
    sampler._thread.join()
    document = sampler.document()
    texts = [[document["frames"][at] for at in document["stacks"][n]] for n in document["samples"]]
    inner = [text for text in texts if text and text[-1] == "<call of pickle.dump>"]
    assert inner, texts
    assert all(text[-2].endswith("): save") for text in inner)
