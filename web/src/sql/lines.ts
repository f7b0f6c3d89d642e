/** What an answer of SQL draws: over its first column of numbers a line for each other one, and for each text beside. */
import type { Table } from "../server/api";
import type { DrawLine } from "../series/shape";

export interface NamedLine extends DrawLine {
  label: string;
}

/** Places of the columns whose values are numbers, where there are any. */
export function numbersOf({ columns, rows }: Table): number[] {
  return columns
    .map((_, at) => at)
    .filter(
      (at) =>
        rows.some((row) => typeof row[at] === "number") &&
        rows.every((row) => row[at] === null || typeof row[at] === "number"),
    );
}

/** Lines in the order in which rows name them; none where a line would have one place only. */
export function linesOf(table: Table): NamedLine[] {
  const [x, ...ys] = numbersOf(table);
  if (x === undefined) return [];
  const words = table.columns.map((_, at) => at).filter((at) => at !== x && !ys.includes(at));
  const groups = new Map<string, Table["rows"]>();
  for (const row of table.rows) {
    if (typeof row[x] !== "number") continue;
    const name = words.map((at) => row[at] ?? "none").join(", ");
    const rows = groups.get(name);
    if (rows) rows.push(row);
    else groups.set(name, [row]);
  }
  return [...groups].flatMap(([name, rows]) =>
    ys.flatMap((y) => {
      const own = rows
        .filter((row) => typeof row[y] === "number")
        .map((row) => [row[x] as number, row[y] as number] as const)
        .sort((a, b) => a[0] - b[0]);
      if (new Set(own.map(([at]) => at)).size < 2) return [];
      const head = table.columns[y]!;
      const label = [name, ...(name && ys.length === 1 ? [] : [head])].filter(Boolean).join(", ");
      const values = Float64Array.from(own, ([, value]) => value);
      return {
        id: label,
        run: name || head,
        tag: head,
        split: null,
        writer: "",
        attempt: 1,
        x: Float64Array.from(own, ([at]) => at),
        y: values,
        raw: values,
        low: null,
        high: null,
        first: null,
        smoothed: false,
        group: null,
        members: 0,
        counts: null,
        end: own.length,
        nonfinite: [],
        points: own.length,
        bad: 0,
        last: null,
        label,
      };
    }),
  );
}
