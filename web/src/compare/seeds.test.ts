import { describe, expect, it } from "vitest";
import type { Sweep, SweepRow } from "../server/api";
import { seedsOf, settles } from "./seeds";

const row = (runs: string[], mean: number, spread: number | null): SweepRow => ({
  name: runs[0]!,
  runs,
  settings: {},
  mean,
  spread,
  least: null,
  largest: null,
  finite: runs.length,
  bad: 0,
  missing: 0,
  tied: false,
});
const sweep = (rows: SweepRow[]): Sweep => ({
  tag: "loss",
  chart: "loss",
  lower_is_better: true,
  runs: 9,
  rows,
  keys: [],
  seeds: {},
  standing: "",
  settings: [],
  chance: null,
  units: rows.length,
  left_out: 0,
});

describe("seeds", () => {
  const rows = [row(["a0", "a1", "a2"], 1, 0.05), row(["b0", "b1", "b2"], 0.5, 0.05), row(["c0"], 2, null)];
  it("settle what differs by more than they do", () => {
    const seeds = seedsOf(sweep(rows), "a0", "b1")!;
    expect([seeds.a, seeds.b]).toEqual([rows[0]!.runs, rows[1]!.runs]);
    expect(settles(seeds)).toBe(true);
    expect(seeds.delta.verdict).toBe("better");
  });
  it("do not settle what differs by less", () =>
    expect(settles(seedsOf(sweep([rows[0]!, row(["b0", "b1"], 0.98, 0.05)]), "a0", "b0")!)).toBe(false));
  it("are not offered within one configuration, or where one ran once", () => {
    expect(seedsOf(sweep(rows), "a0", "a1")).toBeNull();
    expect(seedsOf(sweep(rows), "a0", "c0")).toBeNull();
  });
});
