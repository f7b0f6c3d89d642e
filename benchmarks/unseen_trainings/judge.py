"""Judges the rules by the trainings of this folder: right cause, onset, and false findings.

    python benchmarks/unseen_trainings/judge.py [--out DIRECTORY] [--quiet] [--subjects NAME...]

The series come from ``run.py``, which is run for the trainings that the directory lacks. They are replayed in
the order in which they were logged, a tenth of a second for each step, and judged as a recorded run is.

``ANSWERS`` was written from the registered texts of the faults alone, before any training was judged. A
planted fault counts as named if a finding of at least low severity has one of the accepted rules. The rules
that did not exist at that time have the ids that were planned for them. A finding that only notices a
symptom, such as an exploding gradient when gradients are never zeroed, does not count.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from run import OUT, SUBJECTS, record, trainings, write

from stepscope.analyze.health import AttemptSeries
from stepscope.analyze.health.judge import judge
from stepscope.health import Finding
from stepscope.health.changes import ChangeGroup, RecordedSeries, change_log

STEP_S = 0.1
"""Seconds of a step: the few trainings that log a step time have about this one."""
START = 1_700_000_000.0

ANSWERS: dict[str, set[str]] = {
    "never_zeroed": {"gradients-not-zeroed"},
    "optimizer_of_old_model": {"unchanged-tensor"},
    "rate_kills_relus": {"dead-relu", "learning-rate"},
    "schedule_per_batch": {"schedule-too-fast", "learning-rate"},
    "evaluation_breaks": {"evaluation-collapsed"},
    "overfits_for_long": {"overfitting", "worse-than-best"},
    "labels_shuffled": {"loss-not-decreasing", "never-learned"},
    "evaluation_not_scaled": {"evaluation-unlike-training"},
    "batchnorm_never_eval": {"evaluation-unlike-training"},
    "label_leaks": {"evaluation-unlike-training"},
    "same_batch_again": {"repeated-batch"},
    "background_everywhere": {"class-imbalance", "constant-output"},
    "deep_sigmoids": {"vanishing-gradient"},
    "recurrent_explosion": {"exploding-gradient", "nonfinite-loss", "nonfinite-gradient"},
    "percentage_of_zero": {"nonfinite-series"},
    "boundary_runs_away": {"loss-part-diverges"},
    "warmup_missing": {"loss-not-decreasing", "never-learned", "learning-rate", "exploding-gradient"},
    "loss_spikes": {"loss-spike"},
    "always_clipped": {"clipping"},
    "resumed_without_weights": {"attempt-discontinuous"},
    "resumed_without_moments": {"attempt-discontinuous"},
    "resumed_with_other_schedule": {"attempt-discontinuous", "rate-jump", "learning-rate"},
    "evaluation_stops": {"series-stopped"},
    "posterior_collapse": {"posterior-collapse"},
    "discriminator_wins": {"discriminator-won"},
    "entropy_collapse": {"entropy-collapsed"},
    "slower_for_good": {"slower-steps"},
    "memory_and_wait_grow": {"memory-creep", "data-wait"},
    "scale_collapses": {"loss-scale"},
    "one_rank_diverges": {"rank-divergence"},
    "shuffled_apart": {"loss-not-decreasing", "evaluation-collapsed", "worse-than-best"},
    "summed_pixels": {"learning-rate", "exploding-gradient", "update-scale", "loss-not-decreasing"},
    "no_warmup": {"loss-not-decreasing", "learning-rate", "exploding-gradient", "plateau"},
    "restarted_without_weights": {"attempt-discontinuous"},
    "teacher_leaves": {"loss-not-decreasing", "worse-than-best", "evaluation-collapsed"},
    "cold_average": {"evaluation-unlike-training", "constant-output"},
    "one_expert": {"dead-experts"},
    "reward_is_hacked": {"evaluation-collapsed", "worse-than-best", "return-collapsed"},
    "softmax_twice": {"two-softmaxes"},
    "values_run_away": {"loss-not-decreasing", "loss-part-diverges", "values-diverge"},
    "sorted_by_class": {"evaluation-unlike-training", "data-not-shuffled"},
    "rate_a_thousandth": {"loss-not-decreasing", "rate-too-small"},
    "forgets_what_it_knew": {"worse-than-best", "evaluation-collapsed", "evaluation-unlike-training"},
    "code_says_nothing": {"posterior-collapse"},
    "underflows": {"gradient-stopped", "unchanged-tensor", "vanishing-gradient"},
    "percent_after_resume": {"unit-changed", "attempt-discontinuous"},
    "counts_nothing": {"loss-not-decreasing", "constant-output", "dead-relu", "unchanged-tensor"},
    "climbs_the_error": {"loss-not-decreasing"},
    "negatives_are_positives": {"evaluation-unlike-training", "never-learned"},
    "tags_nothing": {"constant-output", "class-imbalance"},
    "advantage_upside_down": {"return-collapsed", "never-learned"},
    "summed_sensors": {"loss-summed", "exploding-gradient", "update-scale", "poor-initialization"},
    "decays_away": {"loss-not-decreasing", "evaluation-collapsed", "worse-than-best", "never-learned"},
    "sees_the_answer": {"evaluation-collapsed", "worse-than-best", "evaluation-unlike-training"},
    "padding_counts": {"constant-output", "class-imbalance", "never-learned", "evaluation-unlike-training"},
    "target_never_synchronised": {"never-learned", "return-collapsed", "loss-not-decreasing", "plateau"},
    "mixed_when_evaluated": {"evaluation-unlike-training"},
    "backbone_is_frozen": {"unchanged-tensor", "gradient-stopped"},
    "stepped_twice": {"learning-rate", "schedule-too-fast"},
    "critic_runs_away": {"values-diverge", "loss-part-diverges", "loss-not-decreasing"},
    "learns_wrong_labels": {"overfitting", "overtraining"},
    "average_without_buffers": {"evaluation-unlike-training", "constant-output"},
    "tiles_without_warmup": {"loss-not-decreasing", "learning-rate", "exploding-gradient", "never-learned"},
    "only_training_improves": {"overfitting", "overtraining", "evaluation-unlike-training"},
    "vocabulary_of_its_own": {"evaluation-unlike-training"},
    "capitals_are_unknown": {"never-learned", "constant-output", "evaluation-unlike-training"},
    "schedule_ends_early": {"schedule-too-fast", "learning-rate"},
    "price_drowns_category": {"loss-not-decreasing", "never-learned"},
    "collapses_to_a_point": {"constant-output", "posterior-collapse", "outputs-collapsed"},
    "return_falls_to_nothing": {"return-collapsed", "worse-than-best", "evaluation-collapsed"},
    "accumulated_not_divided": {
        *("learning-rate", "loss-not-decreasing", "loss-summed", "update-scale", "exploding-gradient"),
    },
    "adapters_get_no_gradient": {"gradient-stopped", "unchanged-tensor", "loss-not-decreasing"},
    "one_organ_never_found": {"class-imbalance", "constant-output", "never-learned"},
    "logarithm_of_zero": {"nonfinite-loss"},
    "copied_before_the_split": {"evaluation-unlike-training"},
    "graphs_are_kept": {"memory-creep", "slower-steps"},
    "triplets_at_the_margin": {
        *("constant-output", "posterior-collapse", "never-learned", "worse-than-best", "outputs-collapsed"),
    },
    "one_folder_too_many": {"evaluation-unlike-training"},
    "plateau_of_batches": {"schedule-too-fast", "learning-rate", "rate-too-small"},
    "entropy_without_end": {"values-diverge", "loss-part-diverges", "loss-not-decreasing", "loss-runs-away"},
    "critic_without_bound": {"loss-part-diverges", "values-diverge", "discriminator-won", "loss-runs-away"},
    "prices_in_full": {
        *("never-learned", "loss-not-decreasing", "rate-too-small", "loss-summed", "poor-initialization"),
    },
    "weights_of_tasks_vanish": {
        *("never-learned", "loss-not-decreasing", "loss-part-diverges", "gradient-stopped"),
    },
    "warm_up_outlasts_the_run": {"rate-too-small", "learning-rate", "loss-not-decreasing", "never-learned"},
    "penalty_flattens_all": {"never-learned", "loss-not-decreasing", "constant-output", "posterior-collapse"},
    "pupil_of_a_beginner": {"never-learned", "evaluation-unlike-training"},
    "written_at_discharge": {"evaluation-unlike-training"},
    "scale_of_an_outlier": {"evaluation-collapsed", "worse-than-best"},
    "momentum_of_the_other_framework": {"evaluation-unsteady", "evaluation-unlike-training"},
    "peak_too_high": {"loss-not-decreasing", "learning-rate"},
    "blanks_to_the_end": {"constant-output", "loss-not-decreasing"},
    "columns_as_they_stand": {"worse-than-constant"},
    "statistics_left_behind": {"return-unlike-training"},
    "films_by_heart": {"overfitting", "worse-than-best"},
    "one_place_of_eight": {"outputs-collapsed"},
    "variance_overflows": {"nonfinite-loss"},
    "noise_drawn_twice": {"loss-not-decreasing"},
    "smoothed_into_one": {"loss-not-decreasing"},
    "range_cut_off": {"evaluation-collapsed", "loss-not-decreasing"},
    "middles_for_corners": {"constant-output", "evaluation-unlike-training"},
    "sixty_epochs_of_instructions": {"overfitting"},
    "target_not_shifted": {"evaluation-unlike-training"},
    "all_against_all": {"worse-than-constant", "loss-not-decreasing", "plateau", "constant-output"},
    "few_words_of_the_book": {"outputs-collapsed", "posterior-collapse", "constant-output", "dead-experts"},
    "steps_without_brake": {"loss-spike"},
    "scale_without_a_roof": {"overfitting", "worse-than-best"},
    "never_says_the_end": {"constant-output", "evaluation-unlike-training"},
    "stays_in_evaluation": {"overfitting", "worse-than-best"},
    "explores_to_the_end": {"never-learned", "plateau", "constant-output"},
    "areas_overflow": {"nonfinite-loss", "nonfinite-series"},
    "shop_is_rebuilt": {"evaluation-collapsed", "worse-than-best", "loss-not-decreasing"},
    "its_own_reference": {"loss-not-decreasing", "plateau", "constant-output", "never-learned"},
    "masks_up_to_255": {"loss-runs-away", "values-diverge"},
    "compiled_again_and_again": {"recompilation", "step-outliers", "stalled-training"},
}
"""The rules that name the cause of each planted fault."""

DENIED: dict[str, set[str]] = {
    "triplets_at_the_margin": {"overfitting", "rate-too-small", "attempt-discontinuous"},
    "one_folder_too_many": {"overfitting", "overtraining", "loss-not-decreasing", "class-imbalance"},
    "plateau_of_batches": {"overfitting", "evaluation-unlike-training", "class-imbalance"},
    "entropy_without_end": {"overfitting", "learning-rate", "attempt-discontinuous", "rate-too-small"},
    "critic_without_bound": {"loss-not-decreasing", "overfitting", "rate-too-small"},
    "prices_in_full": {"overfitting", "evaluation-unlike-training", "learning-rate"},
    "weights_of_tasks_vanish": {"overfitting", "attempt-discontinuous"},
    "warm_up_outlasts_the_run": {"overfitting", "evaluation-unlike-training", "rate-jump", "class-imbalance"},
    "penalty_flattens_all": {"overfitting", "evaluation-unlike-training", "rate-too-small"},
    "pupil_of_a_beginner": {"overfitting", "loss-part-diverges", "rate-too-small"},
    "written_at_discharge": {"loss-not-decreasing", "attempt-discontinuous", "class-imbalance"},
    "scale_of_an_outlier": {"overfitting", "learning-rate", "attempt-discontinuous", "series-stopped"},
    "columns_as_they_stand": {"poor-initialization"},
    "range_cut_off": {"constant-output"},
    "all_against_all": {"overfitting"},
    "few_words_of_the_book": {"overfitting", "values-diverge", "loss-runs-away", "loss-part-diverges"},
    "steps_without_brake": {"overfitting"},
    "scale_without_a_roof": {"loss-not-decreasing", "loss-spike", "evaluation-unlike-training"},
    "never_says_the_end": {"overfitting", "loss-not-decreasing", "plateau"},
    "explores_to_the_end": {"values-diverge", "return-collapsed"},
    "areas_overflow": {"overfitting", "evaluation-unlike-training"},
    "shop_is_rebuilt": {"overfitting"},
    "its_own_reference": {"rate-too-small", "vanishing-gradient"},
    "compiled_again_and_again": {"slower-steps", "loss-not-decreasing"},
}
"""The rules that would name a wrong cause of a planted fault, and advise what does not help."""


@dataclass(frozen=True)
class Judged:
    """The answers about one training.

    Attributes:
        known: As registered.
        findings: All of them.
        groups: The change log.
    """

    known: dict[str, Any]
    findings: list[Finding]
    groups: list[ChangeGroup]

    @property
    def right(self) -> list[Finding]:
        """The findings that name the planted cause."""
        accepted = ANSWERS.get(self.known["name"], set())
        return [each for each in self.findings if each.rule in accepted and each.severity != "info"]

    @property
    def denied(self) -> list[Finding]:
        """The findings that name a cause that it does not have."""
        return [each for each in self.findings if each.rule in DENIED.get(self.known["name"], set())]

    @property
    def dated(self) -> bool:
        """Whether one of them begins within the registered interval."""
        first, last = self.known["onset"]
        return any(first <= each.since <= last for each in self.right)

    @property
    def logged(self) -> bool:
        """Whether a change of a series that shows the fault is in the change log."""
        return bool(self._logged)

    @property
    def logged_in_time(self) -> bool:
        """Whether the interval of its onset overlaps the registered one."""
        first, last = self.known["onset"]
        return any(begin <= last and end >= first for begin, end in self._logged)

    @property
    def _logged(self) -> list[tuple[int, int]]:
        changes = [
            each for group in self.groups for each in group.changes if each.tag in self.known["series"]
        ]
        return [(each.change.first_step, each.change.last_step) for each in changes]


def replayed(series: dict[str, dict[str, Any]]) -> AttemptSeries:
    """Return series with the time at which each point was logged."""
    order = np.concatenate([each["order"] for each in series.values()]).astype(np.int64)
    steps = np.concatenate([each["steps"] for each in series.values()]).astype(np.int64)
    place = np.argsort(order)
    walls = np.empty(len(order))
    walls[order[place]] = START + STEP_S * np.r_[0, np.cumsum(np.diff(steps[place]) != 0)]
    points = [
        RecordedSeries(
            tag,
            np.array(each["steps"], np.int64),
            np.array([float(value) for value in each["values"]]),
            walls[each["order"]],
        )
        for tag, each in series.items()
    ]
    return AttemptSeries(1, points)


def judged(name: str, out: Path) -> Judged:
    """Return the answers about a training, which is run if its series are not there."""
    path = out / f"{name}.json.gz"
    if not path.exists():
        chosen = trainings()[name]
        write(chosen, record(chosen), out)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        known = json.load(file)
    attempt = replayed(known["series"])
    known["series"] = list(trainings()[name].series)
    return Judged(known, judge(attempt).findings, change_log(attempt.series))


def main() -> None:
    """Judge all trainings, and print each and the sums."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--quiet", action="store_true", help="print the sums alone")
    parser.add_argument("--subjects", nargs="+", default=SUBJECTS, choices=SUBJECTS)
    args = parser.parse_args()
    every = [judged(name, args.out) for name, one in trainings().items() if one.subject in args.subjects]
    if not args.quiet:
        for one in every:
            show(one)
    planted = [one for one in every if not one.known["healthy"]]
    healthy = [one for one in every if one.known["healthy"]]
    print(f"cause named: {sum(bool(one.right) for one in planted)} of {len(planted)}")
    print(f"onset within its interval: {sum(one.dated for one in planted)} of {len(planted)}")
    print(f"with a cause that it does not have: {sum(bool(one.denied) for one in planted)} of {len(planted)}")
    later = [one for one in planted if one.known["onset"][0] > 0]
    print(
        f"of {len(later)} that begin later than at the first step, in the change log: "
        f"{sum(one.logged for one in later)}, with its onset: {sum(one.logged_in_time for one in later)}"
    )
    groups = [sum(group.main for group in one.groups) for one in healthy]
    print(f"groups of main changes in a healthy training: {np.mean(groups):.2f} on average")
    for severity in ("high", "medium", "low"):
        found = [one for one in healthy if any(each.severity == severity for each in one.findings)]
        print(f"healthy with a false {severity} finding: {len(found)} of {len(healthy)}")


def show(one: Judged) -> None:
    """Print the findings about one training."""
    name, fault = one.known["name"], one.known["fault"]
    state = "healthy" if one.known["healthy"] else ("named" if one.right else "MISSED")
    print(f"{state:8} {name}: {fault} {one.known['onset'] if fault else ''}")
    for each in one.findings:
        print(f"           {each.severity} {each.rule} since {each.since} ({each.tag}): {each.summary}")
    for group in one.groups:
        print(f"           {'' if group.main else '('}{group.text}{'' if group.main else ')'}")


if __name__ == "__main__":
    main()
