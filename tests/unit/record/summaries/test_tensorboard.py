"""Every kind of summary as TensorBoard's own plugins show it, and as we read it back."""

import io
import json
import wave
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from PIL import Image

import stepscope as ss
from stepscope.events.kinds.graph import Node, NodeCost
from stepscope.record import edges

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
RNG = np.random.default_rng(0)


def test_histogram(run, tensorboard, stored):
    from tensorboard.plugins.histogram import histograms_plugin, summary_v2
    from tensorboard.util import tensor_util

    values = RNG.normal(size=(100, 7))
    run.histogram("h", values, 3, description="what *it* is")
    run.histogram("five", torch.tensor(values), 3, buckets=5)
    run.histogram("same", np.full(9, 2.5), 3)
    board = tensorboard()
    plugin = histograms_plugin.HistogramsPlugin(board.context)
    [(_, step, rows)], _ = plugin.histograms_impl(board.request, "h", ".", "")
    assert step == 3
    for tag, data, buckets in (("h", values, None), ("five", values, 5), ("same", np.full(9, 2.5), None)):
        theirs = tensor_util.make_ndarray(summary_v2.histogram_pb("h", data, buckets).value[0].tensor)
        np.testing.assert_allclose(board.tensors("histograms", tag)[0][1], theirs, 1e-12, 1e-12)
        np.testing.assert_allclose(stored().record(tag)[0][0], theirs, 1e-12, 1e-12)
    assert np.array(rows).shape == (30, 3)
    assert "what <em>it</em> is" in plugin.index_impl(board.request, "")["."]["h"]["description"]


def test_histograms_of_fixed_edges_add_up_exactly(run, stored):
    parts = [RNG.normal(size=1000) * 10.0**i for i in range(-3, 4)]
    for step, part in enumerate(parts):
        run.histogram("part", jnp.asarray(part, jnp.float32), step, buckets="fixed")
    run.histogram("all", np.concatenate(parts).astype(np.float32), buckets="fixed")
    found = stored()
    [series] = found.record("part")
    summed = sum(edges.counts(np.asarray(part, np.float32)) for part in parts)
    np.testing.assert_array_equal(found.record("all")[0][0], edges.rows(summed))
    assert sum(rows[:, 2].sum() for rows in series) == 7000


def test_what_ends_at_an_edge_has_no_bucket_beyond_it(run, stored):
    before = np.linspace(-50, 50, 1001)
    run.histogram("sigmoid", 1 / (1 + np.exp(-before)), buckets="fixed")
    run.histogram("tanh", np.tanh(before), buckets="fixed")
    run.histogram("ones", np.ones(5), buckets="fixed")
    run.histogram("beyond", [0.5, 1.0, 1.1], buckets="fixed")
    run.histogram("zeros", np.zeros(5), buckets="fixed")
    found = {tag: stored().record(tag)[0][0] for tag in ("sigmoid", "tanh", "ones", "beyond", "zeros")}
    assert found["sigmoid"][-1, :2].tolist() == [1, 1]
    assert found["tanh"][[0, -1], :2].tolist() == [[-1, -1], [1, 1]]
    assert found["sigmoid"][:, 2].sum() == found["tanh"][:, 2].sum() == 1001
    assert found["ones"].tolist() == [[1, 1, 5]]
    assert found["beyond"][-1].tolist() == [1, 1.25, 2]
    assert found["zeros"].tolist() == [[-(2.0**-64), 2.0**-64, 5]]


def test_counts_that_are_known(run, tensorboard, stored):
    run.histogram_counts("h", [1, 0, 5], np.array([0.0, 1.0, 2.0, 4.0]))
    expected = [[0, 1, 1], [1, 2, 0], [2, 4, 5]]
    assert tensorboard().tensors("histograms", "h")[0][1].tolist() == expected
    assert stored().record("h")[0][0].tolist() == expected


def test_a_histogram_leaves_out_what_is_not_finite_and_counts_it(run, stored):
    run.histogram("h", [1.0, np.nan, 2.0, np.inf, -np.inf], 4)
    run.histogram("clean", [1.0, 2.0], 4)
    found = stored()
    assert found.record("h")[0][0][:, 2].sum() == 2
    assert found.columns("h/nonfinite")[0].value.tolist() == [3.0]
    assert "clean/nonfinite" not in found.tags()


@pytest.mark.parametrize(
    ("image", "options", "expected"),
    [
        (np.arange(60, dtype=np.uint8).reshape(4, 5, 3), {}, None),
        (np.arange(60, dtype=np.uint8).reshape(3, 4, 5), {}, "chw"),
        (torch.arange(60, dtype=torch.uint8).reshape(3, 4, 5), {}, "chw"),
        (
            torch.zeros(3, 3, 3, dtype=torch.uint8) + torch.arange(3, dtype=torch.uint8)[:, None, None],
            {},
            "chw",
        ),
        (np.arange(20, dtype=np.uint8).reshape(4, 5), {}, None),
        (np.arange(20, dtype=np.uint8).reshape(5, 4), {"dataformats": "WH"}, "wh"),
        (np.linspace(0, 1, 60).reshape(4, 5, 3), {}, "float"),
        (np.array([[[-1.0], [0.5], [2.0]]], np.float32), {}, "float"),
        (jnp.asarray(np.linspace(0, 1, 60).reshape(4, 5, 3), jnp.bfloat16), {}, "float"),
        (np.eye(4, dtype=bool), {}, "bool"),
    ],
)
def test_image(image, options, expected, run, tensorboard, stored, picture):
    run.image("i", image, 2, **options)
    array = np.asarray(image, np.float32 if expected == "float" else None)
    if expected == "chw":
        array = array.transpose(1, 2, 0)
    elif expected == "wh":
        array = array.T
    elif expected == "float":
        array = (array.clip(0, 1) * 255 + 0.5).astype(np.uint8)
    elif expected == "bool":
        array = array * np.uint8(255)
    array = np.broadcast_to(array.reshape(*array.shape[:2], -1), (*array.shape[:2], 3))
    [[width, height, encoded]] = tensorboard().blobs("images", "i")
    assert (width, height) == (b"%d" % array.shape[1], b"%d" % array.shape[0])
    np.testing.assert_array_equal(picture(encoded), array)
    [blob] = stored().record("i")[0][0].blobs
    assert blob == ("image/png", encoded) or (blob.mime, blob.data) == ("image/png", encoded)


def test_alpha_is_kept(run, stored, picture):
    image = RNG.integers(0, 256, (4, 5, 4), np.uint8)
    run.image("rgba", image)
    run.image("la", image[:, :, :2], dataformats="HWC")
    found = stored()
    np.testing.assert_array_equal(picture(found.record("rgba")[0][0].blobs[0].data, "RGBA"), image)
    np.testing.assert_array_equal(picture(found.record("la")[0][0].blobs[0].data, "LA"), image[:, :, :2])


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "WEBP"])
def test_encoded_images_stay_as_they_are(form, run, tensorboard, stored):
    buffer = io.BytesIO()
    Image.fromarray(RNG.integers(0, 255, (6, 9, 3), np.uint8)).save(buffer, form)
    run.image("i", buffer.getvalue())
    assert tensorboard().blobs("images", "i") == [[b"9", b"6", buffer.getvalue()]]
    assert stored().record("i")[0][0].blobs[0].mime == f"image/{form.lower()}"


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "LA", "CMYK", "I;16"])
def test_images_of_pil(mode, run, stored, picture):
    run.image("i", Image.new(mode, (5, 4)))
    assert picture(stored().record("i")[0][0].blobs[0].data).shape == (4, 5, 3)


def test_a_pil_image_that_is_drawn_on_later_is_recorded_as_it_was(run, stored, picture):
    image = Image.new("RGB", (5, 4), "red")
    run.image("i", image)
    image.paste("blue", (0, 0, 5, 4))
    assert picture(stored().record("i")[0][0].blobs[0].data)[0, 0].tolist() == [255, 0, 0]


def test_a_figure_is_drawn_as_it_is_and_its_canvas_left_alone(run, stored, picture):
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(2, 1), dpi=50, facecolor="lime")
    canvas = figure.canvas
    run.image("f", figure)
    figure.set_facecolor("black")
    found = picture(stored().record("f")[0][0].blobs[0].data)
    assert found.shape == (50, 100, 3)
    assert found[0, 0].tolist() == [0, 255, 0]
    assert figure.canvas is canvas


def test_several_images(run, tensorboard, stored, picture):
    batch = torch.rand(5, 3, 4, 6)
    run.images("batch", batch, max_images=3)
    run.images("list", [np.zeros((4, 6)), Image.new("L", (6, 4), 9)])
    [[width, _, *encoded]] = tensorboard().blobs("images", "batch")
    assert width == b"6"
    assert len(encoded) == 3
    expected = (batch[2].permute(1, 2, 0).numpy() * 255 + 0.5).astype(np.uint8)
    np.testing.assert_array_equal(picture(encoded[2]), expected)
    assert len(stored().record("list")[0][0].blobs) == 2


@pytest.mark.parametrize("channels", [1, 2])
def test_audio(channels, run, tensorboard, stored):
    samples = np.clip(RNG.normal(size=(100, channels)), -2, 2)
    run.audio("a", samples, sample_rate=8000, label="*l*")
    run.audio("int16", torch.tensor([[0, 5, -5, 32767]], dtype=torch.int16), sample_rate=100)
    [[clip]] = tensorboard().blobs("audio", "a")
    with wave.open(io.BytesIO(clip)) as read:
        assert (read.getframerate(), read.getnchannels(), read.getsampwidth()) == (8000, channels, 2)
        decoded = np.frombuffer(read.readframes(200), "<i2").reshape(-1, channels)
    np.testing.assert_array_equal(decoded, (samples.clip(-1, 1) * 32767).astype(np.int16))
    found = stored()
    [mine] = found.record("a")[0][0]
    assert (mine.blob.mime, mine.label, mine.blob.data) == ("audio/wav", "*l*", clip)
    [raw] = found.record("int16")[0][0]
    assert np.frombuffer(raw.blob.data[44:], "<i2").tolist() == [0, 5, -5, 32767]


@pytest.mark.parametrize("colors", [2, 200, 5000])
def test_video_becomes_a_gif(colors, run, tensorboard, stored):
    frames = RNG.integers(0, 256, (colors, 3), np.uint8)[RNG.integers(0, colors, (4, 12, 19))]
    run.video("v", frames, fps=20)
    [[width, height, encoded]] = tensorboard().blobs("images", "v")
    assert (width, height) == (b"19", b"12")
    film = Image.open(io.BytesIO(encoded))
    assert (film.n_frames, film.info["duration"], film.info["loop"]) == (4, 50, 0)
    for number in range(4):
        film.seek(number)
        shown = np.asarray(film.convert("RGB")).astype(int)
        if colors <= 256:
            np.testing.assert_array_equal(shown, frames[number])
        else:
            assert np.abs(shown - frames[number]).mean() < 16
    assert [(r.tag, r.kind) for r in stored().records() if r.tag == "v"] == [("v", "video")]


def test_a_larger_gif_is_decoded_whole(run, stored):
    ramp = np.broadcast_to(np.arange(256, dtype=np.uint8), (2, 300, 256))
    run.video("v", ramp)
    film = Image.open(io.BytesIO(stored().record("v")[0][0].blobs[0].data))
    np.testing.assert_array_equal(np.asarray(film.convert("L")), ramp[0])


def test_films_that_no_image_element_plays_are_kept_apart(run, tensorboard, stored):
    data = b"\0\0\0\x18ftypmp42" + bytes(20)
    run.video("v", data)
    assert "v" not in tensorboard().multiplexer.PluginRunToTagToContent("images").get(".", {})
    [blob] = stored().record("v")[0][0].blobs
    assert (blob.mime, blob.data) == ("video/mp4", data)


def test_text_and_table(run, tensorboard, stored):
    from tensorboard.plugins.text import text_plugin

    run.text("t", "# Title\n\n*x*", 1)
    run.table("tab", [{"name": "a|b", "value": 0.5}, {"name": "c", "value": None}], 1)
    run.table("lists", [[1, True], [np.float32(2.5), torch.tensor(3)]], columns=["x", "y"])
    board = tensorboard()
    plugin = text_plugin.TextPlugin(board.context)
    [shown] = plugin.text_impl(board.request, ".", "t", "", True)
    assert "<em>x</em>" in shown["text"]
    [shown] = plugin.text_impl(board.request, ".", "tab", "", True)
    assert "<th>name</th>" in shown["text"]
    assert "<td>a|b</td>" in shown["text"]
    found = stored()
    assert found.record("t")[0][0].item() == "# Title\n\n*x*"
    assert found.record("tab/table")[0][0].rows == (("a|b", 0.5), ("c", None))
    assert found.record("lists/table")[0][0].rows == ((1, True), (2.5, 3))


def test_tables_of_data_frames(run, stored):
    import pandas
    import polars

    data = {"x": [1, 2], "y": ["a", "b"]}
    run.table("pandas", pandas.DataFrame(data))
    run.table("polars", polars.DataFrame(data))
    found = stored()
    for tag in ("pandas/table", "polars/table"):
        table = found.record(tag)[0][0]
        assert (table.columns, table.rows) == (("x", "y"), ((1, "a"), (2, "b")))


def test_rows_of_a_table_are_as_they_were_when_it_was_logged(run, stored):
    class Kind(str):
        def __str__(self):
            return "another"

    ragged = [{"a": 1, "b": "é|\n"}, {"b": 2, "c": 3}, {"a": "\ud800", 7: None}]
    lists, array = [[1, "x"], (2, "y")], np.array(5)
    run.table("ragged", ragged)
    run.table("lists", lists, columns=["n", "t"])
    run.table("mixed", [{"a": array, "b": Kind("k")}, {"a": True, "b": {"x": 1}}])
    run.table("one", [{"a": 1}, {"a": 2}])
    run.table("picked", [{"a": 1, "b": 2, "c": 3}], columns=["c", "a"])
    ragged[0]["a"] = lists[0][0] = 100
    array[()] = 100
    found = stored()
    tables = {
        tag: found.record(f"{tag}/table")[0][0] for tag in ("ragged", "lists", "mixed", "one", "picked")
    }
    assert tables["ragged"].columns == ("a", "b", "c", "7")
    assert tables["ragged"].rows == ((1, "é|\n", None, None), (None, 2, 3, None), ("?", None, None, None))
    assert tables["lists"].rows == ((1, "x"), (2, "y"))
    assert tables["mixed"].rows == ((5, "k"), (True, "{'x': 1}"))
    assert tables["one"].rows == ((1,), (2,))
    assert tables["picked"].rows == ((3, 1),)
    assert "| 1 | é\\|  |" in found.record("ragged")[0][0].item()


def test_pr_curve(run, tensorboard, stored):
    from tensorboard.plugins.pr_curve import pr_curves_plugin

    labels, predictions = RNG.integers(0, 2, 300), RNG.random(300)
    run.pr_curve("pr", labels, jnp.asarray(predictions), 5, num_thresholds=50)
    run.pr_curve("weighed", labels == 1, predictions, 5, weights=np.full(300, 2.0))
    board = tensorboard()
    plugin = pr_curves_plugin.PrCurvesPlugin(board.context)
    [entry] = plugin.pr_curves_impl(board.request, "", ["."], "pr")["."]
    assert entry["step"] == 5
    threshold = 20 / 49
    positive = np.asarray(jnp.asarray(predictions)) >= threshold - 1e-7
    assert entry["true_positives"][20] == pytest.approx((positive & (labels == 1)).sum(), abs=1)
    assert entry["recall"][20] == pytest.approx((positive & (labels == 1)).sum() / labels.sum(), abs=0.02)
    found = stored()
    assert found.record("pr")[0][0].shape == (6, 50)
    assert found.record("weighed")[0][0][0, 0] == 2 * labels.sum()


def test_mesh(run, tensorboard, stored):
    points, faces = RNG.random((8, 3)), [[0, 1, 2], [3, 4, 5]]
    colors = RNG.integers(0, 256, (8, 3), np.uint8)
    run.mesh("m", points, 1, faces=faces, colors=colors, config={"camera": {"fov": 75}})
    run.mesh("cloud", torch.rand(2, 5, 3))
    board = tensorboard()
    np.testing.assert_allclose(board.tensors("mesh", "m_VERTEX")[0][1], points[None], 1e-6)
    np.testing.assert_array_equal(board.tensors("mesh", "m_FACE")[0][1], [faces])
    np.testing.assert_array_equal(board.tensors("mesh", "m_COLOR")[0][1], colors[None])
    from tensorboard.plugins.mesh import metadata

    content = board.multiplexer.SummaryMetadata(".", "m_VERTEX").plugin_data.content
    parsed = metadata.parse_plugin_metadata(content)
    assert (parsed.name, list(parsed.shape), parsed.json_config) == (
        "m",
        [1, 8, 3],
        '{"camera": {"fov": 75}}',
    )
    assert parsed.components == metadata.get_components_bitmask([1, 2, 3])
    assert stored().record("cloud_VERTEX")[0][0].shape == (2, 5, 3)


def test_hyper_parameters_metrics_and_status(run, tensorboard, stored):
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    run.hparams({"lr": 0.5, "model": {"depth": 3}, "flag": True, "name": "x"}, {"score": 0.75}, 9)
    board = tensorboard(parent=True)  # TensorBoard finds no metrics of a run that is the log directory itself
    context = backend_context.Context(board.context)
    infos = context.experiment_from_metadata(
        board.request, "", include_metrics=True,
        hparams_run_to_tag_to_content=context.hparams_metadata(board.request, ""),
        data_provider_hparams=[],
    )  # fmt: skip
    assert {info.name for info in infos.hparam_infos} == {"lr", "model.depth", "flag", "name"}
    assert "score" in {info.name.tag for info in infos.metric_infos}
    request = api_pb2.ListSessionGroupsRequest(
        allowed_statuses=[api_pb2.STATUS_SUCCESS], start_index=0, slice_size=9, include_metrics=True,
        col_params=[api_pb2.ColParams(metric=api_pb2.MetricName(tag="score"))],
    )  # fmt: skip
    [group] = list_session_groups.Handler(board.request, context, "", request).run().session_groups
    assert group.hparams["lr"].number_value == 0.5
    assert group.hparams["flag"].bool_value is True
    assert [metric.value for metric in group.sessions[0].metric_values if metric.name.tag == "score"] == [
        0.75
    ]
    found = stored()
    assert found.info.config == {"lr": 0.5, "model": {"depth": 3}, "flag": True, "name": "x"}
    assert found.info.status == "finished"


def test_custom_scalar_layout(run, tensorboard, stored):
    from tensorboard.plugins.custom_scalar import custom_scalars_plugin

    run.scalar("loss", 1.0)
    run.layout({"Losses": {"all": ["Multiline", ["loss.*"]], "band": ["Margin", ["a", "b", "c"]]}})
    board = tensorboard()
    plugin = custom_scalars_plugin.CustomScalarsPlugin(board.context)
    charts = json.loads(plugin.layout_impl(board.request, ""))["category"][0]["chart"]
    assert [chart["title"] for chart in charts] == ["all", "band"]
    assert charts[0]["multiline"]["tag"] == ["loss.*"]
    assert charts[1]["margin"]["series"][0] == {"value": "a", "lower": "b", "upper": "c"}
    [category] = stored().record("custom_scalars__config__")[0][0].category
    assert category.title == "Losses"


def test_graph_with_time_and_memory(run, tensorboard, stored):
    from tensorboard.compat.proto.config_pb2 import RunMetadata
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.plugins.graph import graphs_plugin

    nodes = [
        Node("x", "Input", shapes=[(2, 3)]),
        Node(
            "net/dense",
            "Dense",
            ["x"],
            [(2, 4)],
            "cuda:0",
            {"units": 4, "bias": True, "rate": 0.5, "f": "relu"},
        ),
    ]
    run.graph(nodes, costs=[NodeCost("net/dense", 5.0, 20.0, 4096, [(2, 4)], "cuda:0")], tag="step 7")
    board = tensorboard()
    plugin = graphs_plugin.GraphsPlugin(board.context)
    info = plugin.info_impl(board.request, "")
    assert info["."]["run_graph"] is True
    assert info["."]["tags"]["step 7"]["profile"] is True
    shown, _ = plugin.graph_impl(board.request, ".", None, False, "", None, "")
    assert 'name: "net/dense"' in shown
    assert '"/device:GPU:0"' in shown
    shown, _ = plugin.run_metadata_impl(board.request, "", ".", "step 7")
    assert "all_end_rel_micros: 20" in shown
    assert "total_bytes: 4096" in shown
    found = stored()
    graph = GraphDef.FromString(found.record("__run_graph__")[0][0])
    assert [(node.name, list(node.input)) for node in graph.node] == [("x", []), ("net/dense", ["x"])]
    attributes = graph.node[1].attr
    assert (attributes["units"].i, attributes["bias"].b, attributes["rate"].f) == (4, True, 0.5)
    assert [d.size for d in attributes["_output_shapes"].list.shape[0].dim] == [2, 4]
    [device] = RunMetadata.FromString(found.record("step 7")[0][0]).step_stats.dev_stats
    assert device.device == "/device:GPU:0"
    assert GraphDef.FromString(graph.SerializeToString()) == graph


def test_graphs_as_messages_and_bytes(tmp_path):
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.node_def_pb2 import NodeDef

    message = GraphDef(node=[NodeDef(name="a", op="B")])
    for given in (message, message.SerializeToString()):
        with ss.Run(tmp_path / str(type(given).__name__)) as run:
            run.graph(given)
        with ss.open(run.log_dir, cache=False) as log:
            assert log.run(".").record("__run_graph__")[0][0] == message.SerializeToString()


def test_embedding(run, tensorboard, stored):
    from tensorboard.plugins.projector import projector_plugin

    vectors = RNG.random((5, 3)).astype(np.float32)
    run.embedding("words", vectors, 1, labels=["a\tb", "b", "c", "d", "é"], images=RNG.random((5, 8, 6, 3)))
    run.embedding("words", vectors, 2, labels=[[i, i * i] for i in range(5)], columns=["n", "square"])
    plugin = projector_plugin.ProjectorPlugin(tensorboard().context)
    plugin._update_configs()
    [config] = plugin._configs.values()
    names = [embedding.tensor_name for embedding in config.embeddings]
    assert names == ["words:00000001", "words:00000002"]
    assert list(config.embeddings[0].sprite.single_image_dim) == [6, 8]
    tensor = projector_plugin._read_tensor_tsv_file(f"{run.log_dir}/{config.embeddings[0].tensor_path}")
    np.testing.assert_array_equal(np.asarray(tensor, np.float32), vectors)
    labels = [Path(run.log_dir, each.metadata_path).read_text("utf-8") for each in config.embeddings]
    assert labels[0].splitlines() == ["a b", "b", "c", "d", "é"]
    assert labels[1].splitlines()[:2] == ["n\tsquare", "0\t0"]
    assert stored().record("words")[0][1]["points"] == 5


def test_an_array_as_it_is(run, stored):
    run.tensor("t", np.arange(6).reshape(2, 3))
    run.tensor("b", torch.tensor([1.5], dtype=torch.bfloat16))
    found = stored()
    assert found.record("t")[0][0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found.record("b")[0][0].tolist() == [1.5]
