import { describe, expect, it } from "vitest";
import { lineOf } from "./fixtures";
import { sparkPath, trendsOf } from "./trend";
import { EVAL_DASH, styledLines } from "../chart/lines";
import { slotStroke } from "../theme/colour";
import type { Palette } from "../theme/palette";
import type { DecodedChart } from "../server/wire";

const decoded = (lines: object[]): DecodedChart =>
  ({
    id: "c",
    mode: "raw",
    x_values: null,
    lines: lines.map((line) => ({
      run: "a",
      tag: "loss",
      split: null,
      writer: "w",
      attempt: 1,
      superseded_from: null,
      points: 2,
      nonfinite: 0,
      last: { step: 1, wall: 0, value: 1 },
      columns: { x: Float64Array.of(0, 1), value: Float64Array.of(2, 1) },
      ...line,
    })),
  }) as unknown as DecodedChart;

describe("trends", () => {
  const own = (run: string): string => run.split("/")[0]!;
  it("speak for the evaluation, the newest attempt, the first writer", () => {
    const trends = trendsOf(
      decoded([
        { last: { step: 1, wall: 0, value: 5 } },
        { run: "a/eval", split: "eval", last: { step: 1, wall: 0, value: 7 } },
        { run: "a/eval", split: "eval", attempt: 2, last: { step: 9, wall: 0, value: 8 } },
        { run: "a/eval", split: "eval", writer: "x", attempt: 3, last: { step: 1, wall: 0, value: 9 } },
      ]),
      own,
    );
    expect(trends.get("a")).toMatchObject({ last: 8, lastStep: 9 });
  });
  it("keep a last value that is not finite", () =>
    expect(trendsOf(decoded([{ last: { step: 1, wall: 0, value: "NaN" } }]), own).get("a")!.last).toBeNaN());
  it("are drawn within their box", () => {
    const path = sparkPath(lineOf("a", [0, 5, 10], [1, NaN, 3]), 0, 10, 46, 20);
    expect(path).toBe("M0.0 19.0L46.0 1.0");
    expect(sparkPath(lineOf("a", [0, 1], [NaN, NaN]), 0, 1, 46, 20)).toBe("");
  });
});

describe("looks of lines", () => {
  const palette = { series: ["1", "2", "3", "4", "5", "6", "7", "8"], neutral: "grey" } as Palette;
  const looks = {
    familyOf: (run: string) => run.split("/")[0]!,
    titleOf: (name: string) => name,
    strokeOf: () => slotStroke(9),
    palette,
    strong: new Set<string>(),
    byTag: false,
    band: null,
    width: 300,
  };

  it("draw the evaluation of one run dashed and in ink, its training in the colour of the run", () => {
    const lines = styledLines(decoded([{}, { run: "a/eval", split: "eval" }]), { ...looks, single: true });
    expect(lines[1]!.colour).toBe(palette.fg);
    expect(lines[0]!.colour).toBe(palette.series[slotStroke(9).series - 1]);
    expect(lines.map(({ dash }) => dash)).toEqual([[], EVAL_DASH]);
    expect(lines.map(({ label }) => label)).toEqual(["train", "eval"]);
    expect(lines.map(({ dots }) => dots)).toEqual([true, true]);
  });
  it("give the writers of one run a colour each", () => {
    const lines = styledLines(decoded([{ writer: "rank 0" }, { writer: "rank 1" }]), {
      ...looks,
      single: true,
    });
    expect(new Set(lines.map(({ colour }) => colour)).size).toBe(2);
    expect(lines.map(({ label }) => label)).toEqual(["rank 0", "rank 1"]);
  });
  it("keep a run's colour among many and dot its evaluation", () => {
    const lines = styledLines(decoded([{}, { run: "a/eval", split: "eval" }]), { ...looks, single: false });
    expect(new Set(lines.map(({ colour }) => colour)).size).toBe(1);
    expect(lines[0]!.dash).not.toEqual(lines[1]!.dash);
    expect(lines[1]!.label).toBe("a · eval");
  });
});
