import { describe, expect, it } from "vitest";
import { MAGIC, type ChartAnswer } from "./api";
import { FrameError, decodeFrame } from "./wire";

/** Builds a frame as the server does: header, padding to 8, arrays at 8. */
function frame(charts: unknown[], arrays: ArrayBufferView[], magic = MAGIC): ArrayBuffer {
  const header = new TextEncoder().encode(JSON.stringify({ charts }));
  const start = Math.ceil((8 + header.length) / 8) * 8;
  const size = arrays.reduce((sum, array) => Math.ceil((sum + array.byteLength) / 8) * 8, 0);
  const bytes = new Uint8Array(start + size);
  new DataView(bytes.buffer).setUint32(0, magic, true);
  new DataView(bytes.buffer).setUint32(4, header.length, true);
  bytes.set(header, 8);
  let at = start;
  for (const array of arrays) {
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at = Math.ceil((at + array.byteLength) / 8) * 8;
  }
  return bytes.buffer;
}

const line = {
  run: "ü",
  tag: "loss",
  split: null,
  writer: "w",
  attempt: 1,
  superseded_from: null,
  points: 3,
  nonfinite: 1,
  last: null,
};
const answer = (extra: object): Partial<ChartAnswer> & object => ({
  id: "c",
  x: "step",
  x0: 0,
  x1: 2,
  mode: "raw",
  buckets: 0,
  total_points: 3,
  shown_points: 3,
  x_column: null,
  missing: [],
  ...extra,
});

describe("frame", () => {
  it("gives columns as they were sent, NaN and infinity included", () => {
    const columns = { x: { dtype: "f8", offset: 0, count: 3 }, value: { dtype: "f4", offset: 24, count: 3 } };
    const [chart] = decodeFrame(
      frame(
        [answer({ lines: [{ ...line, columns }] })],
        [Float64Array.of(0, 1, 2), Float32Array.of(1.5, NaN, Infinity)],
      ),
    );
    expect(chart!.lines[0]!.run).toBe("ü");
    expect([...chart!.lines[0]!.columns["x"]!]).toEqual([0, 1, 2]);
    expect([...chart!.lines[0]!.columns["value"]!]).toEqual([1.5, NaN, Infinity]);
  });
  it("shares the x of buckets", () => {
    const x_column = { dtype: "f8", offset: 0, count: 2 };
    const [chart] = decodeFrame(
      frame([answer({ mode: "buckets", x_column, lines: [] })], [Float64Array.of(5, 6)]),
    );
    expect([...chart!.x_values!]).toEqual([5, 6]);
  });
  it("does not copy", () => {
    const columns = { x: { dtype: "u4", offset: 0, count: 1 } };
    const bytes = frame([answer({ lines: [{ ...line, columns }] })], [Uint32Array.of(7)]);
    expect(decodeFrame(bytes)[0]!.lines[0]!.columns["x"]!.buffer).toBe(bytes);
  });
  it.each([
    ["empty", new ArrayBuffer(0)],
    ["another magic", frame([], [], 1)],
    ["cut header", frame([answer({ lines: [] })], []).slice(0, 20)],
    [
      "cut column",
      frame([answer({ lines: [{ ...line, columns: { x: { dtype: "f8", offset: 0, count: 9 } } }] })], []),
    ],
    [
      "unknown type",
      frame([answer({ lines: [{ ...line, columns: { x: { dtype: "f2", offset: 0, count: 1 } } }] })], []),
    ],
  ])("refuses %s", (_, bytes) => expect(() => decodeFrame(bytes)).toThrow(FrameError));
});
