import { describe, expect, it } from "vitest";
import { age, clock, duration, durationLabels, exact, wallLabels } from "./time";

const G = "\u00a0";

describe("durations", () => {
  it.each([
    [0, `0${G}s`],
    [0.168, `168${G}ms`],
    [0.0046, `4.60${G}ms`],
    [4e-5, `40.0${G}µs`],
    [1.26, `1.26${G}s`],
    [9.996, `10.0${G}s`],
    [59.9, `59.9${G}s`],
    [59.96, `1${G}min`],
    [89.9, `1${G}min 30${G}s`],
    [3599.9, `1${G}h`],
    [86399, `1${G}d`],
    [782, `13${G}min 2${G}s`],
    [600, `10${G}min`],
    [16_020, `4${G}h 27${G}min`],
    [90_000, `1${G}d 1${G}h`],
    [null, "–"],
  ])("%s s reads %s", (seconds, text) => expect(duration(seconds)).toBe(text));
  it("has one unit in ages", () => expect(age(200)).toBe(`3${G}min`));
  it("never counts an age below zero, as clocks differ", () => expect(age(-3)).toBe(`0.0${G}s`));
  it("labels axes of wall time in 24 hours, with the date at midnight", () => {
    const at = (...parts: [number, number, number, number, number]): number =>
      new Date(...parts).getTime() / 1e3;
    expect(wallLabels([at(2026, 10, 21, 23, 30), at(2026, 10, 22, 0, 0)], 1800)).toEqual(["23:30", "22 Nov"]);
    expect(wallLabels([at(2026, 10, 21, 23, 30)], 10)).toEqual(["23:30:00"]);
    expect(exact(at(2026, 10, 1, 7, 5))).toBe("2026-11-01 07:05:00");
    expect(clock(at(2026, 10, 1, 7, 5), at(2026, 10, 1, 9, 0))).toBe("07:05");
    expect(clock(at(2025, 10, 1, 7, 5), at(2026, 10, 1, 9, 0))).toBe("1 Nov 2025 07:05");
  });
  it("labels axes", () =>
    expect(durationLabels([0, 1800, 3600], 1800)).toEqual(["0", `30${G}min`, `1${G}h`]));
});
