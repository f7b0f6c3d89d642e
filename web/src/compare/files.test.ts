import { describe, expect, it } from "vitest";
import type { SideLine } from "../runs/sidelines";
import { sidesCsv } from "./files";

const side = (x: number[], mean: number[]): SideLine => ({
  x: Float64Array.from(x),
  mean: Float64Array.from(mean),
  low: Float64Array.from(mean),
  high: Float64Array.from(mean),
  spread: Float64Array.from(mean, () => NaN),
  count: Float64Array.from(mean, () => 1),
  runs: 1,
  nonfinite: [],
  extremes: null,
});

describe("both sides as a table", () => {
  it("hold each side where it has a value, and the difference where both have", () =>
    expect(sidesCsv(side([0, 2], [1, 3]), side([1, 4], [5, 5]), "step")[0]!.split("\r\n")).toEqual([
      "step,a_mean,a_least,a_most,a_standard_deviation,a_runs,b_mean,b_least,b_most,b_standard_deviation,b_runs,b_less_a",
      "0,1,1,1,,1,,,,,,",
      "1,2,2,2,,1,5,5,5,,1,3",
      "2,3,3,3,,1,5,5,5,,1,2",
      "4,,,,,,5,5,5,,1,",
      "",
    ]));
  it("hold one side alone", () =>
    expect(sidesCsv(null, side([1], [2]), "tag")[0]!.split("\r\n")[1]).toBe("1,,,,,,2,2,2,,1,"));
});
