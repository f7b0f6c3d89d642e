"""The Estimator of TensorFlow 2.15, trained and evaluated: one hook for both.

``python examples/estimator_train.py [RUN_DIRECTORY [MODEL_DIRECTORY]]``, then ``stepscope serve runs``. In a
cluster start it once per process, with TF_CONFIG.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import tensorflow as tf

from stepscope.integrations.tensorflow import StepscopeHook


def batches() -> Any:
    inputs = np.random.default_rng(0).normal(size=(2048, 16)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(({"x": inputs}, np.sin(inputs).sum(1, keepdims=True)))
    return data.batch(64)


def main(directory: str = "runs/estimator", model_directory: str = "models/estimator") -> None:
    tf.compat.v1.logging.set_verbosity("ERROR")
    config = tf.estimator.RunConfig(model_directory, tf_random_seed=0, save_checkpoints_steps=32)
    columns = [tf.feature_column.numeric_column("x", (16,))]
    estimator = tf.estimator.DNNRegressor([64], columns, config=config)

    hook = StepscopeHook(directory, save_steps=20)
    train = tf.estimator.TrainSpec(lambda: batches().repeat(), max_steps=160, hooks=[hook])
    evaluate = tf.estimator.EvalSpec(batches, steps=None, hooks=[hook], start_delay_secs=0, throttle_secs=0)
    tf.estimator.train_and_evaluate(estimator, train, evaluate)


if __name__ == "__main__":
    main(*sys.argv[1:])
