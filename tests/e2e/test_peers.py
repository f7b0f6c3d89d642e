"""What four readers find of the same calls on torch's writer and on its stand-in.

Readers: TensorBoard's EventAccumulator, tbparse, TensorFlow's summary_iterator, TensorBoard's HTTP interface.
As a program (``make peers``) it prints one table: rows of each method and how many of them differ.
"""

import atexit
import functools
import hashlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings
import wave
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.modules import load

HERE = Path(__file__).resolve().parent
TENSORFLOW = Path(os.environ.get("TFVENV", HERE.parents[1] / ".venv-tensorflow")) / "bin" / "python"
STATUSES = ["STATUS_UNKNOWN", "STATUS_SUCCESS", "STATUS_FAILURE", "STATUS_RUNNING"]
TIME = re.compile(r"\d{10}\.\d+")
if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent / "lib"))  # as pytest does
from support.random_calls import Arguments  # noqa: E402  found there

OUT = """
import json, os, sys
out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is not an answer
"""
ITERATE = """
import hashlib
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

def rows(path):
    for event in tf.compat.v1.train.summary_iterator(path):
        for what in ("graph_def", "tagged_run_metadata"):
            if event.HasField(what):
                held = getattr(event, what)
                data = held if what == "graph_def" else held.SerializeToString(deterministic=True)
                yield [path, event.step, what, hashlib.sha256(data).hexdigest(), ""]
        for value in event.summary.value:
            image = value.image.encoded_image_string.hex() if value.HasField("image") else ""
            if image:
                value.image.encoded_image_string = b""
            plugin = value.metadata.plugin_data.plugin_name
            if plugin == "hparams":
                content = HParamsPluginData.FromString(value.metadata.plugin_data.content)
                content.session_start_info.start_time_secs = 0
                content.experiment.time_created_secs = 0
                value.metadata.plugin_data.content = content.SerializeToString(deterministic=True)
            for at, text in enumerate(value.tensor.string_val):
                if text.startswith(b"\\x89PNG"):
                    image, value.tensor.string_val[at] = image + " " + text.hex(), b""
            data = value.SerializeToString(deterministic=True)
            yield [path, event.step, value.tag, hashlib.sha256(data).hexdigest(), image]

def answer(paths):
    return [row for path in paths for row in rows(path)]
"""


SERVE = """
for line in sys.stdin:
    try:
        found = {"answer": answer(json.loads(line))}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(found), file=out, flush=True)
"""


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
        if tags["graph"]:
            rows.append((run, "graph", digest(older.Graph().SerializeToString(deterministic=True))))
        rows += [
            (run, tag, digest(older.RunMetadata(tag).SerializeToString(deterministic=True)))
            for tag in tags["run_metadata"]
        ]
        newer = plugin_event_accumulator.EventAccumulator(str(folder), tensor_size_guidance={})
        newer.Reload()
        for tag in newer.Tags()["tensors"]:
            plugin = newer.SummaryMetadata(tag).plugin_data.plugin_name
            for event in newer.Tensors(tag) if plugin not in ("images", "hparams") else ():
                data = event.tensor_proto.SerializeToString(deterministic=True)
                rows.append((run, tag, event.step, plugin, digest(data)))
    return rows


KINDS = ("scalars", "tensors", "histograms", "images", "audio", "text", "hparams")
COLUMNS = {
    "dir_name", "min", "max", "num", "sum", "sum_squares", "width", "height", "content_type", "length_frames",
    "sample_rate",
}  # fmt: skip
"""All but what differs between any two recordings: names of files, wall times."""
DECODERS = SimpleNamespace(
    image=SimpleNamespace(decode_image=lambda data: SimpleNamespace(numpy=lambda: np.asarray(opened(data)))),
    audio=SimpleNamespace(decode_wav=lambda data: (SimpleNamespace(numpy=lambda: samples(data)), None)),
)
"""The two functions of TensorFlow that tbparse calls, where TensorFlow is not installed."""


def opened(data):
    from PIL import Image

    return Image.open(io.BytesIO(data))


def samples(data):
    with wave.open(io.BytesIO(data)) as sound:
        return np.frombuffer(sound.readframes(sound.getnframes()), "<i2")


def parsed(directory):
    """Rows of tbparse's frames, long and wide, with all columns, of the directory and of each file alone."""
    from tbparse import SummaryReader, summary_reader

    rows = []
    before, summary_reader.tensorflow = summary_reader.tensorflow, summary_reader.tensorflow or DECODERS
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in KINDS:
                for pivot in (False, True):
                    rows += frames(directory, directory, kind, pivot)
                for path in sorted(directory.rglob("*tfevents*")):
                    rows += frames(directory, path, kind, False)
            reader = SummaryReader(str(directory), event_types={"scalars"})
            # A set: of its own directory, torch's add_hparams makes another file.
            rows.append(("children", *sorted(set(map(unnamed, reader.children)))))
    finally:
        summary_reader.tensorflow = before
    return rows


def unnamed(text):
    """A text without what differs between any two recordings."""
    return re.sub(r"events\.out\.tfevents\S*", "<file>", TIME.sub("<time>", text))


def frames(directory, path, kind, pivot):
    """Rows of one frame and its tags; what tbparse raises, as for halves as torch stores them, is one."""
    from tbparse import SummaryReader

    where = (kind, pivot, unnamed(path.relative_to(directory).as_posix()))
    try:
        reader = SummaryReader(str(path), pivot=pivot, extra_columns=COLUMNS, event_types={kind})
        frame = getattr(reader, kind)
    except Exception as error:  # noqa: BLE001  tbparse's own
        return [(*where, type(error).__name__)]
    if frame.empty and not pivot:
        return []
    rows = [(*where, "columns", *map(unnamed, map(str, frame.columns)))]
    rows.append((*where, "tags", *sorted(map(unnamed, reader.get_tags(kind)))))
    cells = frame.itertuples(index=False)
    return rows + [(*where, *(unnamed(digest(plain(value))) for value in row)) for row in cells]


def plain(value):
    """A cell, arrays as bytes; in wide frames cells may be lists of them."""
    if isinstance(value, bytes) and value.startswith(b"\x89PNG"):
        return pixels(value)
    if isinstance(value, list) or getattr(getattr(value, "dtype", None), "kind", "") == "O":
        return [plain(each) for each in value]
    return (value.shape, str(value.dtype), value.tobytes()) if hasattr(value, "tobytes") else value


@functools.cache
def tensorflow(code):
    """A process of TensorFlow's environment, which takes seconds to start: questions in, answers out."""
    import stepscope

    environment, home = dict(os.environ), Path(stepscope.__file__).parents[1]
    if not (home / "numpy").exists():  # in place; where it is installed, it is in that environment, too
        environment["PYTHONPATH"] = str(home)
    process = subprocess.Popen(
        [str(TENSORFLOW), "-c", OUT + code + SERVE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    atexit.register(end, process)
    return process


def end(process):
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


def ask(code, question):
    """Return what a process of ``tensorflow`` answers."""
    process = tensorflow(code)
    print(json.dumps(question), file=process.stdin, flush=True)
    found = json.loads(process.stdout.readline())
    if "error" in found:
        raise RuntimeError(found["error"])
    return found["answer"]


def iterated(directory):
    """Rows of TensorFlow's summary_iterator, in an environment of its own; None without one."""
    if not TENSORFLOW.exists():
        return None
    answer = ask(ITERATE, sorted(map(str, directory.rglob("*tfevents*"))))
    rows = []
    for path, step, tag, data, image in answer:
        seen = tuple(pixels(bytes.fromhex(each)) for each in image.split())
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
    for run, tags in get("plugin/distributions/tags").items():
        for tag in tags:
            for each in get("plugin/distributions/distributions", run=run, tag=tag):
                rows.append(("distributions", TIME.sub("<time>", run), tag, digest(each[1:])))
    for run, tags in get("plugin/mesh/tags").items():
        rows.append(("mesh", TIME.sub("<time>", run), digest(sorted(map(str, tags.items())))))
        for tag, facts in tags.items():
            for sample in range(facts["samples"]):
                found = get("plugin/mesh/meshes", run=run, tag=tag, sample=sample)
                kept = [{k: v for k, v in each.items() if k != "wall_time"} for each in found]
                rows.append(("mesh", TIME.sub("<time>", run), tag, digest(str(kept))))
    for run in get("plugin/projector/runs"):
        config = get("plugin/projector/info", run=run)
        rows.append(("projector", run, digest(str(config).replace(str(directory), ""))))
        for each in config["embeddings"]:
            data = client.get(
                "/data/plugin/projector/tensor", query_string={"run": run, "name": each["tensorName"]}
            )
            rows.append(("projector", run, each["tensorName"], digest(data.data)))
    for run, facts in get("plugin/graphs/info").items():
        tags = [tag for tag, each in facts["tags"].items() if each["op_graph"]] or [""]
        rows.append(("graph", run, str(facts)))
        for tag in tags if facts["run_graph"] else ():
            answer = client.get("/data/plugin/graphs/graph", query_string={"run": run, "tag": tag})
            rows.append(("graph", run, tag, digest(answer.data)))
        for tag, each in facts["tags"].items():
            if each["profile"]:
                answer = client.get("/data/plugin/graphs/run_metadata", query_string={"run": run, "tag": tag})
                rows.append(("graph", run, tag, digest(answer.data)))
    rows += [("active", name, facts["enabled"]) for name, facts in sorted(get("plugins_listing").items())]
    answer = client.post("/data/plugin/hparams/experiment", json={"experimentName": "", "hparamsLimit": 0})
    if answer.status_code == 200:
        said = json.loads(answer.data)
        names = sorted((info["name"]["group"], info["name"]["tag"]) for info in said.get("metricInfos", []))
        rows += [("metric", TIME.sub("<time>", group), tag) for group, tag in names]
        rows += [("hparam", info["name"], info.get("type")) for info in said.get("hparamInfos", [])]
        question = {"experimentName": "", "startIndex": 0, "sliceSize": 100, "allowedStatuses": STATUSES}
        answer = client.post("/data/plugin/hparams/session_groups", json=question)
        for group in json.loads(answer.data).get("sessionGroups", ()):
            metrics = sorted(
                (each["name"]["tag"], str(each.get("value"))) for each in group.get("metricValues", ())
            )
            rows.append(("session", digest(str((sorted(group["hparams"].items()), metrics)))))
    return rows


READERS = {
    "EventAccumulator": accumulated,
    "tbparse": parsed,
    "summary_iterator": iterated,
    "HTTP": served,
}


RECORDS = load(HERE.parent / "unit" / "compat" / f"{'test_records'}.py")


def rows_of(read, directory):
    """What a reader finds; where it fails, as tbparse at halves as torch stores them, what it raises."""
    try:
        return read(directory)
    except Exception as error:  # noqa: BLE001  the reader's own
        return [f"{type(error).__name__}: {error}"]


def differences(script, place):
    """Rows of the original, and rows that one of the two has alone, by reader; None without the reader."""
    theirs = RECORDS.peer("torch.utils.tensorboard")
    for make, folder in ((theirs, "theirs"), (RECORDS.SummaryWriter, "ours")):
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


class RandomCalls:
    """Seeded calls of many methods with random arguments, each with a tag of its own.

    The original comes first; what it refuses is not asked of its stand-in.
    """

    def __init__(self, seed, number):
        self.__name__ = f"{number} random calls, seed {seed}"
        self.seed, self.number, self.taken = seed, number, None

    def __call__(self, writer):
        taken, self.taken = self.taken, []
        for at, (method, given, options) in enumerate(Arguments(self.seed).calls(self.number)):
            if taken is not None and at not in taken:
                continue
            try:
                getattr(writer, method)(*given, **options)
            except Exception:
                if taken is not None:
                    raise
            else:
                self.taken.append(at)
        self.taken = self.taken if taken is None else None


SEEDS = range(int(os.environ.get("COMPAT_SEEDS", "1")))
CALLS = int(os.environ.get("COMPAT_CALLS", "60"))
CASES = [*RECORDS.SCRIPTS, *(RandomCalls(seed, CALLS) for seed in SEEDS)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", CASES, ids=lambda script: script.__name__)
def test_readers_find_the_same_rows(script, tmp_path):
    pytest.importorskip("tbparse")
    for reader, found in differences(script, tmp_path).items():
        if found is not None:
            rows, lost, added = found
            assert (lost, added) == ([], []), f"{reader}: of {rows} rows"


def main():
    """Print the table; exit with 1 where anything differs."""
    warnings.simplefilter("ignore")
    print(f"{'calls':34}" + "".join(f"{reader:>22}" for reader in READERS))
    total = 0
    for script in CASES:
        with tempfile.TemporaryDirectory() as place:
            found = differences(script, Path(place))
        cells = []
        for each in found.values():
            bad = 0 if each is None else len(each[1]) + len(each[2])
            total += bad
            cells.append("not there" if each is None else f"{each[0]:,} rows, {bad} differ")
        print(f"{script.__name__:34}" + "".join(f"{cell:>22}" for cell in cells), flush=True)
    print(f"{total} rows differ")
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
