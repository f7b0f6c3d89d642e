"""The wide-and-deep model with the Estimator of TensorFlow 2.15, as the articles' job was.

One machine: ``python examples/birthweight/estimator_train.py runs/births``
A cluster:   ``python examples/birthweight/estimator_train.py runs/births --cluster`` starts chief, four
             workers, two parameter servers and an evaluator; elsewhere start one per task, with TF_CONFIG.
Then:        ``stepscope serve runs``, ``stepscope advise runs``, ``stepscope ranks runs/births``

By default each process that trains captures a step in every 1,800 of all: fifteen timelines of the cluster.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf
from births import BUCKETS, births
from options import parser, profiler

import stepscope as ss
from stepscope.integrations import tensorflow as stepscope_tf

TASKS = {"ps": 2, "evaluator": 1, "chief": 1, "worker": 4}
PATIENCE_SECS = 300


def estimator(model: str, steps: int) -> Any:
    column = tf.feature_column
    sex = column.categorical_column_with_identity("sex", 3)
    plurality = column.categorical_column_with_identity("plurality", 3)
    age, weeks = column.numeric_column("age"), column.numeric_column("weeks")
    ages = column.bucketized_column(age, list(range(15, 45)))
    of_weeks = column.bucketized_column(weeks, list(range(17, 47)))
    crossed = column.crossed_column([sex, plurality, ages, of_weeks], BUCKETS)
    config = tf.estimator.RunConfig(
        model_dir=model,
        tf_random_seed=0,
        save_checkpoints_steps=max(1, steps // 4),
        keep_checkpoint_max=20,
        experimental_max_worker_delay_secs=0,
    )
    return tf.estimator.DNNLinearCombinedRegressor(
        linear_feature_columns=[sex, plurality, ages, of_weeks],
        dnn_feature_columns=[age, weeks, column.embedding_column(crossed, 3)],
        dnn_hidden_units=[64, 32],
        config=config,
    )


def batches(count: int, seed: int, size: int, *, again: bool) -> Any:
    columns, weight = births(count, seed)
    data = tf.data.Dataset.from_tensor_slices((columns, weight))
    return (data.shuffle(1000).repeat() if again else data).batch(size)


def wait_until(ready: Callable[[], bool]) -> None:
    """Wait, but not for ever: a process that has died is not waited for until the end of time."""
    deadline = time.monotonic() + PATIENCE_SECS
    while not ready() and time.monotonic() < deadline:
        time.sleep(0.1)


class StartTogether(tf.compat.v1.train.SessionRunHook):  # type: ignore[misc, unused-ignore]
    """No process trains before all do, so that each is there when the first steps are captured."""

    def __init__(self, folder: Path, name: str, count: int) -> None:
        self._folder, self._name, self._count, self._waited = folder, name, count, False

    def before_run(self, run_context: Any) -> None:
        if self._waited:
            return
        self._waited = True
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / self._name).touch()
        wait_until(lambda: len(list(self._folder.iterdir())) >= self._count)


def main(directory: str, steps: int, batch: int, profile: str) -> None:
    tf.compat.v1.logging.set_verbosity("ERROR")
    task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {"type": "chief", "index": 0})
    cluster = json.loads(os.environ.get("TF_CONFIG", "{}")).get("cluster", {})
    trainers = sum(len(cluster.get(name, ())) for name in ("chief", "worker")) or 1
    run = stepscope_tf.StepscopeHook(directory, save_steps=50, hooks=[ss.HealthHook()])
    hooks = [
        StartTogether(Path(f"{directory}-model") / "started", "{type}-{index}".format(**task), trainers),
        run,
        stepscope_tf.StepCounterHook(every_n_steps=50, run=directory),
        stepscope_tf.GradientSessionHook(directory, ss.GradientHook(every_n_steps=50)),
        profiler(profile, stepscope_tf, num_steps=1, run=directory),
    ]
    seed = 1 + 10 * task["index"] + (task["type"] == "worker")
    tf.estimator.train_and_evaluate(
        estimator(f"{directory}-model", steps),
        tf.estimator.TrainSpec(
            lambda: batches(20_000, seed, batch, again=True), max_steps=steps, hooks=hooks
        ),
        tf.estimator.EvalSpec(
            lambda: batches(2_000, 0, batch, again=False),
            steps=None,
            hooks=[run],
            start_delay_secs=0,
            throttle_secs=1,
        ),
    )


def cluster(arguments: list[str]) -> int:
    """Run every task of the cluster on this machine; the parameter servers end with the others."""
    free = [socket.socket() for name in ("chief", "worker", "ps") for _ in range(TASKS[name])]
    for listener in free:
        listener.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in free]
    spec = {"chief": addresses[:1], "worker": addresses[1:5], "ps": addresses[5:]}
    for listener in free:
        listener.close()
    processes = {}
    for name, count in TASKS.items():
        for index in range(count):
            config = json.dumps({"cluster": spec, "task": {"type": name, "index": index}})
            command = [sys.executable, __file__, *arguments]
            processes[name, index] = subprocess.Popen(command, env={**os.environ, "TF_CONFIG": config})
    try:
        return max(process.wait() for (name, _), process in processes.items() if name != "ps")
    finally:
        for process in processes.values():
            process.kill()


if __name__ == "__main__":
    options = parser(__doc__)
    options.set_defaults(steps=6000, profile="steps:1800")
    options.add_argument("--cluster", action="store_true", help="start all tasks of a cluster here")
    arguments = vars(options.parse_args())
    if arguments.pop("cluster"):
        raise SystemExit(cluster([argument for argument in sys.argv[1:] if argument != "--cluster"]))
    main(**arguments)
