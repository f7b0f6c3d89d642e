import { describe, expect, it } from "vitest";
import type { Mark } from "../chart/model";
import { bothAfter, defaultOther } from "./before";

const capture = (step: number): Mark => ({ step, kind: "capture", text: "", path: `run/profiles/${step}` });
const MARKS: Mark[] = [
  ...[100, 400, 700, 900].map(capture),
  { step: 660, kind: "onset", text: "Data wait", path: null },
];
const path = (step: number): string => `run/profiles/${step}/rank0.json`;
const PATHS = [100, 400, 700, 900].map(path);

describe("what a profile is compared with", () => {
  it("is the last one before the onset, not the slow one before it", () =>
    expect(defaultOther(MARKS, path(900), PATHS)).toBe(path(400)));
  it("is the one before where no onset or no capture is known, or none from before is left", () => {
    expect(defaultOther(MARKS, path(400), PATHS)).toBe(path(100));
    expect(defaultOther(MARKS.slice(0, 4), path(900), PATHS)).toBe(path(700));
    expect(defaultOther(MARKS, "b.json", ["a.json", "b.json"])).toBe("a.json");
    expect(defaultOther(MARKS, path(900), [path(700), path(900)])).toBe(path(700));
  });
  it("is none for the first one, and for one beside the runs", () => {
    expect(defaultOther(MARKS, path(100), PATHS)).toBeNull();
    expect(defaultOther(MARKS, "other.json", PATHS)).toBeNull();
  });
  it("is none of a slow step as long as there is a usual one", () => {
    const slow = MARKS.map((mark) => ([400, 700].includes(mark.step) ? { ...mark, slow: true } : mark));
    expect(defaultOther(slow, path(900), PATHS)).toBe(path(100));
    expect(defaultOther(slow.slice(0, 4), path(900), PATHS)).toBe(path(100));
    expect(defaultOther(slow, path(700), [path(400), path(700), path(900)])).toBe(path(900));
    expect(defaultOther(slow, path(700), [path(400), path(700)])).toBe(path(400));
  });
  it("says where both were captured after the onset", () => {
    expect(bothAfter(MARKS, path(700), path(900))?.step).toBe(660);
    expect(bothAfter(MARKS, path(400), path(900))).toBeNull();
    expect(bothAfter(MARKS, path(900), "other.json")).toBeNull();
  });
});
