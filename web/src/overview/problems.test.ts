import { expect, test } from "vitest";
import { times } from "./problems";

test("how often a file was read again is said", () => {
  expect(times({ kind: "truncated", count: 3 })).toBe(", 3 times");
  expect(times({ kind: "replaced", count: 1 })).toBe("");
});

test("bytes, records and points are in the text already", () => {
  for (const kind of ["hole", "cut", "torn", "corrupt", "broken", "unrecorded", "failed", "overlap"])
    expect(times({ kind, count: 71_641 })).toBe("");
});
