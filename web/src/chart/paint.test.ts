import { describe, expect, it } from "vitest";
import { lineOf } from "../runs/fixtures";
import type { ChartModel, StyledLine } from "./model";
import { paintLines } from "./paint";

/** Dots that a line of 100 x 100 pixels gets. */
function dotsOf(x: number[], y: number[], dots = false): number {
  let drawn = 0;
  const canvas = new Proxy({} as CanvasRenderingContext2D, {
    get: (_, name) => (name === "arc" ? () => (drawn += 1) : () => undefined),
    set: () => true,
  });
  const line = { ...lineOf("a", x, y), dash: [], band: null, dots } as unknown as StyledLine;
  const model = { lines: [line], x: { min: 0, max: 100 }, palette: {} } as unknown as ChartModel;
  const box = { left: 0, top: 0, width: 100, height: 100 };
  paintLines(canvas, model, box, { x: (value) => value, y: (value) => value }, 1);
  return drawn;
}

describe("what a line cannot show is drawn as a dot", () => {
  it.each([
    ["one point", [5], [1], 1],
    ["points between NaNs", [0, 10, 20, 30, 40], [1, NaN, 2, NaN, 3], 3],
    ["a point at the end of a gap", [0, 10, 20, 30], [1, 2, NaN, 3], 1],
    ["epochs on an axis of iterations", [0, 1, 2], [1, 1.5, 1], 1],
    ["a line", [0, 50, 100], [1, 2, 3], 0],
    ["nothing finite", [0, 1], [NaN, NaN], 0],
  ])("%s", (_, x, y, count) => expect(dotsOf(x, y)).toBe(count));
  it("and so is each point of few", () => expect(dotsOf([0, 50, 100], [1, 2, 3], true)).toBe(3));
});
