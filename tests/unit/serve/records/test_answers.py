"""What is answered about histograms, images, texts and graphs."""

import io
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from PIL import Image
from support.addresses import Addresses

import stepscope as ss
from stepscope.events import Event, EventWriter
from stepscope.events.kinds.graph import GraphDef, MetaGraphDef, Node, NodeCost, graph_def
from stepscope.events.kinds.mesh import MeshPart
from stepscope.events.wire import decode, encode
from stepscope.serve.records import answers
from stepscope.serve.records.answers import GraphAnswer, RecordAnswer, RecordTags
from stepscope.serve.records.ask import AttemptRecords
from stepscope.serve.reply import Refusal


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    place = tmp_path_factory.mktemp("log")
    rng = np.random.default_rng(0)
    with ss.Run(place / "run", config={"lr": 0.1}) as run:
        for step in range(250):
            run.histogram("h", np.arange(10.0) + step, step, buckets=2, description="*what*")
        run.images("i", rng.random((2, 4, 5, 3)), 7)
        run.audio("a", np.zeros(8), 7, label="*quiet*")
        run.text("t", "x", 7)
        run.table("tab", [{"a": 1, "b": None}], 7)
        run.pr_curve("pr", [0, 1], [0.2, 0.9], 7, num_thresholds=5)
        run.mesh("m", np.arange(6.0).reshape(2, 3), 7)
        run.tensor("raw", np.arange(4).reshape(2, 2), 7)
        run.embedding("e", np.eye(3), 7)
        run.layout({"c": {"q": ["Multiline", ["loss"]]}})
        nodes = [Node("x", "Input"), Node("y", "Dense", ["x"], [(2, -1)], "cpu", {"units": 3, "name": "n"})]
        run.graph(nodes, costs=[NodeCost("y", 10, 5, 64), NodeCost("y", 20, 8, 32)], tag="step 1", step=0)
        run.graph(None, costs=[NodeCost("y", 0, 1)], tag="a later step", step=9)
        run.video("svg", b"GIF89a" + bytes(20), 7)
    with ss.open(place, cache=False) as log:
        yield log


def typed(log, address, kind, query):
    return msgspec.convert(Addresses(log=log).json(address, query), kind)


def ask(log, **query):
    return typed(log, "record", RecordAnswer, {"run": "run", **query})


def test_the_list_names_every_tag_with_its_kind(log):
    found = typed(log, "records", RecordTags, {"run": "run"})
    kinds = {each.tag: each.kind for each in found.tags}
    assert kinds.items() >= {
        "h": "histogram", "i": "image", "a": "audio", "t": "text", "tab": "text", "tab/table": "table",
        "pr": "pr_curve", "m_VERTEX": "mesh", "raw": "tensor", "e": "embedding", "svg": "video",
        "custom_scalars__config__": "layout", "__run_graph__": "graph", "step 1": "run_metadata",
        "_hparams_/session_start_info": "hparams", "stepscope/run": "stepscope",
    }.items()  # fmt: skip
    assert [each.tag for each in found.tags if each.of_table] == ["tab"]
    assert {each.tag: each.mesh for each in found.tags if each.mesh} == {
        "m_VERTEX": MeshPart("m", "vertices")
    }
    [h] = [each for each in found.tags if each.tag == "h"]
    assert (h.count, h.last_step, h.description, h.plugin) == (250, 249, "*what*", "histograms")


def test_many_values_are_thinned_evenly_and_the_newest_kept(log):
    [series] = ask(log, tag="h", limit="10").series
    assert (series.total, len(series.values)) == (250, 10)
    assert [value.step for value in series.values] == [24 + 25 * i for i in range(10)]
    assert series.values[-1].rows == [[249.0, 253.5, 5.0], [253.5, 258.0, 5.0]]
    assert len(ask(log, tag="h").series[0].values) == 100
    assert answers.thinned(3, 10) == [0, 1, 2]


def test_attempts_say_from_where_a_later_one_recorded_again(tmp_path):
    for first, value in ((0, 1), (6, 2), (20, 3)):
        with ss.Run(tmp_path / "run", start_step=first) as run:
            for _ in run.steps(range(10)):
                run.histogram("h", np.full(3, value))
                run.image("i", np.full((2, 2, 3), 50 * value, np.uint8))
    with ss.open(tmp_path, cache=False) as log:
        found = ask(log, tag="h").series
        assert [(each.attempt, each.total, each.superseded_from, each.superseded) for each in found] == [
            (1, 10, 6, 4), (2, 10, None, 0), (3, 10, None, 0)
        ]  # fmt: skip
        for attempt in (1, 2, 3):
            blob = Addresses(log=log).ask(
                "blob", {"run": "run", "tag": "i", "attempt": str(attempt), "at": "0"}
            )
            assert Image.open(io.BytesIO(blob.data)).getpixel((0, 0))[0] == 50 * attempt


def test_an_attempt_that_took_several_files_is_one(tmp_path, log):
    whole = ask(log, tag="h").series[0]
    [stored] = log.run("run").record("h")
    halves = AttemptRecords((stored, stored))
    assert len(halves) == 2 * whole.total
    assert [halves.place(at)[1] for at in (0, whole.total - 1, whole.total)] == [0, whole.total - 1, 0]
    with pytest.raises(IndexError):
        halves.place(2 * whole.total)


def test_each_kind_travels_in_its_own_form(log):
    def one(tag):
        [series] = ask(log, tag=tag).series
        return series.values[0]

    assert [blob.mime for blob in one("i").blobs] == ["image/png", "image/png"]
    assert one("i").shape == [5, 4]
    assert (one("a").blobs[0].mime, one("a").blobs[0].label) == ("audio/wav", "*quiet*")
    assert one("t").texts == ["x"]
    assert (one("tab/table").table.columns, one("tab/table").table.rows) == (["a", "b"], [[1, None]])
    assert np.shape(one("pr").rows) == (6, 5)
    assert one("m_VERTEX").shape == [1, 2, 3]
    assert one("raw").shape == [2, 2]
    assert one("e").facts["points"] == 3
    assert one("_hparams_/session_start_info").facts == {"lr": 0.1}
    assert one("custom_scalars__config__").facts["category"][0]["chart"][0]["title"] == "q"
    assert one("stepscope/run").facts["schema"] == 1


def test_bytes_come_one_by_one(log):
    blob = Addresses(log=log).ask("blob", {"run": "run", "tag": "i", "index": "1"})
    assert Image.open(io.BytesIO(blob.data)).size == (5, 4)
    numbers = Addresses(log=log).ask("blob", {"run": "run", "tag": "raw", "at": "0", "attempt": "1"})
    assert np.frombuffer(numbers.data, "<f4").tolist() == [0, 1, 2, 3]


def test_the_graph_with_what_its_nodes_took(log):
    found = typed(log, "graph", GraphAnswer, {"run": "run", "tag": "step 1"})
    assert [(node.name, node.inputs, node.shapes) for node in found.nodes] == [
        ("x", [], []),
        ("y", ["x"], [[2, -1]]),
    ]
    assert found.nodes[1].attributes == {"units": 3, "name": "n"}
    assert found.tags == ["step 1", "a later step"]
    [cost] = found.costs
    assert (cost.name, cost.device, cost.duration_us, cost.memory_bytes) == ("y", "/device:CPU:0", 18, 64)
    newest = typed(log, "graph", GraphAnswer, {"run": "run"})
    assert (newest.costs[0].duration_us, newest.costs[0].memory_bytes) == (1, None)


def test_the_graph_of_tensorflow_is_read_where_it_stands_beside_a_meta_graph_and_where_only_that_is(tmp_path):
    graph = graph_def([Node("x", "Input"), Node("y", "Dense", ["x"])])
    for name, events in {
        "both": [Event(meta_graph_def=encode(MetaGraphDef(GraphDef()))), Event(graph_def=graph)],
        "meta": [Event(meta_graph_def=encode(MetaGraphDef(decode(GraphDef, graph))))],
    }.items():
        writer = EventWriter(tmp_path / name)
        for event in events:
            writer.event(event)
        writer.close()
    with ss.open(tmp_path, cache=False) as log:
        for name in ("both", "meta"):
            found = typed(log, "graph", GraphAnswer, {"run": name})
            assert [node.name for node in found.nodes] == ["x", "y"]


@pytest.mark.parametrize(
    ("address", "query", "status"),
    [
        ("records", {}, 400),
        ("records", {"run": "none"}, 404),
        ("record", {"run": "run"}, 400),
        ("record", {"run": "run", "tag": "none"}, 404),
        ("record", {"run": "run", "tag": "h", "limit": "-1"}, 400),
        ("blob", {"run": "run", "tag": "t"}, 404),
        ("blob", {"run": "run", "tag": "i", "at": "9"}, 400),
        ("blob", {"run": "run", "tag": "i", "index": "2"}, 400),
        ("blob", {"run": "run", "tag": "i", "writer": "nobody"}, 404),
        ("graph", {"run": "run", "tag": "none"}, 404),
    ],
)
def test_what_is_not_there_is_refused(address, query, status, log):
    with pytest.raises(Refusal) as refusal:
        Addresses(log=log).ask(address, query)
    assert refusal.value.status == status
    assert refusal.value.hint


def test_before_anything_is_read(log):
    with pytest.raises(Refusal, match="nothing has been read yet"):
        Addresses().ask("records", run="run")


def test_a_value_that_changed_after_it_was_listed_says_so(log, tmp_path):
    from stepscope.events import Metadata, Shape, Summary, Tensor, Value

    def written(name, sizes):
        writer, count = EventWriter(tmp_path / name), math.prod(sizes)
        stored = Tensor(1, Shape.of(*sizes), float_val=[1.0] * count)
        value = Value("h", tensor=stored, metadata=Metadata.of("histograms"))
        writer.event(Event(1.0, 0, summary=Summary([value])))
        writer.close()
        return Path(writer.path)

    path = written("bad", (1, 3))
    with ss.open(tmp_path, cache=False) as other:
        path.write_bytes(written("other", (2,)).read_bytes())
        found = typed(other, "record", RecordAnswer, {"run": "bad", "tag": "h"})
    assert found.series[0].values[0].error == "a histogram has rows of 3, found a tensor of shape [2]"


def test_bytes_of_unknown_type_are_no_page(tmp_path):
    from stepscope.events import EventWriter
    from stepscope.events.kinds import image
    from stepscope.events.messages import Event, Summary

    writer = EventWriter(tmp_path / "odd")
    writer.event(Event(1.0, 0, summary=Summary([image.value("i", [b"<html><script>"], 1, 1)])))
    writer.close()
    with ss.open(tmp_path, cache=False) as other:
        blob = Addresses(log=other).ask("blob", {"run": "odd", "tag": "i"})
    assert blob.media_type == "application/octet-stream"


def test_over_http(log, ask):
    from stepscope.serve.access import Access
    from stepscope.serve.app import Application

    class Follower:
        def __init__(self):
            self.log, self.log_dir, self.cache = log, log.path, False

    application = Application(Follower(), None)
    app = application.asgi(access=Access("127.0.0.1"), cookie="c")
    answer = ask(app, "/api/v1/blob?run=run&tag=i")
    assert answer.status == 200
    assert answer.header("content-type") == "image/png"
    assert answer.header("content-disposition") == "attachment"
    assert ask(app, "/api/v1/records?run=run").json["run"] == "run"
    assert ask(app, "/api/v1/graph?run=run").json["tags"] == ["step 1", "a later step"]
    assert ask(app, "/api/v1/record?run=run&tag=none").status == 404
    application.close()
