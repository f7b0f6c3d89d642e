import { expect, it } from "vitest";
import { pieces } from "./path";

it("breaks names between their words and never a number", () => {
  expect(pieces("optimizer.lr/group_0 98.16 %")).toEqual(["optimizer.", "lr/", "group_", "0 98.16 %"]);
  expect(pieces("lr1e-4-batch128 -2 (1,024)")).toEqual(["lr1e-4-", "batch128 -2 (1,024)"]);
  expect(pieces("betas=[0.9, 0.999],eps")).toEqual(["betas=", "[0.9,", " 0.999],", "eps"]);
  expect(pieces("")).toEqual([""]);
});

it("keeps short parts with the next where a line shall have some letters", () => {
  expect(pieces("val_top5_after_ema_of_weights", 8)).toEqual(["val_top5_", "after_ema_", "of_weights"]);
  expect(pieces("lr", 8)).toEqual(["lr"]);
});
