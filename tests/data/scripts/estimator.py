"""Record the logs of a TensorFlow Estimator: a wide-and-deep model of birth weights, with ProfilerHook.

    python tests/data/scripts/estimator.py FOLDER                one process, three profiles
    python tests/data/scripts/estimator.py FOLDER TASK INDEX     one task of a cluster on this host

Needs TensorFlow 2.15 (`.venv-tensorflow`). The cluster is `ps 0`, `ps 1`, `evaluator 0`, `chief 0` and
`worker 0` to `worker 3`, each started by itself; the ps tasks never end: stop them when the chief has ended.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
import numpy as np
import tensorflow as tf

EXAMPLES, BATCH, BUCKETS = 20_000, 128, 20_000
CLUSTER = {
    "chief": ["127.0.0.1:23000"],
    "worker": [f"127.0.0.1:{23001 + number}" for number in range(4)],
    "ps": ["127.0.0.1:23100", "127.0.0.1:23101"],
}


def dataset(rng: np.random.Generator, repeats: int | None) -> Callable[[], tf.data.Dataset]:
    """Births: what is known before, and the weight that follows from it."""
    features = {
        "is_male": rng.choice(["True", "False", "Unknown"], EXAMPLES),
        "mother_age": rng.uniform(15, 45, EXAMPLES).astype("f4"),
        "plurality": rng.choice(["Single(1)", "Twins(2)", "Triplets(3)"], EXAMPLES),
        "gestation_weeks": rng.uniform(20, 45, EXAMPLES).astype("f4"),
    }
    weeks, age = features["gestation_weeks"], features["mother_age"]
    weight = (0.2 * (weeks - 30) + 0.02 * age + rng.normal(0, 0.5, EXAMPLES)).astype("f4")
    slices = tf.data.Dataset.from_tensor_slices
    return lambda: slices((features, weight)).shuffle(1000).repeat(repeats).batch(BATCH)


def estimator(folder: Path, config: tf.estimator.RunConfig) -> tf.estimator.Estimator:
    """Linear on categories, deep on numbers and an embedding of the crossed categories."""
    column = tf.feature_column
    male = column.categorical_column_with_vocabulary_list("is_male", ["True", "False", "Unknown"])
    births = column.categorical_column_with_vocabulary_list(
        "plurality", ["Single(1)", "Twins(2)", "Triplets(3)"]
    )
    age, weeks = column.numeric_column("mother_age"), column.numeric_column("gestation_weeks")
    ages = column.bucketized_column(age, list(np.arange(15, 45, 1)))
    in_weeks = column.bucketized_column(weeks, list(np.arange(17, 47, 1)))
    crossed = column.crossed_column([male, births, ages, in_weeks], BUCKETS)
    return tf.estimator.DNNLinearCombinedRegressor(
        model_dir=str(folder),
        linear_feature_columns=[male, births, ages, in_weeks],
        dnn_feature_columns=[age, weeks, column.embedding_column(crossed, 3)],
        dnn_hidden_units=[64, 32],
        config=config,
    )


def main(folder: Path, task: str = "", index: int = 0) -> None:
    tf.compat.v1.disable_eager_execution()
    if task:
        os.environ["TF_CONFIG"] = json.dumps({"cluster": CLUSTER, "task": {"type": task, "index": index}})
        tf.compat.v1.disable_resource_variables()
    every, most, saves = (1500, 9000, (100, 1000)) if task else (400, 1200, (50, 500))
    profiles = folder / "profile" / f"{task}_{index}" if task else folder
    profiles.mkdir(parents=True, exist_ok=True)
    hook = tf.compat.v1.train.ProfilerHook(
        save_steps=every, output_dir=str(profiles), show_dataflow=True, show_memory=True
    )
    config = tf.estimator.RunConfig(save_summary_steps=saves[0], save_checkpoints_steps=saves[1])
    rng = np.random.default_rng(index + (0 if task in ("", "chief") else 10))
    tf.estimator.train_and_evaluate(
        estimator(folder, config),
        tf.estimator.TrainSpec(dataset(rng, None), max_steps=most, hooks=[hook]),
        tf.estimator.EvalSpec(dataset(rng, 1), steps=20, throttle_secs=0),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3], *map(int, sys.argv[3:4]))
