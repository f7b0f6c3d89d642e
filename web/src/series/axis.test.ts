import { describe, expect, it } from "vitest";
import { sharedRanges } from "./axis";

const families = (extents: Record<string, [number, number]>): string[] => {
  const ranges = sharedRanges(
    new Map(Object.entries(extents).map(([name, [min, max]]) => [name, { min, max }])),
  );
  const found = new Map<object, string[]>();
  for (const [name, range] of ranges) found.set(range, [...(found.get(range) ?? []), name].sort());
  return [...found].map(([range, names]) => `${names.join(" ")}: ${Object.values(range).join("-")}`).sort();
};

describe("charts that share an x axis", () => {
  it.each<[string, Record<string, [number, number]>, string[]]>([
    ["all of the same steps", { loss: [0, 999], eval: [100, 900] }, ["eval loss: 0-999"]],
    [
      "epochs and iterations",
      { loss: [0, 150_000], val: [0, 29], time: [1, 30] },
      ["loss: 0-150000", "time val: 0-30"],
    ],
    [
      "one of huge steps",
      { a: [0, 100], b: [0, 90], id: [0, 1e18] },
      ["a b: 0-100", "id: 0-1000000000000000000"],
    ],
    [
      "steps that begin far away",
      { a: [0, 100], far: [1e6, 1e6 + 100] },
      ["a: 0-100", "far: 1000000-1000100"],
    ],
    [
      "samples, iterations and epochs",
      { s: [0, 1e7], i: [0, 1e4], e: [0, 9] },
      ["e: 0-9", "i: 0-10000", "s: 0-10000000"],
    ],
    [
      "a point within, and one beyond",
      { a: [0, 100], one: [50, 50], far: [500, 500] },
      ["a one: 0-100", "far: 500-500"],
    ],
    ["nothing", {}, []],
  ])("%s", (_, extents, want) => expect(families(extents)).toEqual(want));
});
