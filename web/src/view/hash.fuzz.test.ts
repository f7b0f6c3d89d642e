import { describe, expect, it } from "vitest";
import { INPUTS, damaged } from "./fuzz";
import { readHash, writeHash } from "./hash";
import { PAGES, changed, defaultView } from "./view";

const SEEDS = [
  "",
  "#/",
  "#/overview",
  "#/scalars?sm=0.93&f=loss|acc(%5Cd%2B)%26x&zoom=1700000000.25,1700000900&x=tag&xt=tokens/seen",
  "#/scalars?pins=train/loss,a%5C,b&hide=run%201,%3Cb%3E&q=lr%3E1e-4%20-tag:%22a%20b%22",
  "#/profile?p=a/rank%200,1.json.gz&tab=timeline&w=100,2500.5&r=125000,250000&ev=12&tree=op&o=order_by:micros",
  "#/ranks?fact=loss&step=70&rank=rank%2037",
  "#/compare?a=x&b=y",
];
/** Every field at a value of its own, so that each of them is damaged. */
const ALL = writeHash(
  changed(defaultView(), {
    page: "scalars",
    runs: { query: "a b", hidden: ["x,y", "z"], solo: "s", baseline: "b%20", selected: "a+b", sort: "-lr" },
    charts: { smoothing: 0.5, zoom: [1, 2.5], pins: ["ü ?", "a\\b"], yZooms: ["loss\t-1e-9\t2"], perRow: 3 },
    profile: {
      path: "a/b.json",
      steps: "3-5,9",
      window: [1, 2],
      range: [3, 4],
      event: 1,
      options: ["x:y,z"],
    },
    records: { tag: "g", step: 7 },
  }),
);

describe("any address", () => {
  it("is read as a view that can be written and read again", { timeout: 600_000 }, () => {
    for (const hash of damaged([...SEEDS, ALL], INPUTS)) {
      const view = readHash(hash);
      expect(PAGES).toContain(view.page);
      const written = writeHash(view);
      expect(readHash(written), hash).toEqual(view);
      expect(Object.getPrototypeOf(view), hash).toBe(Object.prototype);
    }
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it("takes no time beyond its length", () => {
    for (const part of ["&", "%", "f=", "pins=,", "zoom=1,", "\\", "?", "#/"]) {
      const began = performance.now();
      readHash(`#/scalars?${part.repeat(200_000)}`);
      expect(performance.now() - began, part).toBeLessThan(5_000);
    }
  });
});
