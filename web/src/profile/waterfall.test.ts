import { describe, expect, it } from "vitest";
import type { DiffRow } from "../server/api";
import { beyondChance, changeOfStep, fallsOf, saidOf, swarm } from "./waterfall";

const G = "\u00a0";
const side = (mean_ns: number) => ({
  steps: 8,
  median_ns: mean_ns,
  mean_ns,
  spread_ns: 1,
  calls_per_step: 1,
});
const row = (
  name: string,
  a: number,
  b: number,
  verdict: string,
  p_value: number | null = 0.01,
): DiffRow => ({
  name,
  a: side(a),
  b: side(b),
  difference_ns: b - a,
  ratio: b / a,
  verdict,
  p_value,
  effect: null,
  shift_ns: null,
  low_ns: null,
  high_ns: null,
  explains_ratio: null,
});
const words = (step: DiffRow, lead: DiffRow | null, one = true): string => {
  const { before, stressed, after } = saidOf(changeOfStep({ step, recorded: null }, one), lead);
  return before + stressed + after;
};

describe("a waterfall", () => {
  const step = row("step", 29e6, 41e6, "slower");
  const parts = [
    row("forward", 8e6, 8e6, "same"),
    row("data_loading", 3e6, 13e6, "slower"),
    row("optimizer", 3e6, 2e6, "faster"),
    row("backward", 15e6, 18e6, "unclear"),
    row("copy", 0, 0, "same"),
  ];
  it("goes from the step of A to that of B, the largest change first, without what neither has", () => {
    const { falls, rest } = fallsOf(step, parts);
    expect(falls.map((fall) => [fall.row.name, fall.from / 1e6, fall.to / 1e6, fall.real])).toEqual([
      ["data_loading", 29, 39, true],
      ["backward", 39, 42, false],
      ["optimizer", 42, 41, true],
      ["forward", 41, 41, false],
    ]);
    expect(rest).toBe(0);
  });
  it("says what no part explains", () => expect(fallsOf(step, parts.slice(1, 2)).rest).toBe(2e6));
  it("counts what is beyond chance, and nothing of a step that did not change", () => {
    expect(beyondChance(step, parts)).toBeCloseTo(9 / 12);
    expect(beyondChance(row("step", 1, 2, "unclear"), parts)).toBeNull();
  });
});

describe("the sentence of a comparison", () => {
  const slower = row("step", 29e6, 41e6, "slower");
  it("names the part that most of it is, as a share where it is one", () => {
    expect(words(slower, row("data_loading", 3e6, 13e6, "slower"))).toBe(
      `B is 12.0${G}ms a step slower, and 83${G}% of it is loading data`,
    );
    expect(words(slower, row("forward", 3e6, 33e6, "slower"))).toBe(
      `B is 12.0${G}ms a step slower, mostly in the forward pass`,
    );
  });
  it("blames no part that went the other way, and none where none is told from chance", () => {
    expect(words(slower, row("copy", 3e6, 1e6, "faster"))).toBe(`B is 12.0${G}ms a step slower`);
    expect(words(slower, null)).toBe(`B is 12.0${G}ms a step slower`);
  });
  it("claims nothing that the steps do not show", () => {
    expect(words(row("step", 41e6, 29e6, "unclear"), null)).toBe(
      `B's mean step is 12.0${G}ms shorter: chance may explain it`,
    );
    expect(words(row("step", 29e6, 41e6, "unclear", null), null)).toBe(
      `B's mean step is 12.0${G}ms longer: one step does not show how they vary`,
    );
    expect(words(slower, null, false)).toBe(`In these profiles B is 12.0${G}ms a step slower`);
    expect(words(row("step", 41e6, 29e6, "unclear"), null, false)).toBe(
      `B's mean step is 12.0${G}ms shorter: chance may explain it`,
    );
    expect(words(row("step", 1e6, 1e6, "unclear"), null)).toBe("The mean steps of A and B are the same");
    expect(words(row("step", 100e6, 101e6, "same"), null)).toBe("The steps of A and B take the same time");
  });
});

describe("dots of a row", () => {
  it("lie beside each other where they would cover each other", () =>
    expect(swarm([10, 10, 10, 30], 4, 2)).toEqual([0, 1, -1, 0]));
  it("stay within the row however many there are", () => {
    const found = swarm(new Array<number>(50).fill(5), 4, 2);
    expect(Math.max(...found)).toBe(2);
    expect(Math.min(...found)).toBe(-2);
  });
});
