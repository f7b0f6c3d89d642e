import { describe, expect, it } from "vitest";
import {
  boundsOf,
  change,
  density,
  endingAtOne,
  factorText,
  ofMagnitudes,
  percentile,
  rangeOf,
  valuesIn,
  wantsLog,
  type Histogram,
} from "./histograms";
import { atStep } from "../server/records";

const histogram = (rows: [number, number, number][], step = 0): Histogram => ({
  step,
  rows,
  total: rows.reduce((sum, row) => sum + row[2], 0),
});

describe("percentiles", () => {
  it("spread counts evenly within a bucket", () => {
    const one = histogram([
      [0, 10, 10],
      [10, 20, 10],
    ]);
    expect([0, 0.25, 0.5, 0.75, 1].map((share) => percentile(one, share))).toEqual([0, 5, 10, 15, 20]);
  });

  it("pass over empty buckets and say NaN of nothing", () => {
    expect(
      percentile(
        histogram([
          [0, 1, 0],
          [1, 2, 4],
          [2, 9, 0],
        ]),
        1,
      ),
    ).toBe(2);
    expect(percentile(histogram([]), 0.5)).toBeNaN();
  });
});

describe("bounded functions", () => {
  const saturated = histogram([
    [1e-9, 1e-4, 500],
    [1e-4, 0.9, 20],
    [0.9, 1, 480],
  ]);

  it("are drawn linearly, from end to end", () => {
    expect(boundsOf([saturated], true)).toEqual([0, 1]);
    expect(boundsOf([histogram([[-1, -0.2, 3]]), histogram([[0.1, 0.9, 3]])], true)).toEqual([-1, 1]);
    expect(wantsLog([saturated], true)).toBe(false);
  });

  it("end at 1 where fixed buckets reach further", () => {
    const fixed = histogram([
      [-(2 ** -64), 2 ** -64, 40],
      [0.875, 1, 10],
      [1, 1.25, 50],
    ]);
    const [drawn] = endingAtOne([fixed]);
    expect(drawn!.total).toBe(100);
    expect(Math.max(...drawn!.rows.map((row) => row[1]!))).toBe(1);
    expect(boundsOf([drawn!], true)).toEqual([0, 1]);
    expect([...density([drawn!], [0, 1], 4)].map((share) => Math.round(share * 100))).toEqual([40, 0, 0, 60]);
    const [both] = endingAtOne([
      histogram([
        [-1.25, -1, 5],
        [1, 1.25, 5],
      ]),
    ]);
    expect(boundsOf([both!], true)).toEqual([-1, 1]);
    expect([...density([both!], [-1, 1], 2)].map((share) => Math.round(share * 10))).toEqual([5, 5]);
  });

  it("have what is 1 in the last bin", () => {
    const ones = histogram([[1, 1, 8]]);
    expect([...density([ones], [0, 1], 4)].map((share) => Math.round(share * 8))).toEqual([0, 0, 0, 8]);
    expect([...valuesIn([ones], [0, 1], 4)]).toEqual([0, 0, 0, 8]);
  });

  it("that passed 1 are drawn where they are", () => {
    const beyond = histogram([
      [1, 1.25, 5],
      [1.25, 1.5, 5],
    ]);
    expect(endingAtOne([beyond])).toEqual([beyond]);
  });

  it("are not what only lies within the same range", () => {
    expect(boundsOf([histogram([[1e-9, 1e-3, 5]])], false)).toBeNull();
    expect(boundsOf([histogram([[-1, 1, 5]])], false)).toBeNull();
    expect(boundsOf([histogram([[0, 7, 5]])], true)).toBeNull();
    expect(boundsOf([], true)).toBeNull();
  });
});

describe("magnitudes", () => {
  it("fold both signs on one logarithmic axis", () => {
    const folded = ofMagnitudes(
      histogram([
        [-100, -10, 5],
        [1, 10, 3],
      ]),
    );
    expect(folded.rows).toEqual([
      [0, 1, 3],
      [1, 2, 5],
    ]);
  });

  it("share a bucket that spans zero by its width", () => {
    const folded = ofMagnitudes(histogram([[-1, 3, 8]]));
    expect(folded.total).toBeCloseTo(8);
    expect(folded.rows.map((row) => row[2])).toEqual([2, 6]);
  });

  it("are wanted where values differ by powers of ten", () => {
    expect(wantsLog([histogram([[0.9, 1.1, 100]])])).toBe(false);
    expect(
      wantsLog([
        histogram([
          [1e-7, 1e-6, 50],
          [1e-3, 1e-2, 50],
        ]),
      ]),
    ).toBe(true);
    expect(wantsLog([])).toBe(false);
  });
});

describe("density", () => {
  it("shares each bucket over the bins it covers and keeps its total", () => {
    const cells = density(
      [
        histogram([[0, 4, 8]]),
        histogram([
          [1, 2, 3],
          [3, 4, 1],
        ]),
      ],
      [0, 4],
      4,
    );
    expect([...cells]).toEqual([0.25, 0.25, 0.25, 0.25, 0, 0.75, 0, 0.25]);
  });

  it("keeps a bucket without width", () => {
    expect([...density([histogram([[2, 2, 5]])], [0, 4], 4)]).toEqual([0, 0, 1, 0]);
  });

  it("covers nearly all counts", () => {
    const [low, high] = rangeOf([histogram([[0, 1, 1000]])]);
    expect(low).toBeLessThan(0.01);
    expect(high).toBeGreaterThan(0.99);
    expect(rangeOf([])).toEqual([0, 1]);
  });
});

describe("change", () => {
  it("is how much wider the end is than the calm before", () => {
    const calm = [0, 1, 2, 3].map((step) => histogram([[0.1, 1, 10]], step));
    expect(change([...calm, histogram([[1, 10, 10]], 4)])).toBeGreaterThan(5);
    expect(change([...calm, histogram([[0.1, 1, 10]], 4)])).toBeCloseTo(1);
    expect(change(calm.slice(0, 2))).toBeNull();
  });
});

describe("the factor on a card", () => {
  it.each([
    [0.0004, "÷\u202f2,500"],
    [0.004, "÷\u202f250"],
    [0.099, "÷\u202f10.1"],
    [0.1, "×\u202f0.10"],
    [1, "×\u202f1.00"],
    [42.5, "×\u202f42.5"],
    [0, ""],
    [NaN, ""],
  ])("%d is never × 0.00: %s", (factor, text) =>
    expect(factorText(factor).replaceAll("\u00a0", "\u202f")).toBe(text),
  );
});

describe("the value at a step", () => {
  it("is the last one not after it, the newest without one", () => {
    const values = [{ step: 10 }, { step: 20 }, { step: 30 }];
    expect(
      [atStep(values, null), atStep(values, 25), atStep(values, 30), atStep(values, 5)].map(
        (one) => one!.step,
      ),
    ).toEqual([30, 20, 30, 10]);
    expect(atStep([], 3)).toBeNull();
  });
});
