/** How cards lie beside each other, and how high they are. */
import type { Section } from "./sections";

const LEAST_WIDTH = 270;
/** Narrower than this a card shows nothing. */
const NARROWEST = 150;
/** Heights that a card may be dragged to. */
export const HEIGHTS = { least: 110, most: 900 };
const HEIGHT = 165;
const TALLEST = 340;
/** Height over width of a card that has room. */
const STEEPEST = 0.6;
const BARS = 44 + 36 + 40;
/** Pixels of the head of a section. */
export const HEADER = 28;
/** A section shows so many charts until more are asked for. */
export const MOST_PER_SECTION = 60;

/** Sections beside each other. */
export interface Row {
  sections: Section[];
  columns: number;
}

/** Cards beside each other: as many as were asked for and can be read, else as fit. */
export function fitting(width: number, wanted: number | null = null): number {
  const fit = Math.max(1, Math.floor(width / LEAST_WIDTH));
  return wanted === null ? fit : Math.max(1, Math.min(wanted, Math.floor(width / NARROWEST)));
}

/** Puts small sections that follow each other into one row; a closed one keeps a row of its own. */
export function rowsOf(
  sections: readonly Section[],
  fit: number,
  closed: (section: Section) => boolean,
  exact = false,
): Row[] {
  const rows: Row[] = [];
  let open: Row | null = null;
  for (const section of sections) {
    const size = section.charts.length;
    if (closed(section) || size > fit) {
      rows.push({
        sections: [section],
        columns: closed(section) ? 1 : exact ? Math.min(fit, size) : columnsOf(fit, size),
      });
      open = null;
    } else if (open && open.columns + size <= fit) {
      open.sections.push(section);
      open.columns += size;
    } else rows.push((open = { sections: [section], columns: size }));
  }
  return rows;
}

/** Columns for many charts: as many as fit, or one fewer where that leaves less of the last row empty. */
function columnsOf(fit: number, charts: number): number {
  const empty = (columns: number): number => (columns - (charts % columns)) % columns;
  return fit > 2 && empty(fit - 1) < empty(fit) ? fit - 1 : fit;
}

const MORE = 41;

/** Charts of a section that are shown. */
export function shownOf(section: Section, all: boolean): number {
  return all ? section.charts.length : Math.min(section.charts.length, MOST_PER_SECTION);
}

/** The charts that are drawn in this frame: those that were there already, and few that come.
 *
 * @param there: Ids of those that were there.
 */
export function inTurn(
  charts: readonly { id: string }[],
  there: ReadonlySet<string>,
  atOnce: number,
): ReadonlySet<string> {
  const found = new Set<string>();
  let room = atOnce;
  for (const { id } of charts) {
    if (!there.has(id)) {
      if (room === 0) continue;
      room -= 1;
    }
    found.add(id);
  }
  return found;
}

/** Pixels of a row of sections, its headers included. */
export function rowHeight(
  row: Row,
  height: number,
  closed: (section: Section) => boolean,
  all: (section: Section) => boolean,
): number {
  const heights = row.sections.map((section) => {
    if (closed(section)) return HEADER;
    const shown = shownOf(section, all(section));
    return (
      HEADER +
      Math.ceil(shown / Math.min(row.columns, section.charts.length)) * height +
      (shown < section.charts.length ? MORE : 0)
    );
  });
  return Math.max(...heights);
}

/** Height of all cards: few rows share the height of the window. */
export function heightOf(rows: readonly Row[], window: number, width: number): number {
  const lines = rows.reduce(
    (sum, row) => sum + Math.max(...row.sections.map(({ charts }) => Math.ceil(charts.length / row.columns))),
    0,
  );
  const free = window - BARS - HEADER * rows.length;
  const widest = width / Math.max(1, ...rows.map(({ columns }) => columns));
  const tallest = Math.max(TALLEST, widest * STEEPEST);
  return Math.floor(Math.min(tallest, Math.max(HEIGHT, free / Math.max(1, lines))));
}
