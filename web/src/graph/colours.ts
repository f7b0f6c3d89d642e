/** What boxes are filled with, and what the figure in them says. */
import type { Box } from "./boxes";
import { cividis } from "../theme/colour";
import type { Scope } from "./model";
import { TINTS, type Tint } from "../view/view";
import type { Palette } from "../theme/palette";
import { compact, count, figure, GAP, NOTHING } from "../format/number";
import { bytesText, nsText } from "../format/units";

export const TINT_NAMES: Record<Tint, string> = {
  time: "Compute time",
  memory: "Memory",
  flops: "FLOPs",
  parameters: "Parameters",
  gradient: "Gradient norm",
  op: "Operation",
};
/** Colours for kinds of operations; further kinds are grey. */
const KINDS = 8;

export type Sums = Pick<
  Scope,
  "micros" | "memory" | "flops" | "parameters" | "gradient" | "op" | "operations"
>;

export function valueOf(sums: Sums, tint: Tint): number | null {
  return tint === "time" ? sums.micros : tint === "op" ? null : sums[tint];
}

/** What boxes are coloured by before anybody chose: the first of which anything was recorded. */
export function tintOf(all: Sums): Tint {
  return TINTS.find((tint) => valueOf(all, tint) !== null) ?? "op";
}

export function valueText(sums: Sums, tint: Tint): string {
  if (tint === "time") return microsText(sums.micros);
  if (tint === "memory") return bytesText(sums.memory);
  if (tint === "flops") return sums.flops === null ? NOTHING : compact(sums.flops);
  if (tint === "gradient") return figure(sums.gradient, 3);
  if (tint === "parameters") return sums.parameters === null ? NOTHING : count(sums.parameters);
  return sums.op || NOTHING;
}

export const microsText = (micros: number | null): string => nsText(micros === null ? null : micros * 1e3);
export const operationsText = (operations: number): string =>
  `${count(operations)}${GAP}${operations === 1 ? "operation" : "operations"}`;

export interface Legend {
  /** The largest value in view; null: by kinds, or nothing was recorded. */
  most: number | null;
  kinds: { op: string; series: number }[];
  others: boolean;
}

const isInside = (box: Box): boolean => box.kind !== "before" && box.kind !== "after";

export function legendOf(boxes: readonly Box[], tint: Tint): Legend {
  const inside = boxes.filter(isInside);
  if (tint !== "op") {
    const values = inside
      .map((box) => valueOf(box, tint))
      .filter((value) => value !== null && Number.isFinite(value)) as number[];
    return { most: values.length ? Math.max(...values) : null, kinds: [], others: false };
  }
  const times = new Map<string, number>();
  for (const box of inside) if (box.op) times.set(box.op, (times.get(box.op) ?? 0) + 1);
  const kinds = [...times].sort((a, b) => b[1] - a[1]).map(([op], at) => ({ op, series: at + 1 }));
  return { most: null, kinds: kinds.slice(0, KINDS), others: kinds.length > KINDS };
}

/** Fill and ink of a box; null: nothing was recorded of it, so it is hatched. */
export function fillOf(
  box: Box,
  tint: Tint,
  legend: Legend,
  palette: Pick<Palette, "series" | "neutral" | "dark" | "bad">,
): { fill: string; ink: string } | null {
  if (!isInside(box)) return null;
  const { series, neutral, dark } = palette;
  let fill: string;
  if (tint === "op") {
    const kind = legend.kinds.find((one) => one.op === box.op);
    fill = kind ? series[kind.series - 1]! : neutral;
  } else {
    const value = valueOf(box, tint);
    if (value === null) return null;
    if (!Number.isFinite(value)) return { fill: palette.bad, ink: inkOf(palette.bad) };
    // Light where little is on light, dark where little is on dark: what costs stands out of the page.
    const share = legend.most ? value / legend.most : 0;
    fill = cividis(dark ? share : 1 - share, dark);
  }
  return { fill, ink: inkOf(fill) };
}

/** Black or white, whichever contrasts more (WCAG 2.2, relative luminance). */
export function inkOf(colour: string): string {
  const [red, green, blue] = [1, 3, 5].map((at) => {
    const part = parseInt(colour.slice(at, at + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  const light = 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  return (light + 0.05) / 0.05 >= 1.05 / (light + 0.05) ? "#000000" : "#ffffff";
}
