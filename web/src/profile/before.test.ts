import { describe, expect, it } from "vitest";
import type { Mark } from "../chart/model";
import { beforeOnset, bothAfter } from "./before";

const capture = (step: number): Mark => ({ step, kind: "capture", text: "", path: `run/profiles/${step}` });
const MARKS: Mark[] = [
  ...[100, 400, 700, 900].map(capture),
  { step: 660, kind: "onset", text: "Data wait", path: null },
];
const path = (step: number): string => `run/profiles/${step}/rank0.json`;
const PATHS = [100, 400, 700, 900].map(path);

describe("what a profile is compared with", () => {
  it("is the last one before the onset, not the slow one before it", () =>
    expect(beforeOnset(MARKS, path(900), PATHS)).toBe(path(400)));
  it("is left open where the profile itself lies before, or no onset or no capture is known", () => {
    expect(beforeOnset(MARKS, path(400), PATHS)).toBeNull();
    expect(beforeOnset(MARKS.slice(0, 4), path(900), PATHS)).toBeNull();
    expect(beforeOnset(MARKS, "other.json", PATHS)).toBeNull();
    expect(beforeOnset(MARKS, path(900), [path(700), "other.json"])).toBeNull();
  });
  it("says where both were captured after the onset", () => {
    expect(bothAfter(MARKS, path(700), path(900))?.step).toBe(660);
    expect(bothAfter(MARKS, path(400), path(900))).toBeNull();
    expect(bothAfter(MARKS, path(900), "other.json")).toBeNull();
  });
});
