import { describe, expect, it, test } from "vitest";
import type { Chart } from "../server/api";
import { lineOf } from "../runs/fixtures";
import type { Trend } from "../runs/trend";
import { partsOf, stepCharts, stepTimeBefore, stepTimeOf } from "./steptime";

const chart = (id: string): Chart => ({ id, unit: "ms" }) as unknown as Chart;
const charts = { time: chart("time"), wait: chart("wait") };
const steps = Array.from({ length: 20 }, (_, at) => at * 10);
function trends(time: (step: number) => number, wait: (step: number) => number): (id: string) => Trend {
  return (id) => {
    const value = id === "time" ? time : wait;
    return { line: lineOf("a", steps, steps.map(value)), last: 0, lastStep: 190 };
  };
}
const slow = trends(
  (step) => (step === 0 ? 1500 : step < 100 ? 10 : 36),
  (step) => (step < 100 ? 0.5 : 26),
);

describe("what a step took before", () => {
  it("is the median before the onset: one step that compiles does not count", () =>
    expect(stepTimeBefore(charts, slow, 100, { step: 0.036, wait: 0.026 })).toEqual({
      step: 0.01,
      wait: 0.0005,
    }));
  it("is not said of a step that takes no longer than then", () => {
    expect(stepTimeBefore(charts, slow, 100, { step: 0.0102, wait: 0 })).toBeNull();
    expect(stepTimeBefore(charts, slow, 100, { step: 0.002, wait: 0 })).toBeNull();
  });
  it("is not said where hardly anything was recorded before", () =>
    expect(stepTimeBefore(charts, slow, 15, { step: 0.036, wait: 0.026 })).toBeNull());
});

test("the charts are found by their role, in a unit of time", () => {
  const of = (id: string, role: Chart["role"], unit: string | null): Chart =>
    ({ id, role, unit }) as unknown as Chart;
  const [time, wait] = [of("b", "step_time", "s"), of("c", "data_wait", "ms")];
  expect(stepCharts([of("a", "step_time", null), time, of("d", "loss", null), wait])).toEqual({ time, wait });
  expect(stepCharts([of("d", "loss", null)])).toEqual({});
});

describe("what a step takes now", () => {
  it("is the median of the newest: one that was slow does not count", () =>
    expect(
      stepTimeOf(
        charts,
        trends(
          (step) => (step === 180 ? 3500 : 2),
          () => NaN,
        ),
      ),
    ).toEqual({ step: 0.002, wait: null }));
  it("follows where all that are new are slower", () =>
    expect(stepTimeOf(charts, slow)!.step).toBeCloseTo(0.036));
});

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
