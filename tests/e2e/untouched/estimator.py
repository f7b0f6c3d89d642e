# steps: 30
# python: .venv-tensorflow
import numpy as np
import tensorflow as tf


def data():
    x = np.random.randn(320, 4).astype("float32")
    return tf.data.Dataset.from_tensor_slices(({"x": x}, (x.sum(1) > 0).astype("int32"))).repeat().batch(16)


estimator = tf.estimator.LinearClassifier([tf.feature_column.numeric_column("x", shape=(4,))])
estimator.train(data, steps=30)
