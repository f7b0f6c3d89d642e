/** Rows of tables as CSV, safe whatever a log holds. */

export type Cell = string | number | bigint | boolean | null | undefined;

/** One row of CSV; numbers keep every digit, text that a spreadsheet would run as a formula is quoted as text. */
export function csvRow(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(",")}\r\n`;
}

function csvCell(cell: Cell): string {
  if (cell === null || cell === undefined) return "";
  if (typeof cell !== "string") return String(cell);
  const text = /^[=+@\t\r-]/.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function csvOf(head: readonly string[], rows: Iterable<readonly Cell[]>): string {
  let text = csvRow(head);
  for (const row of rows) text += csvRow(row);
  return text;
}

/** Rows as they come from the server, every field a column: what is nested under its own name, lists in one cell.
 *
 * @param without: Fields that are tables of their own.
 */
export function recordsCsv(rows: readonly object[], without: readonly string[] = []): string {
  const flat = rows.map((row) => fieldsOf(row, "", without));
  const all = [...new Set(flat.flatMap((row) => [...row.keys()]))];
  // What is nested in one row and nothing in another has no column of its own.
  const head = all.filter(
    (name) =>
      !all.some((other) => other.startsWith(`${name}_`)) ||
      flat.some((row) => (row.get(name) ?? null) !== null),
  );
  return csvOf(
    head,
    flat.map((row) => head.map((name) => row.get(name))),
  );
}

function fieldsOf(value: object, prefix: string, without: readonly string[]): Map<string, Cell> {
  const found = new Map<string, Cell>();
  for (const [name, field] of Object.entries(value) as [string, unknown][]) {
    if (without.includes(prefix + name)) continue;
    if (Array.isArray(field)) found.set(prefix + name, field.join(" | "));
    else if (typeof field === "object" && field !== null)
      for (const [inner, cell] of fieldsOf(field, `${prefix}${name}_`, without)) found.set(inner, cell);
    else found.set(prefix + name, field as Cell);
  }
  return found;
}
