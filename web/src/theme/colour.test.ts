import { describe, expect, it } from "vitest";
import { readFileSync } from "node:fs";
import { COLOURS, GREY, SLOTS, assignSlots, cividis, placesOf, slotStroke, strokesByValue } from "./colour";
import { cividisPixels } from "./pixels";

const names = (count: number): string[] => Array.from({ length: count }, (_, at) => `run${at}`);

const placed = (all: string[]): Map<string, number> => new Map(all.map((name, place) => [name, place]));

describe("places", () => {
  it("follow the start of the runs, and stay when others come and go", () => {
    const first = placesOf(
      [],
      [
        { name: "b", started: 1 },
        { name: "c", started: null },
        { name: "a", started: 2 },
      ],
    );
    expect(first).toEqual(["b", "a", "c"]);
    expect(placesOf(first, [{ name: "earlier", started: 0 }])).toEqual(["b", "a", "c", "earlier"]);
  });
});

describe("slots", () => {
  it("belong to the run, whatever else is shown", () => {
    const places = placed(names(SLOTS));
    const all = assignSlots(places, names(SLOTS));
    expect(new Set(all.values()).size).toBe(SLOTS);
    for (const shown of [["run3"], ["run9", "run3"], ["run3", "run7", "run1"]])
      for (const name of shown) expect(assignSlots(places, shown).get(name)).toBe(all.get(name));
  });
  it("go to the first where there are too many, and are never given twice", () => {
    const slots = assignSlots(placed(names(40)), names(40));
    expect(slots.size).toBe(SLOTS);
    expect(slots.get("run12")).toBeUndefined();
    expect(new Set(slots.values()).size).toBe(SLOTS);
  });
  it("of two runs with the same one the later takes a free one", () => {
    const slots = assignSlots(placed(names(40)), ["run1", "run25"]);
    expect(slots.get("run1")).toBe(1);
    expect(slots.get("run25")).toBe(0);
  });
  it("are those that people chose, whatever the order", () => {
    const slots = assignSlots(placed(names(3)), names(3), new Map([["run2", 0]]));
    expect(slots.get("run2")).toBe(0);
    expect(slots.get("run1")).toBe(1);
    expect(slots.get("run0")).toBe(2);
  });
});

describe("strokes", () => {
  it("have a colour each", () => {
    expect(new Set(names(COLOURS).map((_, at) => slotStroke(at).series)).size).toBe(12);
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

describe("the series colours", () => {
  const css = readFileSync(new URL("../tokens.css", import.meta.url), "utf8");
  const found = [...css.matchAll(/--series-\d+: (#\w{6})/g)].map((match) => match[1]!);
  const themes = [
    { theme: "light", colours: found.slice(0, COLOURS), surface: "#ffffff" },
    { theme: "dark", colours: found.slice(COLOURS), surface: "#14171c" },
  ];

  it.each(themes)("of the $theme theme are told apart, by colour-blind people too", ({ colours }) => {
    expect(colours.length).toBe(COLOURS);
    for (const [at, one] of colours.entries())
      for (const other of colours.slice(at + 1)) {
        expect(distance(linear(one), linear(other)), `${one} ${other}`).toBeGreaterThan(0.1);
        for (const sight of [PROTAN, DEUTAN])
          expect(
            distance(times(sight, linear(one)), times(sight, linear(other))),
            `${one} ${other}`,
          ).toBeGreaterThan(0.075);
      }
  });
  it.each(themes)("of the $theme theme stand out from the page", ({ colours, surface }) => {
    for (const one of colours) {
      const [low, high] = [luminance(one), luminance(surface)].sort((a, b) => a - b) as [number, number];
      expect((high + 0.05) / (low + 0.05), one).toBeGreaterThan(3);
    }
  });
});

/** Machado, Oliveira and Fernandes (2009), severity 1. */
const PROTAN = [
  [0.152286, 1.052583, -0.204868],
  [0.114503, 0.786281, 0.099216],
  [-0.003882, -0.048116, 1.051998],
];
const DEUTAN = [
  [0.367322, 0.860646, -0.227968],
  [0.280085, 0.672501, 0.047413],
  [-0.01182, 0.04294, 0.968881],
];
/** Ottosson (2020): Oklab. */
const CONES = [
  [0.4122214708, 0.5363325363, 0.0514459929],
  [0.2119034982, 0.6806995451, 0.1073969566],
  [0.0883024619, 0.2817188376, 0.6299787005],
];
const LAB = [
  [0.2104542553, 0.793617785, -0.0040720468],
  [1.9779984951, -2.428592205, 0.4505937099],
  [0.0259040371, 0.7827717662, -0.808675766],
];

function linear(hex: string): number[] {
  return [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
}

function times(matrix: number[][], vector: number[]): number[] {
  return matrix.map((row) =>
    Math.max(
      0,
      row.reduce((sum, value, at) => sum + value * vector[at]!, 0),
    ),
  );
}

function distance(one: number[], other: number[]): number {
  const lab = (colour: number[]): number[] => {
    const cones = times(CONES, colour).map(Math.cbrt);
    return LAB.map((row) => row.reduce((sum, value, at) => sum + value * cones[at]!, 0));
  };
  const [a, b] = [lab(one), lab(other)];
  return Math.hypot(...a.map((value, at) => value - b[at]!));
}

function luminance(hex: string): number {
  const [red, green, blue] = linear(hex) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
