import { describe, expect, it } from "vitest";
import type { DeviceOverlap, StepPath } from "../server/api";
import { boundOf, deviceMeans, meanBounds } from "./bounds";

const path = (by_bound_ns: Record<string, number>): StepPath => ({
  rank: 0,
  number: 1,
  start_ns: 0,
  end_ns: Object.values(by_bound_ns).reduce((sum, one) => sum + one, 0),
  by_bound_ns,
  parts: [],
  pieces: [],
  pieces_total: 0,
  pieces_ns: 0,
  notes: [],
});

const device = (more: Partial<DeviceOverlap>): DeviceOverlap => ({
  rank: 0,
  device: 0,
  step: 1,
  start_ns: 0,
  window_ns: 100,
  compute_ns: 40,
  communication_ns: 0,
  copy_ns: 0,
  exposed_communication_ns: 0,
  exposed_copy_ns: 0,
  blocking_communication_ns: null,
  idle_ns: 60,
  overlap_ratio: null,
  ...more,
});

describe("bounds of a critical path", () => {
  it("are means over the steps that sum to the mean step, in the order of a step", () => {
    const found = meanBounds([path({ compute: 60, host: 40 }), path({ compute: 100, host: 0, copy: 0 })]);
    expect(found.map((one) => [one.bound.key, one.ns, one.share])).toEqual([
      ["host", 20, 0.2],
      ["compute", 80, 0.8],
    ]);
  });

  it("of no path are none", () => expect(meanBounds([])).toEqual([]));

  it("keep a word that is not known", () => expect(boundOf("new").name).toBe("new"));
});

describe("means of devices", () => {
  it("fill the step, and overlap is of all communication together", () => {
    const rows = [
      device({
        communication_ns: 30,
        exposed_communication_ns: 30,
        compute_ns: 40,
        idle_ns: 30,
        overlap_ratio: 0,
      }),
      device({
        step: 2,
        communication_ns: 10,
        exposed_communication_ns: 0,
        compute_ns: 60,
        idle_ns: 40,
        overlap_ratio: 1,
      }),
      device({ rank: 1 }),
    ];
    const [first, second] = deviceMeans(rows);
    expect(first!.parts.reduce((sum, part) => sum + part.ns, 0)).toBe(first!.window_ns);
    expect(first).toMatchObject({ rank: 0, steps: 2, overlap_ratio: 0.25 });
    expect(second).toMatchObject({ rank: 1, steps: 1, overlap_ratio: null });
  });
});
