import { describe, expect, it } from "vitest";
import { GREY, SLOTS, assignSlots, cividis, cividisPixels, slotStroke, strokesByValue } from "./colour";

const names = (count: number): string[] => Array.from({ length: count }, (_, at) => `run${at}`);

describe("slots", () => {
  it("go to the first runs", () => {
    const slots = assignSlots(new Map(), names(20));
    expect(slots.size).toBe(SLOTS);
    expect(slots.get("run16")).toBeUndefined();
  });
  it("stay with a run while others come and go", () => {
    const before = assignSlots(new Map(), ["a", "b", "c"]);
    const after = assignSlots(before, ["c", "new", "a"]);
    expect(after.get("a")).toBe(before.get("a"));
    expect(after.get("c")).toBe(before.get("c"));
    expect(after.get("new")).toBe(before.get("b"));
  });
  it("are never given twice", () => {
    const slots = assignSlots(
      new Map([
        ["a", 0],
        ["b", 0],
      ]),
      ["a", "b", "c"],
    );
    expect(new Set(slots.values()).size).toBe(3);
  });
});

describe("strokes", () => {
  it("repeat the colours dashed from the ninth run", () => {
    expect(slotStroke(8)).toEqual({ ...slotStroke(0), dashed: true });
    expect(new Set(names(8).map((_, at) => slotStroke(at).series)).size).toBe(8);
  });
  it("are grey without a slot", () => expect(slotStroke(undefined)).toEqual(GREY));
  it("follow a scale for numbers and series for words", () => {
    const numbers = strokesByValue(
      [
        { name: "a", value: 1 },
        { name: "b", value: 3 },
      ],
      [1, 2, 3],
      false,
    );
    expect(numbers.get("a")!.colour).toBe(cividis(0, false));
    expect(numbers.get("b")!.colour).toBe(cividis(1, false));
    const words = strokesByValue(
      [
        { name: "a", value: "sgd" },
        { name: "b", value: undefined },
      ],
      ["adam", "sgd"],
      false,
    );
    expect(words.get("a")).toEqual(slotStroke(1));
    expect(words.get("b")).toEqual(GREY);
  });
});

describe("pixels of cividis", () => {
  it("go from dark blue to yellow, opaque", () => {
    const pixels = cividisPixels();
    expect(pixels[0]).toBe(0xff4e2200 >>> 0);
    expect(pixels[255]).toBe(0xff38e8fe >>> 0);
  });
});
