import { describe, expect, it } from "vitest";
import { partsOf } from "./steptime";

describe("stages as parts of a step", () => {
  const of = (stages: Record<string, number>): Parameters<typeof partsOf>[0] => ({
    run: "a",
    stages: Object.keys(stages),
    mean_s: Object.values(stages),
    steps: 50,
  });
  it.each([
    [
      "they share what is left beside the wait",
      of({ data: 9, forward: 1, backward: 2, rest: 1 }),
      0.4,
      [0.1, 0.2, 0.1],
    ],
    ["one that took no time is none", of({ forward: 3, sync: 0, rest: 1 }), 4, [3, 1]],
    ["none is known", of({}), 1, []],
    ["not asked yet", null, 1, []],
  ])("%s", (_, stages, seconds, expected) => {
    expect(partsOf(stages, seconds).map((part) => part.value)).toEqual(
      expected.map((value) => expect.closeTo(value, 9)),
    );
  });
  it("names them as the page does", () => {
    expect(partsOf(of({ forward: 1, rest: 1 }), 1).map((part) => part.name)).toEqual([
      "Forward",
      "Rest of the step",
    ]);
  });
});
