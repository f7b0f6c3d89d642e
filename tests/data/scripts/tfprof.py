"""Record what the real tfprof answers: python tests/data/scripts/tfprof.py MODEL FOLDER

Needs TensorFlow 2.15 (`.venv-tensorflow`). Trains a model for four traced steps and writes its ProfileProto,
graph, RunMetadata and timelines, and for each set of options what tfprof prints.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf
from tensorflow.python.client import timeline

v1 = tf.compat.v1
Model = tuple[Any, Callable[[], dict[Any, Any]]]
STEPS, WARM_UP = 4, 2
SETS: dict[str, tuple[str, dict[str, Any]]] = {
    "scope_params": ("scope", {
        "max_depth": 10000, "account_type_regexes": ["_trainable_variables"], "select": ["params"],
        "account_displayed_op_only": True, "order_by": "name",
    }),
    "scope_time": ("scope", {
        "max_depth": 4, "select": ["micros", "bytes"], "order_by": "micros", "min_micros": 1,
    }),
    "scope_start": ("scope", {
        "max_depth": 10, "start_name_regexes": [".*gradients.*"], "select": ["micros", "occurrence"],
        "order_by": "name",
    }),
    "scope_shapes": ("scope", {
        "max_depth": 5, "select": ["input_shapes", "device", "op_types"],
        "hide_name_regexes": [".*gradients.*"], "order_by": "name",
    }),
    "graph_bytes": ("graph", {
        "max_depth": 6, "select": ["bytes", "peak_bytes", "residual_bytes", "output_bytes"],
        "order_by": "bytes", "min_bytes": 4,
    }),
    "op_time": ("op", {
        "max_depth": 10000, "select": ["micros", "bytes", "occurrence"], "order_by": "micros",
        "account_displayed_op_only": True,
    }),
    "op_flops": ("op", {"max_depth": 10000, "select": ["float_ops", "params"], "order_by": "float_ops"}),
    "op_step1": ("op", {"max_depth": 8, "select": ["cpu_micros"], "order_by": "cpu_micros", "step": 1}),
    "code_time": ("code", {
        "max_depth": 12, "select": ["micros", "bytes"], "order_by": "micros", "min_micros": 1,
    }),
    "code_hide": ("code", {
        "max_depth": 20, "select": ["micros"], "order_by": "name", "show_name_regexes": [".*mk.py.*"],
    }),
}  # fmt: skip
VIEWS = {
    "scope": "profile_name_scope", "graph": "profile_graph", "op": "profile_operations",
    "code": "profile_python",
}  # fmt: skip


def wide_deep(rng: np.random.Generator) -> Model:
    """Two hidden layers beside a linear one."""
    x = v1.placeholder(tf.float32, [None, 64], name="x")
    target = v1.placeholder(tf.float32, [None, 1], name="t")
    with v1.variable_scope("dnn"):
        hidden = v1.layers.dense(x, 128, activation=tf.nn.relu, name="hiddenlayer_0")
        hidden = v1.layers.dense(hidden, 64, activation=tf.nn.relu, name="hiddenlayer_1")
        deep = v1.layers.dense(hidden, 1, name="logits")
    with v1.variable_scope("linear"):
        wide = v1.layers.dense(x, 1, name="linear_model")
    loss = tf.reduce_mean(tf.square(deep + wide - target), name="loss")
    return loss, lambda: {
        x: rng.normal(size=(256, 64)).astype("f4"),
        target: rng.normal(size=(256, 1)).astype("f4"),
    }


def convnet(rng: np.random.Generator) -> Model:
    """Two convolutions, one with batch normalisation, and a classifier."""
    x = v1.placeholder(tf.float32, [None, 28, 28, 1], name="images")
    target = v1.placeholder(tf.int64, [None], name="labels")
    h = v1.layers.conv2d(x, 16, 3, padding="same", activation=tf.nn.relu, name="conv1")
    h = v1.layers.max_pooling2d(h, 2, 2, name="pool1")
    h = v1.layers.conv2d(h, 32, 3, padding="same", name="conv2")
    h = tf.nn.relu(v1.layers.batch_normalization(h, training=True, name="bn2"))
    h = v1.layers.flatten(v1.layers.max_pooling2d(h, 2, 2, name="pool2"))
    logits = v1.layers.dense(h, 10, name="logits")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=target, logits=logits)
    return tf.reduce_mean(losses, name="loss"), lambda: {
        x: rng.normal(size=(64, 28, 28, 1)).astype("f4"),
        target: rng.integers(0, 10, 64),
    }


def train(model: Model, folder: Path) -> Any:
    """Train for a few traced steps; the profiler that saw them."""
    loss, feed = model
    step = v1.train.AdamOptimizer(1e-3).minimize(loss, name="train")
    one_thread = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    session = v1.Session(config=one_thread)
    session.run(v1.global_variables_initializer())
    profiler = v1.profiler.Profiler(session.graph)
    for number in range(-WARM_UP, STEPS):
        metadata = v1.RunMetadata()
        session.run(step, feed(), options=v1.RunOptions(trace_level=3), run_metadata=metadata)
        if number < 0:
            continue
        profiler.add_step(number, metadata)
        (folder / f"run_metadata_step{number}.pb").write_bytes(metadata.SerializeToString())
        if number < 2:
            drawn = timeline.Timeline(metadata.step_stats)
            text = drawn.generate_chrome_trace_format(show_dataflow=True, show_memory=True)
            (folder / f"timeline-{number}.json").write_text(text)
    graph = session.graph.as_graph_def(add_shapes=True)
    (folder / "graph.pb").write_bytes(graph.SerializeToString())
    (folder / "profile.context").write_bytes(profiler.serialize_to_string())
    return profiler


def ask(profiler: Any, folder: Path) -> None:
    """Write what tfprof answers to each set of options, and its advice."""
    for name, (view, chosen) in SETS.items():
        options = {**v1.profiler.ProfileOptionBuilder().build(), **chosen}
        getattr(profiler, VIEWS[view])({**options, "output": f"file:outfile={folder / name}.txt"})
        said = {"view": view, **{key: value for key, value in options.items() if key != "output"}}
        (folder / f"{name}.json").write_text(json.dumps(said, indent=1, default=list))
    checkers = ("AcceleratorUtilizationChecker", "OperationChecker", "ExpensiveOperationChecker")
    (folder / "advise.txt").write_text(str(profiler.advise({name: {} for name in checkers})))


if __name__ == "__main__":
    v1.disable_eager_execution()
    out = Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    model = {"wide_deep": wide_deep, "convnet": convnet}[sys.argv[1]]
    ask(train(model(np.random.default_rng(7)), out), out)
