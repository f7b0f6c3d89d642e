"""Every row of docs/design/compat-differences.md is held by the test that names it."""

import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from support.rows import Rows
from support.values import events_of, files_of, values_of

import stepscope as ss
from stepscope.compat import SummaryWriter
from stepscope.errors import RecordError
from stepscope.events.ending import note_finished, noted_ending

ROWS = Rows("design/compat-differences.md", "| | the originals | here |")
row = ROWS.held_by
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")


def test_every_row_of_the_table_has_a_test_and_every_test_a_row():
    assert len(ROWS.names) > 15
    assert sorted(ROWS.held) == sorted(ROWS.names)


def original(module):
    return pytest.importorskip(module).SummaryWriter


def only(directory, tag):
    """The message of the one value of a tag."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    [(_, (data, _, _))] = values_of(directory)[".", tag]
    return Summary.Value.FromString(data)


@row("a full queue (`max_queue`)")
def test_no_call_waits_and_what_is_beyond_memory_is_dropped_and_counted(tmp_path, monkeypatch):
    from stepscope.compat import writer as module

    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    assert module.SUMMARY_BYTES == 1 << 30
    monkeypatch.setattr(module, "SUMMARY_BYTES", 100_000)
    writer, held, go = SummaryWriter(tmp_path, max_queue=1), threading.Event(), threading.Event()
    run = writer._run
    run.event(lambda: held.set() or (go.wait(60) and None), 0)
    assert held.wait(60)
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for step in range(20):  # would wait here for ever
            writer.add_image("i", np.zeros((3, 64, 64)), step)
    go.set()
    writer.close()
    kept, lost = len(values_of(tmp_path).get((".", "i"), ())), sum(run.problems.values())
    assert 0 < kept < 20
    assert kept + lost == 20


@row("encoding of images and histograms")
def test_numbers_may_stand_before_images_that_were_logged_earlier(tmp_path):
    writer, held, go = SummaryWriter(tmp_path, flush_secs=0.01), threading.Event(), threading.Event()
    threads = []

    from stepscope.record.summaries.encoder import Prepared

    def prepare():
        def make(tag):
            threads.append(threading.current_thread())
            held.set()
            go.wait(60)

        return Prepared(make, 1)

    writer._run.summary("slow", 0, prepare)
    assert held.wait(60)
    writer.add_image("i", np.zeros((3, 4, 4)), 1)
    writer.add_scalar("s", 1.0, 2)
    go.set()
    writer.close()
    assert threads[0] is not threading.current_thread()
    assert {tag for _, tag in values_of(tmp_path)} == {"i", "s"}


@row("`flush()`")
def test_flush_waits_until_all_is_readable(tmp_path):
    writer = SummaryWriter(tmp_path, flush_secs=1000)
    writer.add_scalar("s", 1.0, 1)
    writer.add_image("i", np.zeros((3, 4, 4)), 1)
    writer.flush()
    assert set(values_of(tmp_path)) == {(".", "s"), (".", "i")}
    writer.close()


@row("`flush_secs=120`")
@pytest.mark.parametrize(("given", "taken"), [(120, 1.0), (0.25, 0.25)])
def test_a_value_waits_a_second_at_most(given, taken, tmp_path, monkeypatch):
    from stepscope.compat import writer as module

    made = []
    monkeypatch.setattr(module, "Run", lambda *_, **options: made.append(options) or module.NOWHERE)
    SummaryWriter(tmp_path, flush_secs=given)
    assert made[0]["flush_secs"] == taken


@row("the end of a short script without `close()`")
def test_a_script_that_does_not_close_loses_nothing(tmp_path):
    script = (
        "from stepscope.compat import SummaryWriter\n"
        "writer = SummaryWriter('run')\n"
        "for step in range(50): writer.add_scalar('s', step, step)\n"
        "writer.add_histogram('h', [1.0, 2.0], 1)\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True, timeout=300)
    found = values_of(tmp_path / "run")
    assert (len(found[".", "s"]), len(found[".", "h"])) == (50, 1)


@row("several values of one tag, step and time")
def test_values_of_a_step_and_time_keep_their_number_whatever_their_events(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        for number in range(5):
            writer.add_scalar(f"s{number}", 1.0, 3, 99.0)
    events = [event for event in events_of(tmp_path)["."] if event.summary.value]
    assert sum(len(event.summary.value) for event in events) == 5
    assert {(event.step, event.wall_time) for event in events} == {(3, 99.0)}


@row("PNG")
def test_pngs_have_the_same_pixels_and_may_have_other_bytes(tmp_path):
    picture = np.random.default_rng(0).random((3, 30, 30))
    for make, name in ((original("torch.utils.tensorboard"), "theirs"), (SummaryWriter, "ours")):
        with make(str(tmp_path / name)) as writer:
            writer.add_image("i", picture, 1)
    assert values_of(tmp_path / "theirs") == values_of(tmp_path / "ours")
    theirs, ours = (only(tmp_path / name, "i") for name in ("theirs", "ours"))
    assert theirs.image.width == ours.image.width == 30


@row("bad input")
def test_bad_input_warns_and_is_counted_and_raises_in_strict_mode(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_STRICT", "1")
    with SummaryWriter(tmp_path / "strict") as writer, pytest.raises(RecordError, match="not recorded"):
        writer.add_scalar("s", object(), 1)
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with SummaryWriter(tmp_path / "loose") as writer:
        with pytest.warns(RuntimeWarning, match="not recorded") as told:
            writer.add_scalar("s", object(), 1)
        assert told[0].filename == __file__
        assert sum(writer._run.problems.values()) == 1


@row("lists, JAX and TensorFlow arrays, numbers as text")
def test_what_torch_mostly_refuses_is_taken(tmp_path):
    import jax.numpy as jnp

    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("jax", jnp.float32(0.5), 1)
        writer.add_scalar("list", [0.5], 1)
        writer.add_scalar("text", "0.5", 1)
        writer.add_histogram("h", [1.0, 2.0], 1)
        writer.add_image("i", [[[0.5, 1.0]]], 1)
    assert [only(tmp_path, tag).simple_value for tag in ("jax", "list", "text")] == [0.5] * 3
    assert {".", "h", "i"} <= {part for key in values_of(tmp_path) for part in key}


@row("bfloat16")
def test_bfloat16_is_not_narrowed_to_float16(tmp_path):
    large = torch.tensor(1e6, dtype=torch.bfloat16)
    for make, name in ((original("torch.utils.tensorboard"), "theirs"), (SummaryWriter, "ours")):
        with make(str(tmp_path / name)) as writer:
            writer.add_scalar("s", large, 1)
    assert only(tmp_path / "theirs", "s").simple_value == float("inf")
    assert only(tmp_path / "ours", "s").simple_value == float(large)


@row("`add_tensor` of a numpy array")
def test_add_tensor_takes_numpy(tmp_path):
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    with original("torch.utils.tensorboard")(str(tmp_path / "theirs")) as writer:
        with pytest.raises(AttributeError):
            writer.add_tensor("t", array, 1)
        writer.add_tensor("t", torch.from_numpy(array), 1)
    with SummaryWriter(tmp_path / "ours") as writer:
        writer.add_tensor("t", array, 1)
    assert values_of(tmp_path / "theirs") == values_of(tmp_path / "ours")


@row("`add_hparams` of other types")
def test_hyper_parameters_of_other_types_are_text_or_numbers(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        given = {
            "list": [1, 2],
            "path": Path("x"),
            "one": np.array([0.5]),
            "zero": torch.tensor(3),
            "none": None,
        }
        writer.add_hparams(given, {"m": 1.0}, run_name="trial")
    with ss.open(tmp_path) as log:
        config = log.run("trial").info.config
    assert config == {"list": "[1, 2]", "path": "x", "one": 0.5, "zero": 3.0}


@row('`run_name="."` of `add_hparams`')
def test_hyper_parameters_of_the_directory_itself_stand_in_its_file(tmp_path):
    for make, name in ((original("torch.utils.tensorboard"), "theirs"), (SummaryWriter, "ours")):
        with make(str(tmp_path / name)) as writer:
            writer.add_scalar("s", 1.0, 1)
            writer.add_hparams({"lr": 0.5}, {"m": 1.0}, run_name=".")
    files = {name: len(list((tmp_path / name).glob("*tfevents*"))) for name in ("theirs", "ours")}
    assert files == {"theirs": 2, "ours": 1}
    assert values_of(tmp_path / "theirs") == values_of(tmp_path / "ours")


@row("`add_video`")
def test_a_video_is_a_gif_of_all_frames(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_video("v", torch.arange(3).reshape(1, 3, 1, 1, 1).expand(1, 3, 3, 4, 6) / 2, 1)
    [(_, (_, (kind, size, frames), _))] = values_of(tmp_path)[".", "v"]
    assert (kind, size, [frame[0] for frame in frames]) == ("GIF", (6, 4), [0, 127, 255])


@row("pictures of `add_embedding` as uint8")
def test_pictures_of_an_embedding_may_be_bytes(tmp_path):
    from PIL import Image

    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(np.eye(1), label_img=np.full((1, 3, 2, 2), 7, np.uint8))
    [path] = tmp_path.rglob("sprite.png")
    assert np.unique(np.asarray(Image.open(path))).tolist() == [7]


@row("a tag and step of `add_embedding` again")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", ["torch.utils.tensorboard", "tensorboardX"])
def test_an_embedding_of_the_same_place_replaces_the_earlier_one(module, tmp_path, capsys):
    makes = {"theirs": original(module), "ours": SummaryWriter}
    listed = {}
    for name, make in makes.items():
        with make(str(tmp_path / name)) as writer:
            for value in (1.0, 2.0):
                writer.add_embedding(np.full((2, 2), value), tag="e", global_step=1)
        found = files_of(tmp_path / name)
        listed[name] = found["projector_config.pbtxt"].count("tensor_name")
        assert found["00001/e/tensors.tsv"].split() == [b"2.0"] * 4
    assert listed == {"theirs": 2, "ours": 1}


@row("NaN in vectors of `add_embedding`")
@pytest.mark.filterwarnings("ignore:.*not recorded")
def test_vectors_that_are_nan_are_refused(tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(np.array([[1.0, np.nan]]))
        writer.flush()
        assert sum(writer._run.problems.values()) == 1
    assert not list(tmp_path.rglob("tensors.tsv"))


def test_a_sound_may_have_two_channels_as_tensorboardx_takes_it(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_audio("a", np.zeros((50, 2)), 1, 8000)
    sound = only(tmp_path, "a").audio
    assert (sound.num_channels, sound.length_frames, sound.sample_rate) == (2, 50, 8000)


@row("a model that `torch.jit` cannot trace, or no TensorBoard, for `add_graph`")
@pytest.mark.filterwarnings("ignore:.*:torch.jit.TracerWarning")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("missing", [False, True])
def test_a_graph_of_our_own_stands_where_torch_makes_none(missing, tmp_path, monkeypatch, capsys):
    class Counts(torch.nn.Module):
        def forward(self, numbers):
            return {"sum": numbers.sum(), "sizes": [numbers]}

    if missing:
        monkeypatch.setitem(sys.modules, "torch.utils.tensorboard._pytorch_graph", None)
    else:
        make = original("torch.utils.tensorboard")
        with make(str(tmp_path / "theirs")) as writer, pytest.raises(RuntimeError):
            writer.add_graph(Counts(), torch.ones(3))
        assert "No graph saved" in capsys.readouterr().out
    with SummaryWriter(tmp_path / "ours") as writer:
        writer.add_graph(Counts(), torch.ones(3))
    assert "No graph saved" not in capsys.readouterr().out
    [(_, graph)] = values_of(tmp_path / "ours")[".", "graph_def"]
    assert b"sum" in graph


@row("the model after `add_graph`")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_add_graph_leaves_the_model_and_the_random_numbers_alone(tmp_path):
    def frozen():
        model = torch.nn.Sequential(torch.nn.BatchNorm1d(3), torch.nn.Dropout())
        model[0].eval()
        return model

    theirs, ours = frozen(), frozen()
    with original("torch.utils.tensorboard")(str(tmp_path / "theirs")) as writer:
        writer.add_graph(theirs, torch.zeros(2, 3))
    before = torch.get_rng_state()
    with SummaryWriter(tmp_path / "ours") as writer:
        writer.add_graph(ours, torch.zeros(2, 3))
    assert torch.equal(torch.get_rng_state(), before)
    assert [[module.training for module in model.modules()] for model in (theirs, ours)] == [
        [True, True, True], [True, False, True]
    ]  # fmt: skip
    assert values_of(tmp_path / "theirs") == values_of(tmp_path / "ours")


@row("`own_file=True` and `add_graph`")
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
def test_a_measured_graph_stands_beside_where_it_is_asked_for(tmp_path):
    from stepscope.serve.records import graph

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU())
    for make, name in ((original("torch.utils.tensorboard"), "theirs"),
                       (lambda place: SummaryWriter(place, own_file=True), "ours")):  # fmt: skip
        with make(str(tmp_path / name)) as writer:
            writer.add_graph(model, torch.zeros(2, 3))
    assert values_of(tmp_path / "theirs") == values_of(tmp_path / "ours")
    with ss.open(tmp_path / "ours", cache=False) as log:
        run = log.run(".")
        shown = {node.name for node in graph.nodes_of_run(run)}
        costs = graph.costs_of(run.record("stepscope/graph_costs")[0][0])
    assert any(re.search("relu", name, re.IGNORECASE) for name in shown)
    assert costs
    assert {cost.name for cost in costs} <= shown


@row("`add_onnx_graph`, `add_openvino_graph`")
@pytest.mark.parametrize("method", ["add_onnx_graph", "add_openvino_graph"])
def test_graphs_of_files_are_refused_with_one_warning(tmp_path, monkeypatch, method):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with SummaryWriter(tmp_path) as writer, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for _ in range(2):
            getattr(writer, method)("model.onnx")
    assert [str(warning.message).partition("\n")[0] for warning in warned] == [
        "stepscope: not recorded: the graph of the file 'model.onnx'"
    ]
    assert (".", "graph_def") not in values_of(tmp_path)


def notes(directory):
    """Whether the file system keeps notes at files; where it does not, of a clean end nothing is known."""
    probe = directory / "probe"
    probe.touch()
    note_finished(probe, 1.0)
    kept = noted_ending(probe) is not None
    probe.unlink()
    return kept


ENDS = {
    "closed": ("writer.close()", "finished"),
    "not closed": ("pass", "finished"),
    "exit": ("raise SystemExit(0)", "finished"),
    "raised": ("raise KeyError('x')", "failed"),
    "raised within": ("with writer: raise KeyError('x')", "failed"),
    "killed": ("writer.flush(); os.kill(os.getpid(), 9)", "stalled"),
}


@row("how a run ended")
@pytest.mark.parametrize("end", ENDS)
def test_only_a_clean_end_is_called_finished(end, tmp_path):
    call, state = ENDS[end]
    script = (
        "import os\nfrom stepscope.compat import SummaryWriter\nwriter = SummaryWriter('run')\n"
        f"writer.add_scalar('s', 1.0, 1)\nwriter.add_scalars('m', {{'a': 1.0}}, 1)\n{call}\n"
    )
    subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, timeout=300, check=False, capture_output=True
    )
    own = [path for path in (tmp_path / "run").iterdir() if "stepscope" in path.name]
    assert bool(own) == (state != "finished")
    if state == "finished" and not notes(tmp_path):
        state = "ended"
    with ss.open(tmp_path, cache=False) as log:
        assert log.run("run").condition(now=1e12)[0] == state
        lines = {run.name: run.condition(now=1e12)[0] for run in log.runs() if run.name != "run"}
    assert set(lines.values()) == {"finished" if end == "closed" and notes(tmp_path) else "ended"}


def test_a_file_that_another_writer_adds_is_not_finished_by_the_first(tmp_path):
    if not notes(tmp_path):
        pytest.skip("the file system keeps no notes")
    with SummaryWriter(tmp_path) as writer:
        writer.add_scalar("s", 1.0, 1)
    with ss.open(tmp_path) as log:
        assert log.run(".").state == "finished"
        with original("torch.utils.tensorboard")(str(tmp_path)) as writer:
            writer.add_scalar("s", 1.0, 2)
        log.refresh()
        assert log.run(".").condition(now=1e12)[0] == "ended"
    with ss.open(tmp_path) as log:  # from the cache
        assert log.run(".").condition(now=1e12)[0] == "ended"


def names(directory):
    return sorted(path.name.split(".")[2] for path in directory.rglob("events.out.*"))


@row("files in the directory")
def test_a_file_of_ours_is_there_while_the_run_lasts_and_stays_where_it_tells_something(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    writer = SummaryWriter(tmp_path / "clean")
    writer.add_scalar("s", 1.0, 1)
    writer.flush()
    assert names(tmp_path / "clean") == ["stepscope", "tfevents"]
    with ss.open(tmp_path / "clean") as log:
        assert log.run(".").info.status == "running"
        writer.close()
        log.refresh()
        assert log.run(".").condition(now=1e12)[0] == ("finished" if notes(tmp_path) else "ended")
        assert log.run(".").columns("s")[0].value.tolist() == [1.0]
    assert names(tmp_path / "clean") == ["tfevents"]
    SummaryWriter(tmp_path / "asked", own_file=True).close()
    with SummaryWriter(tmp_path / "lost") as writer, pytest.warns(RuntimeWarning):
        writer.add_scalar("s", object(), 1)
    with pytest.raises(KeyError), SummaryWriter(tmp_path / "failed") as writer:
        raise KeyError("x")
    writer = SummaryWriter(tmp_path / "failed")  # a later attempt does not hide how the first one ended
    writer.close()
    for name, state in (("asked", "finished"), ("lost", "finished"), ("failed", "finished")):
        assert "stepscope" in names(tmp_path / name)
        with ss.open(tmp_path / name) as log:
            assert log.run(".").state == state
    assert names(tmp_path / "failed") == ["stepscope", "stepscope", "tfevents", "tfevents"]


@row("tags beyond 1,024 characters, or none")
@pytest.mark.parametrize("tag", ["t" * 1025, ""])
def test_such_tags_are_refused(tag, tmp_path, monkeypatch):
    monkeypatch.delenv("STEPSCOPE_STRICT", raising=False)
    with SummaryWriter(tmp_path) as writer, pytest.warns(RuntimeWarning, match="not recorded"):
        writer.add_scalar(tag, 1.0, 1)
    assert values_of(tmp_path) == {}


@row("after `close()`")
def test_what_follows_close_is_another_attempt_of_the_run(tmp_path):
    writer = SummaryWriter(tmp_path)
    for value in (1.0, 2.0):
        writer.add_scalar("s", value, 1)
        writer.close()
    assert [value[1][0] for value in values_of(tmp_path)[".", "s"]]
    with ss.open(tmp_path) as log:
        assert [series.attempt for series in log.run(".").columns("s")] == [1, 2]
