import { describe, expect, it } from "vitest";
import { differences } from "../runs/config";
import { runOf } from "../runs/fixtures";
import { parseQuery } from "../runs/query";
import { atStep, byConfig, byKey } from "./found";

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
