import { describe, expect, it } from "vitest";
import type { DecodedChart } from "../server/wire";
import { bucketOf } from "./shape";
import { placeText } from "./summary";

describe("the place of a point", () => {
  const answer = (of: Partial<DecodedChart>): DecodedChart =>
    ({ mode: "buckets", x: "step", x0: 0, x1: 99, ...of }) as DecodedChart;
  const placed = (of: Partial<DecodedChart>, at: number): string => {
    const chart = answer(of);
    return placeText(at, chart.x, bucketOf(chart));
  };

  it("is the steps of its bucket, as the server made them", () => {
    expect(placed({ x_values: Float64Array.of(0.5, 2.5, 4.5) }, 0.5)).toBe("Steps 0 – 1");
    expect(placed({ x_values: Float64Array.of(1, 4, 7) }, 4)).toBe("Steps 3 – 5");
    expect(placed({ x_values: Float64Array.of(49.5) }, 49.5)).toBe("Steps 0 – 99");
  });
  it("is a step where each has a place of its own", () => {
    expect(placed({ x_values: Float64Array.of(0, 1, 2) }, 1)).toBe("Step 1");
    expect(placed({ mode: "raw", x_values: null }, 1500)).toBe("Step 1,500");
  });
  it("of means is a step, or a bucket where the runs have too many", () => {
    expect(placed({ mode: "groups", x_values: Float64Array.of(10, 20, 30) }, 20)).toBe("Step 20");
    expect(placed({ mode: "groups", x_values: Float64Array.of(1.5, 5.5) }, 1.5)).toBe("Steps 0 – 3");
    expect(bucketOf(answer({ mode: "groups", x: "wall", x_values: Float64Array.of(1.5, 5.5) }))).toBe(null);
  });
});
