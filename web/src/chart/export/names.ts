/** Names of files and rows of tables, safe whatever a log calls its tags. */

/** A name that every file system takes: no path, no leading dot, no reserved word, at most 100 characters. */
export function fileName(title: string, ending: string): string {
  const plain = title.normalize("NFKD").replace(/[^A-Za-z0-9._=-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 100);
  const reserved = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i.test(plain);
  return `${reserved ? "_" : ""}${plain || "chart"}.${ending}`;
}

export type Cell = string | number | bigint | null | undefined;

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
