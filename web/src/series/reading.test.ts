import { describe, expect, it } from "vitest";
import { lineOf } from "../runs/fixtures";
import { newest, readingOf, recordedAt } from "./reading";
import { differenceOf, groupOf } from "./sides";

const last = (value: number | "NaN") => ({ step: 3, wall: 0, value });

describe("reading", () => {
  const line = lineOf("a", [0, 1, 2], [3, 1, 2], { last: last(2) });
  it("newest, best either way, and none where the name does not say", () => {
    expect(readingOf([line], "last", true)).toBe(2);
    expect(readingOf([line], "best", true)).toBe(1);
    expect(readingOf([line], "best", false)).toBe(3);
    expect(readingOf([line], "best", null)).toBeNull();
    expect(readingOf([], "last", true)).toBeNull();
  });
  it("the best is an extreme of a bucket, and never of what a restart went over", () => {
    const bucketed = lineOf("a", [0, 10, 20], [3, 3, 3], {
      low: Float64Array.of(0.5, 2, 0.1),
      high: Float64Array.of(4, 4, 9),
      end: 2,
    });
    expect(readingOf([bucketed], "best", true)).toBe(0.5);
    expect(readingOf([bucketed], "best", false)).toBe(4);
  });
  it("up to a step it is the last place that was asked for", () =>
    expect(readingOf([line], "step", true)).toBe(2));
  it("a point beyond the step, which answers hold too, does not count", () => {
    expect(readingOf([line], "step", true, 1)).toBe(1);
    expect(readingOf([line], "step", true, 1.5)).toBe(1);
    expect(readingOf([line], "step", true, -1)).toBeNull();
    expect(readingOf([lineOf("a", [0, 1, 2], [3, 1, NaN], { nonfinite: [2] })], "step", true, 1)).toBe(1);
  });
  it("a newest value that is not finite is said, not hidden", () => {
    expect(
      readingOf([lineOf("a", [0, 1], [3, 1], { last: last("NaN"), nonfinite: [2] })], "last", true),
    ).toBeNaN();
    expect(readingOf([lineOf("a", [0, 1], [3, 1], { nonfinite: [2] })], "step", true)).toBeNaN();
  });
  it("the newest attempt speaks", () => {
    expect(
      readingOf(
        [lineOf("a", [0], [1], { last: last(1) }), lineOf("a", [0], [7], { attempt: 2, last: last(7) })],
        "last",
        true,
      ),
    ).toBe(7);
  });
});

describe("groups", () => {
  it("mean, spread, and what is missing or not finite", () => {
    expect(groupOf([1, 3, null, NaN])).toEqual({
      mean: 2,
      spread: Math.SQRT2,
      count: 2,
      bad: 1,
    });
    expect(groupOf([4])).toEqual({ mean: 4, spread: null, count: 1, bad: 0 });
    expect(groupOf([]).count).toBe(0);
  });
  it("nothing to compare, and no share of zero", () => {
    expect(differenceOf(groupOf([NaN]), groupOf([1]))).toBeNull();
    expect(differenceOf(groupOf([0]), groupOf([1]))!.ratio).toBeNull();
    expect(differenceOf(groupOf([-2]), groupOf([-1]))!.ratio).toBe(0.5);
  });
});

describe("the recorded value", () => {
  const raw = Float64Array.from([4, 2, 8]);
  const line = lineOf("a", [0, 1, 2], [4, 3, 5], { raw, smoothed: true, last: last(64) });
  it("is never the smoothed one", () => {
    expect(recordedAt(line, null)).toBe(64);
    expect([0, 0.9, 2, 9].map((x) => recordedAt(line, x))).toEqual([4, 2, 8, 8]);
  });
  it("is no number where none was recorded", () => {
    expect(recordedAt({ ...line, last: last("NaN") }, null)).toBeNaN();
    const broken = { ...line, nonfinite: [3] };
    expect(recordedAt(broken, 3)).toBeNaN();
    expect(recordedAt(broken, 2)).toBe(8);
  });
  it("is that of the newest attempt", () => {
    const again = lineOf("a", [0], [1], { attempt: 2 });
    expect(newest([again, line])).toEqual([again]);
  });
});
