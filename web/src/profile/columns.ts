/** Columns of a table of figures: what stands in a cell, how it is sorted, and the bar behind it. */

export interface Column<Row> {
  key: string;
  head: string;
  /** What the head means, where a word does not say it. */
  title?: string;
  /** Width in pixels; the name has what is left. */
  width?: number;
  /** What rows are sorted by; null sorts last in both directions. */
  value: (row: Row) => number | string | null;
  text: (row: Row) => string;
  /** A bar as part of the cell, 0 to 1. */
  bar?: (row: Row) => number | null;
  /** Whether bars start in the middle, negative ones going to the left. */
  middle?: boolean;
  tone?: (row: Row) => string;
  hint?: (row: Row) => string;
  words?: boolean;
}

export interface Order {
  key: string;
  up: boolean;
}

/** Rows in an order; what has no value comes last whichever way. */
export function inOrder<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order): Row[] {
  const column = columns.find((one) => one.key === order.key);
  if (!column) return [...rows];
  const keyed = rows.map((row) => ({ row, value: column.value(row) }));
  const way = order.up ? 1 : -1;
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) return a.value === b.value ? 0 : a.value === null ? 1 : -1;
    if (typeof a.value === "string" || typeof b.value === "string")
      return way * String(a.value).localeCompare(String(b.value), "en", { numeric: true });
    return way * (a.value - b.value);
  });
  return keyed.map((one) => one.row);
}

/** Rows whose name holds a text, whatever its case. */
export function named<Row extends { name: string }>(rows: readonly Row[], needle: string): Row[] {
  const wanted = needle.trim().toLowerCase();
  return wanted ? rows.filter((row) => row.name.toLowerCase().includes(wanted)) : [...rows];
}

/** A kernel's name without what says nothing of it: the return type and the types of its parameters. */
export function kernelName(name: string): string {
  const bare = name.replace(/^void /, "").replaceAll("(anonymous namespace)::", "");
  if (!bare.endsWith(")")) return bare;
  let depth = 0;
  for (let at = bare.length - 1; at > 0; at -= 1) {
    if (bare[at] === ")") depth += 1;
    else if (bare[at] === "(" && (depth -= 1) === 0)
      return /[>\w]$/.test(bare.slice(0, at)) ? bare.slice(0, at) : bare;
  }
  return bare;
}

/** A frame of a stack without the folders that packages lie in. */
export function frameName(frame: string): string {
  return frame.replace(/^.*\/(?:site|dist)-packages\//, "").replace(/^.*\/(?=[^/]+\/[^/]+\/[^/]+$)/, "");
}
