import { describe, expect, it } from "vitest";
import { lineOf } from "../runs/fixtures";
import { xLimits, yLimits } from "./limits";
import { readAt } from "./nearest";
import { drawLines, lowerBound, nearestIndex } from "./shape";
import { tableOf } from "../scalars/table";
import { linearTicks, logTicks, stepTicks } from "../format/ticks";
import type { DecodedChart } from "../server/wire";

const all = { log: false, outliers: true, ghost: true, superseded: false };

describe("shapes", () => {
  const line = {
    run: "a",
    tag: "t",
    split: null,
    writer: "w",
    attempt: 1,
    superseded_from: null,
    points: 6,
    nonfinite: 2,
    last: null,
  };
  const buckets = (extra: object): DecodedChart =>
    ({
      id: "c",
      mode: "buckets",
      x_values: Float64Array.of(0, 10, 20, 30),
      lines: [
        {
          ...line,
          ...extra,
          columns: {
            first: Float32Array.of(1, NaN, 3, 4),
            min: Float32Array.of(0, NaN, 2, 4),
            max: Float32Array.of(2, NaN, 5, 4),
            last: Float32Array.of(1, NaN, 4, 4),
            count: Uint32Array.of(2, 0, 2, 2),
            nonfinite: Uint32Array.of(0, 2, 0, 0),
          },
        },
      ],
    }) as unknown as DecodedChart;

  it("leave out empty buckets and keep where values are not finite", () => {
    const [shape] = drawLines(buckets({}));
    expect([...shape!.x]).toEqual([0, 20, 30]);
    expect([...shape!.high!]).toEqual([2, 5, 4]);
    expect(shape!.nonfinite).toEqual([10]);
  });
  it("end where a restart went over them", () =>
    expect(drawLines(buckets({ superseded_from: 15 }))[0]!.end).toBe(1));
  it("find places", () => {
    expect(lowerBound([1, 3, 5], 4)).toBe(2);
    expect(nearestIndex([1, 3, 5], 3.9)).toBe(1);
    expect(nearestIndex([], 1)).toBe(-1);
  });
});

describe("limits", () => {
  it("hold all finite values, with air", () => {
    const range = yLimits([lineOf("a", [0, 1, 2], [1, NaN, 3])], null, all)!;
    expect(range.min).toBeLessThan(1);
    expect(range.max).toBeGreaterThan(3);
    expect(range.max).toBeLessThan(3.5);
  });
  it("leave outliers out when asked to", () => {
    const y = Array.from({ length: 200 }, (_, at) => (at === 0 ? 1e6 : Math.sin(at)));
    const line = lineOf(
      "a",
      y.map((_, at) => at),
      y,
    );
    expect(yLimits([line], null, { ...all, outliers: false })!.max).toBeLessThan(3);
  });
  it("take only what is drawn", () => {
    const line = lineOf("a", [0, 1, 2, 3, 4, 5], [100, 1, 2, 3, 4, 100], { end: 5 });
    expect(yLimits([line], { min: 2, max: 3 }, all)!.max).toBeLessThan(5);
    expect(xLimits([line], false, false)).toEqual({ min: 0, max: 4 });
    expect(xLimits([line], false, true)).toEqual({ min: 0, max: 5 });
  });
  it("draw a constant against 0, as float32 too", () => {
    const range = (...values: number[]): number[] => {
      const { min, max } = yLimits([lineOf("a", [0, 1], values)], null, all)!;
      return [min, max].map((value) => Number(value.toFixed(3)));
    };
    expect(range(5, 5)).toEqual([0, 5.3]);
    expect(range(-5, -5)).toEqual([-5.3, 0]);
    expect(range(0, 0)).toEqual([0, 1]);
    expect(range(Math.fround(0.01) * 100, 1)).toEqual([0, 1.06]);
    expect(range(5, 5.01)[0]).toBeGreaterThan(4.9);
  });
  it("of a log axis are positive", () =>
    expect(yLimits([lineOf("a", [0, 1, 2], [-1, 0, 10])], null, { ...all, log: true })!.min).toBeGreaterThan(
      0,
    ));
  it("say when nothing is finite", () => expect(yLimits([lineOf("a", [0], [NaN])], null, all)).toBeNull());
});

describe("cursor", () => {
  const lines = [
    lineOf("a", [0, 10, 20], [1, 2, 3]),
    lineOf("b", [0, 10, 20], [9, 8, 7]),
    lineOf("short", [0, 5], [1, 1]),
  ];
  const place = (value: number): number => value * 10;

  it("reads the nearest first and counts what ended", () => {
    const reading = readAt(lines, 19, place, 68, { superseded: false });
    expect(reading.rows.map((row) => row.line.run)).toEqual(["b", "a"]);
    expect(reading.rows[0]!.x).toBe(20);
    expect(reading.ended).toBe(1);
  });
  it("counts what does not fit", () =>
    expect(readAt(lines, 4, place, 0, { superseded: false, rows: 1 }).farther).toBe(2));
  it("puts values that are not finite last", () => {
    const reading = readAt([lineOf("nan", [0], [NaN]), lineOf("a", [0], [1])], 0, place, 500, {
      superseded: false,
    });
    expect(reading.rows.map((row) => row.line.run)).toEqual(["a", "nan"]);
  });
});

describe("table", () => {
  it("has a row for every x and says where a line has none", () => {
    const rows = tableOf([lineOf("a", [0, 2], [1, 2]), lineOf("b", [1, 2], [5, 6])], { min: 0, max: 9 });
    expect(rows).toEqual([
      { x: 0, values: [1, null] },
      { x: 1, values: [null, 5] },
      { x: 2, values: [2, 6] },
    ]);
  });
});

describe("ticks", () => {
  it("are round and few enough", () => expect(linearTicks(0.2, 9.7, 5).ticks).toEqual([2, 4, 6, 8]));
  it("do not drift", () => expect(linearTicks(0, 0.3, 3).ticks).toEqual([0, 0.1, 0.2, 0.3]));
  it("of a log axis are powers and their parts", () => {
    expect(logTicks(1, 1000, 4).ticks).toEqual([1, 10, 100, 1000]);
    expect(logTicks(0.3, 3.2, 5).ticks).toEqual([0.3, 0.5, 1, 2, 3]);
    expect(logTicks(1e-12, 1e12, 5).ticks.length).toBeLessThanOrEqual(5);
  });
  it("of a log axis within a decade are linear", () =>
    expect(logTicks(0.29, 0.4, 4)).toEqual({ ticks: [0.3, 0.325, 0.35, 0.375, 0.4], step: 0.025 }));
  it("of durations are minutes and hours", () =>
    expect(stepTicks(0, 7200, 3, [600, 1800, 3600]).ticks).toEqual([0, 3600, 7200]));
});
