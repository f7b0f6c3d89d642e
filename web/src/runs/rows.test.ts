import { describe, expect, it } from "vitest";
import { runOf } from "./fixtures";
import { flatRows, pathsAround, treeRows } from "./rows";

const single = (name: string, extra: { parent?: string | null }) => {
  const main = runOf(name, extra);
  return { name, main, runs: [main] };
};
const tree = (runs: Record<string, string | null>, folded: string[] = []) =>
  treeRows(
    Object.entries(runs).map(([name, parent]) => single(name, { parent })),
    new Set(folded),
  ).map(({ depth, text, size, open }) => `${" ".repeat(depth)}${text}${open === null ? "" : ` ${size}`}`);

describe("the tree of runs", () => {
  it.each<[string, Record<string, string | null>, string[], string[]]>([
    ["a flat directory stays as it is", { a: null, b: null }, [], ["a", "b"]],
    ["a folder of several", { "s/1": null, "s/2": null, t: null }, [], ["s 2", " 1", " 2", "t"]],
    ["a folder of one is part of the name", { "s/1": null, t: null }, [], ["s/1", "t"]],
    ["a folder of all is left out", { "s/1": null, "s/2": null }, [], ["s/1", "s/2"]],
    [
      "folders in folders",
      { "s/a/1": null, "s/a/2": null, "s/b": null, t: null },
      [],
      ["s 3", " a 2", "  1", "  2", " b", "t"],
    ],
    ["a folder that is a run", { s: null, "s/1": null, t: null }, [], ["s 2", " s/1", "t"]],
    ["children of a run", { job: null, x: "job", y: "x" }, [], ["job 3", " x 2", "  y"]],
    ["a parent that the query leaves out", { x: "gone", y: null }, [], ["x", "y"]],
    ["a parent below its child", { s: "s/1", "s/1": null, t: null }, [], ["t", "s", "s/1"]],
    ["what is folded", { "s/1": null, "s/2": null, t: null }, ["s"], ["s 2", "t"]],
  ])("%s", (_, runs, folded, rows) => {
    expect(tree(runs, folded)).toEqual(rows);
  });

  it("says in which folders a run stands", () => {
    const families = ["s/a/1", "s/a/2", "s/b", "t"].map((name) => single(name, {}));
    expect(pathsAround(families, "s/a/2")).toEqual(["s", "s/a"]);
    expect(pathsAround(families, "t")).toEqual([]);
    expect(pathsAround(families, "none")).toEqual([]);
  });

  it("holds each of 3,000 runs once", () => {
    const families = Array.from({ length: 3000 }, (_, at) => single(`f${at % 60}/g${at % 7}/${at}`, {}));
    const names = treeRows(families, new Set()).flatMap(({ family }) => (family ? [family.name] : []));
    expect(names.toSorted()).toEqual(families.map(({ name }) => name).toSorted());
    expect(flatRows(families)).toHaveLength(3000);
  });
});
