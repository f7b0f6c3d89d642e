import { describe, expect, it } from "vitest";
import type { Chart, MetricKind } from "../server/api";
import { chartOf, lineOf } from "../runs/fixtures";
import { ownChart } from "../series/own";
import { ofTheirKinds, onLeft, scaleOf, secondScale, smoothingFor } from "./scale";

const chart = (tag: string, unit: string | null, kind: MetricKind): Chart =>
  chartOf(tag, { section: "s", kind, unit });
const known = [chart("loss", null, "loss"), chart("lr", null, "schedule"), chart("wait", "ratio", "ratio")];
const steps = [0, 1, 2, 3];
const line = (tag: string, raw: number[], y = raw) => ({
  ...lineOf("a", steps, raw),
  tag,
  y: Float64Array.from(y),
  smoothed: raw !== y,
});
const view = { logY: false, outliers: true, ghost: true, superseded: false };
const x = { min: 0, max: 3 };
const made = ownChart("loss; wait", known);
const lines = [line("loss", [4, 3, 2, 1]), line("wait", [0, 0.1, 0.2, 0.5])];

describe("counts", () => {
  it("are told from what only looks like them", () => {
    const counted = (raw: number[], kind: MetricKind) => scaleOf([line("n", raw)], kind, view, x).counted;
    expect(counted([0, 0, 1, 2], "counter")).toBe(true);
    expect(counted([0, NaN, 1, 2], "nonfinite")).toBe(true);
    expect(counted([0, 0.5, 1, 2], "counter")).toBe(false);
    expect(counted([0, 0, 1, 2], "loss")).toBe(false);
  });
});

describe("a logarithmic axis", () => {
  it("counts the values that it has no place for", () => {
    const omitted = (logY: boolean) =>
      scaleOf([line("n", [0, -1, 2, 3])], "loss", { ...view, logY }, x).omitted;
    expect([omitted(true), omitted(false)]).toEqual([2, 0]);
  });
});

describe("two axes", () => {
  it("are scaled each by their own lines", () => {
    const second = secondScale(made, lines, view, x, null)!;
    expect(scaleOf([lines[0]!], "loss", view, x).y.max).toBeGreaterThan(4);
    expect(second.y.min).toBe(0);
    expect(second.y.max).toBeCloseTo(0.53);
    expect(second.measure).toEqual({ factor: 100, unit: "%" });
  });
  it("are zoomed together: the same part of both heights", () => {
    const zoom = { near: { min: 2, max: 3 }, all: { min: 0, max: 4 }, log: false };
    const whole = secondScale(made, lines, view, x, null)!.y;
    const part = secondScale(made, lines, view, x, zoom)!.y;
    expect(part.min).toBeCloseTo(whole.max / 2);
    expect(part.max).toBeCloseTo((whole.max * 3) / 4);
    const log = { near: { min: 10, max: 100 }, all: { min: 1, max: 1000 }, log: true };
    expect(secondScale(made, lines, view, x, log)!.y.min).toBeCloseTo(whole.max / 3);
  });
  it("are one where only one side is drawn, which then reads in its unit", () => {
    expect(secondScale(made, lines.slice(0, 1), view, x, null)).toBeNull();
    expect(secondScale(made, lines.slice(1), view, x, null)).toBeNull();
    expect(onLeft(made, lines.slice(1)).unit).toBe("ratio");
    expect(onLeft(made, lines).unit).toBeNull();
    expect(secondScale(known[0]!, lines, view, x, null)).toBeNull();
  });
});

describe("counts of values that are not finite", () => {
  it("are read against none, also where all of them are alike", () => {
    const alike = [line("nonfinite", [100, 101, 100, 101])];
    expect(scaleOf(alike, "nonfinite", view, x).y.min).toBe(0);
    expect(scaleOf(alike, "loss", view, x).y.min).toBeGreaterThan(90);
    expect(scaleOf(alike, "nonfinite", { ...view, logY: true }, x).y.min).toBeGreaterThan(0);
  });
});

describe("lines of several kinds on one chart", () => {
  const both = ownChart("loss; lr", known);
  it("are averaged as their kinds want it, not as the chart", () => {
    expect(smoothingFor(both, 0.6)).toBe(0.6);
    expect(smoothingFor(ownChart("lr", known), 0.6)).toBe(0);
    const smoothed = [
      line("loss", [4, 3, 2, 1], [4, 4, 4, 4]),
      line("lr", [1, 0, 1, 0], [0.5, 0.5, 0.5, 0.5]),
    ];
    const [loss, rate] = ofTheirKinds(smoothed, both, 0.6);
    expect([...loss!.y]).toEqual([4, 4, 4, 4]);
    expect([...rate!.y]).toEqual([1, 0, 1, 0]);
    expect(rate!.smoothed).toBe(false);
  });
});

describe("a run that diverged among others that did not", () => {
  const others = [1, 2, 3, 4].map((least) => line("loss", [9, 5, 3, least]));
  const gone = line("loss", [9, 5, 400, 7e20]);
  it("does not flatten the others, and how far it went is said", () => {
    const { y, logY, cut } = scaleOf([...others, gone], "loss", { ...view, logY: null }, x);
    expect(y.max).toBeLessThan(10);
    expect(logY).toBe(false);
    expect(cut).toEqual({ value: 7e20, x: 3, count: 2 });
  });
  it("stays in view alone, among few, where many are like it, and where a logarithm was asked for", () => {
    const top = (lines: typeof others, logY: boolean | null = null): number =>
      scaleOf(lines, "loss", { ...view, logY }, x).y.max;
    expect(top([gone])).toBeGreaterThan(7e20);
    expect(top([...others.slice(0, 2), gone])).toBeGreaterThan(7e20);
    expect(top([...others.slice(0, 3), gone, gone])).toBeGreaterThan(7e20);
    expect(top([...others, gone], true)).toBeGreaterThan(7e20);
    expect(scaleOf([...others, gone], "score", view, x).y.max).toBeGreaterThan(7e20);
  });
});
