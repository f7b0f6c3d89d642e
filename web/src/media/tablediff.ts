/** Two tables cell by cell. */
import type { TableCells } from "../server/api";

export type CellValue = string | number | boolean | null;

export interface CellDiff {
  /** undefined: that table has no such row or column. */
  a: CellValue | undefined;
  b: CellValue | undefined;
  same: boolean;
}

export interface RowDiff {
  /** Places in either table, from 0; null: it has no such row. */
  a: number | null;
  b: number | null;
  cells: CellDiff[];
  same: boolean;
}

export interface TableDiff {
  /** Those of A, then those that only B has. */
  columns: string[];
  rows: RowDiff[];
  /** The column by whose values rows were put beside each other; null: by their places. */
  key: string | null;
  /** Cells of rows that both have, and how many of them differ. */
  compared: number;
  changed: number;
}

/** Puts the rows of two tables beside each other: by the first column of both that tells all rows apart, else by place. */
export function tableDiff(a: TableCells, b: TableCells): TableDiff {
  const columns = [...a.columns, ...b.columns.filter((name) => !a.columns.includes(name))];
  const places = columns.map((name) => [a.columns.indexOf(name), b.columns.indexOf(name)] as const);
  const key = keyOf(a, b);
  let [compared, changed] = [0, 0];
  const rows = pairsOf(a, b, key).map(([atA, atB]): RowDiff => {
    const cells = places.map(([inA, inB]): CellDiff => {
      const left = atA === null || inA < 0 ? undefined : (a.rows[atA]![inA] ?? null);
      const right = atB === null || inB < 0 ? undefined : (b.rows[atB]![inB] ?? null);
      return { a: left, b: right, same: left === right };
    });
    if (atA !== null && atB !== null) {
      compared += cells.length;
      changed += cells.filter((cell) => !cell.same).length;
    }
    return { a: atA, b: atB, cells, same: cells.every((cell) => cell.same) };
  });
  return { columns, rows, key, compared, changed };
}

/** A column of whole names, not of measured numbers, that both tables have and whose values differ from row to row. */
function keyOf(a: TableCells, b: TableCells): string | null {
  const distinct = ({ columns, rows }: TableCells, name: string): boolean => {
    const values = rows.map((row) => row[columns.indexOf(name)]);
    const whole = values.every((value) => typeof value === "string" || Number.isInteger(value));
    return whole && new Set(values).size === rows.length;
  };
  return a.columns.find((name) => b.columns.includes(name) && distinct(a, name) && distinct(b, name)) ?? null;
}

function pairsOf(a: TableCells, b: TableCells, key: string | null): [number | null, number | null][] {
  if (key === null) {
    const length = Math.max(a.rows.length, b.rows.length);
    return Array.from({ length }, (_, at) => [
      at < a.rows.length ? at : null,
      at < b.rows.length ? at : null,
    ]);
  }
  const [inA, inB] = [a.columns.indexOf(key), b.columns.indexOf(key)];
  const placesB = new Map(b.rows.map((row, at) => [row[inB], at]));
  const left = a.rows.map((row, at): [number, number | null] => [at, placesB.get(row[inA]) ?? null]);
  const taken = new Set(left.map(([, at]) => at));
  return [...left, ...b.rows.flatMap((_, at): [null, number][] => (taken.has(at) ? [] : [[null, at]]))];
}
