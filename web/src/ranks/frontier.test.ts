import { describe, expect, it } from "vitest";
import type { FrontierBlame, FrontierStage } from "../server/api";
import { bars, folded, isOthers, stageColour } from "./frontier";

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
    expect(bars({ stages: [] }, 20, 40)).toEqual({ top: 1, paths: [], beyond: 0 });
  });
  it("are not flattened by one slow column", () => {
    const values = Array.from({ length: 100 }, (_, at) => (at ? 0.01 : 1.5));
    const { top, beyond } = bars({ stages: [stage("forward", values)] }, 20, 40);
    expect([top, beyond]).toEqual([expect.closeTo(0.0115), 1]);
  });
  it.each([
    ["by several that warm up", (at: number) => (at < 8 ? 1.5 : 0.01), 0.0115, 8],
    ["but as high as a stretch that got slow", (at: number) => (at < 80 ? 0.01 : 1.5), 1.5, 0],
    ["but as high as a long slow beginning", (at: number) => (at < 30 ? 1.5 : 0.01), 1.5, 0],
    ["but as high as all that are alike", () => 0.01, 0.01, 0],
  ])("are not flattened %s", (_, value, height, cut) => {
    const values = Array.from({ length: 100 }, (_, at) => value(at));
    const { top, beyond } = bars({ stages: [stage("forward", values)] }, 20, 40);
    expect([top, beyond]).toEqual([expect.closeTo(height), cut]);
  });
  it("have the colours of a step's parts", () => {
    expect(stageColour("data")).toBe("var(--part-loading)");
    expect(stageColour("rollout")).toBe("var(--part-compute)");
  });
});

const blamed = (rank: number, verdict: string, lost: number): FrontierBlame =>
  ({ rank, verdict, stage: "data", lost_per_step_s: lost, whole_per_step_s: lost / 2 }) as FrontierBlame;

describe("who delays the others", () => {
  const ranks = [0, 1, 2, 3, 4, 5, 6, 7];
  const [slow, pausing, odd] = [
    blamed(5, "clear", 0.078),
    blamed(2, "single steps", 0.004),
    blamed(1, "cannot tell", 0.001),
  ];

  it("is a row for each rank that stands out, and one for all others", () => {
    const rows = folded({ blame: [slow, pausing, odd], ranks }, false);
    expect(rows.slice(0, 2)).toEqual([slow, pausing]);
    expect(rows[2]).toMatchObject({
      others: 6,
      lost_per_step_s: 0.001,
      whole_per_step_s: 0.0005,
      rows: [odd],
    });
    expect(folded({ blame: [slow, pausing, odd], ranks }, true)).toEqual([...rows, odd]);
  });
  it("is one row where no rank can be told from the others", () => {
    const [row, ...rest] = folded({ blame: [odd], ranks }, false);
    expect(row && isOthers(row) && row.others).toBe(8);
    expect(rest).toEqual([]);
  });
  it("folds no rank that is the only other one", () => {
    expect(folded({ blame: [slow, odd], ranks: [1, 5] }, false)).toEqual([slow, odd]);
    expect(folded({ blame: [slow], ranks: [1, 5] }, false)).toEqual([slow]);
  });
});
