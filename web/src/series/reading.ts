/** One figure for a series of a run: its newest value, its best, or that at a step. */
import type { Reading } from "../server/api";
import { nearestIndex, type DrawLine } from "./shape";

export const READINGS = ["last", "best", "min", "max", "step"] as const satisfies readonly Reading[];
export type { Reading };

/** The newest, best, smallest, largest or last value up to a step; NaN and infinite ones are values too.
 *
 * @param lines: Of one run and one series; of a reading at a step those up to that step only.
 * @param lower: Whether less is better; null: its name does not tell, and there is no best.
 * @param upTo: The step of a reading at a step; answers hold a point more than was asked for, so that lines reach the edge.
 * @returns: null where there is none.
 */
export function readingOf(
  lines: readonly DrawLine[],
  reading: Reading,
  lower: boolean | null,
  upTo: number | null = null,
): number | null {
  if (reading === "best") return lower === null ? null : bestOf(lines, lower);
  if (reading === "min" || reading === "max") return bestOf(lines, reading === "min");
  const newest = lines.reduce<DrawLine | null>(
    (best, line) => (!best || line.attempt > best.attempt ? line : best),
    null,
  );
  if (!newest) return null;
  if (reading === "last") return newest.last ? Number(newest.last.value) : null;
  // The middle of the last bucket may lie beyond the step, its points do not.
  const bound = newest.low || upTo === null ? Infinity : upTo;
  let at = newest.raw.length - 1;
  while (at >= 0 && newest.x[at]! > bound) at -= 1;
  const bad = newest.nonfinite.findLast((x) => x <= bound);
  if (bad !== undefined && (at < 0 || bad >= newest.x[at]!)) return NaN;
  return at < 0 ? null : newest.raw[at]!;
}

/** Of each run, tag and writer the line of its newest attempt. */
export function newest<Line extends DrawLine>(lines: readonly Line[]): Line[] {
  const found = new Map<string, Line>();
  for (const line of lines) {
    const key = JSON.stringify([line.run, line.tag, line.writer, line.group]);
    if (line.attempt >= (found.get(key)?.attempt ?? 0)) found.set(key, line);
  }
  return [...found.values()];
}

/** The recorded value of a line at a place, or its newest: never a smoothed one, and not a number where it was none. */
export function recordedAt(line: DrawLine, x: number | null): number {
  if (x === null && line.last && line.group === null) return Number(line.last.value);
  const at = x === null ? line.end - 1 : nearestIndex(line.x, x, line.end);
  const value = at < 0 ? NaN : line.raw[at]!;
  if (x === null || !line.nonfinite.length) return value;
  const bad = line.nonfinite[nearestIndex(line.nonfinite, x)]!;
  return at < 0 || Math.abs(bad - x) < Math.abs(line.x[at]! - x) ? NaN : value;
}

/** The least or largest finite value that no later attempt has gone over again. */
export function bestOf(lines: readonly DrawLine[], lower: boolean): number | null {
  let best: number | null = null;
  for (const { low, high, raw, end } of lines) {
    const column = (lower ? low : high) ?? raw;
    for (let at = 0; at < end; at += 1) {
      const value = column[at]!;
      if (Number.isFinite(value) && (best === null || (lower ? value < best : value > best))) best = value;
    }
  }
  return best;
}
