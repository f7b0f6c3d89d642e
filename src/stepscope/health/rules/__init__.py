"""Every rule, one module each."""

from __future__ import annotations

from stepscope.health.rule import Rule
from stepscope.health.rules.attention import AttentionEntropy, AttentionLogits
from stepscope.health.rules.bottlenecks import CpuBottleneck, IoBottleneck
from stepscope.health.rules.class_imbalance import ClassImbalance
from stepscope.health.rules.clipping import Clipping
from stepscope.health.rules.data_wait import DataWait
from stepscope.health.rules.dead_experts import DeadExperts
from stepscope.health.rules.dead_relu import DeadRelu
from stepscope.health.rules.evaluation_collapsed import EvaluationCollapsed
from stepscope.health.rules.exploding_gradient import ExplodingGradient
from stepscope.health.rules.gpu_underused import GpuUnderused
from stepscope.health.rules.gradient_spike import GradientSpike
from stepscope.health.rules.learning_rate import LearningRate
from stepscope.health.rules.loss_not_decreasing import LossNotDecreasing
from stepscope.health.rules.loss_scale import LossScale
from stepscope.health.rules.loss_spike import LossSpike
from stepscope.health.rules.memory_creep import MemoryCreep
from stepscope.health.rules.nonfinite import (
    NonFiniteActivation,
    NonFiniteGradient,
    NonFiniteLoss,
    NonFiniteSeries,
)
from stepscope.health.rules.overfitting import Overfitting
from stepscope.health.rules.overtraining import Overtraining
from stepscope.health.rules.plateau import Plateau
from stepscope.health.rules.poor_initialization import PoorInitialization
from stepscope.health.rules.rank_divergence import RankDivergence
from stepscope.health.rules.saturated_activation import SaturatedActivation
from stepscope.health.rules.series_stopped import SeriesStopped
from stepscope.health.rules.slower_steps import SlowerSteps
from stepscope.health.rules.stalled import NO_LIFE, StalledTraining
from stepscope.health.rules.step_outliers import StepOutliers
from stepscope.health.rules.unchanged_tensor import UnchangedTensor
from stepscope.health.rules.update_ratio import UpdateRatio
from stepscope.health.rules.update_scale import UpdateScale
from stepscope.health.rules.vanishing_gradient import VanishingGradient

RULES: dict[str, type[Rule]] = {
    rule.id: rule
    for rule in (
        NonFiniteLoss,
        NonFiniteGradient,
        NonFiniteActivation,
        NonFiniteSeries,
        LossSpike,
        LossNotDecreasing,
        Plateau,
        EvaluationCollapsed,
        Overfitting,
        Overtraining,
        GradientSpike,
        VanishingGradient,
        ExplodingGradient,
        UpdateRatio,
        UpdateScale,
        PoorInitialization,
        DeadRelu,
        DeadExperts,
        SaturatedActivation,
        AttentionLogits,
        AttentionEntropy,
        UnchangedTensor,
        Clipping,
        LossScale,
        LearningRate,
        ClassImbalance,
        DataWait,
        GpuUnderused,
        CpuBottleneck,
        IoBottleneck,
        MemoryCreep,
        StalledTraining,
        SeriesStopped,
        SlowerSteps,
        StepOutliers,
        RankDivergence,
    )
}
"""Every rule by its id."""

__all__ = ["NO_LIFE", "RULES", "SaturatedActivation", "StalledTraining"]
