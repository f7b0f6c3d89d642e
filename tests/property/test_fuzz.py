"""A short seeded part of ``make fuzz``, and every input that has broken something once."""

from contextlib import suppress
from itertools import islice

import pytest
from support import fuzz, fuzz_analyses, fuzz_http

from stepscope.errors import StepscopeError
from stepscope.serve.routes import all_routes
from stepscope.trace.load import load_trace

INPUTS = 40
RECIPES = 4
"""Likewise of recordings that are analysed, each by several commands."""
WHOLE = ("chrome", "flight", "flight_json", "nsys", "rocprof", "timeline", "tfprof")


@pytest.fixture(scope="module", autouse=True)
def application_ended():
    yield
    fuzz_http.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_damaged_inputs_are_read_or_refused_in_words(name, tmp_path):
    known = len(fuzz.seeds(name))
    more = RECIPES if name in fuzz_analyses.TARGETS else INPUTS
    for data in islice(fuzz.inputs(name, seed=1), known + more):
        fuzz.attempt(name, data, tmp_path)


def test_most_recipes_lead_beyond_loading(tmp_path):
    loaded = 0
    for number in range(20):
        name, content = fuzz_analyses.document(fuzz_analyses.chance_of(b"%d" % number))
        (tmp_path / name).write_bytes(content)
        with suppress(StepscopeError):
            loaded += len(load_trace(tmp_path / name, cache=False)) > 0
    assert loaded >= 10


def test_a_recipe_gives_the_same_recording():
    first, again, other = (
        fuzz_analyses.document(fuzz_analyses.chance_of(data)) for data in (b"1", b"1", b"2")
    )
    assert first == again
    assert first != other


def test_a_defect_of_a_command_is_a_find(monkeypatch):
    monkeypatch.setattr("stepscope.cli.ls.run", lambda arguments: 1 / 0)
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        fuzz_analyses.command("ls", ".")
    with pytest.raises(AssertionError, match="ended with 2"):
        fuzz_analyses.command("ls", "--no-such-option")


def test_the_same_seed_gives_the_same_inputs():
    first, again, other = (list(islice(fuzz.inputs("spool", seed), 30)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("name", WHOLE)
def test_a_target_begins_with_what_is_read(name, tmp_path):
    try:
        fuzz.TARGETS[name](fuzz.seeds(name)[0], tmp_path)
    except StepscopeError as error:
        pytest.fail(f"a seed that leads nowhere: {error}")


def test_every_corpus_belongs_to_a_target_and_is_tried():
    known = {path.name.removesuffix(".tar.xz") for path in fuzz.CORPORA.iterdir()}
    assert known <= set(fuzz.TARGETS)
    assert known, "without a corpus each run begins at the beginning"
    for name in known:
        assert set(fuzz.packed(name)) <= set(fuzz.seeds(name))


def test_a_corpus_is_packed_and_read_again(monkeypatch, tmp_path):
    monkeypatch.setattr(fuzz, "CORPORA", tmp_path / "corpora")
    assert fuzz.packed("spool") == []
    before = fuzz.pack("spool", [b"", b"{", b"\xff" * 9]).read_bytes()
    assert fuzz.packed("spool") == [b"", b"{", b"\xff" * 9]
    assert fuzz.pack("spool", fuzz.packed("spool")).read_bytes() == before


def test_inputs_that_lead_nowhere_new_are_left_out_of_a_corpus(monkeypatch):
    monkeypatch.setattr(fuzz, "_seeds", lambda name: [b"loss"])
    found = fuzz.distilled("expressions", [b"gain", b"loss + 1 * (2 - x)", b"loss + ", b"rate + "])
    # The first goes where the seed goes, the last where the one before goes.
    assert found == [b"loss + ", b"loss + 1 * (2 - x)"]


def test_so_many_inputs_are_tried(monkeypatch, tmp_path):
    tried = []
    monkeypatch.setitem(fuzz.TARGETS, "spool", lambda data, _: tried.append(data))
    assert fuzz.mutate_for("spool", 0, 1, most=25) == len(tried) == 25


def test_a_defect_of_the_server_is_a_find(tmp_path, monkeypatch):
    broken = [{"type": "http.response.start", "status": 500}]
    monkeypatch.setattr(fuzz_http, "sent_by", lambda *_: broken)
    with pytest.raises(AssertionError, match="a defect in the server"):
        fuzz_http.ask(fuzz.seeds("http")[3], tmp_path)


@pytest.mark.parametrize(
    "path", ["/", "/api/v1/gone", "/api/v1/runs", "/api/v1/profile/rows", "/assets/x.js"]
)
def test_a_question_that_is_no_utf8_is_no_defect(path, tmp_path):
    fuzz_http.ask(f"GET {path}?".encode() + b"\x80\xff=\xfe\nhost: localhost:6006\n\n", tmp_path)


@pytest.mark.parametrize("address", [name for name, route in all_routes().items() if route.method == "POST"])
def test_a_body_that_is_no_utf8_is_no_defect(address, tmp_path):
    request = f"POST /api/v1/{address}\nhost: localhost:6006\ncontent-type: application/json\n\n".encode()
    fuzz_http.ask(request + b'{"a\x80": 1}', tmp_path)
