import { describe, expect, it } from "vitest";
import { runsQuery, sideOf, toggled } from "./sides";
import { between, groupAt, overlapOf, sideLine, tracksOf, valueAt } from "./sidelines";
import { chartOf, familyOf as family, lineOf, runOf } from "./fixtures";
import type { Chart } from "../server/api";

const same = (run: string): string => run;

describe("sides", () => {
  const names = ["a", "A", "with space", 'quo"te', "comma,comma", "star*", "back\\slash", "<img src=x>"];
  const families = names.map((name) => family(name));
  const all = families.map(({ main }) => main);
  it.each(names)("a query finds %s and no other", (name) => {
    expect(sideOf(runsQuery([name], all), families).map((one) => one.name)).toEqual([name]);
  });
  it("a query finds several at once", () => {
    expect(sideOf(runsQuery(names.slice(2), all), families).map((one) => one.name)).toEqual(names.slice(2));
    expect(runsQuery(["a", "b"], [runOf("a"), runOf("b")])).toBe("run:a,b");
  });
  it("archived runs are left out where they are not asked for", () => {
    const archived = [family("x", [runOf("x", { archived: true, state: "failed" })])];
    expect(sideOf("state:failed", archived)).toEqual([]);
    expect(sideOf("run:x", archived).length).toBe(1);
  });
  it("an empty query finds none", () => expect(sideOf(" ", families)).toEqual([]));
  it("a run is put on a side and taken off", () => {
    expect(toggled([family("a")], "b")).toEqual(["a", "b"]);
    expect(toggled([family("a"), family("b")], "a")).toEqual(["b"]);
  });
});

describe("tracks", () => {
  const chart = (lines: Chart["lines"]): Chart => chartOf("loss", { lines });
  it("train and eval are two series, and a plain tag beside them is that of the training", () => {
    const both = chart([
      { tag: "loss", split: null },
      { tag: "val_loss", split: "eval" },
    ]);
    const a = family("a", [runOf("a", { tags: ["loss", "val_loss"] })]);
    const b = family("b", [runOf("b", { tags: ["loss"] })]);
    const tracks = tracksOf([both], [a], [b]);
    expect(tracks.map(({ title, a, b }) => [title, a.length, b.length])).toEqual([
      ["loss (train)", 1, 1],
      ["loss (eval)", 1, 0],
    ]);
  });
  it("what neither records is not a series", () => {
    expect(tracksOf([chart([{ tag: "other", split: null }])], [family("a")], [family("b")])).toEqual([]);
  });
});

describe("side line", () => {
  it("one run is itself", () => {
    const side = sideLine([lineOf("a", [0, 10, 20], [3, 2, 1])], same)!;
    expect([[...side.x], [...side.mean], [...side.count], side.runs]).toEqual([
      [0, 10, 20],
      [3, 2, 1],
      [1, 1, 1],
      1,
    ]);
  });
  it("the mean is over the runs that have a value there", () => {
    const side = sideLine([lineOf("a", [0, 1, 2], [1, 1, 1]), lineOf("b", [0, 1], [3, 5])], same)!;
    expect([...side.mean]).toEqual([2, 3, 1]);
    expect([...side.low, ...side.high]).toEqual([1, 1, 1, 3, 5, 1]);
    expect([...side.count]).toEqual([2, 2, 1]);
    expect(groupAt(side, 1)).toEqual({ mean: 3, spread: Math.sqrt(8), count: 2, bad: 0 });
  });
  it("between its points a line is straight, beyond them it has no value", () => {
    const side = sideLine([lineOf("a", [0, 10], [0, 10]), lineOf("b", [5, 15], [0, 0])], same)!;
    expect([...side.x]).toEqual([0, 5, 10, 15]);
    expect([...side.mean]).toEqual([0, 2.5, 5, 0]);
    expect(valueAt([1, 2], [5, 6], 2.001)).toBeNaN();
    expect(valueAt([1, 2], [5, 6], 0.999)).toBeNaN();
  });
  it("writers of one run count as one", () => {
    const writers = [
      lineOf("a", [0, 1], [1, 1], { writer: "0" }),
      lineOf("a", [0, 1], [3, 3], { writer: "1" }),
      lineOf("b", [0, 1], [5, 5]),
    ];
    const side = sideLine(writers, same)!;
    expect([...side.mean, ...side.count]).toEqual([3.5, 3.5, 2, 2]);
  });
  it("a restart goes over what came before it", () => {
    const side = sideLine(
      [
        lineOf("a", [0, 1, 2, 3], [9, 9, 9, 9], { end: 2 }),
        lineOf("a", [2, 3, 4], [1, 1, 1], { attempt: 2 }),
      ],
      same,
    )!;
    expect([[...side.x], [...side.mean]]).toEqual([
      [0, 1, 2, 3, 4],
      [9, 9, 1, 1, 1],
    ]);
  });
  it("of one line in buckets keeps what they hold, over its attempts", () => {
    const bucket = (x: number[], y: number[], high: number[], extra = {}): ReturnType<typeof lineOf> =>
      lineOf("a", x, y, { first: values(y), low: values(y), high: values(high), ...extra });
    const values = (of: number[]): Float64Array => Float64Array.from(of);
    const attempts = [bucket([0, 10], [1, 2], [1, 70], { end: 1 }), bucket([10, 20], [3, 4], [3, 90])];
    attempts[1]!.attempt = 2;
    const { x, extremes } = sideLine(attempts, same)!;
    expect([[...x], [...extremes!.high], [...extremes!.low]]).toEqual([
      [0, 10, 20],
      [1, 3, 90],
      [1, 3, 4],
    ]);
    expect(sideLine([...attempts, lineOf("b", [0], [1])], same)!.extremes).toBeNull();
    expect(sideLine([lineOf("a", [0], [1])], same)!.extremes).toBeNull();
  });
  it("values that are not finite are left out of the mean and marked", () => {
    const side = sideLine(
      [lineOf("a", [0, 1], [1, NaN], { nonfinite: [1] }), lineOf("b", [0, 1], [3, 3])],
      same,
    )!;
    expect([...side.mean]).toEqual([2, 3]);
    expect([...side.count]).toEqual([2, 1]);
    expect(side.nonfinite).toEqual([1]);
  });
  it("lines at many places of their own are thinned, their ends kept", () => {
    const lines = [0, 1, 2].map((run) =>
      lineOf(
        String(run),
        Array.from({ length: 900 }, (_, at) => at + run / 3),
        Array.from({ length: 900 }, () => run),
      ),
    );
    const side = sideLine(lines, same)!;
    expect(side.x.length).toBe(1200);
    expect([side.x[0], side.x.at(-1)]).toEqual([0, 899 + 2 / 3]);
  });
  it("nothing is no line", () => expect(sideLine([], same)).toBeNull());
});

describe("both sides", () => {
  const a = sideLine([lineOf("a", [0, 10], [0, 10])], same)!;
  const b = sideLine([lineOf("b", [5, 20], [1, 1])], same)!;
  it("overlap where both have values", () => expect(overlapOf(a, b)).toEqual([5, 10]));
  it("disjoint steps do not overlap, and nothing lies between", () => {
    const later = sideLine([lineOf("c", [11, 20], [1, 1])], same)!;
    expect(overlapOf(a, later)).toBeNull();
    expect(between(a, later).x).toEqual([]);
    expect(groupAt(a, 5)).toEqual({ mean: 5, spread: null, count: 1, bad: 0 });
    expect(groupAt(later, 5)).toEqual({ mean: NaN, spread: null, count: 0, bad: 0 });
    expect(groupAt(null, 5).count).toBe(0);
  });
  it("the band between has both values at every place of either", () => {
    expect(between(a, b)).toEqual({ x: [5, 10], a: [5, 10], b: [1, 1] });
  });
});
