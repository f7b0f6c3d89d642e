import { describe, expect, it } from "vitest";
import { endingOf } from "./finite";
import { change, factorText, valuesIn, type Histogram } from "./histograms";
import { columnsOf, placeOf, stepsOf, stepTicks } from "./steps";
import { GAP } from "../format/number";

const full = (step: number, total = 100, width = 1): Histogram => ({
  step,
  rows: [[-width, width, total]],
  total,
});
const every10 = (to: number): Histogram[] => Array.from({ length: to / 10 }, (_, at) => full(10 * at));

describe("how the histograms of a tensor end", () => {
  it("says nothing of one that goes on with its run", () => {
    expect(endingOf(every10(200), [], 199)).toBeNull();
    expect(endingOf(every10(200), [{ step: 40, count: 0 }], 215)).toBeNull();
    expect(endingOf(every10(200), [], null)).toBeNull();
  });
  it("says where nothing is finite any more, to the end of the run", () => {
    const bad = [163, 170, 180].map((step) => ({ step, count: 100 }));
    const found = endingOf(every10(170), bad, 240);
    expect(found).toMatchObject({ kind: "gone", step: 163, last: 240, most: 100, values: 100 });
  });
  it("says where some values are not finite while the others are drawn", () => {
    const found = endingOf(every10(200), [{ step: 50, count: 3 }], 199);
    expect(found).toMatchObject({ kind: "part", step: 50, most: 3, values: 100 });
  });
  it("says where a step is one of several that came as one", () => {
    const some = (about: boolean) => [{ step: 163, count: 100, about }];
    expect(endingOf(every10(170), some(true), 240)).toMatchObject({ kind: "gone", step: 163, about: true });
    expect(endingOf(every10(170), some(false), 240)).toMatchObject({ kind: "gone", step: 163, about: false });
  });
  it("says that they were recorded no more where the run went on", () => {
    expect(endingOf(every10(100), [], 400)).toMatchObject({ kind: "silent", step: 100, last: 400 });
    expect(endingOf([full(0)], [], 400)).toBeNull();
  });
});

describe("the axis of steps", () => {
  const histograms = every10(100);
  const steps = stepsOf(histograms, endingOf(histograms, [{ step: 100, count: 100 }], 400));
  it("runs to the last step, not to the last histogram", () => {
    expect(steps).toEqual({ first: 0, last: 400, interval: 10 });
    expect(placeOf(100, steps)).toBe(0.25);
  });
  it("leaves columns empty where there is no histogram", () => {
    const columns = [...columnsOf(histograms, steps, 40)];
    expect(columns.slice(0, 10)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(columns.slice(10).every((each) => each === -1)).toBe(true);
  });
  it("names what is marked before round steps", () => {
    const ticks = stepTicks(steps, [{ step: 100, tone: "bad" }], 5);
    expect(ticks.find(({ tone }) => tone === "bad")?.text).toBe("100");
    expect(ticks.filter(({ text }) => text === "100")).toHaveLength(1);
  });
});

describe("few values", () => {
  it("are drawn one by one, not as a haze over the whole bucket", () => {
    const cells = valuesIn([full(0, 3)], [-1, 1], 40);
    expect([...cells].filter((each) => each > 0)).toEqual([1, 1, 1]);
  });
  it("are spread where they are many, and none is lost", () => {
    const cells = valuesIn([full(0, 400)], [-1, 1], 40);
    expect(cells.every((each) => Math.abs(each - 10) < 1e-4)).toBe(true);
  });
});

describe("a factor", () => {
  it.each([
    [39.2, `×${GAP}39.2`],
    [1.06, `×${GAP}1.06`],
    [1_026_416_918, `×${GAP}10⁹`],
    [0.004, `÷${GAP}250`],
    [0, ""],
  ])("%f reads %s", (factor, text) => expect(factorText(factor)).toBe(text));
  it("is none where there is too little to compare", () => expect(change([full(0), full(1)])).toBeNull());
});
