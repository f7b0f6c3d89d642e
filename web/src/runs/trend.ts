/** Trend and last value of one chart for each run, from few buckets. */
import { px } from "../format/path";
import type { Split } from "../server/api";
import type { DecodedChart } from "../server/wire";
import { drawLines, type DrawLine } from "../series/shape";

export const TREND_BUCKETS = 32;

export interface Trend {
  line: DrawLine;
  /** The newest recorded value; NaN and infinite ones are values too. */
  last: number;
  lastStep: number;
}

const CHOICE: (Split | null)[] = ["eval", null, "train", "test"];

/** One line of each family: that of its evaluation where there is one, its newest attempt, its first writer. */
export function trendsOf(chart: DecodedChart, familyOf: (run: string) => string): Map<string, Trend> {
  const trends = new Map<string, Trend>();
  for (const line of drawLines(chart)) {
    if (!line.last) continue;
    const family = familyOf(line.run);
    const before = trends.get(family)?.line;
    if (before && !better(line, before)) continue;
    trends.set(family, { line, last: Number(line.last.value), lastStep: line.last.step });
  }
  return trends;
}

function better(line: DrawLine, than: DrawLine): boolean {
  const [a, b] = [CHOICE.indexOf(line.split), CHOICE.indexOf(than.split)];
  if (a !== b) return a < b;
  return line.writer === than.writer && line.attempt > than.attempt;
}

/** An SVG path over a box; x on the range that all runs share, y on the line's own. */
export function sparkPath(line: DrawLine, x0: number, x1: number, width: number, height: number): string {
  let min = Infinity;
  let max = -Infinity;
  for (const value of line.y) {
    if (value < min) min = value;
    if (value > max) max = value;
  }
  if (!(min <= max)) return "";
  const across = width / (x1 - x0 || 1);
  const up = max > min ? (height - 2) / (max - min) : 0;
  let path = "";
  for (let at = 0; at < line.x.length; at += 1) {
    const value = line.y[at]!;
    if (!Number.isFinite(value)) continue;
    const left = px((line.x[at]! - x0) * across);
    const top = px(max > min ? height - 1 - (value - min) * up : height / 2);
    path += `${path ? "L" : "M"}${left} ${top}`;
  }
  return path;
}
