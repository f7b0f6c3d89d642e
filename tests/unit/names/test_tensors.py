"""Tensors of layers, by the tags of their histograms."""

import pytest

from stepscope.names.tensors import Tensor, tensor_of

TAGS = {
    "gradients/net.0.weight/histogram": ("gradients", "net.0.weight"),
    "weights/net.0.weight": ("weights", "net.0.weight"),
    "updates/a/b/histogram": ("updates", "a/b"),
    "activations/net.0/histogram": ("activations", "net.0"),
    "activations": (None, "activations"),
    "activations/": (None, "activations/"),
    "my/activations/net.0": (None, "activations/net.0"),
    "labels": (None, "labels"),
}


@pytest.mark.parametrize("tag", TAGS)
def test_the_layer_is_below_the_kind(tag):
    tensor = tensor_of(tag, ())
    assert (tensor.kind, tensor.layer) == TAGS[tag]


def test_outputs_and_bounded_functions_are_known_by_name_or_by_the_measured_saturation():
    assert tensor_of("dnn/hiddenlayer_0_activation", ()) == Tensor(
        None, "hiddenlayer_0_activation", True, False
    )
    assert tensor_of("hidden/Sigmoid", ()) == Tensor(None, "Sigmoid", True, True)
    scalars = {"activations/fc/saturation_ratio"}
    assert tensor_of("activations/fc/histogram", scalars).bounded
    assert not tensor_of("activations/relu/histogram", scalars).bounded
    assert not tensor_of("gradients/fc/histogram", scalars).outputs


def test_a_histogram_names_the_recorded_counts_of_its_values_that_are_not_finite():
    scalars = {"x/nonfinite", "gradients/fc/nonfinite_count", "loss"}
    assert tensor_of("x", scalars).counts == ("x/nonfinite",)
    assert tensor_of("gradients/fc/histogram", scalars).counts == ("gradients/fc/nonfinite_count",)
    assert tensor_of("y", scalars).counts == ()
