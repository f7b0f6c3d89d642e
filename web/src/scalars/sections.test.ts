import { describe, expect, it } from "vitest";
import type { Chart } from "../server/api";
import { arranged, parseFilter, sectionsOf } from "./sections";

const chart = (tag: string): Chart =>
  ({ id: tag, title: tag, section: tag.split("/")[0]!, lines: [{ tag, split: null }] }) as Chart;
const ids = (charts: readonly Chart[]): string[] => charts.map(({ id }) => id);

describe("sections", () => {
  const charts = [
    "gradients/layer0/norm",
    "gradients/layer0/max",
    "gradients/layer1/norm",
    "gradients/all",
  ].map(chart);
  it("go by the first part of the path, or by the first two", () => {
    expect(sectionsOf(charts, parseFilter("")).map(({ name }) => name)).toEqual(["gradients"]);
    const deep = sectionsOf(charts, parseFilter(""), { deep: true });
    expect(deep.map(({ name, charts }) => [name, charts.length])).toEqual([
      ["gradients", 1],
      ["gradients/layer0", 2],
      ["gradients/layer1", 1],
    ]);
  });
  it("keep the order that charts were moved into", () => {
    const moved = ["gradients/layer1/norm\tgradients/layer0/max", "gradients/layer0/norm\t"];
    expect(ids(arranged(charts, moved))).toEqual([
      "gradients/layer1/norm",
      "gradients/layer0/max",
      "gradients/all",
      "gradients/layer0/norm",
    ]);
  });
  it("leave what was moved before a chart that is gone", () =>
    expect(ids(arranged(charts, ["gradients/all\tgone"]))).toEqual(ids(charts)));
});
