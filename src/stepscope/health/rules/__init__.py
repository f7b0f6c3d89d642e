"""Every rule; a module holds those about one subject."""

from __future__ import annotations

from stepscope.health.rule import Rule
from stepscope.health.rules.activations import (
    AttentionEntropy,
    AttentionLogits,
    DeadExperts,
    DeadRelu,
    SaturatedActivation,
    UpdateRatio,
)
from stepscope.health.rules.adversarial import (
    DiscriminatorWon,
    EntropyCollapsed,
    PosteriorCollapse,
    ReturnCollapsed,
)
from stepscope.health.rules.generalising import (
    ClassImbalance,
    ConstantOutput,
    EvaluationCollapsed,
    EvaluationUnlike,
    Overfitting,
    Overtraining,
    RepeatedBatch,
    SeriesStopped,
    WorseThanBest,
)
from stepscope.health.rules.gradients import (
    Clipping,
    ExplodingGradient,
    GradientsNotZeroed,
    GradientStopped,
    LossScale,
    UpdateScale,
    VanishingGradient,
)
from stepscope.health.rules.learning import (
    AttemptDiscontinuous,
    LearningRate,
    LossPartDiverges,
    Plateau,
    RatesDiffer,
    ScheduleTooFast,
)
from stepscope.health.rules.loss_not_decreasing import LossNotDecreasing
from stepscope.health.rules.memory import MemoryCreep
from stepscope.health.rules.nonfinite import (
    NonFiniteActivation,
    NonFiniteGradient,
    NonFiniteLoss,
    NonFiniteSeries,
)
from stepscope.health.rules.poor_initialization import PoorInitialization
from stepscope.health.rules.rank_divergence import RankDivergence
from stepscope.health.rules.spikes import GradientSpike, LossSpike
from stepscope.health.rules.stalled import NO_LIFE, StalledTraining
from stepscope.health.rules.time import (
    CpuBottleneck,
    DataWait,
    GpuUnderused,
    IoBottleneck,
    Recompilation,
    SlowerSteps,
    StepOutliers,
)
from stepscope.health.rules.unchanged_tensor import UnchangedTensor

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
        LossPartDiverges,
        ScheduleTooFast,
        RatesDiffer,
        AttemptDiscontinuous,
        EvaluationCollapsed,
        EvaluationUnlike,
        RepeatedBatch,
        ConstantOutput,
        WorseThanBest,
        Overfitting,
        Overtraining,
        GradientsNotZeroed,
        GradientStopped,
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
        Recompilation,
        MemoryCreep,
        StalledTraining,
        SeriesStopped,
        SlowerSteps,
        StepOutliers,
        RankDivergence,
        DiscriminatorWon,
        PosteriorCollapse,
        EntropyCollapsed,
        ReturnCollapsed,
    )
}
"""Every rule by its id."""

__all__ = [
    "NO_LIFE",
    "RULES",
    "AttemptDiscontinuous",
    "SaturatedActivation",
    "SlowerSteps",
    "StalledTraining",
]
