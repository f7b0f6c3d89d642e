/** Contrast inside charts, which no tool that reads the page sees: from the tokens, in both themes. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { paintLines } from "../chart/paint";
import type { ChartModel, Placing, StyledLine } from "../chart/model";
import { lineOf } from "../runs/fixtures";
import { cividis } from "./colour";
import { cividisPixels, densityPlace } from "./pixels";
import type { Palette } from "./palette";

const [light, dark] = readFileSync("src/tokens.css", "utf8").split(':root[data-theme="dark"]') as [
  string,
  string,
];
const tokensOf = (text: string): Map<string, string> =>
  new Map([...text.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name, colour]) => [name!, colour!]));
const THEMES = [
  ["light", tokensOf(light)],
  ["dark", tokensOf(dark)],
] as const;

/** As WCAG 2.2 defines it. */
function luminance(colour: string): number {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  }) as [number, number, number];
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function contrast(one: string, other: string): number {
  const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** A pixel of little-endian RGBA. */
const hex = (pixel: number): string =>
  `#${[0, 8, 16].map((shift) => ((pixel >>> shift) & 255).toString(16).padStart(2, "0")).join("")}`;

/** A colour drawn with an alpha over another. */
function over(colour: string, alpha: number, ground: string): string {
  const part = (at: number): number =>
    Math.round(
      parseInt(colour.slice(at, at + 2), 16) * alpha + parseInt(ground.slice(at, at + 2), 16) * (1 - alpha),
    );
  return `#${[1, 3, 5].map((at) => part(at).toString(16).padStart(2, "0")).join("")}`;
}

const LINES = [...tokensOf(light).keys()].filter(
  (name) => /^(series|part)-/.test(name) || ["rest", "neutral", "hatch", "control"].includes(name),
);
/** Twelve runs, ten parts of a step, and four more. */
it("knows every token that lines are drawn in", () => expect(LINES).toHaveLength(12 + 10 + 4));
const WORDS = ["fg", "muted", "ok", "warn", "bad", "accent"];

describe.each(THEMES)("in the %s theme", (theme, tokens) => {
  const surface = tokens.get("surface")!;
  it.each(LINES)("%s is told from the panel that it is drawn on by 3:1", (name) => {
    expect(contrast(tokens.get(name)!, surface)).toBeGreaterThanOrEqual(3);
  });
  it.each(WORDS)("%s is read on panels, page, tracks and tooltips by 4.5:1", (name) => {
    for (const ground of ["surface", "bg", "sunken", "tooltip"])
      expect(contrast(tokens.get(name)!, tokens.get(ground)!)).toBeGreaterThanOrEqual(4.5);
  });
  it("colours by value are told from the panel", () => {
    for (let at = 0; at <= 10; at += 1)
      expect(contrast(cividis(at / 10, theme === "dark"), surface)).toBeGreaterThanOrEqual(3);
  });
  it("one value of a distribution is told from the panel by 3:1, and many from one value", () => {
    const pixels = cividisPixels();
    const at = (share: number): string =>
      hex(pixels[Math.round(255 * densityPlace(share, theme === "dark"))]!);
    for (let share = 0; share <= 1; share += 0.05)
      expect(contrast(at(share), surface)).toBeGreaterThanOrEqual(3);
    expect(contrast(at(0), at(1))).toBeGreaterThanOrEqual(2.5);
    const lights = Array.from({ length: 21 }, (_, one) => contrast(at(one / 20), surface));
    expect(lights).toEqual([...lights].sort((a, b) => a - b)); // more values always stand out more
  });
  it("the quickest and the slowest of the ranks' cells are told apart by 3:1", () => {
    const pixels = cividisPixels();
    expect(contrast(hex(pixels[0]!), hex(pixels[255]!))).toBeGreaterThanOrEqual(3);
    for (let at = 0; at < 255; at += 1)
      expect(luminance(hex(pixels[at + 1]!))).toBeGreaterThanOrEqual(luminance(hex(pixels[at]!)));
  });
  it("every line is drawn so that it is seen: of runs without a colour, and what a restart went over", () => {
    const colour = tokens.get("rest")!;
    for (const seen of strokesOf(colour))
      expect(contrast(over(seen.colour, seen.alpha, surface), surface)).toBeGreaterThanOrEqual(3);
    expect(strokesOf(colour)).toHaveLength(3);
  });
});

/** The strokes of one line of a run without a colour, one of a run that has it, and one that was gone over. */
function strokesOf(colour: string): { colour: string; alpha: number }[] {
  const strokes: { colour: string; alpha: number }[] = [];
  const state = { globalAlpha: 1, strokeStyle: "" };
  const surface = new Proxy(state, {
    get: (held, name) =>
      name in held
        ? held[name as keyof typeof held]
        : name === "stroke"
          ? () => void strokes.push({ colour: held.strokeStyle, alpha: held.globalAlpha })
          : () => undefined,
  }) as unknown as CanvasRenderingContext2D;
  const styled = (faint: boolean, end: number): StyledLine =>
    ({
      ...lineOf("a", [0, 1, 2], [1, 2, 3], { end }),
      family: "a",
      label: "a",
      colour,
      dash: [],
      band: null,
      strong: false,
      faint,
      dots: false,
    }) as StyledLine;
  const model = {
    lines: [styled(true, 3), styled(false, 2)],
    x: { min: 0, max: 2 },
    y: { min: 0, max: 3 },
    superseded: true,
    ghost: true,
    marks: [],
    palette: {} as Palette,
  } as unknown as ChartModel;
  const placing: Placing = { x: (value) => value, y: (value) => value };
  paintLines(surface, model, { left: 0, top: 0, width: 10, height: 10 }, placing, 1);
  return strokes;
}
