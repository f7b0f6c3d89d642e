import { describe, expect, it } from "vitest";
import type { ProfileTrack } from "../server/api";
import { tracksTable } from "./timelineFiles";

const track = (kind: ProfileTrack["kind"], name: string): ProfileTrack => ({
  kind,
  rank: 0,
  process: "=p",
  name,
  device: 0,
  unit: "bytes",
  low: 0,
  high: 9,
  rows: 1,
  note: "",
});

describe("tracks as a table", () => {
  it("say each change of a level once, and each tensor with when it was freed", () => {
    const text = tracksTable(
      {
        tracks: [track("memory", "Allocated"), track("tensors", "Tensors"), track("counter", "out of view")],
      },
      {
        start: 100,
        end: 140,
        of: new Map([
          [0, { low: [NaN, 2, 2, 1], high: [NaN, 3, 3, 3], tensors: null, merged: 0 }],
          [
            1,
            {
              low: null,
              high: null,
              tensors: { row: [7], layer: [0], start: [105], end: [120], bytes: [64] },
              merged: 0,
            },
          ],
        ] as never),
      },
    );
    expect(text.split("\r\n")).toEqual([
      "rank,process,track,kind,unit,start_ns,end_ns,lowest,highest,event_row",
      "0,'=p,Allocated,memory,bytes,110,,2,3,",
      "0,'=p,Allocated,memory,bytes,130,,1,3,",
      "0,'=p,Tensors,tensors,bytes,105,120,64,64,7",
      "",
    ]);
  });
});
