import { describe, expect, it } from "vitest";
import type { Family } from "../runs/catalog";
import { runOf } from "../runs/fixtures";
import { importances } from "./importance";

const family = (name: string, config: Record<string, unknown>): Family => {
  const main = runOf(name, { config });
  return { name, main, runs: [main] };
};
/** Numbers without a pattern, from 0 to 1. */
const noise = (seed: number): number => {
  const value = Math.sin(seed * 12.9898 + 4.1) * 43758.5453;
  return value - Math.floor(value);
};
const NAMES = Array.from({ length: 40 }, (_, at) => `run${at}`);
const runs = NAMES.map((name, at) =>
  family(name, {
    lr: 10 ** (-4 + 3 * noise(at)),
    opt: at % 2 ? "adam" : "sgd",
    fast: at % 2 === 1,
    seed: at,
    dropout: noise(at + 1000),
    name: `own ${at}`,
    same: 1,
  }),
);
const keys = ["lr", "opt", "seed", "dropout", "name", "same"];
const metric = (of: (config: Record<string, number | string>, at: number) => number): Map<string, number> =>
  new Map(runs.map(({ name, main }, at) => [name, of(main.config as Record<string, number>, at)]));
const by = (found: ReturnType<typeof importances>, key: string) => found.keys.find((one) => one.key === key)!;

describe("importance", () => {
  it("is of the key that the metric follows, in the middle too, however its values are spread", () => {
    const found = importances(
      runs,
      keys,
      metric(({ lr }) => Math.exp((Math.log10(lr as number) + 2.5) ** 2)),
    );
    expect(found.keys[0]).toMatchObject({ key: "lr", told: true });
    expect(found.keys[0]!.share).toBeGreaterThan(0.6);
    const best = [...found.keys[0]!.groups].sort((a, b) => a.median - b.median)[0]!;
    const [low, high] = best.label.split(" – ").map(Number);
    expect(low).toBeLessThan(10 ** -2.5);
    expect(high).toBeGreaterThan(10 ** -2.5);
    expect(by(found, "dropout").told).toBe(false);
    expect(by(found, "seed").told).toBe(false);
  });
  it("of a word is told, and of one that splits the runs alike it is said", () => {
    const found = importances(
      runs,
      ["opt", "fast"],
      metric(({ opt }, at) => (opt === "adam" ? 1 : 2) + noise(at) / 9),
    );
    expect(by(found, "opt")).toMatchObject({ told: true, alike: "fast", correlation: null });
    expect(by(found, "opt").groups.map(({ label, runs }) => [label, runs])).toEqual([
      ["sgd", 20],
      ["adam", 20],
    ]);
  });
  it("is not told of noise, in 19 of 20 sweeps at least", () => {
    const wrong = Array.from({ length: 40 }, (_, seed) =>
      importances(
        runs,
        keys,
        metric((_, at) => noise(at + 77 * seed)),
      ).keys.some(({ told }) => told),
    );
    expect(wrong.filter(Boolean).length).toBeLessThanOrEqual(4);
  });
  it("has no share where every run has a value of its own, or all have one", () => {
    const found = importances(
      runs,
      keys,
      metric((_, at) => at),
    );
    expect(by(found, "name")).toMatchObject({ share: null, told: false });
    expect(by(found, "name").reason).toContain("its own value");
    expect(by(found, "same").reason).toBe("the same in all runs");
    expect(by(found, "seed").correlation).toBeCloseTo(1);
  });
  it("says nothing of few runs, and counts those without a value", () => {
    const few = importances(
      runs.slice(0, 7),
      keys,
      metric((_, at) => at),
    );
    expect([few.chance, few.runs, few.keys.every(({ share, told }) => share === null && !told)]).toEqual([
      null,
      7,
      true,
    ]);
    const values = metric((_, at) => (at < 3 ? NaN : at));
    values.delete("run39");
    expect(importances(runs, keys, values)).toMatchObject({ runs: 36, left: 4 });
    expect(
      importances(
        runs,
        keys,
        metric(() => 1),
      ).chance,
    ).toBeNull();
  });
  it("counts runs without the key as a group", () => {
    const some = runs.map((one, at) => (at % 4 ? one : family(one.name, {})));
    const labels = by(
      importances(
        some,
        ["opt"],
        metric((_, at) => at),
      ),
      "opt",
    ).groups.map(({ label }) => label);
    expect(labels.sort()).toEqual(["adam", "not set", "sgd"]);
  });
});
