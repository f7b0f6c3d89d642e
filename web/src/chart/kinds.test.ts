import { describe, expect, it } from "vitest";
import { isExact, smoothingOf } from "./kinds";

describe("what is never smoothed", () => {
  it.each([
    ...[
      "lr",
      "train/lr",
      "lr-AdamW",
      "optimizer/learning_rate",
      "learning_rate/group_0",
      "lr/pg1",
      "loss_scale",
    ],
    ...[
      "epoch",
      "train/global_step",
      "nonfinite_count",
      "health/nonfinite_count",
      "num_tokens",
      "tokens_seen",
    ],
    ...["grad/nan_count", "stepscope/dropped"],
  ])("%s", (tag) => expect(isExact(tag)).toBe(true));
});

describe("what may be smoothed", () => {
  it.each([
    ...[
      "train/loss",
      "total_loss",
      "accuracy",
      "grad_norm",
      "tokens_per_second",
      "steps_per_second",
      "step_time_ms",
    ],
    ...["color", "epoch_loss", "error_rate", "nonfinite_ratio", "slr_score", "epoch_time_s", "clr"],
  ])("%s", (tag) => expect(isExact(tag)).toBe(false));

  it("a chart that holds one of these beside a schedule", () => {
    const line = (tag: string) => ({ run: "a", tag, split: null });
    expect(smoothingOf({ lines: [line("lr")] }, 0.6)).toBe(0);
    expect(smoothingOf({ lines: [line("lr"), line("loss")] }, 0.6)).toBe(0.6);
    expect(smoothingOf({ lines: [] }, 0.6)).toBe(0.6);
  });
});
