"""Small models that reach tfprof's corners, and the real tfprof to ask about them. Needs TensorFlow 2.15."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf
from tensorflow.core.profiler import tfprof_log_pb2, tfprof_options_pb2, tfprof_output_pb2
from tensorflow.python.profiler import model_analyzer, tfprof_logger
from tensorflow.python.util import _pywrap_tfprof as tfprof

v1 = tf.compat.v1
Feed = Callable[[], dict[Any, Any]]


def dense(rng: np.random.Generator) -> tuple[Any, Feed]:
    x, t = v1.placeholder(tf.float32, [None, 8], name="x"), v1.placeholder(tf.float32, [None, 1], name="t")
    with v1.variable_scope("tower"):
        w = v1.get_variable("w", [8, 16])
        b = v1.get_variable("b", [16], initializer=v1.zeros_initializer())
        h = tf.nn.relu(tf.matmul(x, w) + b, name="hidden")
    y = tf.matmul(h, v1.get_variable("out", [16, 1]))
    loss = tf.reduce_mean(tf.square(y - t), name="loss")
    train = v1.train.GradientDescentOptimizer(0.1).minimize(loss)
    return train, lambda: {x: rng.normal(size=(32, 8)), t: rng.normal(size=(32, 1))}


def loop(rng: np.random.Generator) -> tuple[Any, Feed]:
    v1.disable_control_flow_v2()  # Enter, Merge, NextIteration: cycles, and nodes that run many times
    x = v1.placeholder(tf.float32, [4, 4], name="x")
    w = v1.get_variable("w", [4, 4])
    _, last = v1.while_loop(lambda i, _: i < 5, lambda i, a: (i + 1, tf.tanh(tf.matmul(a, w))), [0, x])
    branch = v1.cond(tf.reduce_sum(last) > 0, lambda: last * 2.0, lambda: last - 1.0)
    train = v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(branch))
    return train, lambda: {x: rng.normal(size=(4, 4))}


def devices(rng: np.random.Generator) -> tuple[Any, Feed]:
    x = v1.placeholder(tf.float32, [None, 4], name="x")
    with tf.device("/cpu:0"):
        table = v1.get_variable("embedding/table", [50, 4])
        found = tf.nn.embedding_lookup(
            table, tf.cast(tf.abs(x[:, 0]) * 10, tf.int32), name="embedding/lookup"
        )
    with tf.device("/cpu:1"):
        left, right = tf.split(found, 2, axis=1, name="halves")
        values, _ = tf.math.top_k(left * 2.0 + right, k=1, name="top")
        loss = tf.reduce_sum(values)
    train = v1.train.AdagradOptimizer(0.1).minimize(loss)
    return train, lambda: {x: rng.uniform(size=(16, 4))}


def convolution(rng: np.random.Generator) -> tuple[Any, Feed]:
    x = v1.placeholder(tf.float32, [None, 8, 8, 3], name="images")
    with v1.variable_scope("BatchNorm"):
        scale, offset = v1.get_variable("gamma", [3]), v1.get_variable("beta", [3])
        y, mean, _ = v1.nn.fused_batch_norm(x, scale, offset, name="bn")
    h = tf.nn.conv2d(y, v1.get_variable("DW", [3, 3, 3, 6]), strides=2, padding="SAME", name="Conv2D")
    with tf.control_dependencies([tf.identity(mean, name="seen")]):
        loss = tf.reduce_mean(tf.nn.max_pool2d(h, 2, 2, "VALID"), name="loss")
    train = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    return train, lambda: {x: rng.normal(size=(4, 8, 8, 3))}


def calls(rng: np.random.Generator) -> tuple[Any, Feed]:
    v1.enable_control_flow_v2()  # While and If as functions, and a tf.function's call
    x = v1.placeholder(tf.float32, [None, 6], name="x")
    w = v1.get_variable("partitioned", [6, 6], partitioner=v1.fixed_size_partitioner(2))

    @tf.function
    def step(a: Any) -> Any:
        return tf.nn.softmax(tf.matmul(a, tf.convert_to_tensor(w)))

    _, last = tf.while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, step(a)), [tf.constant(0), x])
    ragged = v1.py_func(lambda a: a[:2], [last], tf.float32, name="unknown_rank")
    with v1.name_scope("sums"):
        total = tf.add_n([tf.reduce_sum(last), tf.reduce_sum(ragged)])
    return [total, tf.gradients(tf.reduce_sum(last), [x])], lambda: {x: rng.normal(size=(3, 6))}


MODELS: dict[str, Callable[[np.random.Generator], tuple[Any, Feed]]] = {
    build.__name__: build for build in (dense, loop, devices, convolution, calls)
}


class Traced:
    """A graph, its op log and the metadata of some steps."""

    def __init__(self, name: str, *, steps: int = 3, gpu: str = "") -> None:
        graph = tf.Graph()
        with graph.as_default():
            fetch, feed = MODELS[name](np.random.default_rng(7))
            config = v1.ConfigProto(device_count={"CPU": 2}, inter_op_parallelism_threads=1)
            with v1.Session(graph=graph, config=config) as session:
                session.run(v1.global_variables_initializer())
                self.metadata = [self._run(session, fetch, feed()) for _ in range(steps)]
            self.op_log = tfprof_logger.merge_default_with_oplog(graph, self._types(graph), self.metadata[0])
            self.graph = graph.as_graph_def(add_shapes=True).SerializeToString()
        if gpu:
            for metadata in self.metadata:
                on_gpu(metadata, streams=gpu == "streams")

    @staticmethod
    def _run(session: Any, fetch: Any, feed: dict[Any, Any]) -> Any:
        metadata = v1.RunMetadata()
        session.run(fetch, feed, options=v1.RunOptions(trace_level=3), run_metadata=metadata)
        return metadata

    @staticmethod
    def _types(graph: Any) -> Any:
        log = tfprof_log_pb2.OpLogProto()
        for operation in graph.get_operations()[::3]:
            log.log_entries.add(name=operation.name, types=["my_type", f"length_{len(operation.name) % 4}"])
        return log

    @contextmanager
    def profiler(self, *, op_log: bool = True) -> Iterator[None]:
        """The one live tfprof of this process, filled."""
        log = self.op_log.SerializeToString() if op_log else b""
        tfprof.NewProfiler(self.graph, log)
        try:
            for step, metadata in enumerate(self.metadata):
                tfprof.AddStep(step, b"", metadata.SerializeToString(), b"")
            yield
        finally:
            tfprof.DeleteProfiler()

    def write(self, folder: Path, *, op_log: bool) -> None:
        """Write what tfprof's command line would be given, and the live profiler's ProfileProto."""
        (folder / "graph.pb").write_bytes(self.graph)
        for step, metadata in enumerate(self.metadata):
            (folder / f"run_metadata_step{step}.pb").write_bytes(metadata.SerializeToString())
        if op_log:
            (folder / "tfprof_log").write_bytes(self.op_log.SerializeToString())
        (folder / "profile.context").write_bytes(tfprof.SerializeToString())


def on_gpu(metadata: Any, *, streams: bool) -> None:
    """Make a step look as on a GPU: a scheduling device, and stream lanes where asked for."""
    for stats in list(metadata.step_stats.dev_stats):
        stats.device = stats.device.replace("CPU:0", "GPU:0")
        for node in stats.node_stats:
            for memory in node.memory:
                memory.allocator_name = "GPU_0_bfc"
        if streams and "GPU" in stats.device:
            for lane in ("stream:all", "stream:14", "memcpy"):
                copy = metadata.step_stats.dev_stats.add(device=f"{stats.device}/{lane}")
                for node in stats.node_stats[::2]:
                    kernel = copy.node_stats.add()
                    kernel.CopyFrom(node)
                    kernel.node_name = f"{node.node_name}:Kernel"
                    kernel.op_end_rel_micros *= 3


def answer(view: str, options: dict[str, Any], outfile: Path) -> str:
    """What the live tfprof writes; empty where it refuses."""
    outfile.unlink(missing_ok=True)
    proto = model_analyzer._build_options({**options, "output": f"file:outfile={outfile}"})
    tfprof.Profile(view.encode(), proto.SerializeToString())
    return outfile.read_text() if outfile.exists() else ""


def advice() -> str:
    """What the live tfprof advises, as the golden files hold it."""
    options = tfprof_options_pb2.AdvisorOptionsProto()
    for checker in ("AcceleratorUtilizationChecker", "OperationChecker", "ExpensiveOperationChecker"):
        options.checkers[checker].SetInParent()
    proto = tfprof_output_pb2.AdviceProto()
    proto.ParseFromString(tfprof.Profile(b"advise", options.SerializeToString()))
    return str(proto)


_NAMES = (
    ".*", ".*gradients.*", ".*w.*", "tower.*", ".*MatMul.*", ".*Grad", "[A-Z].*", ".*[0-9]", "x", ".*py:.*",
    ".*:_.*",
)  # fmt: skip
_TYPES = (
    ".*", "_trainable_variables", "MatMul", ".*cpu:0", ".*gpu.*", "my_type", "length_[01]", "Variable.*",
    "Const",
)  # fmt: skip
_SELECTS = [
    "bytes", "micros", "params", "float_ops", "tensor_value", "device", "op_types", "occurrence",
    "input_shapes", "accelerator_micros", "cpu_micros", "peak_bytes", "residual_bytes", "output_bytes",
]  # fmt: skip
_ORDERS = [
    "name", "bytes", "peak_bytes", "residual_bytes", "output_bytes", "micros", "accelerator_micros",
    "cpu_micros", "params", "float_ops", "occurrence",
]  # fmt: skip
_LEAST = {
    "min_bytes": 600,
    "min_peak_bytes": 600,
    "min_residual_bytes": 600,
    "min_output_bytes": 600,
    "min_micros": 30,
    "min_accelerator_micros": 30,
    "min_cpu_micros": 30,
    "min_params": 20,
    "min_float_ops": 300,
    "min_occurrence": 3,
}


def random_options(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Draw a view and options for it; half of them keep most defaults."""
    view = chance.choice(("scope", "graph", "op", "code"))
    options: dict[str, Any] = {
        "max_depth": chance.choice((1, 2, 3, 5, 10, 10000)),
        "order_by": chance.choice(_ORDERS),
        "select": chance.sample(_SELECTS, chance.randint(1, 6)),
        "account_type_regexes": [".*"],
        "start_name_regexes": [".*"],
        "show_name_regexes": [".*"],
    }
    if chance.random() < 0.5:
        options["account_type_regexes"] = chance.sample(_TYPES, chance.randint(0, 3))
    for name in ("start_name_regexes", "show_name_regexes", "hide_name_regexes", "trim_name_regexes"):
        if chance.random() < 0.25:
            options[name] = chance.sample(_NAMES[1:] if name[0] in "ht" else _NAMES, chance.randint(0, 2))
    for name, most in _LEAST.items():
        if chance.random() < 0.08:
            options[name] = chance.randint(1, most)
    if chance.random() < 0.3:
        options["account_displayed_op_only"] = True
    if chance.random() < 0.3:
        options["step"] = chance.randint(0, 2)
    return view, options
