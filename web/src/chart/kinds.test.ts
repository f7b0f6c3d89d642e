import { describe, expect, it } from "vitest";
import { lineOf } from "../runs/fixtures";
import {
  cutOf,
  isExact,
  isIdle,
  runningMedian,
  smoothingOf,
  wantsLog,
  withMedian,
  withinBounds,
} from "./kinds";

const steps = (count: number): number[] => Array.from({ length: count }, (_, at) => at);
const all = { min: 0, max: 1e6 };

describe("averaging", () => {
  it("is never done to schedules, counters and counts of non-finite values", () => {
    for (const kind of ["schedule", "counter", "nonfinite"] as const) {
      expect(smoothingOf({ kind }, 0.6)).toBe(0);
      expect(isExact({ kind })).toBe(true);
    }
    expect(smoothingOf({ kind: "loss" }, 0.6)).toBe(0.6);
  });
  it("of times is a median, which one slow step does not move", () => {
    const times = steps(40).map((at) => (at === 20 ? 100 : 1));
    const [line] = withMedian([lineOf("a", steps(40), times)], { kind: "latency" }, 0.6);
    expect(line!.smoothed).toBe(true);
    expect(new Set(line!.y)).toEqual(new Set([1]));
    expect(line!.raw[20]).toBe(100);
    expect(withMedian([lineOf("a", steps(40), times)], { kind: "latency" }, 0)[0]!.smoothed).toBe(false);
    expect(withMedian([lineOf("a", steps(40), times)], { kind: "loss" }, 0.6)[0]!.smoothed).toBe(false);
  });
  it("leaves out what is not finite", () => {
    expect([...runningMedian([1, NaN, 3, 5], 3)]).toEqual([1, NaN, 2, 4]);
  });
});

describe("a logarithmic axis", () => {
  it("is taken by losses and norms that spread over powers of ten", () => {
    expect(wantsLog({ kind: "loss" }, [lineOf("a", steps(3), [2, 0.1, 1e-4])])).toBe(true);
    expect(wantsLog({ kind: "loss" }, [lineOf("a", steps(3), [2, 1, 0.5])])).toBe(false);
    expect(wantsLog({ kind: "loss" }, [lineOf("a", steps(3), [2, 0, 1e-4])])).toBe(false);
    const mean = { group: "g", low: Float64Array.from([-1, -1, -1]), high: Float64Array.from([3, 1, 1]) };
    expect(wantsLog({ kind: "loss" }, [lineOf("a", steps(3), [2, 0.1, 1e-4], mean)])).toBe(true);
    expect(wantsLog({ kind: "score" }, [lineOf("a", steps(3), [2, 0.1, 1e-4])])).toBe(false);
  });
});

describe("a first step that compiles", () => {
  const times = steps(100).map((at) => (at === 0 ? 1.5 : 0.01));
  it("leaves the range of times, and is said", () => {
    const found = cutOf({ kind: "latency" }, [lineOf("a", steps(100), times)], all);
    expect(found).toEqual({ cut: { value: 1.5, x: 0, count: 1 }, most: 0.01 });
  });
  it("stays where it is of another kind, out of view, or one of few points", () => {
    expect(cutOf({ kind: "loss" }, [lineOf("a", steps(100), times)], all)).toBeNull();
    expect(cutOf({ kind: "latency" }, [lineOf("a", steps(100), times)], { min: 1, max: 99 })).toBeNull();
    expect(cutOf({ kind: "latency" }, [lineOf("a", steps(3), [1.5, 0.01, 0.01])], all)).toBeNull();
  });
  it("is nothing beside times that vary as much", () => {
    const wide = steps(100).map((at) => 1 + (at % 3));
    expect(cutOf({ kind: "latency" }, [lineOf("a", steps(100), wide)], all)).toBeNull();
  });
});

describe("a chart that says nothing", () => {
  it("is a count that is always 0", () => {
    const zeros = lineOf("a", steps(3), [0, 0, 0]);
    expect(isIdle({ kind: "nonfinite" }, zeros)).toBe(true);
    expect(isIdle({ kind: "nonfinite" }, lineOf("a", steps(3), [0, 0, 64]))).toBe(false);
    expect(isIdle({ kind: "loss" }, zeros)).toBe(false);
    expect(isIdle({ kind: "counter" }, undefined)).toBe(false);
  });
});

describe("a band", () => {
  const group = {
    ...lineOf("a", [0, 1], [0.1, 0.9]),
    group: "g",
    low: Float64Array.of(-0.2, 0.8),
    high: Float64Array.of(0.4, 1.1),
  };
  it("does not go where no value of its kind can be", () => {
    const [share] = withinBounds([group], { kind: "ratio" });
    expect([[...share!.low!], [...share!.high!]]).toEqual([
      [0, 0.8],
      [0.4, 1],
    ]);
    const [loss] = withinBounds([group], { kind: "loss" });
    expect([[...loss!.low!], [...loss!.high!]]).toEqual([
      [0, 0.8],
      [0.4, 1.1],
    ]);
  });
  it("stays as it is where values may be anything, and where they are below 0", () => {
    expect(withinBounds([group], { kind: "other" })[0]).toBe(group);
    const below = { ...group, y: Float64Array.of(-1, 2) };
    expect(withinBounds([below], { kind: "loss" })[0]!.low).toBe(group.low);
  });
});
