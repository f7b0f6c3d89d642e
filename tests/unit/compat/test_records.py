"""Each call leaves the records that torch's writer leaves, wall times apart."""

import json
from decimal import Decimal

import numpy as np
import pytest
import torch
from support.values import files_of

from stepscope.compat import SummaryWriter

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*:torch.jit.TracerWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values:Warning"),
]
RNG = np.random.default_rng(7)
FIRST, SECOND = RNG.random((3, 8, 9)), RNG.random((10, 3, 6, 5))
BYTES = RNG.integers(0, 256, (3, 8, 9), np.uint8)
NORMAL = RNG.normal(size=500)
LABELS, GUESSES = RNG.integers(0, 2, 100), RNG.random(100)
POINTS, FACES = RNG.random((2, 10, 3)), RNG.integers(0, 9, (2, 4, 3))
COLORS = RNG.integers(0, 255, (2, 10, 3))
BOXES = np.array([[5.0, 6.0, 20.0, 30.0], [1.5, 2.5, 8.0, 9.0]])
LARGE = RNG.random((3, 40, 50))

SCALARS = {
    "float": 0.1,
    "int": 3,
    "large int": 2**40 + 1,
    "bool": True,
    "beyond float32": 1e300,
    "just beyond float32": -3.4028236e38,
    "largest float32": 3.4028234663852886e38,
    "denormal": 1e-45,
    "nan": float("nan"),
    "infinite": float("-inf"),
    "numpy 0-d": np.array(0.1),
    "numpy one": np.array([[0.1]]),
    "float16": np.float16(0.1),
    "int64": np.int64(7),
    "uint8": np.uint8(200),
    "numpy bool": np.bool_(True),
    "torch": torch.tensor(0.1),
    "torch one": torch.tensor([[0.1]]),
    "torch half": torch.tensor(0.1, dtype=torch.float16),
    "torch double": torch.tensor(1 / 3, dtype=torch.float64),
    "torch int": torch.tensor(5),
    "torch bool": torch.tensor(True),
    "torch with gradient": torch.tensor(0.5, requires_grad=True),
}
WORDS = {
    "decimal": Decimal("0.25"),
    "bfloat16": torch.tensor(0.1, dtype=torch.bfloat16),
    "text": "0.5",
    "bytes": b"0.5",
    "numpy text": np.str_("1e-3"),
    "array of text": np.array("7"),
}
STEPS = {"none": None, "int": 5, "float": 5.9, "text": "7", "numpy": np.int64(8), "torch": torch.tensor(9),
         "bool": True, "large": 2**40, "negative": -3}  # fmt: skip
TENSORS = {
    **{
        str(kind): torch.arange(6).reshape(2, 3).to(kind)
        for kind in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.uint8,
                     torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128)
    },
    "0-d": torch.tensor(2.5),
    "empty": torch.zeros(0, 3),
    "nan": torch.tensor([float("nan"), float("inf")]),
}  # fmt: skip
HISTOGRAMS = {
    "numpy": (NORMAL, {}),
    "torch": (torch.from_numpy(NORMAL), {}),
    "float32": (NORMAL.astype(np.float32), {}),
    "half": (torch.from_numpy(NORMAL).half(), {}),
    "ints": (np.arange(20).reshape(4, 5), {}),
    "bool": (np.array([True, False, True]), {}),
    "torch bool": (torch.tensor([True, False]), {}),
    "one number": (0.25, {}),
    "constant": (np.full(9, 2.0), {}),
    "zeros": (np.zeros(5), {}),
    "nan": (np.array([1.0, np.nan, 2.0]), {}),
    "infinite": (np.array([1.0, np.inf, -np.inf, 2.0]), {}),
    "beyond the bins": (np.array([1e25, 1.0]), {}),
    "complex": (np.array([1 + 2j, 3]), {}),
    "auto": (NORMAL, {"bins": "auto"}),
    "doane": (NORMAL, {"bins": "doane"}),
    "ten": (NORMAL, {"bins": 10}),
    "edges": (NORMAL, {"bins": [-1.0, 0.0, 0.5, 2.0]}),
    "edges of ints": (NORMAL, {"bins": np.arange(-3, 4)}),
    "few": (NORMAL, {"max_bins": 20}),
    "few of ten": (NORMAL, {"bins": 10, "max_bins": 3}),
    "more than there are": (NORMAL, {"bins": 10, "max_bins": 30}),
}
IMAGES = {
    "float": (FIRST, {}),
    "float32": (torch.from_numpy(FIRST).float(), {}),
    "half": (torch.from_numpy(FIRST).half(), {}),
    "uint8": (BYTES, {}),
    "int64": (np.arange(72).reshape(1, 8, 9) % 2, {}),
    "bool": (np.eye(8, dtype=bool)[None], {}),
    "grey": (FIRST[:1], {}),
    "grey and alpha": (BYTES[:2], {}),
    "alpha": (np.concatenate([BYTES, BYTES[:1]]), {}),
    "HWC": (BYTES.transpose(1, 2, 0), {"dataformats": "HWC"}),
    "WHC": (BYTES.transpose(2, 1, 0), {"dataformats": "WHC"}),
    "HW": (FIRST[0], {"dataformats": "HW"}),
    "WH": (FIRST[0].T, {"dataformats": "WH"}),
    "lower case": (FIRST, {"dataformats": "chw"}),
    "one pixel": (np.ones((3, 1, 1)), {}),
}
BEYOND = {
    "beyond": (FIRST * 1.5 - 0.25, {}),
    "nan": (np.where(FIRST > 0.9, np.nan, FIRST), {}),
    "infinite": (np.where(FIRST > 0.9, np.inf, FIRST), {}),
}
GRIDS = {
    "ten": (SECOND, {}),
    "torch": (torch.from_numpy(SECOND), {}),
    "grey": (SECOND[:, :1], {}),
    "one": (SECOND[:1], {}),
    "uint8": ((SECOND * 255).astype(np.uint8), {}),
    "NHWC": (SECOND.transpose(0, 2, 3, 1), {"dataformats": "NHWC"}),
    "one image": (FIRST, {"dataformats": "CHW"}),
    "one grey": (FIRST[0], {"dataformats": "HW"}),
}
CURVES = {
    "numpy": (LABELS, GUESSES, {}),
    "torch": (torch.from_numpy(LABELS), torch.from_numpy(GUESSES), {}),
    "bool": (LABELS.astype(bool), GUESSES, {}),
    "float32": (LABELS.astype(np.float32), GUESSES.astype(np.float32), {}),
    "many": (LABELS, GUESSES, {"num_thresholds": 500}),
    "few": (LABELS, GUESSES, {"num_thresholds": 5}),
    "weights": (LABELS, GUESSES, {"weights": RNG.random(100)}),
    "beyond": (LABELS, GUESSES * 2 - 0.5, {}),
    "squares": (LABELS.reshape(10, 10), GUESSES.reshape(10, 10), {}),
}
ROWS = [RNG.random(5) for _ in range(6)]


def scalars(writer):
    for name, value in SCALARS.items():
        writer.add_scalar(f"value/{name}", value, 3)
        writer.add_scalar(f"value with time/{name}", value, 3, 1234.5)
    for name, step in STEPS.items():
        writer.add_scalar(f"step/{name}", 1.5, step)
    for _ in range(3):
        writer.add_scalar("no step", 1.0)
    writer.add_scalars("main/x", {"a": 1, "b": torch.tensor(0.1), "c": 0.5}, 2, 99.0)
    writer.add_scalars("main/x", {"a": 1e300})
    writer.add_scalars("none", {})


def new_styles(writer):
    for name, value in (SCALARS | WORDS).items():
        writer.add_scalar(f"old/{name}", value, 3)
        writer.add_scalar(f"new/{name}", value, 3, new_style=True)
        writer.add_scalar(f"double/{name}", value, 3, new_style=True, double_precision=True)
        writer.add_scalar(f"not new/{name}", value, 3, double_precision=True)


def tensors(writer):
    for name, value in TENSORS.items():
        writer.add_tensor(name, value, 2)


def histograms(writer):
    for name, (values, options) in HISTOGRAMS.items():
        writer.add_histogram(name, values, 2, **options)
    writer.add_histogram_raw("raw", 0.0, 3.0, 6, 10.0, 20.0, [1.0, 2.0, 3.0], [1, 2, 3], 4)
    writer.add_histogram_raw("raw empty", 0, 0, 0, 0, 0, [], [], 4)
    writer.add_histogram_raw("raw torch", 0, 3, torch.tensor(6), 1, 2, torch.arange(3), torch.arange(3))


def images(writer):
    for name, (values, options) in IMAGES.items():
        writer.add_image(name, values, 2, **options)
    for name, (values, options) in GRIDS.items():
        writer.add_images(f"grid {name}", values, 2, **options)
    writer.add_image_with_boxes("boxes", LARGE, BOXES, 1, labels=["cat", "dog"])
    writer.add_image_with_boxes("one label", LARGE, torch.from_numpy(BOXES[:1]), 1, labels="cat")
    writer.add_image_with_boxes("labels of another number", LARGE, BOXES, 1, labels=["cat"])
    writer.add_image_with_boxes("grey boxes", LARGE[:1], BOXES, 1)
    writer.add_image_with_boxes("uint8 boxes", (LARGE * 255).astype(np.uint8), BOXES, 1)
    writer.add_image_with_boxes("larger", LARGE, BOXES, 1, rescale=2)
    writer.add_image_with_boxes("smaller", LARGE, BOXES, 1, rescale=0.5)
    writer.add_image_with_boxes("HWC boxes", LARGE.transpose(1, 2, 0), BOXES, 1, dataformats="HWC")


def beyond(writer):
    for name, (values, options) in BEYOND.items():
        writer.add_image(name, values, 2, **options)
    writer.add_image_with_boxes("boxes", LARGE * 2 - 0.5, BOXES, 1)


def sounds(writer):
    wave = np.sin(np.arange(1000) / 10)
    writer.add_audio("double", wave, 1)
    writer.add_audio("row", torch.from_numpy(wave)[None], 1, sample_rate=8000)
    writer.add_audio("float32", wave.astype(np.float32), 1, 16000)
    writer.add_audio("half", wave.astype(np.float16) * np.float16(0.9), 1)
    writer.add_audio("loud", wave * 3, 1)
    writer.add_audio("whole numbers", np.array([0, 1, -1, 5]), 1)
    writer.add_audio("int16", np.array([0, 1000, -1000], np.int16), 1)


def texts(writer):
    for name, text in {"plain": "*step*", "empty": "", "lines": "a\n\nb", "unicode": "ä 漢 🙂"}.items():
        writer.add_text(name, text, 3)
    writer.add_text("no step", "x")


def curves(writer):
    for name, (labels, guesses, options) in CURVES.items():
        writer.add_pr_curve(name, labels, guesses, 2, **options)
    writer.add_pr_curve_raw("raw", *ROWS, 2)
    writer.add_pr_curve_raw("raw lists", *[row.tolist() for row in ROWS], 2, num_thresholds=5)
    writer.add_pr_curve_raw("raw many", *ROWS, 2, num_thresholds=500)


def meshes(writer):
    parts = torch.from_numpy(POINTS), torch.from_numpy(COLORS), torch.from_numpy(FACES)
    writer.add_mesh("points", parts[0], global_step=1)
    writer.add_mesh("all", *parts, global_step=1)
    writer.add_mesh("colours", parts[0].float(), colors=parts[1])
    writer.add_mesh("config", parts[0], None, parts[2], {"material": {"cls": "X", "size": 0.5}}, 3, 77.0)
    writer.add_mesh("numpy", POINTS, COLORS, FACES)


def charts(writer):
    writer.add_custom_scalars(
        {"c": {"q": ["Multiline", ["loss", "main.*"]], "m": ["Margin", ["a", "b", "c"]]}}
    )
    writer.add_custom_scalars_multilinechart(["a", "b"], "category", "title")
    writer.add_custom_scalars_multilinechart(["x"])
    writer.add_custom_scalars_marginchart(["a", "b", "c"])
    writer.add_custom_scalars({})


def hyper(writer):
    given = {"lr": 0.1, "n": 3, "bias": True, "name": "adam", "none": None, "nan": float("nan")}
    writer.add_hparams(given, {"hparam/accuracy": 0.5, "loss": torch.tensor(0.25)})


def hyper_torch(writer):
    domains = {"lr": [0.1, 0.2], "name": ["adam", "sgd"]}
    writer.add_hparams({"lr": 0.1, "name": "adam", "t": torch.tensor([0.5])}, {"m": 1}, domains, "named", 5)
    writer.add_hparams({"lr": 0.3}, {"m": 2}, run_name=".", global_step=1)
    writer.add_hparams({}, {}, run_name="empty")


def protos(writer):
    from tensorboard.compat.proto.summary_pb2 import Summary

    summary = Summary(
        value=[Summary.Value(tag="s", simple_value=2.0), Summary.Value(tag="t", simple_value=3)]
    )
    writer._get_file_writer().add_summary(summary, 4)
    writer.file_writer.add_summary(summary, "5")
    writer.all_writers[writer.file_writer.get_logdir()].add_summary(summary)


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        layers = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout()
        self.body, self.head = torch.nn.Sequential(*layers), torch.nn.Linear(144, 2)

    def forward(self, pixels, more=None):
        found = self.head(self.body(pixels).flatten(1))
        return found if more is None else {"sum": found + more, "first": found}


def graphs(writer):
    picture = torch.rand(1, 3, 8, 8)
    writer.add_graph(Network(), picture)
    writer.add_graph(Network(), (picture, torch.ones(2)), use_strict_trace=False)


SCRIPTS = [
    graphs,
    scalars,
    histograms,
    images,
    texts,
    curves,
    charts,
    hyper,
    protos,
    new_styles,
    tensors,
    beyond,
    sounds,
    meshes,
    hyper_torch,
]


def compare(theirs, ours, script, tmp_path, records):
    for make, name in ((theirs, "theirs"), (ours, "ours")):
        with make(str(tmp_path / name)) as writer:
            script(writer)
    expected, found = records.values(tmp_path / "theirs"), records.values(tmp_path / "ours")
    assert [key for key in expected if key not in found] == []
    assert [key for key in found if key not in expected and not key[1].startswith("stepscope/")] == []
    for key, values in expected.items():
        assert found[key] == values, key


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_torch_writes_the_same_records(script, tmp_path, records):
    compare(peer("torch.utils.tensorboard"), SummaryWriter, script, tmp_path, records)


def peer(module):
    return pytest.importorskip(module).SummaryWriter


def test_embeddings_leave_the_same_files(tmp_path, records):
    matrix, pictures = torch.from_numpy(NORMAL[:12].reshape(4, 3)), torch.rand(4, 3, 5, 5)
    for make, name in ((peer("torch.utils.tensorboard"), "theirs"), (SummaryWriter, "ours")):
        with make(str(tmp_path / name)) as writer:
            writer.add_embedding(matrix, ["a", "b", 3, "d"], pictures, 5, "a/b")
            writer.add_embedding(matrix.float(), tag="a_b")
            writer.add_embedding(matrix, [["x", 1]] * 4, None, 7, "100%\\", ["name", "size"])
    theirs, mine = (files_of(tmp_path / name) for name in ("theirs", "ours"))
    assert sorted(mine) == sorted(theirs)
    for name, data in theirs.items():
        assert mine[name] == data, name
    assert not [tag for _, tag in records.values(tmp_path / "ours") if not tag.startswith("stepscope/")]


def test_scalars_are_exported_as_json(tmp_path):
    writer = SummaryWriter(str(tmp_path))
    writer.add_scalars("m", {"a": 1.0, "b": torch.tensor(0.5)}, 5, 9.0)
    writer.add_scalars("m", {"a": 2.0}, 6, 10.0)
    writer.export_scalars_to_json(tmp_path / "lines.json")
    writer.close()
    assert json.loads((tmp_path / "lines.json").read_text()) == {
        f"{tmp_path}/m_a": [[9.0, 5, 1.0], [10.0, 6, 2.0]],
        f"{tmp_path}/m_b": [[9.0, 5, 0.5]],
    }


def test_a_list_of_images_is_what_they_are_as_one_array(tmp_path, records):
    for name, pictures, order in (
        ("list", [FIRST, FIRST / 2], "CHW"),
        ("stacked", np.stack([FIRST, FIRST / 2]), "NCHW"),
    ):
        with SummaryWriter(tmp_path / name) as writer:
            writer.add_images("i", pictures, 2, dataformats=order)
    listed, stacked = (records.values(tmp_path / name)[".", "i"] for name in ("list", "stacked"))
    assert listed == stacked
