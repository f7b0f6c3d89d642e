import { describe, expect, it } from "vitest";
import { openingOf, recordedSteps, stepBeside, stepName, stepsName, stepsOf, stepsText } from "./steps";

const recorded = [5, 6, 7, 8, 20];

describe("steps", () => {
  it("are numbers and ranges of those recorded", () => {
    expect(stepsOf("", recorded)).toEqual(recorded);
    expect(stepsOf("6-8", recorded)).toEqual([6, 7, 8]);
    expect(stepsOf("5, 8-30", recorded)).toEqual([5, 8, 20]);
    expect(stepsOf("9-19", recorded)).toBeNull();
    expect(stepsOf("x", recorded)).toBeNull();
    expect(stepsOf("8-6", recorded)).toBeNull();
  });

  it("are written as short as they can be, and read back", () => {
    expect(stepsText([6, 7, 8], recorded)).toBe("6-8");
    expect(stepsText([5, 8, 20], recorded)).toBe("5,8-20");
    expect(stepsText(recorded, recorded)).toBe("");
    for (const chosen of [[5], [5, 7], [6, 7, 20]])
      expect(stepsOf(stepsText(chosen, recorded), recorded)).toEqual(chosen);
  });

  it("have a name", () => {
    expect(stepsName("", recorded)).toBe("All 5 steps");
    expect(stepsName("7", recorded)).toBe("Step 7");
    expect(stepsName("5-7", recorded)).toBe("Steps 5–7");
    expect(stepsName("99", recorded)).toBe("Steps 99, not recorded");
    expect(stepsName("", [])).toBe("No steps marked");
    expect(stepsName("", [3])).toBe("Step 3");
    expect(stepsName("1200", [1200, 1201])).toBe("Step 1,200");
  });

  it("are walked one by one, from either end of a choice", () => {
    expect(stepBeside("", recorded, 1)).toBe("5");
    expect(stepBeside("", recorded, -1)).toBe("20");
    expect(stepBeside("8", recorded, 1)).toBe("20");
    expect(stepBeside("20", recorded, 1)).toBe("20");
    expect(stepBeside("5-7", recorded, 1)).toBe("7");
    expect(stepBeside("5-7", recorded, -1)).toBe("5");
  });
});

describe("recorded steps", () => {
  it("count one that several ranks recorded as one", () => {
    const of = (number: number, rank: number): { number: number; rank: number } => ({ number, rank });
    expect(recordedSteps([of(10, 0), of(10, 1), of(10, 2)])).toBe("1 step of 3 ranks");
    expect(recordedSteps([of(3, 0), of(4, 0)])).toBe("2 steps");
  });
});

describe("a step's name", () => {
  it("has its rank where there are several, and no number where none was marked", () => {
    expect(stepName({ number: 4, rank: 0 }, [0])).toBe("Step 4");
    expect(stepName({ number: 4, rank: 1 }, [0, 1])).toBe("Step 4, rank 1");
    expect(stepName({ number: -1, rank: 0 }, [0])).toBe("Everything that was recorded");
  });
});

describe("a timeline opens with", () => {
  const step = (number: number, start_ns: number, wall_ns: number): Parameters<typeof openingOf>[0][0] => ({
    number,
    start_ns,
    wall_ns,
  });
  it("its last step where most of the time lies between steps", () => {
    expect(openingOf([step(6, 0, 100), step(8, 10_000, 200), step(7, 5_000, 100)], [0, 10_200])).toEqual([
      9_990, 10_200,
    ]);
    // Of all ranks, as far as the slowest.
    expect(openingOf([step(6, 0, 10), step(7, 900, 20), step(7, 905, 40)], [0, 1000])).toEqual([
      897.75, 947.25,
    ]);
  });
  it("all of it otherwise", () => {
    expect(openingOf([step(6, 0, 100), step(7, 120, 100)], [0, 220])).toBeNull();
    expect(openingOf([step(6, 500, 10)], [0, 1000])).toBeNull();
    expect(openingOf([], [0, 1000])).toBeNull();
  });
});
