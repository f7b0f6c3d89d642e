/** Rows of the rail: runs, and the headings of groups. */
import type { Family } from "../core/catalog";
import { configText, flatten } from "../core/config";

export const ROW_HEIGHT = 32;

export interface RailItem {
  key: string;
  family: Family | null;
  /** Of a heading. */
  text: string;
  size: number;
}

/** Runs in their order, under headings where they are grouped by a config key. */
export function groupedRows(families: readonly Family[], groupBy: string | null): RailItem[] {
  const row = (family: Family): RailItem => ({ key: `run:${family.name}`, family, text: "", size: 1 });
  if (groupBy === null) return families.map(row);
  const groups = new Map<string, Family[]>();
  for (const family of families) {
    const text = configText(flatten(family.main.config)[groupBy]);
    const members = groups.get(text);
    if (members) members.push(family);
    else groups.set(text, [family]);
  }
  const order = [...groups].sort(([a], [b]) => Number(a === "–") - Number(b === "–") || a.localeCompare(b, "en", { numeric: true }));
  return order.flatMap(([text, members]) => [{ key: `group:${text}`, family: null, text, size: members.length }, ...members.map(row)]);
}
