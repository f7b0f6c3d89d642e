"""Saturated layers by histograms that TensorFlow writes, of TF 1 and of TF 2."""

import numpy as np
import pytest
import tensorflow as tf

import stepscope as ss
from stepscope.serve.health import report_of

STEPS = 8


def sigmoid(scale, step):
    return tf.sigmoid(scale * np.random.default_rng(step).normal(size=4000).astype(np.float32))


def write_tf2(directory, tag, scale, buckets=30):
    with tf.summary.create_file_writer(str(directory)).as_default():
        for step in range(STEPS):
            tf.summary.histogram(tag, sigmoid(scale, step), step, buckets=buckets)


def write_tf1(directory, tag, scale):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = tf.compat.v1.placeholder(tf.float32)
        merged = tf.compat.v1.summary.histogram(tag, tf.sigmoid(values))
        writer = tf.compat.v1.summary.FileWriter(str(directory))
        for step in range(STEPS):
            inputs = scale * np.random.default_rng(step).normal(size=4000)
            writer.add_summary(session.run(merged, {values: inputs}), step)
        writer.close()


def judged(directory):
    """Return layers that are called saturated, whether the check passed, and why it abstained."""
    with ss.open(directory, cache=False) as log:
        verdict = report_of(log, log.run(".")).verdict
    rule = "saturated-activation"
    return (
        [each.layer for each in verdict.findings if each.rule == rule],
        rule in verdict.passed,
        [each.missing for each in verdict.abstained if each.rule == rule],
    )


@pytest.mark.parametrize("tag", ["dnn/hiddenlayer_0/activation", "hidden/Sigmoid"])
@pytest.mark.parametrize("scale", [1.0, 50.0])
def test_tf1_tells_by_its_sums(tmp_path, tag, scale):
    write_tf1(tmp_path, tag, scale)
    if scale == 1.0 and "igmoid" not in tag:  # ends below 1, as any function may
        findings, passed, [missing] = judged(tmp_path)
        assert (findings, passed) == ([], False)
        assert missing.startswith("not recorded")
        return
    layer = tag.removesuffix("/activation")
    assert judged(tmp_path) == (([layer], False, []) if scale == 50.0 else ([], True, []))


@pytest.mark.parametrize(("scale", "saturates"), [(1.0, False), (50.0, True)])
def test_tf2_tells_with_narrow_buckets(tmp_path, scale, saturates):
    write_tf2(tmp_path, "hidden/sigmoid", scale, buckets=400)
    assert judged(tmp_path) == ((["hidden/sigmoid"], False, []) if saturates else ([], True, []))


@pytest.mark.parametrize(("scale", "saturates"), [(1.0, False), (50.0, True)])
def test_thirty_buckets_of_tf2_pass_or_abstain_in_words(tmp_path, scale, saturates):
    write_tf2(tmp_path, "hidden/sigmoid", scale)
    findings, passed, missing = judged(tmp_path)
    assert (findings, passed) == ([], not saturates)
    assert [each.split(":")[:2] for each in missing] == [
        ["not judged", " the buckets of the histograms are wider than the limit"]
    ] * saturates


@pytest.mark.parametrize("write", [write_tf1, write_tf2])
@pytest.mark.parametrize("tag", ["hidden/kernel", "sigmoid/weights", "gradients/hidden/sigmoid"])
def test_nothing_is_said_of_other_histograms(tmp_path, write, tag):
    write(tmp_path, tag, 50.0)
    findings, passed, [missing] = judged(tmp_path)
    assert (findings, passed) == ([], False)
    assert missing.startswith("not recorded")
