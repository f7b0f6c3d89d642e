import { describe, expect, it } from "vitest";
import type { Chart } from "../server/api";
import type { Family } from "./catalog";
import { chartOf, familyOf, runOf } from "./fixtures";
import { byRecorded } from "./recorded";

const family = (name: string, ...tags: string[]): Family => familyOf(name, [runOf(name, { tags })]);
const ids = (charts: Chart[]): string[] => charts.map(({ id }) => id);
const CHARTS = ["entropy_loss", "loss", "lr", "none"].map((tag) => chartOf(tag));

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
