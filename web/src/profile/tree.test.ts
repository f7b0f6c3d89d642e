import { describe, expect, it } from "vitest";
import type { TreeRow } from "../server/api";
import { hottest, icicle, openAtFirst, treeOf, visible } from "./tree";

type Row = Pick<TreeRow, "name" | "depth" | "values">;

const rows: Row[] = [
  { name: "all", depth: 0, values: [10] },
  { name: "a", depth: 1, values: [6] },
  { name: "a/x", depth: 2, values: [4] },
  { name: "a/y", depth: 2, values: [1] },
  { name: "b", depth: 1, values: [4] },
];
const nodes = treeOf(rows);
const value = (at: number): number => rows[at]!.values[0]!;

describe("tree of rows", () => {
  it("knows parents and children", () => {
    expect(nodes.map((node) => node.parent)).toEqual([-1, 0, 1, 1, 0]);
    expect(nodes[0]!.children).toEqual([1, 4]);
  });

  it("opens levels as long as they fit", () => {
    expect([...openAtFirst(nodes, 3)]).toEqual([0]);
    expect([...openAtFirst(nodes, 5)]).toEqual([0, 1]);
    expect([...openAtFirst(nodes, 1)]).toEqual([0]);
  });

  it("shows what is under open rows only", () => {
    expect(visible(nodes, new Set([0]))).toEqual([0, 1, 4]);
    expect(visible(nodes, new Set([1]))).toEqual([0]);
    expect(visible(nodes, new Set([0, 1]))).toEqual([0, 1, 2, 3, 4]);
  });

  it("finds the hottest path", () => {
    expect(hottest(nodes, value)).toEqual([0, 1, 2]);
  });

  it("draws children beside each other within their parent", () => {
    const places = icicle(nodes, value, 0, 0.001).map(({ left, width, ...rest }) => ({
      ...rest,
      left: Number(left.toFixed(6)),
      width: Number(width.toFixed(6)),
    }));
    expect(places).toEqual([
      { at: 0, depth: 0, left: 0, width: 1 },
      { at: 1, depth: 1, left: 0, width: 0.6 },
      { at: 2, depth: 2, left: 0, width: 0.4 },
      { at: 3, depth: 2, left: 0.4, width: 0.1 },
      { at: 4, depth: 1, left: 0.6, width: 0.4 },
    ]);
  });

  it("shares the width where children add up to more, and leaves out what is too small", () => {
    const wide: Row[] = [
      { name: "p", depth: 0, values: [1] },
      { name: "c", depth: 1, values: [3] },
      { name: "d", depth: 1, values: [1] },
    ];
    const boxes = icicle(treeOf(wide), (at) => wide[at]!.values[0]!, 0, 0.3);
    expect(boxes.map((box) => box.width)).toEqual([1, 0.75]);
    expect(icicle(nodes, () => 0, 0, 0)).toEqual([]);
  });
});
