"""What four readers find of the same calls on each original writer and on its stand-in.

Readers: TensorBoard's EventAccumulator, tbparse, TensorFlow's summary_iterator, TensorBoard's HTTP interface.
As a program (``make peers``) it prints one table: rows of each method and how many of them differ.
"""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TENSORFLOW = Path(os.environ.get("TFVENV", HERE.parents[1] / ".venv-tensorflow")) / "bin" / "python"
TIME = re.compile(r"\d{10}\.\d+")
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent / "lib"))  # as pytest does
ITERATE = """
import hashlib, json, os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
for path in sys.argv[1:]:
    for event in tf.compat.v1.train.summary_iterator(path):
        for value in event.summary.value:
            image = value.image.encoded_image_string.hex() if value.HasField("image") else ""
            if image:
                value.image.encoded_image_string = b""
            plugin = value.metadata.plugin_data.plugin_name
            if plugin == "hparams":  # a map in it has no order
                value.metadata.plugin_data.content = bytes(sorted(value.metadata.plugin_data.content))
            data = value.SerializeToString(deterministic=True)
            print(json.dumps([path, event.step, value.tag, hashlib.sha256(data).hexdigest(), image]))
"""


def load(name):
    spec = importlib.util.spec_from_file_location(name, HERE.parent / "unit" / "compat" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pixels(data):
    from PIL import Image

    picture = Image.open(io.BytesIO(data))
    return hashlib.sha256(f"{picture.mode}{picture.size}".encode() + picture.tobytes()).hexdigest()


def digest(value):
    data = value if isinstance(value, bytes) else repr(value).encode()
    return data.decode("utf-8", "replace") if len(data) < 60 else hashlib.sha256(data).hexdigest()


def run_of(path, directory):
    return TIME.sub("<time>", Path(path).relative_to(directory).as_posix())


def accumulated(directory):
    """Rows by TensorBoard's own accumulator of tensors, and by the older one of kinds."""
    from tensorboard.backend.event_processing import event_accumulator, plugin_event_accumulator

    size = dict.fromkeys(("scalars", "images", "audio", "histograms", "compressedHistograms", "tensors"), 0)
    rows = []
    for folder in sorted({path.parent for path in directory.rglob("*tfevents*")}):
        run = run_of(folder, directory)
        older = event_accumulator.EventAccumulator(str(folder), size_guidance=size)
        older.Reload()
        tags = older.Tags()
        rows += [(run, tag, e.step, digest(e.value)) for tag in tags["scalars"] for e in older.Scalars(tag)]
        rows += [
            (run, tag, e.step, digest(e.histogram_value))
            for tag in tags["histograms"]
            for e in older.Histograms(tag)
        ]
        rows += [
            (run, tag, e.step, e.width, e.height, pixels(e.encoded_image_string))
            for tag in tags["images"]
            for e in older.Images(tag)
        ]
        rows += [
            (run, tag, e.step, e.sample_rate, e.length_frames, e.content_type, digest(e.encoded_audio_string))
            for tag in tags["audio"]
            for e in older.Audio(tag)
        ]
        newer = plugin_event_accumulator.EventAccumulator(str(folder), tensor_size_guidance={})
        newer.Reload()
        for tag in newer.Tags()["tensors"]:
            plugin = newer.SummaryMetadata(tag).plugin_data.plugin_name
            for event in newer.Tensors(tag) if plugin not in ("images", "hparams") else ():
                data = event.tensor_proto.SerializeToString(deterministic=True)
                rows.append((run, tag, event.step, plugin, digest(data)))
    return rows


def parsed(directory):
    """Rows of tbparse's frames."""
    from tbparse import SummaryReader

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        reader = SummaryReader(str(directory), extra_columns={"dir_name"})
        rows = []
        for kind in ("scalars", "tensors", "histograms", "images", "audio", "text", "hparams"):
            try:
                frame = getattr(reader, kind)
            except ModuleNotFoundError:
                continue  # pictures and sounds it decodes with TensorFlow alone
            except Exception as error:  # noqa: BLE001  tbparse's own, for halves as torch stores them
                rows.append((kind, type(error).__name__))
                continue
            for row in frame.itertuples(index=False):
                words = (digest(value.tobytes() if hasattr(value, "tobytes") else value) for value in row)
                rows.append((kind, *(TIME.sub("<time>", word) for word in words)))
        return rows


def iterated(directory):
    """Rows of TensorFlow's summary_iterator, in an environment of its own; None without one."""
    if not TENSORFLOW.exists():
        return None
    paths = sorted(map(str, directory.rglob("*tfevents*")))
    done = subprocess.run(
        [str(TENSORFLOW), "-c", ITERATE, *paths], capture_output=True, text=True, timeout=300, check=True
    )
    rows = []
    for path, step, tag, data, image in map(json.loads, done.stdout.splitlines()):
        seen = pixels(bytes.fromhex(image)) if image else ""
        rows.append((run_of(Path(path).parent, directory), tag, step, data, seen))
    return rows


def served(directory):
    """Rows of TensorBoard's HTTP interface."""
    from tensorboard import default, program
    from tensorboard.backend import application
    from werkzeug.test import Client

    board = program.TensorBoard(plugins=default.get_plugins())
    board.configure(
        argv=["tensorboard", "--logdir", str(directory), "--load_fast", "false", "--reload_interval", "0",
              "--reload_task", "blocking"]
    )  # fmt: skip
    ingester = board._make_data_ingester()
    ingester.start()
    app = application.TensorBoardWSGIApp(
        board.flags, board.plugin_loaders, ingester.data_provider, board.assets_zip_provider
    )
    client = Client(app)

    def get(path, **query):
        answer = client.get(f"/data/{path}", query_string=query)
        return json.loads(answer.data) if answer.status_code == 200 else answer.status_code

    rows = [("run", TIME.sub("<time>", run)) for run in get("runs")]
    for plugin, path in (("scalars", "scalars"), ("histograms", "histograms"), ("text", "text")):
        for run, tags in get(f"plugin/{plugin}/tags").items():
            for tag in tags:
                for each in get(f"plugin/{plugin}/{path}", run=run, tag=tag):
                    kept = (
                        each[1:]
                        if isinstance(each, list)
                        else {k: v for k, v in each.items() if k != "wall_time"}
                    )
                    rows.append((plugin, TIME.sub("<time>", run), tag, digest(kept)))
    for plugin, path in (("images", "images"), ("audio", "audio")):
        for run, tags in get(f"plugin/{plugin}/tags").items():
            for tag, facts in tags.items():
                for sample in range(facts["samples"]):
                    for each in get(f"plugin/{plugin}/{path}", run=run, tag=tag, sample=sample):
                        kept = {k: v for k, v in each.items() if k not in ("wall_time", "query", "blob_key")}
                        rows.append((plugin, TIME.sub("<time>", run), tag, digest(sorted(kept.items()))))
    for run, tags in get("plugin/pr_curves/tags").items():
        for tag in tags:
            found = get("plugin/pr_curves/pr_curves", run=run, tag=tag)[run]
            rows += [
                ("pr_curves", tag, digest(sorted((k, v) for k, v in each.items() if k != "wall_time")))
                for each in found
            ]
    rows.append(("layout", digest(get("plugin/custom_scalars/layout"))))
    answer = client.post("/data/plugin/hparams/experiment", json={"experimentName": "", "hparamsLimit": 0})
    if answer.status_code == 200:
        said = json.loads(answer.data)
        names = sorted((info["name"]["group"], info["name"]["tag"]) for info in said.get("metricInfos", []))
        rows += [("metric", TIME.sub("<time>", group), tag) for group, tag in names]
        rows += [("hparam", info["name"], info.get("type")) for info in said.get("hparamInfos", [])]
    return rows


READERS = {
    "EventAccumulator": accumulated,
    "tbparse": parsed,
    "summary_iterator": iterated,
    "HTTP": served,
}


def originals():
    records = load("test_records")
    from stepscope.compat import SummaryWriter, tensorboardx

    return {
        "torch": (records.peer("torch.utils.tensorboard"), SummaryWriter, records.TORCH),
        "tensorboardX": (records.peer("tensorboardX"), tensorboardx.SummaryWriter, records.TENSORBOARDX),
    }


def rows_of(read, directory):
    """What a reader finds; where it fails, as tbparse at halves as torch stores them, what it raises."""
    try:
        return read(directory)
    except Exception as error:  # noqa: BLE001  the reader's own
        return [f"{type(error).__name__}: {error}"]


def differences(name, script, place):
    """Rows of the original, and rows that one of the two has alone, by reader; None without the reader."""
    theirs, ours, _ = originals()[name]
    for make, folder in ((theirs, "theirs"), (ours, "ours")):
        with make(str(place / folder)) as writer:
            script(writer)
    found = {}
    for reader, read in READERS.items():
        expected, mine = (rows_of(read, place / folder) for folder in ("theirs", "ours"))
        if expected is None:
            found[reader] = None
            continue
        expected, mine = Counter(map(str, expected)), Counter(map(str, mine))
        found[reader] = (
            expected.total(),
            sorted((expected - mine).elements()),
            sorted((mine - expected).elements()),
        )
    return found


CASES = [(name, script) for name, (_, _, scripts) in originals().items() for script in scripts]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "script"), CASES, ids=[f"{n}-{s.__name__}" for n, s in CASES])
def test_readers_find_the_same_rows(name, script, tmp_path):
    pytest.importorskip("tbparse")
    for reader, found in differences(name, script, tmp_path).items():
        if found is not None:
            rows, lost, added = found
            assert (lost, added) == ([], []), f"{reader}: of {rows} rows"


def main():
    """Print the table; exit with 1 where anything differs."""
    warnings.simplefilter("ignore")
    print(f"{'calls':34}" + "".join(f"{reader:>22}" for reader in READERS))
    total = 0
    for name, script in CASES:
        with tempfile.TemporaryDirectory() as place:
            found = differences(name, script, Path(place))
        cells = []
        for each in found.values():
            bad = 0 if each is None else len(each[1]) + len(each[2])
            total += bad
            cells.append("not there" if each is None else f"{each[0]:,} rows, {bad} differ")
        print(f"{name + ' ' + script.__name__:34}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    print(f"{total} rows differ")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
