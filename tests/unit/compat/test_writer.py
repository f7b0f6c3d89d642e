"""The same script under torch's SummaryWriter, tensorboardX's and ours: TensorBoard reads the same values."""

import inspect
import json
import re
import threading
import time

import numpy as np
import pytest
import torch

import stepscope as ss
import stepscope.compat
from stepscope.compat import FileWriter, GlobalSummaryWriter, SummaryWriter

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning"),
]


def peer(name):
    if name == "torch":
        return pytest.importorskip("torch.utils.tensorboard").SummaryWriter
    return pytest.importorskip("tensorboardX").SummaryWriter


def script(writer, *, audio=True, beyond=0.1):
    """What a script for the originals may do, every value of it known."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    for i in range(3):
        writer.add_scalar("loss", torch.tensor(i * 0.5), i, walltime=1000.0 + i)
        writer.add_scalar("float_step", 1.0, float(i) + 0.7)
        writer.add_scalars("main/x", {"a": i, "b": -i}, i)
        writer.add_histogram("hist/torch", torch.randn(500), i)
        writer.add_histogram("hist/max_bins", rng.normal(size=300), i, max_bins=20)
        writer.add_histogram("hist/auto", rng.normal(size=300), i, bins="auto")
        writer.add_histogram_raw("hist/raw", 0.0, 3.0, 6, 10.0, 20.0, [1.0, 2.0, 3.0], [1, 2, 3], i)
        writer.add_image("image/float", torch.rand(3, 8, 9) * (1 + 2 * beyond) - beyond, i)
        writer.add_image("image/grey", torch.rand(1, 8, 9), i)
        writer.add_image("image/hw", rng.random((8, 9)), i, dataformats="HW")
        writer.add_image("image/uint8", rng.integers(0, 256, (8, 9, 3), np.uint8), i, dataformats="HWC")
        writer.add_images("image/batch", torch.rand(10, 3, 6, 5), i)
        boxes = torch.tensor([[5.0, 6.0, 20.0, 30.0]])
        writer.add_image_with_boxes("image/boxes", torch.rand(3, 40, 50), boxes, i, labels=["cat"])
        if audio:
            writer.add_audio("audio", torch.rand(1, 1000) * 2 - 1, i)
        writer.add_text("text", f"*step* {i}", i)
        writer.add_pr_curve("pr", rng.integers(0, 2, 100), rng.random(100), i)
        faces, colors = torch.randint(0, 9, (1, 4, 3)), torch.randint(0, 255, (1, 10, 3))
        writer.add_mesh("mesh", torch.rand(1, 10, 3), colors=colors, faces=faces, global_step=i)
    writer.add_custom_scalars({"c": {"q": ["Multiline", ["loss", "main"]]}})


def written(make, directory, **options):
    writer = make(str(directory))
    script(writer, **options)
    writer.close()


@pytest.mark.parametrize("name", ["torch", "tensorboardX"])
def test_tensorboard_reads_the_same_values(name, tmp_path, tensorboard, picture):
    original = peer(name)
    # tensorboardX needs another package for sound, and what is beyond 0 to 1 runs over there.
    options = {"audio": name == "torch", "beyond": 0.1 if name == "torch" else 0}
    written(original, tmp_path / "theirs", **options)
    written(SummaryWriter, tmp_path / "ours", **options)
    theirs, ours = tensorboard(tmp_path / "theirs"), tensorboard(tmp_path / "ours")
    if name == "tensorboardX":
        theirs = {renamed(*tag): values for tag, values in theirs.items()}
    assert {tag for tag in ours if not tag[1].startswith(("stepscope/", "_hparams_"))} == set(theirs)
    for tag, values in theirs.items():
        assert [step for step, _ in ours[tag]] == [step for step, _ in values], tag
        for (_, mine), (_, other) in zip(ours[tag], values, strict=True):
            compare(tag[1], mine, other, picture)


def renamed(run, tag):
    """tensorboardX puts the lines of add_scalars one folder deeper, and numbers the parts of a mesh."""
    parts = {"mesh_1": "mesh_VERTEX", "mesh_2": "mesh_FACE", "mesh_3": "mesh_COLOR"}
    return run.replace("main/x/", "main_x_"), parts.get(tag, tag)


def compare(tag, mine, other, picture):
    if tag.startswith("image/"):
        assert mine[:2].tolist() == other[:2].tolist(), tag
        np.testing.assert_array_equal(picture(mine[2]), picture(other[2]), tag)
    elif tag in ("audio", "text/text_summary"):
        assert mine.reshape(-1)[0] == other.reshape(-1)[0], tag
    elif mine.dtype == object:
        assert mine.tolist() == other.tolist(), tag
    else:
        np.testing.assert_allclose(mine, other, 1e-6, 1e-7, err_msg=tag)


def test_add_scalar_with_all_its_digits(tmp_path, tensorboard):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("wide", 1 / 3, 0, new_style=True, double_precision=True)
        writer.add_scalar("named", 0.5, 1, display_name="The name", summary_description="*what*")
        writer.add_scalar("x_positional", 0.5, 1, None, "The name", "*what*")
    found = tensorboard(tmp_path)
    assert found[".", "wide"][0][1] == 1 / 3
    assert found[".", "named"][0][1] == found[".", "x_positional"][0][1] == 0.5


def test_add_scalar_may_be_overridden_and_patched_and_so_may_that_of_run(tmp_path, tensorboard, monkeypatch):
    class Doubling(SummaryWriter):
        def add_scalar(self, tag, scalar_value, *arguments, **options):
            super().add_scalar(tag, 2 * scalar_value, *arguments, **options)

    calls = []
    with Doubling(str(tmp_path / "overridden")) as writer:
        for step in range(3):
            writer.add_scalar("s", 1.0, step)
    with SummaryWriter(str(tmp_path / "patched")) as writer:
        writer.add_scalar("s", 1.0, 0)
        monkeypatch.setattr(SummaryWriter, "add_scalar", lambda self, *given: calls.append(given))
        writer.add_scalar("s", 1.0, 1)
        monkeypatch.undo()
        writer.add_scalar("s", 1.0, 2)
    monkeypatch.setattr(ss.Run, "scalar", lambda self, *given: calls.append(given))
    with SummaryWriter(str(tmp_path / "run")) as writer:
        writer.add_scalar("s", 1.0, 3)
    monkeypatch.undo()
    found = tensorboard(tmp_path)
    assert found["overridden", "s"] == [(0, 2.0), (1, 2.0), (2, 2.0)]
    assert found["patched", "s"] == [(0, 1.0), (2, 1.0)]
    assert ("run", "s") not in found
    assert calls == [("s", 1.0, 1), ("s", 1.0, 3)]


def test_numbers_that_follow_another_keep_their_place_and_their_odd_arguments(tmp_path, tensorboard):
    """The first number of a tag goes another way than those that follow."""
    with SummaryWriter(tmp_path, flush_secs=30) as writer:
        for _ in range(2):
            writer.add_scalar("a_b", 1.0, 1)
            writer.add_scalar("a_b", 2.0, 2)
            writer.add_scalar("a_b", "3.0", "3")
            writer.add_scalar("a_b", np.float32(4), np.int64(4))
            writer.add_scalar("a_b", torch.tensor([5.0]), 5, 99.0)
            writer.add_scalar("a_b", 6.0)
            with writer.use_metadata(global_step=7, walltime=77.0):
                writer.add_scalar("a_b", 7.0)
    assert sorted(tensorboard(tmp_path)[".", "a_b"]) == sorted(
        2 * [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0), (5, 5.0), (0, 6.0), (7, 7.0)]
    )


def parameters(function):
    return [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]


@pytest.mark.parametrize("name", ["torch", "tensorboardX"])
def test_every_public_method_is_there_and_takes_the_same_arguments(name):
    for method, theirs in inspect.getmembers(peer(name), inspect.isfunction):
        if method.startswith("_") and method != "__init__":
            continue
        ours = {p.name: p for p in parameters(getattr(SummaryWriter, method))}
        for place, parameter in enumerate(parameters(theirs)):
            if name == "tensorboardX" and parameter.name == "onnx_model_file":
                continue  # the only argument, under torch's name
            assert parameter.name in ours, f"{method}({parameter.name})"
            mine = ours[parameter.name]
            same = mine.default == parameter.default or (not parameter.default and not mine.default)
            assert same or parameter.name == "comet_config", f"{method}({parameter})"
            if name == "torch":
                assert list(ours)[place] == parameter.name, f"{method}: {parameter.name} stands elsewhere"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("torch.utils.tensorboard", "SummaryWriter"),
        ("torch.utils.tensorboard", "FileWriter"),
        ("tensorboardX", "SummaryWriter"),
        ("tensorboardX", "FileWriter"),
        ("tensorboardX", "GlobalSummaryWriter"),
    ],
)
def test_the_public_surface_is_that_of_the_original(module, name, tmp_path):
    theirs = getattr(pytest.importorskip(module), name)
    ours = getattr(stepscope.compat, name)
    told_apart = {"add_scalar", "add_image_with_boxes", "add_hparams"}  # by types: held by a test of its own
    torchs = {"logdir": "log_dir", "onnx_model_file": "prototxt"}  # tensorboardX's names
    for method, function in inspect.getmembers(theirs):
        if method.startswith("_") and method not in ("__init__", "__enter__", "__exit__", "_get_file_writer"):
            continue
        assert hasattr(ours, method), method
        if not inspect.isfunction(function):
            continue
        mine, expected = ([p.name for p in parameters(getattr(each, method))] for each in (ours, theirs))
        if method == "__exit__":
            assert len(mine) == len(expected)
        elif module == "tensorboardX" and method in told_apart:
            assert set(expected) <= set(mine), method
        else:
            place = [torchs.get(name, name) for name in expected] if module == "tensorboardX" else expected
            assert [torchs.get(name, name) for name in mine[: len(place)]] == place, method
            assert set(expected) <= {*mine, "onnx_model_file"}, method
    writer = ours(str(tmp_path))
    attributes = re.findall(r"self\.([a-z]\w*)\b[^=\n(]*=[^=]", inspect.getsource(theirs.__init__))
    assert attributes
    for attribute in attributes if name == "SummaryWriter" else ():
        assert hasattr(writer, attribute), attribute
    writer.close()


def test_a_file_writer_of_tensorboardx_gives_step_and_time(tmp_path, tensorboard):
    summary = pytest.importorskip("tensorboardX.summary")
    writer = FileWriter(logdir=str(tmp_path))
    with writer.use_metadata(global_step=7, walltime=55.0) as same:
        same.add_summary(summary.scalar("s", 1.0))
    writer.close()
    assert tensorboard(tmp_path)[".", "s"][0][0] == 7


def test_tensorboardx_order_of_arguments_is_understood(tmp_path, tensorboard, picture):
    with SummaryWriter(logdir=tmp_path) as writer:
        boxes = np.array([[1, 1, 5, 5]])
        writer.add_image_with_boxes("boxes", np.zeros((9, 9, 3), np.uint8), boxes, 1, None, "HWC", ["x"])
        writer.add_video("video", np.zeros((1, 3, 4, 5, 3), np.uint8), 1, 4, None, "NTHWC")
        writer.add_hparams({"lr": 1}, {"m": 2.0}, "named", 7)
        with writer.use_metadata(global_step=5, walltime=77.0):
            writer.add_scalar("s", 1.0)
            writer.add_image("i", np.zeros((3, 2, 2)))
    found = tensorboard(tmp_path)
    assert found["named", "m"] == [(7, 2.0)]
    assert found[".", "s"][0][0] == found[".", "i"][0][0] == 5
    assert picture(found[".", "boxes"][0][1][2]).max() == 255
    assert found[".", "video"][0][1][2][:6] == b"GIF89a"


def test_one_set_of_hyper_parameters_speaks_of_the_run_above_and_several_are_trials(tmp_path):
    with SummaryWriter(tmp_path / "one") as writer:
        writer.add_hparams({"lr": 0.5, "bias": True}, {"hparam/accuracy": 10.0})
    with SummaryWriter(tmp_path / "several") as writer:
        for i in range(3):
            writer.add_hparams({"lr": 0.5 * i}, {"hparam/accuracy": 10.0 * i}, run_name=f"trial_{i}")
    with ss.open(tmp_path) as log:
        [trial] = [run for run in log.runs() if run.name.startswith("one/")]
        assert trial.info.config == {"lr": 0.5, "bias": 1.0}
        assert trial.columns("hparam/accuracy")[0].value.tolist() == [10.0]
        assert [log.run(f"several/trial_{i}").info.config for i in range(3)] == [
            {"lr": 0.0},
            {"lr": 0.5},
            {"lr": 1.0},
        ]


def test_hyper_parameters_of_the_same_directory_are_those_of_the_run(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("loss", 1.0, 0)
        writer.add_hparams({"lr": 0.5}, {"accuracy": 10.0}, run_name=".")
        writer.add_hparams({"seed": 2, "lr": 0.25}, {}, run_name="./")
    with ss.open(tmp_path) as log:
        [run] = log.runs()
        assert run.info.config == {"lr": 0.25, "seed": 2.0}
        assert run.condition(now=time.time() + 3600)[0] in ("finished", "ended")  # where no notes are kept
        assert run.tags() == ["accuracy", "loss"] or {"accuracy", "loss"} <= set(run.tags())
        assert len(run.writers) == 1


def test_hyper_parameters_through_the_file_writer_are_those_of_the_run(tmp_path):
    """As Ray Tune's callback writes them, with tensorboardX's own messages."""
    summary = pytest.importorskip("tensorboardX.summary")
    with SummaryWriter(tmp_path, flush_secs=30) as writer:
        writer.add_scalar("ray/tune/loss", 1.0, 1)
        for record in summary.hparams(hparam_dict={"lr": 0.5, "name": "sgd"}, metric_dict={"loss": 1.0}):
            writer.file_writer.add_summary(record)
        writer.flush()
    with ss.open(tmp_path) as log:
        assert log.run(".").info.config == {"lr": 0.5, "name": "sgd"}


def test_what_a_run_was_made_with_is_not_hidden_by_hyper_parameters_of_another_file(tmp_path):
    with ss.Run(tmp_path, config={"model": {"width": 3}, "lr": 0.5}) as run:
        run.scalar("loss", 1.0)
    with pytest.importorskip("torch.utils.tensorboard").SummaryWriter(str(tmp_path)) as writer:
        writer.add_hparams({"seed": 7, "lr": 0.25}, {"m": 1.0}, run_name=".")
    with ss.open(tmp_path) as log:
        assert log.run(".").info.config == {"model": {"width": 3}, "lr": 0.5, "seed": 7.0}


def test_purge_step_begins_another_attempt_and_tensorboard_drops_what_came_after(tmp_path):
    from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

    for purge in (None, 3, 5):
        with SummaryWriter(tmp_path, purge_step=purge) as writer:
            for step in range(purge or 0, 8):
                writer.add_scalar("loss", step, step)
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert [event.step for event in accumulator.Tensors("loss")][-3:] == [5, 6, 7]
    with ss.open(tmp_path) as log:
        [run] = log.runs()
        assert [len(series) for series in run.columns("loss")] == [8, 5, 3]
        assert run.columns("loss")[0].superseded_from == 3


def test_the_file_is_there_at_once_with_its_suffix(tmp_path):
    writer = SummaryWriter(tmp_path, filename_suffix=".mine")
    [path] = tmp_path.glob("*tfevents*")
    assert path.name.endswith(".mine")
    assert writer.get_logdir() == str(tmp_path)
    assert list(writer.all_writers) == [str(tmp_path)]
    writer.close()


def test_flush_drains(tmp_path, tensorboard):
    writer = SummaryWriter(tmp_path)
    for step in range(200):
        writer.add_scalar("s", step, step)
    writer.add_histogram("h", np.arange(100_000.0), 0)
    writer.flush()
    found = tensorboard(tmp_path)
    assert len(found[".", "s"]) == 200
    assert len(found[".", "h"]) == 1
    writer.close()


def test_no_call_waits_for_a_queue(tmp_path):
    """Ten is the originals' max_queue: the eleventh call waits there for the disk."""
    with SummaryWriter(tmp_path, max_queue=1) as writer:
        slow, go = threading.Event(), threading.Event()
        writer._run.event(lambda: slow.set() or (go.wait(20) and None), 0)
        slow.wait(20)
        before = time.perf_counter()
        for step in range(100):
            writer.add_image("i", np.zeros((3, 4, 4)), step)
            writer.add_scalar("s", 1.0, step)
        took = time.perf_counter() - before
        go.set()
        assert took < 5


def test_what_is_logged_after_close_is_another_attempt(tmp_path):
    writer = SummaryWriter(tmp_path)
    writer.add_scalar("s", 1.0, 0)
    writer.close()
    writer.add_scalar("s", 2.0, 1)
    writer.close()
    with ss.open(tmp_path) as log:
        assert [series.attempt for series in log.run(".").columns("s")] == [1, 2]


def test_nothing_is_written_where_that_is_asked_for(tmp_path):
    with SummaryWriter(tmp_path / "none", write_to_disk=False) as writer:
        script(writer)
        writer.add_hparams({"a": 1}, {"b": 2})
        writer.add_embedding(np.eye(3))
        writer.flush()
    assert not (tmp_path / "none").exists()


def test_lines_of_add_scalars_can_be_exported(tmp_path):
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalars("m", {"a": 1.0}, 5, walltime=9.0)
        writer.export_scalars_to_json(tmp_path / "all.json")
        assert writer.scalar_dict == {}
    assert json.loads((tmp_path / "all.json").read_text()) == {f"{tmp_path / 'run'}/m_a": [[9.0, 5, 1.0]]}


def test_figures_are_drawn_now_and_closed(tmp_path, tensorboard, picture):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(2, 1), dpi=50)
    figure.patch.set_facecolor("red")
    with SummaryWriter(tmp_path) as writer:
        writer.add_figure("f", figure, 0)
        assert figure.number not in pyplot.get_fignums()
        figure.patch.set_facecolor("blue")
        writer.add_figure("several", [pyplot.figure(figsize=(1, 1)), pyplot.figure(figsize=(1, 1))], 0)
    found = tensorboard(tmp_path)
    assert found[".", "f"][0][1][:2].tolist() == [b"100", b"50"]
    assert picture(found[".", "f"][0][1][2])[0, 0].tolist() == [255, 0, 0]
    assert axes is not None


def test_unsupported_arguments_are_one_warning(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with pytest.warns(RuntimeWarning, match="comet_config") as told:
        SummaryWriter(tmp_path, comet_config={"project_name": "x"}).close()
    assert told[0].filename == __file__
    SummaryWriter(tmp_path, comet_config={"disabled": True}).close()


@pytest.mark.parametrize(
    "call",
    [
        lambda w: w.add_image("t", np.zeros((7, 8, 9))),
        lambda w: w.add_image("t", np.zeros((3, 8))),
        lambda w: w.add_images("t", np.zeros((0, 3, 8, 8))),
        lambda w: w.add_histogram("t", np.array([])),
        lambda w: w.add_audio("t", np.zeros((3, 4, 5))),
        lambda w: w.add_video("t", np.zeros((3, 4, 5))),
        lambda w: w.add_text("t", b"\xff\xfe"),
        lambda w: w.add_pr_curve("t", np.ones(3), np.ones(4)),
        lambda w: w.add_mesh("t", np.zeros((3, 4))),
        lambda w: w.add_embedding(np.zeros(3)),
        lambda w: w.add_scalar("t" * 2000, 1.0),
        lambda w: w.add_figure("t", "no figure"),
        lambda w: w.add_onnx_graph("no/such/file.onnx"),
        lambda w: w.add_graph("no model", None),
        lambda w: w.add_custom_scalars([1]),
    ],
)
def test_bad_input_is_one_warning_at_the_users_line_and_counted(call, tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with SummaryWriter(tmp_path) as writer:
        with pytest.warns(RuntimeWarning, match="not recorded") as told:  # noqa: PT031  one of two calls
            call(writer)
            call(writer)
        assert [(each.filename, "\nhint: " in str(each.message)) for each in told] == [(__file__, True)]
        assert sum(writer._run.problems.values()) == 2


def test_protocol_buffers_can_be_added(tmp_path, tensorboard):
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    with SummaryWriter(tmp_path) as writer:
        summary = Summary(value=[Summary.Value(tag="s", simple_value=2.0)])
        writer.file_writer.add_summary(summary, 4)
        writer.file_writer.add_summary(summary.SerializeToString(), 5)
        writer.file_writer.add_event(Event(step=6, summary=summary))
        writer.file_writer.flush()
    assert [step for step, _ in tensorboard(tmp_path)[".", "s"]] == [4, 5, 6]


def test_a_file_writer_alone_takes_protocol_buffers(tmp_path, tensorboard):
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.compat.proto.summary_pb2 import Summary

    from stepscope.compat import FileWriter

    writer = FileWriter(tmp_path, filename_suffix=".mine")
    assert writer.get_logdir() == str(tmp_path)
    writer.add_summary(Summary(value=[Summary.Value(tag="s", simple_value=2.0)]), "4", 77.0)
    writer.add_onnx_graph(GraphDef())
    writer.event_writer.flush()
    writer.close()
    assert [step for step, _ in tensorboard(tmp_path)[".", "s"]] == [4]


def test_what_scripts_reach_for_below_a_writer(tmp_path):
    writer = SummaryWriter(tmp_path)
    assert writer._get_file_writer() is writer.file_writer
    assert writer.all_writers == {str(tmp_path): writer.file_writer}
    writer.add_scalars("m/n", {"a": 1.0}, 0)
    assert set(writer.all_writers) == {str(tmp_path), f"{tmp_path}/m_n_a"}
    assert all(each.get_logdir() == place for place, each in writer.all_writers.items())
    original = peer("torch")(str(tmp_path / "theirs"))
    assert writer.default_bins == original.default_bins
    original.close()
    writer.close()
    assert writer.file_writer is None
    assert writer.all_writers is None
    assert writer._get_file_writer() is writer.file_writer is not None
    writer.close()


def test_a_global_writer_counts_the_steps_of_each_kind_and_tag(tmp_path, tensorboard, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stepscope.compat.writer._global", None)
    writer = GlobalSummaryWriter.getSummaryWriter()
    assert GlobalSummaryWriter.getSummaryWriter() is writer
    for value in (1.0, 2.0):
        writer.add_scalar("s", value)
    writer.add_scalar("t", 3.0)
    writer.add_image("s", np.zeros((3, 4, 4)))
    writer.add_text("words", "x")
    directory = writer.file_writer.get_logdir()
    writer.close()
    found = {tag: [step for step, _ in values] for (_, tag), values in tensorboard(directory).items()}
    assert found["s"] == [0, 1, 0]
    assert found["t"] == found["words/text_summary"] == [0]
