import { describe, expect, it } from "vitest";
import type { RecordAnswer, RecordSeries } from "./api";
import { blobAddress, historyOf } from "./records";

const series = (
  attempt: number,
  steps: readonly number[],
  more: Partial<RecordSeries> = {},
): RecordSeries => ({
  writer: "host",
  attempt,
  total: steps.length,
  values: steps.map((step, at) => ({ at, step, wall: attempt * 100 + step })),
  ...more,
});
const answer = (...given: RecordSeries[]): RecordAnswer => ({
  run: "r",
  tag: "t",
  kind: "histogram",
  series: given,
});
const stepsOf = (...given: RecordSeries[]): [number, number][] =>
  historyOf(answer(...given))!.values.map(({ attempt, step }) => [attempt, step]);

describe("what a tag holds over all attempts", () => {
  it("goes on where a run was resumed", () => {
    expect(stepsOf(series(1, [0, 10]), series(2, [20, 30]))).toEqual([
      [1, 0],
      [1, 10],
      [2, 20],
      [2, 30],
    ]);
  });

  it("is the later attempt's where both recorded a step", () => {
    const first = series(1, [0, 10, 20], { superseded_from: 10, superseded: 2 });
    expect(stepsOf(first, series(2, [10, 20]))).toEqual([
      [1, 0],
      [2, 10],
      [2, 20],
    ]);
    expect(historyOf(answer(first, series(2, [10, 20])))!.total).toBe(3);
  });

  it("is that of the writer of the newest attempt", () => {
    expect(stepsOf(series(1, [0], { writer: "other" }), series(1, [1]))).toEqual([[1, 1]]);
    expect(historyOf(answer())).toBeNull();
  });

  it("asks for bytes of the attempt that holds them", () => {
    const { values } = historyOf(answer(series(1, [0]), series(2, [5, 6])))!;
    expect(values.map((value) => blobAddress("r", "t", value, 0).split("?")[1])).toEqual([
      "run=r&tag=t&writer=host&attempt=1&at=0&index=0",
      "run=r&tag=t&writer=host&attempt=2&at=0&index=0",
      "run=r&tag=t&writer=host&attempt=2&at=1&index=0",
    ]);
  });
});
