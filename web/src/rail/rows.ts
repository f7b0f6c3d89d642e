/** Rows of the rail: runs, and the headings of groups. */
import type { Family } from "../runs/catalog";
import { grouped, type Grouping } from "../runs/groups";

export const ROW_HEIGHT = 32;

export interface RailItem {
  key: string;
  family: Family | null;
  /** Of a heading. */
  text: string;
  size: number;
  /** Its first run. */
  first: string;
}

/** Runs in their order, under headings where they are grouped. */
export function groupedRows(families: readonly Family[], grouping: Grouping | null): RailItem[] {
  const row = (family: Family): RailItem => ({
    key: `run:${family.name}`,
    family,
    text: "",
    size: 1,
    first: family.name,
  });
  if (grouping === null) return families.map(row);
  return grouped(families, grouping).flatMap(([text, members]) => [
    { key: `group:${text}`, family: null, text, size: members.length, first: members[0]!.name },
    ...members.map(row),
  ]);
}
