"""What is answered about curves, embeddings and gradients."""

import io
import math
import sys
import threading
import types

import numpy as np
import pytest
from PIL import Image
from support.addresses import Addresses
from support.errors import raises

import stepscope as ss
from stepscope.events.kinds.pr_curve import curve_of
from stepscope.serve.frame import array_of, unpack_as
from stepscope.serve.records import embeddings
from stepscope.serve.records.embeddings import EmbeddingAnswers, EmbeddingHeader
from stepscope.serve.reply import Refusal

VECTORS = np.random.default_rng(0).normal(size=(40, 5)).astype("f4") * [9, 3, 1, 1, 1]
SHADES = np.repeat(6 * np.arange(40, dtype=np.uint8), 6).reshape(40, 2, 3, 1)
LABELS, GUESSES = [0, 1, 1, 0], [0.1, 0.9, 0.6, 0.7]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    place = tmp_path_factory.mktemp("log")
    with ss.Run(place / "run") as run:
        for step in (0, 10, 20):
            run.pr_curve("pr", LABELS, GUESSES, step, num_thresholds=11)
            run.scalar("gradients/a.weight/norm", float("nan") if step == 20 else step + 1.0, step)
            run.scalar("gradients/norm", 5.0, step)
        run.scalar("gradients/b.bias/norm", 2.0, 10)
        run.embedding("e", VECTORS, 7, labels=list(range(40)), images=SHADES)
        run.image("i", np.zeros((2, 2)), 0)
    with ss.Run(place / "other") as run:
        run.scalar("x", 1.0, 0)
    with ss.open(place, cache=False) as log:
        yield log


def test_a_curve_is_that_of_the_step_or_the_last_before_it(log):
    def ask(**query):
        return Addresses(log=log).ask("curve", {"run": "run", "tag": "pr", **query})

    found = ask(step="15")
    assert (found.step, found.total, [each.step for each in found.steps]) == (10, 3, [0, 10, 20])
    assert ask().step == 20
    expected = curve_of(np.array(LABELS), np.array(GUESSES), 11)
    assert len(found.thresholds) == 10  # nothing is above 0.9
    assert found.true_positives == expected[0, :10].tolist()
    assert found.precision == pytest.approx(expected[4, :10].tolist())
    assert found.area == pytest.approx(found.steps[0].area)
    assert found.area == pytest.approx(0.5 * 1 + 0.5 * 2 / 3, abs=1e-4)


def test_a_curve_goes_on_over_attempts(tmp_path):
    for first, guesses in ((0, GUESSES), (10, [0.9, 0.1, 0.2, 0.8])):
        with ss.Run(tmp_path / "run") as run:
            for step in (first, first + 10):
                run.pr_curve("pr", LABELS, guesses, step, num_thresholds=11)
    with ss.open(tmp_path, cache=False) as log:
        addresses = Addresses(log=log)

        def ask(**query):
            return addresses.ask("curve", {"run": "run", "tag": "pr", **query})

        found = ask(step="5")
        assert [each.step for each in found.steps] == [0, 10, 20]
        assert (found.step, found.attempt, found.total) == (0, 1, 3)
        again = ask(step="10")
        assert (again.step, again.attempt) == (10, 2), "the step that both recorded is the later attempt's"
        assert again.area != found.area
        assert [each.area for each in found.steps] == [found.area, again.area, again.area]


def test_what_is_no_curve_is_refused(log):
    with pytest.raises(Refusal, match="is of kind image, not a curve"):
        Addresses(log=log).ask("curve", run="run", tag="i")


def test_norms_are_the_newest_up_to_a_step(log):
    def ask(**query):
        found = Addresses(log=log).ask("gradient_norms", {"run": "run", **query})
        return {each.parameter: (each.step, each.norm) for each in found.norms}, found.steps

    assert ask() == ({"a.weight": (20, "NaN"), "b.bias": (10, 2.0)}, [0, 10, 20])
    assert ask(step="9")[0] == {"a.weight": (0, 1.0)}


def test_norms_go_on_over_attempts(tmp_path):
    for first, norm in ((0, 1.0), (10, 3.0)):
        with ss.Run(tmp_path / "run") as run:
            for step in (first, first + 10):
                run.scalar("gradients/a.weight/norm", norm, step)
    with ss.open(tmp_path, cache=False) as log:
        for step, norm in ((9, 1.0), (10, 3.0)):
            answer = Addresses(log=log).ask("gradient_norms", run="run", step=str(step))
            assert ([each.norm for each in answer.norms], answer.steps) == ([norm], [0, 10, 20])


@pytest.mark.parametrize(
    ("falls", "step", "before_step", "fell"),
    [
        ({"a": 100, "b": 100, "c": 100}, None, 95, ["a", "b", "c"]),
        ({"a": 100, "b": 100, "c": 20}, None, 95, ["a", "b"]),  # when most did
        ({"a": 100, "b": 100, "c": 100}, "50", 0, []),  # it had not fallen then
        ({}, None, 0, []),
    ],
)
def test_norms_before_are_those_before_most_gradients_fell(tmp_path, falls, step, before_step, fell):
    random = np.random.default_rng(0)
    with ss.Run(tmp_path / "run") as run:
        for at in range(0, 200, 5):
            for name in "abcd":
                level = 1e-6 if at >= falls.get(name, 1000) else 1.0
                run.scalar(f"gradients/{name}/norm", level * random.lognormal(0, 0.1), at)
    with ss.open(tmp_path, cache=False) as log:
        answer = Addresses(log=log).ask("gradient_norms", {"run": "run", **({"step": step} if step else {})})
    assert answer.before_step == before_step
    assert [each.parameter for each in answer.norms if each.fell] == fell
    assert answer.fell == ([96, 100] if fell else [])
    assert all(0.5 < each.before < 2 for each in answer.norms if each.parameter != "c" or each.fell)


def points(addresses, **query):
    header, body = unpack_as(addresses.ask("embedding", {"run": "run", **query}), EmbeddingHeader)
    return header, array_of(body, header.places).reshape(-1, 3)


def test_points_come_with_their_labels(log):
    header, places = points(Addresses(log=log))
    assert (header.points, header.dimensions, header.exact, header.columns) == (40, 5, True, ["label"])
    assert header.labels[3] == ["3"]
    assert header.explained == sorted(header.explained, reverse=True)
    assert np.allclose(places.var(0), np.linalg.eigvalsh(np.cov(VECTORS.T, bias=True))[::-1][:3], rtol=1e-3)
    assert (points(Addresses(log=log), axes="2")[1][:, 2] == 0).all()
    found = Addresses(log=log).ask("embeddings", run="run")
    assert [(each.name, each.sprite) for each in found.embeddings] == [("e:00000007", [3, 2])]
    assert Addresses(log=log).ask("embeddings", run="other").embeddings == []


def test_the_nearest_points_are_those_in_all_dimensions(log):
    query = {"run": "run", "point": "4", "metric": "euclidean", "count": "3"}
    found = Addresses(log=log).ask("neighbours", query)
    far = np.linalg.norm(VECTORS - VECTORS[4], axis=1)
    assert [each.point for each in found.neighbours] == np.argsort(far)[1:4].tolist()
    assert found.neighbours[0].distance == pytest.approx(np.sort(far)[1], rel=1e-4)


def test_pictures_are_those_of_the_sprite(log):
    found = Addresses(log=log).ask("sprite", run="run")
    assert found.media_type == "image/png"
    sheet = Image.open(io.BytesIO(found.data))
    side = math.ceil(math.sqrt(40))
    assert sheet.size == (3 * side, 2 * side), "a square of points, each 3 wide and 2 high"
    shades = [sheet.convert("L").getpixel((3 * (at % side), 2 * (at // side))) for at in range(40)]
    assert shades == [6 * at for at in range(40)]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"name": "x"}, 404),
        ({"method": "tsne"}, 400),
        ({"axes": "9"}, 400),
        ({"point": "40"}, 400),
        ({"metric": "x"}, 400),
    ],
)
def test_other_questions_are_refused(log, query, status):
    address = "neighbours" if query.keys() & {"point", "metric"} else "embedding"
    with raises(Refusal, status=status):
        Addresses(log=log).ask(address, {"run": "run", **query})


def test_without_umap_its_button_is_told_how(log, monkeypatch):
    monkeypatch.setattr(embeddings, "has_umap", lambda: False)
    with raises(Refusal, match="umap-learn is not installed", hint="pip install umap-learn"):
        Addresses(log=log).ask("embedding", run="run", method="umap")


@pytest.fixture(scope="module")
def grouped(tmp_path_factory):
    """Three groups of points that lie far apart, and fewer points than UMAP can take."""
    place = tmp_path_factory.mktemp("grouped")
    rng = np.random.default_rng(0)
    groups = np.concatenate([rng.normal(size=(20, 8)) + 10 * group for group in range(3)])
    with ss.Run(place / "run") as run:
        run.embedding("groups", groups.astype("f4"), 0)
        run.embedding("few", groups[:4].astype("f4"), 0)
    with ss.open(place, cache=False) as log:
        yield log


@pytest.mark.parametrize("axes", ["2", "3"])
def test_umap_itself_keeps_groups_together(grouped, axes):
    pytest.importorskip("umap", exc_type=ImportError)
    addresses = Addresses(log=grouped)
    facts = addresses.ask("embeddings", run="run")
    assert facts.umap
    named = next(each.name for each in facts.embeddings if "groups" in each.name)
    ask = {"method": "umap", "axes": axes, "name": named}
    header, places = points(addresses, **ask)
    assert header.waiting_seconds is not None
    for work in threading.enumerate():
        if work.name == "stepscope-umap":
            work.join(120)
    header, places = points(addresses, **ask)
    assert (header.waiting_seconds, header.points, header.dimensions) == (None, 60, 8)
    assert np.isfinite(places).all()
    assert (places[:, 2] == 0).all() == (axes == "2")
    far = np.linalg.norm(places[:, None] - places[None], axis=2)
    nearest = np.argsort(far, axis=1)[:, 1:6]
    assert (nearest // 20 == np.arange(60)[:, None] // 20).all()


def test_umap_of_too_few_points_is_refused(grouped, monkeypatch):
    monkeypatch.setattr(embeddings, "has_umap", lambda: True)
    addresses = Addresses(log=grouped)
    facts = addresses.ask("embeddings", run="run")
    named = next(each.name for each in facts.embeddings if "few" in each.name)
    with pytest.raises(Refusal, match="UMAP needs at least 5 points for 3 dimensions, found 4") as refusal:
        points(addresses, method="umap", axes="3", name=named)
    assert (refusal.value.status, refusal.value.hint) == (422, "PCA shows fewer")


@pytest.mark.parametrize("fails", [False, True])
def test_umap_is_computed_beside_the_answers(log, monkeypatch, fails):
    go, asked = threading.Event(), []

    class Umap:
        def __init__(self, **options):
            asked.append(options)

        def fit_transform(self, matrix):
            assert go.wait(20)
            if fails:
                raise ValueError("too few")
            return matrix[:, :2] + 7

    monkeypatch.setitem(sys.modules, "umap", types.SimpleNamespace(UMAP=Umap))
    monkeypatch.setattr(embeddings, "has_umap", lambda: True)
    now = iter(range(1000))
    addresses = Addresses(log=log)
    addresses.backend.part(EmbeddingAnswers)._clock = lambda: float(next(now))
    header, places = points(addresses, method="umap", axes="2")
    assert header.waiting_seconds == 1
    assert len(places) == 0
    [work] = [thread for thread in threading.enumerate() if thread.name == "stepscope-umap"]
    go.set()
    work.join(20)
    if fails:
        with pytest.raises(Refusal, match="UMAP failed: too few"):
            points(addresses, method="umap", axes="2")
        return
    for _ in range(2):
        header, places = points(addresses, method="umap", axes="2")
        assert header.waiting_seconds is None
        assert np.allclose(places[:, :2], VECTORS[:, :2] - VECTORS[:, :2].mean(0), atol=1e-5)
    assert asked == [{"n_components": 2, "n_neighbors": 15, "random_state": 0, "n_jobs": 1}]
