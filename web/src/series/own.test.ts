import { describe, expect, it } from "vitest";
import type { Chart } from "../server/api";
import { chartOf } from "../runs/fixtures";
import { combined, ownChart, quoteTag, readOwn, splitOutside } from "./own";

const chart = (tag: string, unit: string | null = null, split: Chart["split"] = null): Chart =>
  chartOf(tag, { section: "s", unit, lines: [{ tag, split }] });
const charts = [
  chart("train/loss", null, "train"),
  chart("eval/loss", null, "eval"),
  chart("step_time", "ms"),
  chart("grad-norm; a=b", null),
];

describe("a second axis", () => {
  const known = [
    ...charts,
    { ...chart("lr"), kind: "schedule" as const },
    { ...chart("loss"), kind: "loss" as const },
    chart("load", "ratio"),
  ];
  const rightOf = (text: string): string[] => [...(ownChart(text, known).right?.tags ?? [])];
  it("is of the tags in the other unit, or without one of another kind", () => {
    expect(rightOf("step_time; train/loss")).toEqual(["train/loss"]);
    expect(rightOf("train/loss; step_time; eval/loss")).toEqual(["step_time"]);
    expect(rightOf("loss; lr")).toEqual(["lr"]);
    expect(ownChart("train/loss; step_time", known).right).toMatchObject({ unit: "ms", kind: "other" });
    expect(ownChart("step_time; train/loss", known).unit).toBe("ms");
  });
  it("is not there where one axis is enough, nor where two are too few", () => {
    expect(rightOf("train/loss; eval/loss; train/loss - eval/loss")).toEqual([]);
    expect(rightOf("step_time; step_time * 2")).toEqual([]);
    expect(rightOf("step_time; loss; load")).toEqual([]);
    expect(ownChart("step_time; loss; load", known).unit).toBeNull();
  });
  it("leaves each tag its kind", () =>
    expect([...ownChart("loss; lr; loss * 2", known).kinds]).toEqual([
      ["loss", "loss"],
      ["lr", "schedule"],
    ]));
});

describe("own charts", () => {
  it("are one line or several, with or without a title", () => {
    expect(readOwn("a - b")).toEqual({ title: null, pattern: null, texts: ["a - b"] });
    expect(readOwn(" a; ema(b, 9) ;")).toEqual({ title: null, pattern: null, texts: ["a", "ema(b, 9)"] });
    expect(readOwn("a >= 3; b == 2").texts).toEqual(["a >= 3", "b == 2"]);
    expect(readOwn("High = a >= 3")).toEqual({ title: "High", pattern: null, texts: ["a >= 3"] });
    expect(readOwn("Gap = a - b")).toEqual({ title: "Gap", pattern: null, texts: ["a - b"] });
    expect(readOwn("~grad.*=2")).toEqual({ title: null, pattern: "grad.*=2", texts: [] });
    expect(readOwn("Norms = ~grad")).toEqual({ title: "Norms", pattern: "grad", texts: [] });
  });
  it("keep signs in quotes together", () => {
    expect(splitOutside('"a;b";c', ";")).toEqual(['"a;b"', "c"]);
    expect(splitOutside('"a\\";b";c', ";")).toEqual(['"a\\";b"', "c"]);
    expect(readOwn('"grad-norm; a=b"').texts).toEqual(['"grad-norm; a=b"']);
  });
  it("know which lines are tags", () => {
    const made = ownChart('train/loss; "grad-norm; a=b"; train/loss - eval/loss; nothing', charts);
    expect(made.lines).toEqual([
      { tag: "train/loss", split: "train" },
      { tag: "grad-norm; a=b", split: null },
      { tag: "train/loss - eval/loss", split: null, expression: true },
      { tag: "nothing", split: null, expression: true },
    ]);
  });
  it("take the unit that all lines share", () => {
    expect(ownChart("step_time", charts).unit).toBe("ms");
    expect(ownChart("step_time; step_time * 2", charts).unit).toBe(null);
    expect(ownChart("step_time * 2", charts).unit).toBe(null);
  });
  it("find tags by a regex, or say that it is none", () => {
    expect(ownChart("~LOSS$", charts).lines.map((line) => line.tag)).toEqual(["train/loss", "eval/loss"]);
    expect(ownChart("~(", charts).error).toMatch(/^Not a regex: /);
    expect(ownChart("~", charts).lines).toEqual([]);
  });
  it("are made of other charts", () => {
    expect(combined([charts[0]!, charts[3]!, charts[0]!])).toBe('train/loss; "grad-norm; a=b"');
    expect(combined([ownChart("a - b; c", charts), charts[1]!])).toBe("a - b; c; eval/loss");
    for (const tag of ["step", "1st", 'a"b\\', "a b", "a/b"])
      expect(ownChart(quoteTag(tag), [chart(tag)]).lines[0]!.tag).toBe(tag);
  });
});
