"""Saturated layers by the histograms of any writer."""

import numpy as np
import pytest

import stepscope as ss
from stepscope.health.saturation import layer_of, saturated
from stepscope.serve.health import report_of


def rows(values, bins=200, ends=None):
    counts, edges = np.histogram(values, bins=bins, range=ends)
    return np.column_stack([edges[:-1], edges[1:], counts]).astype(float)


def sigmoid(scale, seed=0):
    return 1 / (1 + np.exp(-scale * np.random.default_rng(seed).normal(size=4000)))


@pytest.mark.parametrize(
    ("tag", "layer"),
    [
        ("activations/fc1/histogram", "fc1"),
        ("dnn/hiddenlayer_0/activation", "dnn/hiddenlayer_0"),
        ("dnn/dnn/hiddenlayer_0_activation_1", "dnn/dnn/hiddenlayer_0"),
        ("hidden/Sigmoid", "hidden/Sigmoid"),
        ("gradients/activations/histogram", None),
        ("attention/activations", None),
        ("weights/fc1", None),
        ("tanh_layer/kernel/histogram", None),
        ("sigmoid/weights", None),
        ("hidden/sigmoid_grad", None),
        ("layer1/Wx_plus_b/pre_activations", None),
    ],
)
def test_activations_are_known_by_their_name(tag, layer):
    assert layer_of(tag) == layer


@pytest.mark.parametrize(("scale", "share"), [(20.0, 0.79), (1.0, 0.0)])
def test_the_share_is_that_of_the_values(scale, share):
    values = [sigmoid(scale, seed) for seed in range(3)]
    exact = [(np.abs(2 * each - 1) >= 0.99).mean() for each in values]
    found = saturated("a/sigmoid", [rows(each) for each in values])
    assert (found.least <= exact).all()
    assert (exact <= found.most).all()
    assert found.most == pytest.approx(found.least, abs=0.03)
    assert found.most == pytest.approx([share] * 3, abs=0.05)
    tanh = [np.tanh(scale * np.random.default_rng(seed).normal(size=4000)) for seed in range(3)]
    found = saturated("a/tanh", [rows(each) for each in tanh])
    exact = [(np.abs(each) >= 0.99).mean() for each in tanh]
    assert (found.least <= exact).all()
    assert (exact <= found.most).all()
    assert found.most == pytest.approx(found.least, abs=0.06)


def test_wide_buckets_are_bounds():
    values = sigmoid(20.0)
    exact = (np.abs(2 * values - 1) >= 0.99).mean()
    found = saturated("a/sigmoid", [rows(values, bins=5), rows(values, bins=30), np.zeros((0, 3))])
    assert found.least[:2].tolist() == [0, 0]
    assert (found.most[:2] > exact).all()
    assert np.isnan([found.least[2], found.most[2]]).all()
    assert saturated("a/sigmoid", [np.zeros((0, 3))]) is None


@pytest.mark.parametrize(("act", "low"), [(lambda x: 1 / (1 + np.exp(-x)), 0), (np.tanh, -1)])
@pytest.mark.parametrize("scale", [1.0, 8.0, 30.0, 100.0, 400.0])
def test_sums_narrow_the_bounds(act, low, scale):
    values = act(np.clip(scale * np.random.default_rng(0).normal(size=4000), -500, 500))
    exact = (np.abs((2 * values - 1) if low == 0 else values) >= 0.99).mean()
    tag, wide = ("a/sigmoid", "a/tanh")[low], rows(values, bins=30)
    [least], [most] = saturated(tag, [wide], [(values.sum(), (values**2).sum())])
    assert least <= exact <= most
    assert (least > 0.5) == (scale >= (20 + 10 * (low == 0)))
    # Some writers leave the sums at 0.
    [without], _ = saturated(tag, [wide], [(0.0, 0.0)])
    assert without == 0
    assert without <= exact


def test_fixed_buckets_that_begin_at_an_end_hold_what_reached_it():
    ones, zeros = [1.0, 1.25, 60], [-(2.0**-64), 2.0**-64, 40]
    found = saturated("a/sigmoid", [np.array([zeros, ones])])
    assert found.least.tolist() == found.most.tolist() == [1]
    assert saturated("activations/a", [np.array([zeros, ones])]) is None  # a ReLU may pass 1


def test_a_sigmoid_without_a_name_has_reached_its_end():
    assert saturated("activations/a", [rows(sigmoid(20.0))]).least[0] == pytest.approx(0.79, abs=0.05)
    assert saturated("activations/a", [rows(0.994 * sigmoid(20.0))]) is None


@pytest.mark.parametrize(
    "values",
    [
        np.maximum(0, 0.2 * np.random.default_rng(0).normal(size=4000)),  # a ReLU below 1
        np.maximum(0, np.random.default_rng(0).normal(size=4000)),  # one beyond
        np.random.default_rng(0).normal(size=4000),
    ],
)
def test_other_activations_are_not_judged(values):
    assert saturated("activations/a", [rows(values)]) is None


def verdict_of(directory, **options):
    with ss.open(directory, cache=False) as log:
        return report_of(log, log.run("."), **options).verdict


COARSE = "not judged: the buckets of the histograms are wider than the limit: 0% to "


@pytest.mark.parametrize("buckets", [30, "fixed", 400])
@pytest.mark.parametrize(("scale", "saturates"), [(30.0, True), (1.0, False)])
def test_a_run_of_histograms_alone_is_judged(tmp_path, buckets, scale, saturates):
    hook = ss.HealthHook()
    with ss.Run(tmp_path, hooks=[hook]) as run:
        for step in range(12):
            run.histogram("hidden_0/sigmoid", sigmoid(scale, step), step, buckets=buckets)
            run.scalar("train/loss", 1.0, step)
    verdict = verdict_of(tmp_path)
    findings = [each for each in verdict.findings if each.rule == "saturated-activation"]
    missing = [each.missing for each in verdict.abstained if each.rule == "saturated-activation"]
    assert [each.layer for each in findings] == ["hidden_0/sigmoid"] * (saturates and buckets != 30)
    assert ("saturated-activation" in verdict.passed) != saturates
    assert [each[: len(COARSE)] for each in missing] == [COARSE] * (saturates and buckets == 30)
    # While it trains nothing is said of histograms but that.
    assert "saturated-activation" not in {each.rule for each in hook.findings}
    [live] = [each.missing for each in hook.verdict.abstained if each.rule == "saturated-activation"]
    assert live.endswith("; histograms of activations are judged afterwards only")


@pytest.mark.parametrize(("scale", "saturates"), [(30.0, True), (1.0, False)])
def test_histograms_of_torch_are_judged_by_their_sums(tmp_path, scale, saturates):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    with tensorboard.SummaryWriter(str(tmp_path)) as made:
        for step in range(12):
            made.add_histogram("hidden_0/sigmoid", sigmoid(scale, step), step)
            made.add_scalar("train/loss", 1.0, step)
    verdict = verdict_of(tmp_path)
    findings = [each for each in verdict.findings if each.rule == "saturated-activation"]
    assert [each.layer for each in findings] == ["hidden_0/sigmoid"] * saturates
    assert ("saturated-activation" in verdict.passed) != saturates


@pytest.mark.parametrize("choice", [False, {"ratio": 0.99}, {"samples": 20}])
def test_coarse_buckets_are_named_by_the_thresholds_that_were_given(tmp_path, choice):
    with ss.Run(tmp_path) as run:
        for step in range(12):
            run.histogram("hidden_0/sigmoid", sigmoid(30.0, step), step)
    verdict = verdict_of(tmp_path, rules={"saturated-activation": choice})
    assert not [each for each in verdict.abstained if each.missing.startswith("not judged: the buckets")]
