/** What the cursor reads: the values of lines at an x, nearest to the pointer first. */
import { nearestIndex, type DrawLine } from "./shape";

export interface CursorRow<L extends DrawLine = DrawLine> {
  line: L;
  /** Place in the line. */
  at: number;
  x: number;
  y: number;
  raw: number;
  low: number | null;
  high: number | null;
  /** From the pointer, in the unit of `distance`. */
  distance: number;
}

export interface Reading<L extends DrawLine = DrawLine> {
  rows: CursorRow<L>[];
  /** Lines with a value here that did not fit. */
  farther: number;
  /** Lines that end before this x. */
  ended: number;
}

export const ROWS = 7;

/** Reads lines at an x.
 *
 * @param place: Pixel of a value on the y axis.
 * @param pointer: Pixel of the pointer; null: order of the lines.
 */
export function readAt<L extends DrawLine>(
  lines: readonly L[],
  x: number,
  place: (value: number, line: L) => number,
  pointer: number | null,
  options: { superseded: boolean; rows?: number },
): Reading<L> {
  const found: CursorRow<L>[] = [];
  let ended = 0;
  for (const line of lines) {
    const end = options.superseded ? line.x.length : line.end;
    const at = nearestIndex(line.x, x, end);
    if (at < 0) continue;
    if (at === end - 1 && x > line.x[at]! + slack(line.x, end)) {
      ended += 1;
      continue;
    }
    const y = line.y[at]!;
    const distance = pointer === null ? found.length : Math.abs(place(y, line) - pointer);
    found.push({
      line,
      at,
      x: line.x[at]!,
      y,
      raw: line.raw[at]!,
      low: line.low?.[at] ?? null,
      high: line.high?.[at] ?? null,
      distance: Number.isNaN(distance) ? Infinity : distance,
    });
  }
  if (pointer !== null) found.sort((a, b) => a.distance - b.distance);
  const rows = found.slice(0, options.rows ?? ROWS);
  return { rows, farther: found.length - rows.length, ended };
}

/** A line still counts for half its own spacing behind its last point. */
function slack(x: ArrayLike<number>, end: number): number {
  return end > 1 ? (x[end - 1]! - x[Math.max(0, end - 3)]!) / Math.min(2, end - 1) / 2 : 0;
}
