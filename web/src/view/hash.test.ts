import { describe, expect, it } from "vitest";
import { readHash, writeHash } from "./hash";
import { changed, defaultView, isNavigation, type View } from "./view";

const full: View = {
  page: "scalars",
  runs: {
    query: 'lr>1e-4 -tag:"a b"',
    hidden: ["run 1", "<b>x</b>"],
    solo: "s",
    baseline: "b%20",
    folded: ["s/a,b"],
    kept: ["k"],
    selected: "a+b",
    colourBy: "lr",
    groupBy: "optimizer.name",
    sort: "-config:lr",
    metric: "loss",
  },
  charts: {
    x: "wall",
    steps: ["100", "-2.5"],
    xTag: "tokens/seen",
    band: "minmax",
    own: ["a - b; c", "~x,y\\d"],
    smoothing: 0.93,
    zoom: [1700000000.25, 1700000900],
    filter: "loss|acc(\\d+)&x=1#",
    logX: true,
    logY: true,
    outliers: false,
    ghost: false,
    superseded: true,
    ahead: false,
    pins: ["train/loss", "a,b\\c", "ü ?"],
    closed: ["train", "a/b"],
    full: "loss",
    table: true,
    yZooms: ["train/loss\t-1e-9\t2"],
    looks: ["kind:loss\tsm=0.9", "a, b\tlog=1"],
    moved: ["a, b\ttrain/loss"],
    perRow: 3,
    cardHeight: 220,
    deep: true,
  },
  panels: { rail: false, details: true },
  profile: {
    path: "a/rank 0,1.json.gz",
    tab: "timeline",
    steps: "3-5,9",
    other: "a/rank 1.json.gz",
    otherSteps: "7",
    window: [100, 2500.5],
    range: [125000, 250000],
    arrows: false,
    event: 12,
    find: "aten::add",
    pinned: ["0/python/main, #1"],
    hidden: ["0/GPU 0/stream 7"],
    collapsed: ["0/python/loader#2"],
    folded: ["0 python 1"],
    moved: ["0/python/a\t", "0/python/b\t0/python/a"],
    labels: 208,
    tree: "op",
    options: ["order_by:micros", "show_name_regexes:.*conv,x"],
  },
  ranks: { fact: "loss", sort: "outlier", step: 70, rank: "rank 37" },
  records: { tag: "gradients/h.0/weight", step: 1200 },
  distributions: { scale: "log", form: "ridges", byLayer: true, beside: "runs/batch_norm" },
  graph: {
    scope: "h/0,1 (a)",
    node: "h/0/attn…",
    tint: "op",
    costs: "step_1200",
    unfolded: ["h/0…", "a,b…"],
    asRows: true,
  },
  compare: { sideA: 'run:"a b",c', sideB: "lr:1e-3", part: "curves", reading: "best", same: true },
  board: {
    reading: "step",
    readStep: 40,
    form: "matrix",
    plotX: "config:lr",
    plotY: "log:metric:loss",
    columns: ["config:lr", "metric:a,b"],
    brushes: ["config:lr 0.1 0.2", "metric:loss -1 3"],
  },
  media: { differences: true, medium: "embeddings", threshold: 0.25, where: "reward>0.5", order: "-reward" },
  embedding: {
    reduction: "umap",
    flat: true,
    column: "digit, as read",
    search: "a&b",
    point: 7,
    nearness: "euclidean",
  },
  sql: {
    query: "SELECT run, max(value) FROM series\nWHERE tag = 'a&b#%' -- c",
    profile: "a/b.pt.trace.json",
  },
};

const DEFAULT = defaultView();

describe("hash", () => {
  it("gives back every field", () => expect(readHash(writeHash(full))).toEqual(full));
  it("leaves out what is as by default", () => expect(writeHash(DEFAULT)).toBe("#/overview"));
  it("survives the browser's own encoding", () => {
    const hash = new URL(`http://host/${writeHash(full)}`).hash;
    expect(readHash(hash)).toEqual(full);
  });
  it("stays readable", () =>
    expect(
      writeHash(changed(DEFAULT, { page: "scalars", charts: { pins: ["train/loss"], zoom: [2000, 4000] } })),
    ).toBe("#/scalars?z=2000-4000&pin=train/loss"));
  it.each(["", "#", "#/", "#/nowhere", "#/overview?%", "#/overview?sm=x&z=5-1&z=a-b&unknown=1&q"])(
    "reads %s as the default",
    (hash) => expect(readHash(hash)).toEqual(DEFAULT),
  );
  it("bounds smoothing", () => expect(readHash("#/scalars?sm=7").charts.smoothing).toBe(0.999));
  it("reads negative zooms", () => expect(readHash("#/scalars?z=-5--1").charts.zoom).toEqual([-5, -1]));
  it("keeps an empty list apart from a missing one", () =>
    expect(readHash("#/scalars?pin=").charts.pins).toEqual([]));
});

describe("history", () => {
  it("steps at pages, queries and full screen", () => {
    expect(isNavigation(DEFAULT, changed(DEFAULT, { page: "scalars" }))).toBe(true);
    expect(isNavigation(DEFAULT, changed(DEFAULT, { runs: { query: "a" } }))).toBe(true);
    expect(isNavigation(DEFAULT, changed(DEFAULT, { charts: { full: "c" } }))).toBe(true);
    expect(isNavigation(DEFAULT, changed(DEFAULT, { graph: { scope: "h" } }))).toBe(true);
  });
  it("does not step at zoom and smoothing", () =>
    expect(isNavigation(DEFAULT, changed(DEFAULT, { charts: { zoom: [1, 2], smoothing: 0 } }))).toBe(false));
});
