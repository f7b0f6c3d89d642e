import { describe, expect, it } from "vitest";
import type { ProfileLane, ProfileTrack, Related } from "../server/api";
import { preciseText } from "../format/units";
import { leaves } from "./arrows";
import { AS_RECORDED, boxAt, landing, lanesBeside, layOut, rowAt, trackAt, tracksBetween } from "./layout";

const lane = (process: string, depth: number, events = 1): ProfileLane => ({
  rank: 0,
  process,
  thread: "t",
  device: process === "GPU 0" ? 0 : -1,
  depth,
  events,
  busy_ratio: 0.5,
  stepping: false,
  working: true,
});
const track = (kind: ProfileTrack["kind"], process: string, rows = 0): ProfileTrack => ({
  kind,
  rank: 0,
  process,
  name: "Allocator",
  device: 0,
  unit: "bytes",
  low: 0,
  high: 8,
  rows,
  note: "",
});

describe("the layout", () => {
  const all = layOut([lane("python", 3), lane("python", 1, 0), lane("GPU 0", 1)], 1, [
    track("memory", "GPU 0"),
    track("tensors", "GPU 0", 4),
    track("counter", "other"),
  ]);

  it("puts tracks below the lanes of their process, and those of none under a header of their own", () => {
    expect(all.boxes.map((box) => (box.kind === "header" ? box.title : box.kind))).toEqual([
      "GPU 0",
      "lane",
      "track",
      "track",
      "other",
      "track",
      "python",
      "lane",
    ]);
    expect(
      all.boxes.every((box, at) => at === 0 || box.top >= all.boxes[at - 1]!.top + all.boxes[at - 1]!.height),
    ).toBe(true);
  });

  it("says of no thread of which only stacks were recorded that it was busy", () => {
    const stacks = { ...lane("python", 1), busy_ratio: null };
    const notes = layOut([lane("python", 1), stacks], 1, []).boxes.flatMap((box) =>
      box.kind === "lane" ? [box.note] : [],
    );
    expect(notes).toEqual(["50\u00a0% busy", "Python stacks"]);
  });

  it("puts threads that run steps first", () => {
    const idle = lane("python", 31);
    const boxes = layOut([idle, { ...lane("python", 3), thread: "main", stepping: true }, idle], 1).boxes;
    expect(boxes.map((box) => box.kind === "lane" && [box.lane, box.title])).toEqual([
      false,
      [1, "main"],
      [0, "t"],
      [2, "t"],
    ]);
  });

  it("moves a lane within its group alone", () => {
    const lanes = [lane("python", 3), lane("python", 1), lane("GPU 0", 1), lane("python", 1)];
    const moved = layOut(lanes, 1, [], {
      ...AS_RECORDED,
      moved: [
        [0, null],
        [3, 1],
        [2, 1],
      ],
    });
    expect(moved.boxes.map((box) => (box.kind === "lane" ? box.lane : null))).toEqual([
      null,
      2,
      null,
      3,
      1,
      0,
    ]);
    expect(lanesBeside(moved, 1).map((box) => box.lane)).toEqual([3, 1, 0]);
    const [first, , last] = lanesBeside(moved, 1);
    expect(landing(moved, 0, first!.top)).toBe(3);
    expect(landing(moved, 3, last!.top + last!.height)).toBeNull();
  });

  it("finds rows and tracks by their height", () => {
    const box = all.byLane.get(0)!;
    expect(rowAt(all, box.top + 20)).toEqual({ lane: 0, depth: 1 });
    expect(trackAt(all, 0, 3, 0)).toBeNull();
    const memory = all.tracks[0]!;
    expect(boxAt(all, memory.top + 5)).toEqual({ box: memory, below: 5 });
    expect(tracksBetween(all, memory.top, memory.top + 10)).toEqual([0]);
    expect(boxAt(all, 2)).toBeNull();
  });
});

describe("arrows", () => {
  const at = (start_ns: number, duration_ns: number): Related => ({
    row: 0,
    name: "",
    lane: 0,
    depth: 0,
    start_ns,
    duration_ns,
  });

  it("leave where a call ends, or where it begins if the other has begun by then", () => {
    expect(leaves({ from: at(0, 10), to: at(50, 5) })).toBe(10);
    expect(leaves({ from: at(0, 100), to: at(50, 5) })).toBe(0);
    expect(leaves({ from: at(80, 30), to: at(50, 5) })).toBe(55);
  });
});

it("writes times so that neighbours differ", () => {
  expect([preciseText(270_612_300, 20_000), preciseText(270_632_300, 20_000)]).toEqual([
    "270.61\u00a0ms",
    "270.63\u00a0ms",
  ]);
  expect(preciseText(2e9, 5e8)).toBe("2.0\u00a0s");
  expect(preciseText(0, 100)).toBe("0\u00a0ns");
});
