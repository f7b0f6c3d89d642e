"""One process of a training with the Estimator: ``python estimator_job.py DIRECTORY MAX_STEPS``.

TF_CONFIG says which. It prints a line once it has trained 25 steps, waits for a file called ``go``, trains to
the end, and prints another line.
"""

import json
import os
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import numpy as np
import tensorflow as tf

import stepscope as ss
from stepscope.integrations.tensorflow import GradientSessionHook, StepscopeHook

tf.compat.v1.logging.set_verbosity("ERROR")


class Tell(tf.compat.v1.train.SessionRunHook):
    """Says when this process itself has trained for a while, and waits to be told to go on."""

    done = 0

    def after_run(self, run_context, run_values):
        self.done += 1
        if self.done == 25:
            print("trains", flush=True)
            while not os.path.exists(f"{sys.argv[1]}/go"):  # noqa: PTH110
                time.sleep(0.05)


def batches():
    random = np.random.default_rng(os.getpid())
    x = random.normal(size=(256, 3)).astype("float32")
    data = tf.data.Dataset.from_tensor_slices(({"x": x}, (x.sum(1) > 0).astype("int64")))
    return data.repeat().batch(16)


def main(directory: str, max_steps: int) -> None:
    task = json.loads(os.environ["TF_CONFIG"])["task"]
    config = tf.estimator.RunConfig(
        model_dir=f"{directory}/model",
        save_checkpoints_steps=100,
        keep_checkpoint_max=50,  # the evaluator fails where one is gone before it has read it
        experimental_max_worker_delay_secs=0,
    )
    columns = [tf.feature_column.numeric_column("x", (3,))]
    estimator = tf.estimator.DNNClassifier([8], columns, n_classes=2, config=config)
    hook = StepscopeHook(f"{directory}/run", save_steps=20)
    gradients = GradientSessionHook(f"{directory}/run", ss.GradientHook(every_n_steps=20, dense_steps=0))
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(batches, max_steps=max_steps, hooks=[hook, gradients, Tell()]),
        tf.estimator.EvalSpec(batches, steps=2, hooks=[hook], start_delay_secs=0, throttle_secs=1),
    )
    print("done", task["type"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
