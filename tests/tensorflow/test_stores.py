"""Captures of TensorFlow that lie in a store: the page lists them and opens them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.addresses import Addresses

import stepscope as ss

tf = pytest.importorskip("tensorflow", reason="captures TensorFlow's steps")
fsspec = pytest.importorskip("fsspec", reason="has a store in memory")
pytestmark = pytest.mark.filterwarnings("default")
URL = "memory://bucket/runs"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    system = fsspec.filesystem("memory")
    system.store.clear()
    yield system
    system.store.clear()


def session(run: Path) -> None:
    from stepscope.integrations.tensorflow import ProfilerHook

    v1 = tf.compat.v1
    with tf.Graph().as_default():
        step = v1.train.get_or_create_global_step()
        product = tf.matmul(tf.ones((8, 8)), tf.ones((8, 8)))
        with tf.control_dependencies([product]):
            train = v1.assign_add(step, 1)
        hook = ProfilerHook(save_steps=5, num_steps=2, show_memory=True, run=run, analyse=False)
        with v1.train.MonitoredTrainingSession(hooks=[hook]) as made:
            for _ in range(8):
                made.run(train)


def function(run: Path) -> None:
    step = tf.function(lambda batch: tf.matmul(batch, batch))
    hook = ss.ProfilerHook(save_steps=100, num_steps=2, analyse=False, backend="tensorflow")
    with ss.Run(run, hooks=[hook]) as opened:
        for _ in opened.steps(range(10)):
            step(tf.ones((8, 8)))


@pytest.mark.parametrize("training", [session, function])
def test_a_capture_is_listed_and_opened_from_a_store(store: Any, tmp_path: Path, training: Any) -> None:
    from stepscope.serve.follow import LogFollower, copy_of

    training(tmp_path / "runs" / "a")
    for path in (tmp_path / "runs").rglob("*"):
        if path.is_file():
            store.pipe(f"/bucket/runs/{path.relative_to(tmp_path / 'runs').as_posix()}", path.read_bytes())
    follower = LogFollower(copy_of(URL), url=URL, cache=False)
    try:
        while follower.turn() == 0:
            pass
        ask = Addresses(follower.log_dir, log=lambda: follower.log).json
        found = ask("captures", run="a")["captures"]
        assert [len(each["steps"]) for each in found] == [2]
        listed = {each["path"]: each["steps"] for each in ask("profiles")["profiles"]}
        [path] = [each for each in listed if found[0]["path"].startswith(each)]
        assert listed[path] == found[0]["steps"]
        assert ask("profile", path=path)["events"] > 2
    finally:
        follower.stop()
    assert len(ss.load_trace(f"{URL}/{path}", cache=False)) > 2
