import { describe, expect, it } from "vitest";
import { lineOf } from "../runs/fixtures";
import { newest, readingOf, recordedAt } from "./reading";
import { deltaOf, groupOf, noiseAt, studentQuantile } from "./sides";

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
      noise: null,
      count: 2,
      bad: 1,
    });
    expect(groupOf([4])).toEqual({ mean: 4, spread: null, noise: null, count: 1, bad: 0 });
    expect(groupOf([]).count).toBe(0);
  });
  it("one run a side is judged by the noise of its steps, and not at all where that is not known", () => {
    expect(deltaOf(groupOf([2], 0.1), groupOf([1], 0.1), true)).toEqual({
      difference: -1,
      ratio: -0.5,
      error: Math.hypot(0.1, 0.1),
      margin: 2 * Math.hypot(0.1, 0.1),
      of: "steps",
      verdict: "better",
    });
    expect(deltaOf(groupOf([2], 0.1), groupOf([1], 0.1), false)!.verdict).toBe("worse");
    expect(deltaOf(groupOf([2], 0.5), groupOf([1], 0.5), true)!.verdict).toBe("noise");
    expect(deltaOf(groupOf([2], 0.5), groupOf([1], 0.5), null)!.verdict).toBe("noise");
    expect(deltaOf(groupOf([2], 0.1), groupOf([1], 0.1), null)!.verdict).toBe("changed");
    expect(deltaOf(groupOf([2]), groupOf([1]), true)).toMatchObject({
      error: null,
      of: null,
      verdict: "unknown",
    });
    expect(deltaOf(groupOf([2]), groupOf([1]), null)!.verdict).toBe("changed");
    expect(deltaOf(groupOf([2]), groupOf([2]), true)!.verdict).toBe("same");
  });
  it("a run beside several is taken to be spread as they are", () => {
    expect(deltaOf(groupOf([1, 1.2, 0.8]), groupOf([1.3], 0), true)).toMatchObject({
      of: "runs",
      verdict: "noise",
    });
    expect(deltaOf(groupOf([2], 0), groupOf([1, 1.2, 0.8]), true)!.verdict).toBe("better");
  });
  it("less than Welch's margin is the spread of the runs", () => {
    expect(deltaOf(groupOf([1, 3]), groupOf([2, 4]), true)!.verdict).toBe("noise");
    expect(deltaOf(groupOf([1, 1.01, 0.99]), groupOf([2, 2.01, 1.99]), true)!.verdict).toBe("worse");
  });
  it.each([
    [1, 12.706],
    [2, 4.303],
    [3.5, 2.9401],
    [10, 2.228],
    [100, 1.984],
  ])("Student's distribution with %f degrees of freedom has 5 %% beyond %f", (free, size) => {
    expect(studentQuantile(free) / size).toBeCloseTo(1, 3);
  });
  it("three seeds that differ by 2.2 standard errors are not told apart, ten are", () => {
    const group = (middle: number, count: number) => ({
      mean: middle,
      spread: Math.sqrt(count / 2),
      noise: null,
      count,
      bad: 0,
    });
    expect(deltaOf(group(0, 3), group(2.2, 3), true)!.verdict).toBe("noise");
    expect(deltaOf(group(0, 10), group(2.2, 10), true)!.verdict).toBe("worse");
    expect(deltaOf(group(1, 3), { ...group(9, 3), spread: 0 }, true)!.margin).toBeCloseTo(
      4.303 * Math.sqrt(0.5),
      2,
    );
    expect(deltaOf(groupOf([1, 1]), groupOf([2, 2]), true)).toMatchObject({ margin: 0, verdict: "worse" });
  });
  it("nothing to compare, and no share of zero", () => {
    expect(deltaOf(groupOf([NaN]), groupOf([1]), true)).toBeNull();
    expect(deltaOf(groupOf([0]), groupOf([1]), true)!.ratio).toBeNull();
    expect(deltaOf(groupOf([-2]), groupOf([-1]), true)!.ratio).toBe(0.5);
  });
});

describe("the noise of a run", () => {
  const steps = Float64Array.from({ length: 200 }, (_, at) => 3 * at);
  const along = (value: (at: number) => number): Float64Array => steps.map((_, at) => value(at));
  it("is that of its values around their course, whatever the course", () => {
    let seed = 1;
    // Twelve uniform numbers have a variance of 1.
    const uniform = (): number => (seed = (seed * 48271) % 2147483647) / 2147483647;
    const normal = (): number => Array.from({ length: 12 }, uniform).reduce((sum, one) => sum + one, -6);
    for (const course of [() => 5, (at: number) => 5 - 0.02 * at, (at: number) => 5 / (1 + at)]) {
      const found = Array.from(steps, (place) =>
        noiseAt(
          steps,
          along((at) => course(at) + 0.1 * normal()),
          place,
        )!,
      );
      const mean = found.reduce((sum, one) => sum + one, 0) / found.length;
      expect(mean).toBeGreaterThan(0.09);
      expect(mean).toBeLessThan(0.13);
    }
  });
  it("is known of several values of one step, too", () => {
    const at = Array.from({ length: 12 }, (_, place) => Math.floor(place / 4));
    expect(
      noiseAt(
        at,
        at.map((_, place) => place % 2),
        3,
      ),
    ).toBeGreaterThan(0.5);
    expect(
      noiseAt(
        at.map(() => 7),
        at.map(() => 1),
        7,
      ),
    ).toBe(0);
  });
  it("is none of what is smooth, and is not known of few values", () => {
    expect(
      noiseAt(
        steps,
        along((at) => 5 - 0.02 * at),
        Infinity,
      ),
    ).toBeCloseTo(0, 10);
    expect(noiseAt([0, 1, 2, 3], [1, 2, 1, 2], 3)).toBeNull();
    expect(noiseAt([], [], 0)).toBeNull();
    expect(noiseAt([0, 1, 2, 3, 4], [1, NaN, 1, 2, 1], 3)).toBeNull();
  });
  it("counts steps that are recorded at any distance, and none that a later attempt went over", () => {
    expect(noiseAt([0, 1, 10, 11, 50, 90], [0, 0.1, 1, 1.1, 5, 9], Infinity)).toBeCloseTo(0, 10);
    expect(
      noiseAt(
        steps,
        along((at) => (at < 100 ? 1 : at % 2)),
        Infinity,
        100,
      ),
    ).toBeCloseTo(0, 10);
    expect(
      noiseAt(
        steps,
        along((at) => (at < 100 ? 1 : at % 2)),
        Infinity,
      ),
    ).toBeGreaterThan(0.9);
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
