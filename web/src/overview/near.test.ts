import { describe, expect, it } from "vitest";
import type { Capture } from "../server/api";
import { nearest } from "./near";

const capture = (
  rank: number,
  steps: number[],
  path: string | null = `p${rank}-${steps[0]}`,
  format = "kineto",
): Capture => ({ rank, steps, path, format }) as unknown as Capture;

describe("the nearest profile", () => {
  const all = [
    capture(0, [400, 401]),
    capture(3, [100]),
    capture(0, [90], null),
    capture(0, [210], "m", "memory_snapshot"),
  ];

  it("is of the step that is least away", () => {
    expect(nearest(all, 395, null)).toMatchObject({ path: "p0-400", step: 400, away: 5 });
    expect(nearest(all, 120, null)).toMatchObject({ path: "p3-100", step: 100, away: 20 });
  });

  it("is of the rank that is asked for, and not from before a step", () => {
    expect(nearest(all, 120, 0)).toMatchObject({ step: 400 });
    expect(nearest(all, 120, null, 110)).toMatchObject({ step: 400 });
  });

  it("is none where nothing was captured, failed captures and snapshots aside", () => {
    expect(nearest(all, 90, 7)).toBeNull();
    expect(nearest([], 1, null)).toBeNull();
  });
});
