import { describe, expect, it } from "vitest";
import type { Chart } from "../server/api";
import type { Family } from "./catalog";
import { runOf } from "./fixtures";
import { byRecorded } from "./recorded";

const chart = (tag: string): Chart => ({
  id: tag,
  title: tag,
  short: tag,
  section: "",
  kind: "other",
  split: null,
  role: null,
  tier: "recorded",
  place: 0,
  section_place: 5,
  own_cost: false,
  lower_is_better: null,
  unit: null,
  measure: { factor: 1, unit: "" },
  lines: [{ tag, split: null }],
});
const family = (name: string, ...tags: string[]): Family => {
  const run = runOf(name, { tags });
  return { name, main: run, runs: [run] };
};
const ids = (charts: Chart[]): string[] => charts.map(({ id }) => id);
const CHARTS = ["entropy_loss", "loss", "lr", "none"].map(chart);

describe("charts of several runs", () => {
  it("are common if half as many have them as have the first", () => {
    const runs = [
      family("a", "loss", "lr"),
      family("b", "loss", "lr"),
      family("c", "loss"),
      family("d", "loss"),
      family("e", "entropy_loss"),
    ];
    const { common, rare } = byRecorded(CHARTS, runs);
    expect([ids(common), ids(rare)]).toEqual([["loss", "lr"], ["entropy_loss"]]);
  });

  it("are all common in one run, and none where there is no run", () => {
    const { common, rare } = byRecorded(CHARTS, [family("e", "entropy_loss", "lr")]);
    expect([ids(common), ids(rare)]).toEqual([["entropy_loss", "lr"], []]);
    expect(byRecorded(CHARTS, [])).toEqual({ common: [], rare: [] });
  });

  it("are found of thousands, also what a single one has", () => {
    const runs = Array.from({ length: 3000 }, (_, at) => family(String(at), at === 1 ? "lr" : "loss"));
    const { common, rare } = byRecorded(CHARTS, runs);
    expect([ids(common), ids(rare)]).toEqual([["loss"], ["lr"]]);
  });
});
