"""TF_CONFIG as TensorFlow reads it; TF 2.15's own answers are in tests/tensorflow."""

import json
import re

import pytest

from stepscope.record.roles import detect
from stepscope.record.roles.launchers import ConfigError, parse

CLUSTER = {"chief": ["a:1"], "worker": ["b:1", "c:1"], "ps": ["d:1"]}


def config(cluster=None, **task):
    return json.dumps({"cluster": CLUSTER if cluster is None else cluster, "task": task})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (config(type="chief", index=0), (0, 3, "chief")),
        (config(type="worker", index=0), (1, 3, "worker")),
        (config(type="worker", index=1), (2, 3, "worker")),
        (config(type="worker", index="1"), (2, 3, "worker")),
        (config(type="ps", index=0), (0, 3, "ps")),
        (config(type="evaluator", index=0), (0, 1, "evaluator")),
        (config(type="evaluator", index=1), (0, 1, "evaluator")),
        (config({**CLUSTER, "evaluator": ["e:1"]}, type="evaluator", index=0), (0, 1, "evaluator")),
        (config({"worker": ["a", "b"]}, type="worker", index=0), (0, 2, "chief")),
        (config({"worker": ["a", "b"]}, type="worker", index=1), (1, 2, "worker")),
        (config({"master": ["a"], "worker": ["b"]}, type="master", index=0), (0, 2, "chief")),
        (config({"master": ["a"], "worker": ["b"]}, type="worker", index=0), (1, 2, "worker")),
        (config({"worker": {"0": "a", "1": "b"}}, type="worker", index=1), (1, 2, "worker")),
        (config({"chief": ["a"]}, type="chief"), (0, 1, "chief")),
        ('{"task": {"type": "evaluator", "index": 0}}', (0, 1, "evaluator")),
        ('{"task": {"type": "worker", "index": 0}}', (0, 1, "chief")),
        ("{}", (0, 1, "chief")),
        ('{"environment": "cloud", "model_dir": "gs://x"}', (0, 1, "chief")),
    ],
)
def test_who_is_who(text, expected):
    role = detect(environ={"TF_CONFIG": text})
    assert (role.rank, role.world_size, role.name) == expected
    assert not role.problems


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("not json", "is not JSON"),
        ("[]", "Expected `object`, got `array`"),
        ("3", "Expected `object`, got `int`"),
        ('{"cluster": []}', "got `array` - at `$.cluster`"),
        (
            '{"cluster": {"worker": "a"}, "task": {"type": "worker"}}',
            "got `str` - at `$.cluster[...]`",
        ),
        ('{"cluster": {"worker": ["a"]}}', "has a cluster but no task.type"),
        ('{"cluster": {"worker": ["a"]}, "task": 3}', "got `int` - at `$.task`"),
        (config(type="worker", index=2), "gives this task the index 2, but the cluster has 2 worker"),
        (config(type="worker", index=-1), "Expected `int` >= 0 - at `$.task.index`"),
        (config(type="worker", index=1.5), "got `float` - at `$.task.index`"),
        (config(type="worker", index=True), "got `bool` - at `$.task.index`"),
        (config(type="gpu", index=0), "gives this task the type 'gpu', which is not in its cluster"),
        (config({"gpu": ["a"]}, type="gpu"), "chief, worker, ps and evaluator are known"),
        (config({"chief": ["a"], "master": ["b"]}, type="chief"), "has both a chief and a master"),
        (config({"chief": ["a", "b"]}, type="chief"), "has 2 chiefs in its cluster"),
        ('{"task": {"type": "ps", "index": 0}}', "gives this task as ps 0 but names no cluster"),
        ('{"task": {"type": "worker", "index": 1}}', "gives this task as worker 1 but names no cluster"),
    ],
)
def test_what_is_wrong_with_it(text, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        parse(text)
    role = detect(environ={"TF_CONFIG": text})
    assert (role.rank, role.world_size) == (0, 1)
    assert message in str(role.problems[0])
