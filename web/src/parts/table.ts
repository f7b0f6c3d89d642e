/** Columns of a table: what stands in a cell, how rows are sorted by it, and the bar beside it. */
import type { Snippet } from "svelte";
import type { Fact } from "../runs/fact";

/** A mark before a text: a box of a part of the step or of a colour, or a piece of a line. */
export interface Mark {
  part?: string;
  colour?: string;
  dash?: readonly number[];
  title?: string;
}

export interface Pill {
  text: string;
  tone: string;
  title?: string;
}

export interface Column<Row> {
  /** What orders name the column by; else its head. */
  key?: string;
  head: string;
  /** Behind the head, where all cells have it. */
  unit?: string;
  headMark?: Mark;
  /** The head is only for who cannot see what the cells draw. */
  headHidden?: boolean;
  /** What the head means, where a word does not say it. */
  title?: string;
  /** In pixels, or as CSS; the first column has what is left. */
  width?: number | string;
  /** Words stand at the left, numbers at the right. */
  words?: boolean;
  mono?: boolean;
  /** Names of which the beginning is cut, and not the end, where they have no room. */
  ends?: boolean;
  /** What rows are sorted by; null sorts last in both directions. */
  value?: (row: Row) => number | string | null;
  /** The first press of the head sorts upwards; without `value`, who owns the table sorts its rows. */
  up?: boolean;
  text?: (row: Row) => string;
  /** What the text states, where it is a figure. */
  fact?: (row: Row) => Fact | null;
  /** Muted, behind the text. */
  note?: (row: Row) => string;
  /** Instead of a text; told the place of the column too. */
  cell?: Snippet<[Row, number]>;
  /** A bar in the cell, 0 to 1. */
  bar?: (row: Row) => number | null;
  /** Class of the bar. */
  fill?: (row: Row) => string;
  /** Bars start in the middle, negative ones going to the left. */
  middle?: boolean;
  mark?: (row: Row) => Mark | null;
  pills?: (row: Row) => readonly Pill[];
  tone?: (row: Row) => string;
  hint?: (row: Row) => string | null | undefined;
  /** What pressing the text does; null: it cannot be pressed. */
  press?: (row: Row) => (() => void) | null;
  /** Columns that the cell takes; absent: one. */
  span?: (row: Row) => number;
}

export interface Order {
  key: string;
  up: boolean;
}

export interface Tree<Row> {
  depth: (row: Row) => number;
  /** Whether the row is open; null: there is nothing below it. */
  open: (row: Row) => boolean | null;
  ontoggle: (row: Row) => void;
}

/** The first column of a table whose rows have names. */
export function nameColumn<Row extends { name: string }>(
  head = "Name",
  {
    short = (name: string) => name,
    ...more
  }: { short?: (name: string) => string } & Partial<Column<Row>> = {},
): Column<Row> {
  return {
    key: "name",
    head,
    up: true,
    value: (row) => row.name,
    text: (row) => short(row.name) || "(without a name)",
    hint: (row) => row.name,
    ...more,
  };
}

type Figure = number | null | undefined;
type FigureKey<Row> = { [Key in keyof Row]: Row[Key] extends Figure ? Key : never }[keyof Row];

/** A column of figures, sorted by them: a field of the rows or what is made of them, and how it reads. */
export function figures<Row>(
  head: string,
  of: FigureKey<Row> | ((row: Row) => Figure),
  text: (value: Figure) => string,
  more: Partial<Column<Row>> = {},
): Column<Row> {
  const value = (row: Row): number | null =>
    (typeof of === "function" ? of(row) : (row[of] as Figure)) ?? null;
  return { head, value, text: (row) => text(value(row)), ...more };
}

export const keyOf = <Row>(column: Column<Row>): string => column.key ?? column.head;

/** Rows in an order; what has no value comes last whichever way. */
export function inOrder<Row>(rows: readonly Row[], columns: readonly Column<Row>[], order: Order): Row[] {
  const value = columns.find((one) => keyOf(one) === order.key)?.value;
  if (!value) return [...rows];
  const keyed = rows.map((row) => ({ row, value: value(row) }));
  const way = order.up ? 1 : -1;
  keyed.sort((a, b) => {
    if (a.value === null || b.value === null) return a.value === b.value ? 0 : a.value === null ? 1 : -1;
    if (typeof a.value === "string" || typeof b.value === "string")
      return way * String(a.value).localeCompare(String(b.value), "en", { numeric: true });
    return way * (a.value - b.value);
  });
  return keyed.map((one) => one.row);
}
