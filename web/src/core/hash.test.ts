import { describe, expect, it } from "vitest";
import { DEFAULT_VIEW, isNavigation, readHash, writeHash, type View } from "./hash";

const full: View = {
  page: "scalars", query: 'lr>1e-4 -tag:"a b"', x: "wall", smoothing: 0.93, zoom: [1700000000.25, 1700000900], filter: "loss|acc(\\d+)&x=1#",
  logX: true, logY: true, outliers: false, ghost: false, superseded: true, pins: ["train/loss", "a,b\\c", "ü ?"], hidden: ["run 1", "<b>x</b>"],
  solo: "s", baseline: "b%20", kept: ["k"], selected: "a+b", colourBy: "lr", groupBy: "optimizer.name", sort: "-config:lr", metric: "loss", closed: ["train", "a/b"],
  full: "loss", table: true, rail: false, details: true,
};

describe("hash", () => {
  it("gives back every field", () => expect(readHash(writeHash(full))).toEqual(full));
  it("leaves out what is as by default", () => expect(writeHash(DEFAULT_VIEW)).toBe("#/overview"));
  it("survives the browser's own encoding", () => {
    const hash = new URL(`http://host/${writeHash(full)}`).hash;
    expect(readHash(hash)).toEqual(full);
  });
  it("stays readable", () => expect(writeHash({ ...DEFAULT_VIEW, page: "scalars", pins: ["train/loss"], zoom: [2000, 4000] })).toBe("#/scalars?z=2000-4000&pin=train/loss"));
  it.each(["", "#", "#/", "#/nowhere", "#/overview?%", "#/overview?sm=x&z=5-1&z=a-b&unknown=1&q"])("reads %s as the default", (hash) =>
    expect(readHash(hash)).toEqual(DEFAULT_VIEW),
  );
  it("bounds smoothing", () => expect(readHash("#/scalars?sm=7").smoothing).toBe(0.999));
  it("reads negative zooms", () => expect(readHash("#/scalars?z=-5--1").zoom).toEqual([-5, -1]));
  it("keeps an empty list apart from a missing one", () => expect(readHash("#/scalars?pin=").pins).toEqual([]));
});

describe("history", () => {
  it("steps at pages, queries and full screen", () => {
    expect(isNavigation(DEFAULT_VIEW, { ...DEFAULT_VIEW, page: "scalars" })).toBe(true);
    expect(isNavigation(DEFAULT_VIEW, { ...DEFAULT_VIEW, query: "a" })).toBe(true);
    expect(isNavigation(DEFAULT_VIEW, { ...DEFAULT_VIEW, full: "c" })).toBe(true);
  });
  it("does not step at zoom and smoothing", () => expect(isNavigation(DEFAULT_VIEW, { ...DEFAULT_VIEW, zoom: [1, 2], smoothing: 0 })).toBe(false));
});
