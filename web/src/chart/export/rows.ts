/** What a chart saves as a table, read back as rows to be shown: the table on the screen is the one of the file. */

import { nineDigits } from "../../format/number";

/** Text of a table, or the address at which the server has it. */
export type TableData = BlobPart[] | { address: string; name: string };

/** Letters of a table that the server makes which are read at most: one of millions of events is shown in part. */
const MOST_LETTERS = 4_000_000;
/** Letters from which a column of texts is cut, with the whole text behind the pointer. */
const WIDEST = 48;

export interface Rows {
  head: string[];
  rows: string[][];
  columns: Column[];
  /** Whether there are more rows than these: the file has them. */
  cut: boolean;
}

export interface Column {
  /** Whether all of its cells are numbers. */
  number: boolean;
  /** Letters that it needs. */
  wide: number;
}

export async function rowsOf(data: TableData): Promise<Rows> {
  const { text, cut } = Array.isArray(data)
    ? { text: await new Blob(data).text(), cut: false }
    : await read(data.address);
  // The last line of a part may have been cut within.
  const [head = [], ...rows] = parsedCsv(cut ? text.slice(0, text.lastIndexOf("\n") + 1) : text);
  return { head, rows, columns: head.map((name, at) => columnOf(name, rows, at)), cut };
}

async function read(address: string): Promise<{ text: string; cut: boolean }> {
  const answer = await fetch(address);
  if (!answer.ok || !answer.body) throw new Error(`the server answered ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { text, cut: false };
    text += value;
    if (text.length < MOST_LETTERS) continue;
    void reader.cancel();
    return { text, cut: true };
  }
}

/** Rows of cells. What `csvRow` marked as text, for a spreadsheet would compute it, is that text again. */
export function parsedCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  const cell = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/y;
  while (cell.lastIndex < text.length) {
    const found = cell.exec(text);
    if (!found) throw new Error("not a table: a quote is not closed");
    const value = found[1]?.replaceAll('""', '"') ?? found[2]!;
    row.push(/^'[=+@\t\r-]/.test(value) ? value.slice(1) : value);
    if (found[3] === ",") {
      if (cell.lastIndex === text.length) row.push("");
      else continue;
    }
    rows.push(row);
    row = [];
  }
  return rows;
}

const NUMBER = /^(-?\d+(\.\d*)?(e[-+]?\d+)?|-?Infinity|NaN|)$/i;

function columnOf(name: string, rows: readonly string[][], at: number): Column {
  let [number, wide] = [false, name.length];
  for (const row of rows) {
    const cell = row[at] ?? "";
    if (!NUMBER.test(cell)) return { number: false, wide: widest(name, rows, at) };
    number ||= cell !== "";
    wide = Math.max(wide, cellText(cell).length);
  }
  return { number, wide };
}

function widest(name: string, rows: readonly string[][], at: number): number {
  return Math.min(
    WIDEST,
    rows.reduce((most, row) => Math.max(most, row[at]?.length ?? 0), name.length),
  );
}

/** A cell as it is shown: numbers without the noise of the sums that made them. */
export function cellText(cell: string): string {
  const value = Number(cell);
  return /[.e]/i.test(cell) && NUMBER.test(cell) && Number.isFinite(value) ? nineDigits(value) : cell;
}
