import { describe, expect, it } from "vitest";
import { ASIDE, boundsOf, cameraKey, Frame, FRONT, mixed, pointAt, project, turned, zoomed } from "./space";

const CORNERS = new Float32Array([-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, 1, 0]);
const RED = 0xff0000ff;

describe("space", () => {
  it("puts everything into the picture, the upright axis up", () => {
    const bounds = boundsOf(CORNERS);
    expect(bounds).toEqual({ centre: [0, 0, 0], radius: Math.SQRT2 });
    const seen = project(CORNERS, bounds, FRONT, 200, 100, true);
    const reach = 46 / Math.SQRT2;
    [100 - reach, 50 + reach, 0, 100 + reach, 50 + reach, 0].forEach((value, at) =>
      expect(seen[at]).toBeCloseTo(value, 3),
    );
  });
  it("has bounds where there is nothing, or one point", () => {
    expect(boundsOf(new Float32Array())).toEqual({ centre: [0, 0, 0], radius: 1 });
    expect(boundsOf(new Float32Array([2, 3, 4]))).toEqual({ centre: [2, 3, 4], radius: 1 });
  });
  it("turns about the upright axis and shows what is near larger", () => {
    const bounds = boundsOf(CORNERS);
    const seen = project(CORNERS, bounds, turned(FRONT, Math.PI / 2, 0), 100, 100);
    expect(seen[0]).toBeCloseTo(50, 3);
    expect(seen[2]).toBeCloseTo(-seen[5]!, 3);
    expect(Math.abs(seen[1]! - 50)).not.toBeCloseTo(Math.abs(seen[4]! - 50), 1);
  });
  it("cannot be turned over the top", () => expect(turned(ASIDE, 0, 9).pitch).toBe(Math.PI / 2));
  it("keeps what is under the pointer where it is", () => {
    const bounds = boundsOf(CORNERS);
    const before = project(CORNERS, bounds, FRONT, 100, 100, true);
    const after = project(
      CORNERS,
      bounds,
      zoomed(FRONT, 2, before[0]! - 50, before[1]! - 50),
      100,
      100,
      true,
    );
    expect(after[0]).toBeCloseTo(before[0]!, 3);
    expect(after[3]! - after[0]!).toBeCloseTo(2 * (before[3]! - before[0]!), 3);
  });
  it("draws triangles, the nearer in front, and none of points that are not there", () => {
    const frame = new Frame(10, 10);
    const seen = new Float32Array([0, 0, 1, 10, 0, 1, 0, 10, 1, 0, 0, 5, 10, 0, 5, 0, 10, 5]);
    frame.triangles(seen, [3, 4, 5, 0, 1, 2, 0, 1, 77], new Uint32Array([1, 1, 1, RED, RED, RED]));
    expect(frame.pixels[0]).toBe(RED);
    expect(frame.pixels.filter((pixel) => pixel === RED).length).toBeGreaterThan(45);
    expect(frame.pixels[99]).toBe(0);
  });
  it("blends colours between the corners of a triangle", () => {
    const frame = new Frame(20, 20);
    frame.triangles(
      new Float32Array([0, 0, 0, 20, 0, 0, 0, 20, 0]),
      [0, 1, 2],
      new Uint32Array([0xff000000, 0xff0000ff, 0xff000000]),
    );
    expect(frame.pixels[1]! & 255).toBeLessThan(40);
    expect(frame.pixels[18]! & 255).toBeGreaterThan(200);
  });
  it("draws discs, squares, and nothing outside the picture", () => {
    const frame = new Frame(9, 9);
    frame.points(new Float32Array([4, 4, 0, 40, 40, 0]), new Uint32Array([RED, RED]), 2);
    expect(frame.pixels.filter(Boolean).length).toBe(13);
    const square = new Frame(9, 9);
    square.points(new Float32Array([4, 4, 0]), new Uint32Array([RED]), 2.5, new Uint8Array([1]));
    expect(square.pixels.filter(Boolean).length).toBe(25);
  });
  it("finds the point under the pointer, of those in one place the nearest", () => {
    const seen = new Float32Array([5, 5, 0, 5, 5, 9, 50, 50, 0]);
    expect(pointAt(seen, 6, 5, 4)).toBe(1);
    expect(pointAt(seen, 30, 30, 4)).toBe(-1);
    expect(pointAt(seen, 5, 5, 4, (point) => point !== 1)).toBe(0);
  });
  it("moves by keys, flat or not", () => {
    expect(cameraKey(FRONT, "ArrowRight")?.yaw).toBeGreaterThan(0);
    expect(cameraKey(FRONT, "ArrowRight", true)?.x).toBe(-24);
    expect(cameraKey({ ...FRONT, zoom: 3 }, "f", true, FRONT)).toEqual(FRONT);
    expect(cameraKey(FRONT, "q")).toBeNull();
  });
  it("mixes colours", () => expect(mixed(0xff000000, 0xffffffff, 0.5)).toBe(0xff808080));
});
