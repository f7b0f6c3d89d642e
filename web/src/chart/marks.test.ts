import { describe, expect, it } from "vitest";
import { runOf } from "../runs/fixtures";
import { marksNear, notesOf } from "./marks";
import type { Mark } from "./model";

const family = (name: string, ...steps: number[]) => {
  const main = runOf(name, { step_notes: steps.map((step) => ({ step, text: `note ${step}` })) });
  return { name, main, runs: [main] };
};

describe("notes on steps", () => {
  it("name their run where there are several", () => {
    expect(notesOf([family("a", 3)], String)).toEqual([
      { step: 3, kind: "note", text: "note 3", path: null, run: "a" },
    ]);
    expect(notesOf([family("a", 3), family("b", 5)], String).map(({ text }) => text)).toEqual([
      "a: note 3",
      "b: note 5",
    ]);
    expect(notesOf([family("a")], String)).toEqual([]);
  });
});

describe("marks near a place", () => {
  const marks = [0, 10, 16, 300].map((step): Mark => ({ step, kind: "capture", text: "", path: null }));
  it("are those within reach, the nearest first", () => {
    expect(marksNear(marks, 15, (step) => step).map(({ step }) => step)).toEqual([16, 10]);
    expect(marksNear(marks, 100, (step) => step)).toEqual([]);
  });
});
