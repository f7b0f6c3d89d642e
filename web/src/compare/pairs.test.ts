import { describe, expect, it } from "vitest";
import type { Capture, ProfileEntry } from "../server/api";
import { pairOf, takenOf, takenText, unlike, type Taken } from "./pairs";

const taken = (path: string, cause: string | null, ...steps: number[]): Taken => ({ path, cause, steps });

describe("the pair that is compared first", () => {
  it("is of usual steps though a slow one came later", () =>
    expect(
      pairOf(
        [taken("a3", "slow step", 900), taken("a1", "schedule", 100)],
        [taken("b9", "slow step", 700), taken("b1", "schedule", 100)],
      ),
    ).toEqual(["a1", "b1"]));
  it("is of the same steps, else the newest of both", () => {
    const a = [taken("a2", "schedule", 200), taken("a1", "schedule", 100)];
    expect(pairOf(a, [taken("b1", "request", 100)])).toEqual(["a1", "b1"]);
    expect(pairOf(a, [taken("b3", "schedule", 300), taken("b0", "schedule", 50)])).toEqual(["a2", "b3"]);
  });
  it("is of two unusual ones rather than of one", () =>
    expect(
      pairOf([taken("a2", "schedule", 1), taken("a1", "slow step", 2)], [taken("b1", "slow step", 3)]),
    ).toEqual(["a1", "b1"]));
  it("is the newest where nothing is known, and none where one side has none", () => {
    expect(pairOf([taken("a2", null), taken("a1", null)], [taken("b2", null), taken("b1", null)])).toEqual([
      "a2",
      "b2",
    ]);
    expect(pairOf([], [taken("b", null)])).toEqual(["", "b"]);
  });
});

it("finds the capture of a file and of a folder of ranks", () => {
  const entry = (path: string) => ({ path }) as ProfileEntry;
  const capture = (path: string, step: number) =>
    ({ path, steps: [step], cause: "schedule" }) as unknown as Capture;
  expect(
    takenOf(
      [entry("r/profiles/x"), entry("r/y.json"), entry("r/yy")],
      [capture("r/profiles/x/rank0.json", 4), capture("r/y.json", 5)],
    ).map(({ steps }) => steps),
  ).toEqual([[4], [5], []]);
});

it("says that steps are unusual only where they are", () => {
  const [usual, slow, alert] = [
    taken("a", "schedule", 1),
    taken("b", "slow step", 2),
    taken("c", "alert", 3),
  ];
  expect(unlike(usual, usual)).toBe("");
  expect(unlike(usual, taken("d", null))).toBe("");
  expect(unlike(undefined, slow)).toBe("");
  expect(unlike(usual, slow)).toBe(
    "B was captured for a slow step, so its steps are not the run's usual ones",
  );
  expect(unlike(alert, usual)).toBe("A was captured for an alert, so its steps are not the run's usual ones");
  expect(unlike(alert, slow)).toContain("Both were captured for something unusual");
});

it("names a profile by its steps and why it was captured", () => {
  expect(takenText(taken("a", "schedule", 4, 5, 6))).toBe("steps 4–6, schedule");
  expect(takenText(taken("a", null))).toBe("");
});
