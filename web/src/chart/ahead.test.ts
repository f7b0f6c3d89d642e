import { describe, expect, it } from "vitest";
import type { RunForecast } from "../server/api";
import { lineOf } from "../runs/fixtures";
import { aheadOf, throughX, throughY } from "./ahead";
import type { StyledLine } from "./model";

const forecast: RunForecast = {
  tag: "loss",
  text: "loss will end at 1.0 ± 0.5 at step 999, by a power law",
  step: 999,
  value: 1,
  half: 0.5,
  figure: "1.0 ± 0.5",
  curve_step: [100, 500, 999],
  curve_low: [2, 1, -0.5],
  curve_high: [3, 2, 1.5],
  reached_run: [],
  reached_step: [],
};
const line = (run: string, tag: string, values: number[], attempt = 1): StyledLine =>
  ({ ...lineOf(run, [0, 50, 100], values), tag, attempt, id: `${run} ${tag} ${attempt}` }) as StyledLine;

describe("a forecast", () => {
  const ahead = aheadOf([forecast], "a", [line("a", "loss", [9, 4, 2.5])])!;
  it("is of the run and tag that it was made for, and of its newest attempt", () => {
    expect(aheadOf([forecast], "b", [line("a", "loss", [1, 1, 1])])).toBeNull();
    expect(aheadOf([forecast], "a", [line("a", "other", [1, 1, 1])])).toBeNull();
    expect(aheadOf([], "a", [line("a", "loss", [1, 1, 1])])).toBeNull();
    const two = [line("a", "loss", [1, 1, 1], 2), line("a", "loss", [1, 1, 1], 1)];
    expect(aheadOf([forecast], "a", two)!.line).toBe("a loss 2");
  });
  it("says its end, and goes below 0 only where the loss did", () => {
    expect(ahead.text).toBe("Forecast: 1.0 ± 0.5 at step 999");
    expect(ahead.low).toEqual([2, 1, 0]);
    expect(aheadOf([forecast], "a", [line("a", "loss", [9, -1, 2])])!.low).toEqual([2, 1, -0.5]);
  });
  it("widens both axes as far as it is in view, and none without it", () => {
    expect(throughX({ min: 0, max: 100 }, ahead)).toEqual({ min: 0, max: 999 });
    expect(throughX({ min: 0, max: 100 }, null)).toEqual({ min: 0, max: 100 });
    const y = { min: 2.5, max: 9 };
    expect(throughY(y, ahead, { min: 0, max: 999 }, false)).toEqual({ min: 0, max: 9 });
    expect(throughY(y, ahead, { min: 0, max: 500 }, false)).toEqual({ min: 1, max: 9 });
    expect(throughY(y, ahead, { min: 0, max: 999 }, true)).toEqual({ min: 1, max: 9 });
    expect(throughY(y, null, { min: 0, max: 999 }, false)).toEqual(y);
  });
});
