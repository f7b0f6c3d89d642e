/** The order of runs in the rail and the leaderboard. */
import { byName, type Family } from "./catalog";
import { flatten } from "./config";
import type { State } from "../server/api";

export type Cell = number | string | null;

const STATES: State[] = ["running", "failed", "stalled", "stopped", "finished", "ended"];

/** What a run is ordered by; `config:` and `metric:` in front name a config key and a chart. */
export function cellOf(
  family: Family,
  field: string,
  metric: (chart: string, family: Family) => number | null,
): Cell {
  const { main } = family;
  if (field.startsWith("metric:")) return metric(field.slice(7), family);
  if (field.startsWith("config:")) return configCell(flatten(main.config)[field.slice(7)]);
  switch (field) {
    case "state":
      return STATES.indexOf(main.state);
    case "step":
      return main.step;
    case "started":
      return main.started;
    case "updated":
      return main.updated;
    case "points":
      return main.points;
    case "duration":
      return main.started !== null && main.updated !== null ? main.updated - main.started : null;
    case "speed":
      return main.steps_per_second;
    default:
      return family.name;
  }
}

function configCell(value: unknown): Cell {
  if (value === undefined || value === null) return null;
  return typeof value === "number" ? value : typeof value === "boolean" ? Number(value) : String(value);
}

/** Families by a field, `-` in front for descending; what has no value comes last, `kept` ones first. */
export function order(
  families: readonly Family[],
  sort: string,
  metric: (chart: string, family: Family) => number | null,
  kept: readonly string[] = [],
): Family[] {
  const descending = sort.startsWith("-");
  const field = descending ? sort.slice(1) : sort;
  const cells = new Map(families.map((family) => [family, cellOf(family, field, metric)]));
  const places = new Map(kept.map((name, place) => [name, place]));
  return [...families].sort((a, b) => {
    const front = (places.get(a.name) ?? Infinity) - (places.get(b.name) ?? Infinity);
    if (front && !Number.isNaN(front)) return front;
    return compareCells(cells.get(a)!, cells.get(b)!, descending) || byName(a.name, b.name);
  });
}

function compareCells(a: Cell, b: Cell, descending: boolean): number {
  const missing = Number(missingCell(a)) - Number(missingCell(b));
  if (missing || missingCell(a)) return missing;
  const way = descending ? -1 : 1;
  if (typeof a === "number" && typeof b === "number") return way * (a - b);
  return way * byName(String(a), String(b));
}

function missingCell(cell: Cell): boolean {
  return cell === null || (typeof cell === "number" && Number.isNaN(cell));
}
