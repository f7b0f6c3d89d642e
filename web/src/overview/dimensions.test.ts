import { describe, expect, it } from "vitest";
import type { Family } from "../runs/catalog";
import {
  axisOf,
  dimensionOf,
  placeAt,
  correlationsOf,
  discs,
  rankCorrelation,
  readBrush,
  shownAsIs,
  wide,
  withUnit,
  within,
  writeBrush,
  type Dimension,
  type Axis,
} from "./dimensions";
import { runOf } from "../runs/fixtures";

const family = (name: string, config: Record<string, unknown>): Family => {
  const main = runOf(name, { config });
  return { name, main, runs: [main] };
};
const families = [
  family("a", { lr: 1e-3, opt: "adam", on: true }),
  family("b", { lr: 1e-1, opt: "sgd", on: false }),
  family("c", { lr: -1, opt: "adam" }),
  family("d", {}),
];
const none = (): null => null;
const of = (field: string, metric = none as (chart: string, family: Family) => number | null) =>
  dimensionOf(field, field, shownAsIs(null), families, metric);

describe("axes", () => {
  it("numbers lie by value, and what has none has no place", () => {
    const axis = axisOf(of("config:lr"), false, 5);
    expect([axis.named, axis.place("a"), axis.place("d"), axis.share("d")]).toEqual([
      false,
      1e-3,
      null,
      null,
    ]);
    expect(axis.share("b")!).toBeGreaterThan(axis.share("a")!);
    expect(axis.share("c")!).toBeGreaterThan(0);
    expect(placeAt(axis, axis.share("b")!)).toBeCloseTo(0.1, 12);
  });
  it("a logarithmic axis has no place for what is not positive", () => {
    const axis = axisOf(of("config:lr"), true, 5);
    expect(axis.place("c")).toBeNull();
    expect(placeAt(axis, axis.share("a")!)).toBeCloseTo(1e-3, 12);
    expect(axis.ticks.map(({ label }) => label)).toEqual(["0.001", "0.1"]);
  });
  it("many values have round ticks", () => {
    const many = Array.from({ length: 30 }, (_, at) => family(String(at), { x: 0.137 * at }));
    const { ticks } = axisOf(dimensionOf("config:x", "", shownAsIs(null), many, none), false, 6);
    expect(ticks.map(({ label }) => label)).toEqual(["0", "1", "2", "3", "4"]);
  });
  it("names lie beside each other, truth values are names", () => {
    const axis = axisOf(of("config:opt"), true, 5);
    expect([axis.named, axis.log, axis.share("a"), axis.share("b"), axis.share("d")]).toEqual([
      true,
      false,
      0.25,
      0.75,
      null,
    ]);
    expect(axisOf(of("config:on"), false, 5).ticks.map(({ label }) => label)).toEqual(["False", "True"]);
  });
  it("metrics that are not finite have no place, one value alone has", () => {
    const axis = axisOf(
      of("metric:loss", (_, { name }) => (name === "a" ? NaN : name === "b" ? 2 : null)),
      false,
      5,
    );
    expect(axis.place("a")).toBeNull();
    expect(axis.share("b")).toBeCloseTo(0.5);
    expect(axis.values.size).toBe(2);
  });
  it("nothing at all is an axis too", () => expect(axisOf(of("metric:x"), false, 5).share("a")).toBeNull());
  it("values over a factor of ten ask for a logarithm", () => {
    expect(wide(dimensionOf("config:lr", "", shownAsIs(null), families.slice(0, 2), none))).toBe(true);
    expect(wide(of("config:lr"))).toBe(false);
    expect(wide(of("config:opt"))).toBe(false);
  });
});

describe("brushes", () => {
  const axes = [axisOf(of("config:lr"), false, 5), axisOf(of("config:opt"), false, 5)];
  const runs = families.map(({ name }) => name);
  it("keep the runs within all of them", () => {
    expect(within(runs, [{ field: "config:lr", low: 0, high: 1 }], axes)).toEqual(["a", "b"]);
    expect(
      within(
        runs,
        [
          { field: "config:lr", low: 0, high: 1 },
          { field: "config:opt", low: -0.5, high: 0.5 },
        ],
        axes,
      ),
    ).toEqual(["a"]);
    expect(within(runs, [], axes)).toEqual(runs);
  });
  it("of an axis that is not shown choose nothing", () =>
    expect(within(runs, [{ field: "config:gone", low: 0, high: 1 }], axes)).toEqual(runs));
  it.each([
    { field: "config:a b", low: -1.5, high: 2e-7 },
    { field: "metric:x,y 1 2", low: 3, high: 3 },
  ])("are written and read", (brush) => {
    expect(readBrush(writeBrush(brush))).toEqual(brush);
  });
  it.each(["", "x", "x 1", "x b c", "x 3 1"])("%s is none", (text) => expect(readBrush(text)).toBeNull());
});

describe("rank correlation", () => {
  const axis = (values: (number | null)[]) =>
    axisOf(
      dimensionOf(
        "metric:x",
        "",
        shownAsIs(null),
        families,
        (_, { name }) => values["abcd".indexOf(name)] ?? null,
      ),
      false,
      5,
    );
  const runs = ["a", "b", "c", "d"];
  it("is 1 for one order, −1 for the other, however far apart", () => {
    expect(rankCorrelation(axis([1, 2, 3, 4]), axis([1, 10, 100, 1e6]), runs)).toBeCloseTo(1);
    expect(rankCorrelation(axis([1, 2, 3, 4]), axis([4, 3, 2, 1]), runs)).toBeCloseTo(-1);
  });
  it("shares ranks of equal values", () =>
    expect(rankCorrelation(axis([1, 2, 2, 3]), axis([1, 2, 3, 4]), runs)).toBeCloseTo(0.9487, 4));
  it("is not told by fewer than three, or by what does not vary", () => {
    expect(rankCorrelation(axis([1, 2, null, null]), axis([1, 2, 3, 4]), runs)).toBeNull();
    expect(rankCorrelation(axis([1, 1, 1, 1]), axis([1, 2, 3, 4]), runs)).toBeNull();
  });
});

describe("units of axes", () => {
  const waits: Dimension = {
    field: "metric:a",
    label: "a",
    unit: "ms",
    measure: { factor: 1000, unit: "µs" },
    values: new Map([
      ["a", 0.01],
      ["b", 0.034],
    ]),
  };
  it("stand beside the name", () =>
    expect([waits, { ...waits, ...shownAsIs(null) }].map(withUnit)).toEqual(["a, µs", "a"]));
  it("are those in which the metric is shown everywhere; places stay as recorded", () => {
    const axis = axisOf(waits, false, 6);
    expect(axis.ticks.map(({ label }) => label)).toEqual(["10", "34"]);
    expect(axis.place("b")).toBe(0.034);
  });
});

describe("dots of one colour", () => {
  it("are one path, with one dot where several lie on a pixel, and none without a place", () => {
    const path = discs([[10, 20], [10.2, 19.9], null, [30, 20]], 2);
    expect(path.match(/M[^a]+/g)).toEqual(["M8 20", "M28 20"]);
    expect(discs([null], 2)).toBe("");
  });

  it("have the same correlation whichever axes were compared before", () => {
    const runs = ["a", "b", "c", "d"];
    const axis = (values: (number | null)[]): Axis =>
      axisOf(
        {
          field: "f",
          label: "f",
          ...shownAsIs(null),
          values: new Map(runs.flatMap((run, at) => (values[at] === null ? [] : [[run, values[at]!]]))),
        },
        false,
        5,
      );
    const [rising, gappy, falling] = [axis([1, 2, 3, 4]), axis([9, null, 5, 7]), axis([4, 3, 2, 1])];
    const of = correlationsOf(runs);
    expect(of(rising, gappy)).toBeCloseTo(-0.5);
    expect(of(rising, falling)).toBeCloseTo(-1);
    expect(of(gappy, falling)).toBeCloseTo(0.5);
  });
});
