import { describe, expect, it } from "vitest";
import type { Spans } from "./questions";
import { percent } from "../format/number";
import { nsText } from "../format/units";
import { tickStep } from "../format/ticks";
import { drawSpans, inkOn, shadeOf, shadesOf, spanAt } from "./spans";
import { parseColour, rgba } from "../theme/pixels";

const spans = (
  rows: [lane: number, depth: number, start: number, end: number, category: number][],
): Spans => ({
  header: { path: "", start_ns: 0, end_ns: 100, events: rows.length, names: ["x"], columns: {} },
  lane: Int32Array.from(rows, (row) => row[0]),
  depth: Int32Array.from(rows, (row) => row[1]),
  row: Int32Array.from(rows, (_, at) => at),
  start: Float64Array.from(rows, (row) => row[2]),
  end: Float64Array.from(rows, (row) => row[3]),
  count: Uint32Array.from(rows, () => 1),
  name: Uint32Array.from(rows, () => 0),
  category: Uint32Array.from(rows, (row) => row[4]),
});

describe("spans as pixels", () => {
  it("fills a track from start to end and leaves the rest clear", () => {
    const pixels = new Uint32Array(10 * 4);
    const shades = [[7], [9]];
    drawSpans(
      { pixels, width: 10, height: 4 },
      spans([
        [0, 0, 0, 20, 0],
        [0, 0, 50, 100, 1],
      ]),
      [0, 100],
      shades,
      Uint8Array.of(0),
      1,
      () => ({ top: 1, height: 2 }),
    );
    expect([...pixels.slice(0, 10)]).toEqual(Array(10).fill(0));
    expect([...pixels.slice(10, 20)]).toEqual([7, 7, 0, 0, 0, 9, 9, 9, 9, 9]);
    expect([...pixels.slice(20, 30)]).toEqual([...pixels.slice(10, 20)]);
  });

  it("draws at least one pixel, and a line between wide neighbours", () => {
    const pixels = new Uint32Array(20);
    drawSpans(
      { pixels, width: 20, height: 1 },
      spans([
        [0, 0, 0, 25, 0],
        [0, 0, 25, 50, 0],
        [0, 0, 70, 70.1, 0],
      ]),
      [0, 100],
      [[5]],
      Uint8Array.of(0),
      1,
      () => ({ top: 0, height: 1 }),
    );
    expect([...pixels]).toEqual([5, 5, 5, 5, 1, 5, 5, 5, 5, 1, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0]);
  });

  it("leaves out tracks that are not on the picture", () => {
    const pixels = new Uint32Array(10);
    drawSpans(
      { pixels, width: 10, height: 1 },
      spans([
        [0, 0, 0, 100, 0],
        [1, 0, 0, 100, 0],
      ]),
      [0, 100],
      [[5]],
      Uint8Array.of(0),
      1,
      (lane) => (lane ? null : { top: 7, height: 3 }),
    );
    expect(Math.max(...pixels)).toBe(0);
  });

  it("finds the span under a point, or the nearest within reach", () => {
    const all = spans([
      [0, 0, 0, 20, 0],
      [0, 0, 50, 60, 0],
      [0, 1, 0, 5, 0],
    ]);
    expect(spanAt(all, 0, 0, 55, 0)).toBe(1);
    expect(spanAt(all, 0, 0, 48, 3)).toBe(1);
    expect(spanAt(all, 0, 0, 40, 3)).toBe(-1);
    expect(spanAt(all, 1, 0, 1, 3)).toBe(-1);
  });
});

describe("colours of spans", () => {
  it("mixes to black in light and to white in dark themes", () => {
    const light = shadesOf("#808080", false);
    const dark = shadesOf("#808080", true);
    expect(light[0]).toBe(rgba(parseColour("#808080")));
    expect(light.at(-1)! & 255).toBeLessThan(128);
    expect(dark.at(-1)! & 255).toBeGreaterThan(128);
  });

  it("reads colours long and short", () => {
    expect(parseColour("#fff")).toEqual([255, 255, 255]);
    expect(parseColour(" #1a2b3c")).toEqual([0x1a, 0x2b, 0x3c]);
  });

  it("writes in the ink that stands out", () => {
    expect(inkOn(rgba([255, 255, 255]))).toBe("#000000");
    expect(inkOn(rgba([20, 20, 60]))).toBe("#ffffff");
  });

  it("gives a name one shade for ever", () => {
    expect(shadeOf("aten::add")).toBe(shadeOf("aten::add"));
    expect(new Set(["a", "b", "c", "d", "e", "f", "g", "h"].map(shadeOf)).size).toBeGreaterThan(1);
  });
});

describe("figures of profiles", () => {
  it("writes times with a unit", () => {
    expect([
      nsText(950),
      nsText(12_340),
      nsText(9_680_000),
      nsText(176_078_000),
      nsText(1.5e9),
      nsText(null),
    ]).toEqual(["950\u00a0ns", "12.3\u00a0µs", "9.68\u00a0ms", "176\u00a0ms", "1.50\u00a0s", "–"]);
    expect(percent(0.1234, 1)).toBe("12.3\u00a0%");
  });

  it("puts ticks at 1, 2 or 5 times a power of ten", () => {
    expect([tickStep(100, 10), tickStep(100, 9), tickStep(30, 10), tickStep(7, 10)]).toEqual([10, 20, 5, 1]);
  });
});
