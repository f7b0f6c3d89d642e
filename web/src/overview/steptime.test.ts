import { describe, expect, it } from "vitest";
import { findingOf } from "../runs/fixtures";
import type { RunFindings } from "../server/api";
import { paceOf, partsOf } from "./steptime";

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

describe("the time of a step", () => {
  const newest = { seconds: 0.21, wait_s: 0.034 };
  const jump = { step: 320, seconds: 0.06, wait_s: 0.001 };
  const open = (rule: string, values: Record<string, number>, extra: object = {}): RunFindings =>
    ({ findings: [findingOf({ rule, values, since_step: 330, ...extra })] }) as unknown as RunFindings;
  const waits = { step_ms: 255, wait_ms: 50.7 };

  it("is that of the newest steps while nothing is found about it", () => {
    expect(paceOf(newest, null, jump)).toEqual({ ...newest, window: "median of the newest", before: jump });
    const closed = open("data-wait", waits, { closed_step: 400 });
    expect(paceOf(newest, closed, null)!.window).toBe("median of the newest");
    expect(paceOf(null, open("data-wait", waits), null)).toBeNull();
  });
  it("is what an open finding says of it, with its wait", () => {
    const pace = paceOf(newest, open("data-wait", waits), null)!;
    expect([pace.window, pace.waited]).toEqual(["mean since step 330", undefined]);
    expect([pace.seconds, pace.wait_s]).toEqual([expect.closeTo(0.255, 9), expect.closeTo(0.0507, 9)]);
  });
  it("that became longer keeps its share of waiting, and was what the finding says", () => {
    const pace = paceOf(newest, open("slower-steps", { before_ms: 59, after_ms: 420 }), jump)!;
    expect([pace.window, pace.waited]).toEqual(["usual since step 330", "median of the newest"]);
    const without = paceOf(
      { ...newest, wait_s: null },
      open("slower-steps", { before_ms: 59, after_ms: 420 }),
      null,
    );
    expect(without!.waited).toBeUndefined();
    expect([pace.seconds, pace.wait_s]).toEqual([expect.closeTo(0.42, 9), expect.closeTo(0.068, 9)]);
    expect(pace.before).toEqual({ step: 330, seconds: expect.closeTo(0.059, 9), wait_s: 0.001 });
  });
});
