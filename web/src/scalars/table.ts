/** Lines as rows of a table: every x of any line, and what each line is there. */
import type { Range } from "../series/limits";
import { lowerBound, type DrawLine } from "../series/shape";

export interface TableRow {
  x: number;
  /** null: the line has no point at this x. */
  values: (number | null)[];
}

/** Rows in ascending x within a range; recorded values, not smoothed ones. */
export function tableOf(lines: readonly DrawLine[], range: Range): TableRow[] {
  const rows = new Map<number, TableRow>();
  lines.forEach((line, column) => {
    const from = lowerBound(line.x, range.min);
    for (let at = from; at < line.x.length && line.x[at]! <= range.max; at += 1) {
      const x = line.x[at]!;
      let row = rows.get(x);
      if (!row) rows.set(x, (row = { x, values: new Array<number | null>(lines.length).fill(null) }));
      row.values[column] = line.raw[at]!;
    }
  });
  return [...rows.values()].sort((a, b) => a.x - b.x);
}

/** The least or largest finite value of a line that no later attempt has gone over again, and where it is. */
export function extremeOf(
  { x, raw, low, high, end, group }: DrawLine,
  lower: boolean,
): { value: number; x: number } | null {
  // Of a mean of runs the extremes of a place are its band.
  const column = (group === null && (lower ? low : high)) || raw;
  let found: number | null = null;
  for (let at = 0; at < end; at += 1) {
    const value = column[at]!;
    if (
      Number.isFinite(value) &&
      (found === null || (lower ? value < column[found]! : value > column[found]!))
    )
      found = at;
  }
  return found === null ? null : { value: column[found]!, x: x[found]! };
}
