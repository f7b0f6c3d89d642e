import { describe, expect, it } from "vitest";
import { lineOf } from "../runs/fixtures";
import { sideLine, type SideLine, type Track } from "../runs/sidelines";
import { ghosted, styledSide } from "./lines";

const track = { chart: { title: "loss" }, split: null } as unknown as Track;
const look = { name: "A", label: "A, run", colour: "#000" } as const;
const column = (...values: number[]): Float64Array => Float64Array.from(values);
/** Two places of many steps each; the second holds a spike. */
const places = (run: string): ReturnType<typeof lineOf> =>
  lineOf(run, [50, 150], [2, 1], { first: column(3, 2), low: column(2, 1), high: column(3, 900) });
const side = (...runs: string[]): SideLine => sideLine(runs.map(places), (run) => run)!;

describe("a side", () => {
  it("of one run shows all that its places hold, smoothed or not", () => {
    const recorded = side("a");
    for (const shown of [recorded, { ...recorded, mean: column(2, 1.5) }]) {
      const line = styledSide(shown, recorded, track, look);
      expect([line.first, line.low, line.high].map((one) => [...one!])).toEqual([
        [3, 2],
        [2, 1],
        [3, 900],
      ]);
      expect([line.smoothed, [...line.raw]]).toEqual([shown !== recorded, [2, 1]]);
    }
  });
  it("of several runs has the range of their means, without first values", () => {
    const several = side("a", "b");
    const line = styledSide(several, several, track, look);
    expect([line.first, [...line.low!], [...line.high!]]).toEqual([null, [2, 1], [2, 1]]);
  });
  it("whose every point is drawn has nothing to add", () => {
    const raw = sideLine([lineOf("a", [0, 1], [2, 1])], (run) => run)!;
    expect(styledSide(raw, raw, track, look).low).toBeNull();
  });
});

describe("recorded values behind smoothed ones", () => {
  it("are those of a single run", () => {
    expect(ghosted(side("a"), side("a", "b"))).toBe(true);
    expect(ghosted(null, side("a", "b"))).toBe(false);
  });
});
