import { describe, expect, it } from "vitest";
import {
  LEAST_SCORE,
  above,
  apart,
  blame,
  colourRange,
  columnsOf,
  factText,
  median,
  ordered,
  outlier,
  rowsOf,
  type RankGrid,
} from "./ranks";

function grid(rows: number[][]): RankGrid {
  const values = Float32Array.from(rows.flat());
  return {
    run: "r",
    fact: "step_time_s",
    attempt: 1,
    labels: rows.map((_, at) => `rank ${at}`),
    ranks: rows.map((_, at) => at),
    columns: rows[0]!.length,
    end: rows[0]!.length,
    steps: Float64Array.from(rows[0]!, (_, at) => at),
    maximum: values,
    mean: values,
    count: Uint32Array.from(values, (value) => (Number.isNaN(value) ? 0 : 1)),
    nonfinite: new Uint32Array(values.length),
  };
}

const even = (value: number): number[] => Array.from({ length: 20 }, (_, at) => value + (at % 3) * 0.001);

describe("ranks", () => {
  it("names the rank that stands apart and since when", () => {
    const slow = even(1).map((value, at) => (at >= 12 ? value + 0.4 : value));
    const all = grid([even(1), even(1.002), slow, even(0.999), even(1.001)]);
    const found = outlier(rowsOf(all, []), all)!;
    expect(found.row.label).toBe("rank 2");
    expect(found.score).toBeGreaterThan(LEAST_SCORE);
    expect(found.since).toBe(12);
    expect(found.others).toBeCloseTo(1, 2);
    expect(found.mean).toBeCloseTo(1.4, 2);
  });

  it("says no step where it was apart from the beginning", () => {
    const all = grid([even(1), even(1.01), even(2), even(0.99)]);
    expect(outlier(rowsOf(all, []), all)!.since).toBeNull();
  });

  it("says nothing of ranks that agree, nor of two", () => {
    const same = grid([even(1), even(1.001), even(0.999), even(1)]);
    expect(outlier(rowsOf(same, []), same)).toBeNull();
    const two = grid([even(1), even(9)]);
    expect(outlier(rowsOf(two, []), two)).toBeNull();
  });

  it("weighs columns by their steps and leaves out what was not recorded", () => {
    const all = grid([[1, NaN, 3]]);
    (all.count as Uint32Array).set([3, 0, 1]);
    expect(rowsOf(all, [])[0]!.mean).toBeCloseTo(1.5);
    const none = grid([[NaN, NaN]]);
    expect(rowsOf(none, [])[0]!.mean).toBeNaN();
  });

  it("sorts by rank, host and how far apart", () => {
    const all = grid([even(1), even(1.5), even(1), even(1.001)]);
    const rows = rowsOf(all, []).map((row, at) => ({ ...row, host: ["b", "b", "a", "a"][at]! }));
    expect(ordered(rows, "rank").map((row) => row.at)).toEqual([0, 1, 2, 3]);
    expect(ordered(rows, "host").map((row) => row.at)).toEqual([2, 3, 0, 1]);
    expect(ordered(rows, "outlier")[0]!.at).toBe(1);
    expect(apart(rows).get("rank 1")).toBeGreaterThan(100);
  });

  it("covers nearly all values with colours", () => {
    const values = Float32Array.from({ length: 10_000 }, (_, at) => (at === 5 ? 1e9 : at % 100));
    expect(colourRange(values)[1]).toBeLessThan(200);
    expect(colourRange(Float32Array.of(NaN))).toEqual([0, 1]);
    expect(colourRange(Float32Array.of(2, 2))[1]).toBeGreaterThan(2);
  });

  it("end the colours at the 99th percentile, and count what lies above", () => {
    const first = Float32Array.from({ length: 8 * 260 }, (_, at) => (at % 260 ? 0.06 : 0.46));
    expect(colourRange(first)[1]).toBeCloseTo(0.061, 2);
    const values = Float32Array.from({ length: 1000 }, (_, at) => at);
    values[0] = NaN;
    const [low, high] = colourRange(values);
    expect([low, high]).toEqual([1, 990]);
    expect(above(values, high)).toBe(9);
    expect(above(Float32Array.of(2, 2), colourRange(Float32Array.of(2, 2))[1])).toBe(0);
  });

  it("writes facts with their units", () => {
    expect([
      factText("step_time_s", 0.0123),
      factText("data_wait_s", 2.5),
      factText("resident_bytes", 1024 ** 3),
      factText("loss", null),
    ]).toEqual(["12.3\u00a0ms", "2.50\u00a0s", "1.00\u00a0GiB", "–"]);
    expect(median([3, NaN, 1, 2])).toBe(2);
    expect(median([])).toBeNaN();
  });

  it("says who was highest, how often and when, and where nobody was by enough", () => {
    const slow = even(1).map((value, at) => (at >= 12 ? value + 0.4 : value));
    const all = grid([even(1), slow, even(1.002), even(0.999)]);
    expect(blame(all)).toEqual({ ranks: [{ label: "rank 1", columns: 8, first: 12, last: 19 }], none: 12 });
    const columns = columnsOf(all);
    expect(columns.middle[0]).toBeCloseTo(1, 2);
    expect(columns.most[15]).toBeCloseTo(1.4, 2);
    expect(columnsOf(grid([[NaN], [NaN]])).middle[0]).toBeNaN();
    let state = 1;
    const random = (): number => (state = (state * 48271) % 2147483647);
    for (let ranks = 1; ranks < 60; ranks += 1) {
      const values = Array.from({ length: ranks }, () => random() % 20);
      expect(columnsOf(grid(values.map((value) => [value]))).middle[0]).toBe(median(values));
    }
  });
});
