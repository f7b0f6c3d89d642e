"""Drop-in writers in a store: what an original would leave in a directory is there, and no directory here."""

import json
import os
import subprocess
import sys

import fsspec
import numpy as np
import pytest

from stepscope import store
from stepscope.compat import SummaryWriter

S3 = """
import json, os, sys
import fsspec
from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "us-east-1"}
os.environ["AWS_ENDPOINT_URL"] = f"http://{host}:{port}"
system = fsspec.filesystem("s3")
system.mkdir("bucket")
sys.path.insert(0, sys.argv[1])
from test_stores import written

system.invalidate_cache()
print(json.dumps(written("s3://bucket/runs", system)))
sys.stdout.flush()
os._exit(0)  # the store is not to be asked any more
"""
"""All in a separate process: a store in memory that speaks S3, and what writes to it and reads it."""


def script(writer):
    for step in range(3):
        writer.add_scalar("loss", 1 / (step + 1), step)
        writer.add_scalars("main", {"a": 1.0, "b": float(step)}, step)
    writer.add_histogram("weights", np.arange(9.0), 1)
    writer.add_embedding(np.eye(3), tag="points")
    writer.add_hparams({"lr": 0.5}, {"metric": 2.0}, "trial")
    writer.add_hparams({"lr": 0.25}, {"metric": 3.0}, name="../above")


def written(url, system):
    """Names of the objects that two attempts leave, with other facts of what is read back."""
    with SummaryWriter(f"{url}/first") as writer:
        place = writer.get_logdir()
        script(writer)
        lines = sorted(each.removeprefix(url + "/") for each in writer.all_writers)
    with SummaryWriter(f"{url}/first") as writer:
        writer.add_scalar("loss", 9.0, 9)
    system.invalidate_cache()
    found = system.find(url.partition("://")[2])
    with store.open(url, cache=False) as log:
        series = [(each.attempt, each.step.tolist()) for each in log.run("first").columns("loss")]
        numbers = {
            run.name: run.columns("main")[0].value.tolist() for run in log.runs() if "main" in run.tags()
        }
        trials = {run.name: run.info.config for run in log.runs() if run.info.config}
    return {
        "place": place.removeprefix(url),
        "lines": lines,
        "objects": sorted(each.partition("/runs/")[2] for each in found),
        "series": series,
        "numbers": numbers,
        "trials": trials,
        "here": sorted(os.listdir()),  # noqa: PTH208  names only
    }


@pytest.fixture
def memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPSCOPE_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/drop-ins", recursive=True)


def in_s3(directory):
    pytest.importorskip("s3fs")
    pytest.importorskip("moto.server")
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("AWS_")},
        "STEPSCOPE_SPOOL": str(directory / "spool"),
        "XDG_CACHE_HOME": str(directory / "cache"),
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", S3, os.path.dirname(__file__)],  # noqa: PTH120  as text
        cwd=directory, env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "s3"])
def test_all_files_of_a_writer_are_in_the_store_and_none_is_here(kind, tmp_path, request):
    if kind == "s3":
        found = in_s3(tmp_path)
    else:
        system = request.getfixturevalue("memory")
        found = json.loads(json.dumps(written("memory://drop-ins/runs", system)))
    lines = ["first/main_a", "first/main_b"]
    events = [each for each in found["objects"] if "tfevents" in each]
    assert found["place"] == "/first"
    assert found["lines"] == ["first", *lines]
    assert sorted({each.rpartition("/")[0] for each in events}) == sorted(
        ["first", "first/above", "first/trial", *lines]
    )
    assert len(events) == 6  # two attempts, four beside
    assert set(found["objects"]) - set(events) == {
        "first/00000/points/tensors.tsv", "first/projector_config.pbtxt"
    }  # fmt: skip
    assert found["series"] == [[1, [0, 1, 2]], [2, [9]]]
    assert found["numbers"] == dict(zip(lines, ([1.0, 1.0, 1.0], [0.0, 1.0, 2.0]), strict=True))
    assert found["trials"] == {"first/above": {"lr": 0.25}, "first/trial": {"lr": 0.5}}
    assert set(found["here"]) <= {"spool", "cache"}
