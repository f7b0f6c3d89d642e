import { describe, expect, it } from "vitest";
import type { FrontierStage } from "../server/api";
import { bars, stageColour } from "./frontier";

const stage = (name: string, mean_s: (number | null)[]): FrontierStage =>
  ({ stage: name, mean_s }) as unknown as FrontierStage;

describe("stages over time", () => {
  it("are stacked up to the step", () => {
    const { top, paths } = bars({ stages: [stage("data", [1, 1]), stage("forward", [3, 3])] }, 20, 40);
    expect(top).toBe(4);
    expect(paths[0]!.d).toBe("M0.00 40.00V30.00h10.00V40.00zM10.00 40.00V30.00h10.00V40.00z");
    expect(paths[1]!.d.startsWith("M0.00 30.00V0.00")).toBe(true);
  });
  it("leave a column empty where no step of all ranks was recorded", () => {
    expect(bars({ stages: [stage("data", [null, 1])] }, 20, 40).paths[0]!.d).toBe(
      "M10.00 40.00V0.00h10.00V40.00z",
    );
    expect(bars({ stages: [] }, 20, 40)).toEqual({ top: 1, paths: [] });
  });
  it("are not flattened by one slow column", () => {
    const values = Array.from({ length: 100 }, (_, at) => (at ? 0.01 : 1.5));
    expect(bars({ stages: [stage("forward", values)] }, 20, 40).top).toBeCloseTo(0.0115);
  });
  it("have the colours of a step's parts", () => {
    expect(stageColour("data")).toBe("var(--part-loading)");
    expect(stageColour("rollout")).toBe("var(--part-compute)");
  });
});
