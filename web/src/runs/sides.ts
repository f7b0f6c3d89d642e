/** Two selections of runs beside each other: what they are, and the queries that choose them. */
import type { RunSummary } from "../server/api";
import type { Family } from "./catalog";
import { parseQuery, type MetricOf } from "./query";

export type SideName = "A" | "B";
export const SIDES: readonly SideName[] = ["A", "B"];

/** Runs that a side's query matches; archived ones only where it asks for them. */
export function sideOf(query: string, families: readonly Family[], metric?: MetricOf): readonly Family[] {
  if (query.trim() === "") return [];
  const { matches, archived } = parseQuery(query, metric);
  return families.filter(({ main }) => matches(main) && (archived || !main.archived));
}

/** The query that matches exactly some runs.
 *
 * @param all: Every run, so that a name is quoted where another one differs from it only in case.
 */
export function runsQuery(names: readonly string[], all: readonly RunSummary[]): string {
  if (!names.length) return "";
  const cases = new Map<string, number>();
  for (const { name } of all) cases.set(name.toLowerCase(), (cases.get(name.toLowerCase()) ?? 0) + 1);
  const plain = (name: string): boolean =>
    /^[^\s",*\\]+$/.test(name) && (cases.get(name.toLowerCase()) ?? 0) < 2;
  return `run:${names.map((name) => (plain(name) ? name : `"${name.replace(/["\\]/g, "\\$&")}"`)).join(",")}`;
}

/** Adds a run to a side, or takes it out of it. */
export function toggled(side: readonly Family[], name: string): string[] {
  const names = side.map((family) => family.name);
  return names.includes(name) ? names.filter((one) => one !== name) : [...names, name];
}
