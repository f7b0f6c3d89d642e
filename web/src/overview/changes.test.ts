import { describe, expect, it } from "vitest";
import type { ChangeLogGroup, ChangeLogLine, Chart } from "../server/api";
import { chartsOf, endOf, spanOf } from "./changes";

const line = (tag: string, first: number, last = first, source = "series"): ChangeLogLine => ({
  source, tag, part: "", rank: null, kind: "jump", text: tag, first_step: first, last_step: last,
  before: 0, after: 1, lasts: true,
}); // prettier-ignore
const group = (...changes: ChangeLogLine[]): ChangeLogGroup => ({
  first_step: changes[0]!.first_step, last_step: changes[0]!.last_step, wall: 0, main: true, text: "", changes,
}); // prettier-ignore
const charts = ["lr", "train/loss", "val/loss (x)"].map((tag) => ({ lines: [{ tag }] }) as unknown as Chart);

describe("a group of changes", () => {
  const broken = group(line("lr", 500), line("train/loss", 501, 510), line("", 440, 440, "checkpoint"));
  it("shows the charts of its series at its steps", () =>
    expect(chartsOf(broken, charts)).toEqual({
      page: "scalars",
      charts: { x: "step", filter: "^(lr|train/loss)$", zoom: [480, 530] },
    }));
  it("takes names literally", () =>
    expect(chartsOf(group(line("val/loss (x)", 3)), charts)?.charts?.filter).toBe("^(val/loss \\(x\\))$"));
  it("has no charts without series", () =>
    expect(chartsOf(group(line("", 3, 3, "attempt"), line("gone", 4)), charts)).toBeNull());
  it("ends with its last change, and not with a checkpoint", () => expect(endOf(broken)).toBe(510));
  it("lies on the axis of steps", () => {
    expect(spanOf(broken, 1000)).toEqual({ left: 0.5, width: expect.closeTo(0.01) });
    expect(spanOf(broken, 0).left).toBeCloseTo(500 / 510);
  });
});
