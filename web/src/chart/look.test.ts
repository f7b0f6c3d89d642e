import { describe, expect, it } from "vitest";
import { drawnAs, lookOf, withLook, withYZoom, yZoomOf } from "./look";

const page = { smoothing: 0.6, logY: null, outliers: true, looks: [] as string[] };
const loss = { id: "train/loss", kind: "loss" as const };

describe("looks", () => {
  it("are written, read and taken back", () => {
    const said = withLook([], { chart: loss.id }, { smoothing: 0.9, logY: true });
    expect(lookOf(said, { chart: loss.id })).toEqual({ smoothing: 0.9, logY: true });
    expect(lookOf(said, { chart: "train/loss2" })).toEqual({});
    expect(withLook(said, { chart: loss.id }, {})).toEqual([]);
  });
  it("of a chart come before those of its kind, and those before the page", () => {
    const kind = withLook([], { kind: "loss" }, { smoothing: 0, outliers: false });
    const both = withLook(kind, { chart: loss.id }, { smoothing: 0.9 });
    expect(drawnAs({ ...page, looks: kind }, loss)).toMatchObject({
      smoothing: 0,
      outliers: false,
      logY: null,
    });
    expect(drawnAs({ ...page, looks: both }, loss)).toMatchObject({ smoothing: 0.9, outliers: false });
    expect(drawnAs({ ...page, looks: both }, { id: "lr", kind: "schedule" })).toMatchObject({
      smoothing: 0.6,
    });
  });
  it("that cannot be read are none", () =>
    expect(lookOf(["train/loss\tsm=x\twho=1"], { chart: loss.id })).toEqual({}));
});

describe("y zooms", () => {
  it("are of one chart", () => {
    const zooms = withYZoom(withYZoom([], "a", { min: -1e-9, max: 2 }), "b", { min: 0, max: 1 });
    expect(yZoomOf(zooms, "a")).toEqual({ min: -1e-9, max: 2 });
    expect(yZoomOf(withYZoom(zooms, "a", null), "a")).toBeNull();
    expect(yZoomOf(["a\t3\t1"], "a")).toBeNull();
  });
});
