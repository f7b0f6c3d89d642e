"""TF_CONFIG as TensorFlow itself reads it: the Estimator's RunConfig, and strategies with their resolvers."""

import json
import sys

import pytest

from stepscope.record.roles import detect

tf = pytest.importorskip("tensorflow")
if not hasattr(tf, "estimator"):
    pytest.skip("the Estimator left with TensorFlow 2.16", allow_module_level=True)

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}
LEGACY = {"master": ["a:1"], "worker": ["b:1"], "ps": ["d:1"]}


@pytest.mark.parametrize(
    ("cluster", "kind", "index"),
    [
        (CLUSTER, "chief", 0),
        (CLUSTER, "worker", 0),
        (CLUSTER, "worker", 1),
        (CLUSTER, "ps", 0),
        (CLUSTER, "evaluator", 0),
        (CLUSTER, "evaluator", 1),
        (LEGACY, "master", 0),
        (LEGACY, "worker", 0),
    ],
)
def test_the_estimator_agrees(monkeypatch, cluster, kind, index):
    text = json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})
    monkeypatch.setenv("TF_CONFIG", text)
    theirs = tf.estimator.RunConfig()
    role = detect(environ={"TF_CONFIG": text})
    assert not role.problems
    assert role.chief == theirs.is_chief
    if kind in ("chief", "worker", "master"):
        assert role.rank == theirs.global_id_in_cluster
        many = theirs.num_worker_replicas
        assert role.world_size == many
    else:
        assert role.name == theirs.task_type


@pytest.mark.parametrize(
    "text",
    [
        "{",
        '{"cluster": {"worker": ["a:1"]}}',
        '{"cluster": {"chief": ["a:1"], "master": ["b:1"]}, "task": {"type": "chief", "index": 0}}',
        '{"cluster": {"chief": ["a:1"]}, "task": {"type": "worker", "index": 0}}',
        '{"cluster": {"chief": ["a:1"], "worker": ["b:1"]}, "task": {"type": "worker", "index": 1}}',
        '{"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": -1}}',
        '{"task": {"type": "ps", "index": 0}}',
    ],
)
def test_what_the_estimator_refuses_is_a_problem(monkeypatch, text):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises((ValueError, KeyError)):
        tf.estimator.RunConfig()
    assert len(detect(environ={"TF_CONFIG": text}).problems) == 1


class Strategy:
    """What a strategy of several workers shows of itself, with TensorFlow's own resolver."""

    def __init__(self) -> None:
        self.cluster_resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()


def test_a_strategy_in_whose_scope_the_run_is_made_is_asked(monkeypatch):
    from tensorflow.python.distribute import distribute_lib

    config = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    strategy = Strategy()
    monkeypatch.setattr(distribute_lib, "has_strategy", lambda: True)
    monkeypatch.setattr(distribute_lib, "get_strategy", lambda: strategy)
    role = detect(environ={}, modules=sys.modules)
    assert (role.source, role.rank, role.world_size) == ("tf.distribute", 1, 2)


def test_without_a_scope_and_with_one_of_a_single_host_nothing_is_said():
    assert detect(environ={}, modules=sys.modules).source == "single process"
    with tf.distribute.MirroredStrategy(["cpu:0"]).scope():
        assert detect(environ={}, modules=sys.modules).source == "single process"
