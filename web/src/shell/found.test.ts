import { describe, expect, it } from "vitest";
import { differences } from "../runs/config";
import { runOf } from "../runs/fixtures";
import { parseQuery } from "../runs/query";
import { atStep, byConfig, byKey, byNote, stepIn } from "./found";

describe("the palette", () => {
  it("finds a step, also without the word, and none beyond the last", () => {
    const [first] = atStep("step 200", 1000);
    expect(first).toMatchObject({
      label: "Charts around step 200",
      change: { charts: { zoom: [150, 250] } },
    });
    expect(atStep("1,200", 5000)[0]?.label).toBe("Charts around step 1,200");
    expect(atStep("step 2000", 1000)).toEqual([]);
    expect(atStep("loss", 1000)).toEqual([]);
  });
  it("reads a step as one, and nothing else", () => {
    expect(["step 1,200", " 7 ", "lr 7", "7.5", ""].map(stepIn)).toEqual([1200, 7, null, null, null]);
  });
  it("finds notes on steps by their words, and leads to the charts around them", () => {
    const main = runOf("a", { step: 1000, step_notes: [{ step: 200, text: "halved the rate" }] });
    const [found, ...others] = byNote([{ name: "a", main, runs: [main] }], () => "The good one");
    expect(others).toEqual([]);
    expect(found!.label).toBe("halved the rate (The good one, step 200)");
    expect(found!.change).toMatchObject({ page: "scalars", charts: { zoom: [150, 250], x: "step" } });
  });
  it("finds runs by a value of their config, with a query that the page reads", () => {
    const configs = [
      { lr: 1e-3, model: 'cnn "32"', width: 1000, fast: true },
      { lr: 3e-4, model: "mlp", width: 2000, fast: false },
    ];
    const found = byConfig(differences(configs));
    expect(found.map(({ label }) => label)).toContain("Runs with lr = 3e-4");
    expect(found).toHaveLength(8);
    const matches = ({ change }: (typeof found)[number]): number =>
      configs.filter((config) => parseQuery(change.runs!.query!).matches(runOf("a", { config }))).length;
    expect(found.map(matches)).toEqual(Array(8).fill(1));
  });
  it("offers colours and groups by what differs", () =>
    expect(byKey(differences([{ lr: 1 }, { lr: 2 }])).map(({ label }) => label)).toEqual([
      "Colour runs by lr",
      "Group runs by lr",
    ]));
});
