/** Ranges of axes. */
import { lowerBound, type DrawLine } from "./shape";
import type { Numbers } from "../server/wire";

export interface Range {
  min: number;
  max: number;
}

export interface LimitOptions {
  log: boolean;
  /** Whether extremes count: without, the range is that of the middle nine tenths. */
  outliers: boolean;
  /** Whether raw values behind smoothed ones are drawn and so count. */
  ghost: boolean;
  superseded: boolean;
  /** The largest value that counts; what lies beyond is left out. */
  most?: number;
}

/** The y range of what is drawn between two x; null: nothing finite. */
export function yLimits(lines: readonly DrawLine[], x: Range | null, options: LimitOptions): Range | null {
  const values: Numbers[] = [];
  for (const line of lines) {
    const end = options.superseded ? line.x.length : line.end;
    const from = x ? Math.max(0, lowerBound(line.x, x.min) - 1) : 0;
    const to = x ? Math.min(end, lowerBound(line.x, x.max) + 1) : end;
    if (to <= from) continue;
    values.push(line.y.subarray(from, to));
    if (line.group === null && (!options.outliers || (line.smoothed && !options.ghost))) continue;
    if (line.low && line.high) values.push(line.low.subarray(from, to), line.high.subarray(from, to));
    else values.push(line.raw.subarray(from, to));
  }
  const found = options.outliers ? fullRange(values, options.log) : middleRange(values, options.log);
  const range =
    found && options.most !== undefined ? { min: found.min, max: Math.min(found.max, options.most) } : found;
  return range && (options.log ? padLog(range) : pad(range));
}

function fullRange(values: Numbers[], positive: boolean): Range | null {
  let min = Infinity;
  let max = -Infinity;
  for (const column of values) {
    for (let at = 0; at < column.length; at += 1) {
      const value = column[at]!;
      if (value - value !== 0 || (positive && value <= 0)) continue;
      if (value < min) min = value;
      if (value > max) max = value;
    }
  }
  return min <= max ? { min, max } : null;
}

/** From the 5th to the 95th percentile, and a fifth of that more on both sides. */
function middleRange(values: Numbers[], positive: boolean): Range | null {
  const kept: number[] = [];
  for (const column of values) {
    for (let at = 0; at < column.length; at += 1) {
      const value = column[at]!;
      if (value - value === 0 && (!positive || value > 0)) kept.push(value);
    }
  }
  if (!kept.length) return null;
  const sorted = Float64Array.from(kept).sort();
  const at = (share: number): number => sorted[Math.round(share * (sorted.length - 1))]!;
  const [low, high] = [at(0.05), at(0.95)];
  if (positive) return { min: Math.max(sorted[0]!, low / 1.5), max: Math.min(sorted.at(-1)!, high * 1.5) };
  const more = 0.2 * (high - low);
  return { min: Math.max(sorted[0]!, low - more), max: Math.min(sorted.at(-1)!, high + more) };
}

/** Values of float32 that differ by no more, of their size, are one. */
const ALIKE = 2e-7;
const AIR = 0.06;

/** A little air. A constant is drawn against 0: a range around it would have ticks that only say how flat it is. */
function pad({ min, max }: Range): Range {
  const size = Math.max(Math.abs(min), Math.abs(max));
  if (max - min <= ALIKE * size) {
    if (size === 0) return { min: 0, max: 1 };
    return min < 0 ? { min: min * (1 + AIR), max: 0 } : { min: 0, max: max * (1 + AIR) };
  }
  const air = (max - min) * AIR;
  // Values that start at zero, such as rates and shares, keep it as their floor.
  return { min: min >= 0 && min < air ? 0 : min - air, max: max + air };
}

function padLog({ min, max }: Range): Range {
  if (min === max) return { min: min / 2, max: max * 2 };
  const air = (max / min) ** 0.05;
  return { min: min / air, max: max * air };
}

/** The x range of lines; null: no point. */
export function xLimits(lines: readonly DrawLine[], log: boolean, superseded: boolean): Range | null {
  let min = Infinity;
  let max = -Infinity;
  for (const { x, end, nonfinite } of lines) {
    const stop = superseded ? x.length : end;
    const from = log ? lowerBound(x, Number.MIN_VALUE) : 0;
    if (from < stop) {
      min = Math.min(min, x[from]!);
      max = Math.max(max, x[stop - 1]!);
    }
    if (nonfinite.length && !log) {
      min = Math.min(min, nonfinite[0]!);
      max = Math.max(max, nonfinite.at(-1)!);
    }
  }
  if (!(min <= max)) return null;
  if (min === max) return log ? { min: min / 2, max: max * 2 } : { min: min - 1, max: max + 1 };
  return { min, max };
}
