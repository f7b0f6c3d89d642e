/** What changed in a run: the groups of changes that the page shows, and where their charts are. */
import type { ChangeLog, ChangeLogGroup, Chart } from "../server/api";
import { told } from "../server/client";
import { escaped } from "./evidence";
import type { Change } from "../view/view";

/** Steps that are shown before and after a group, at least. */
const MARGIN = 20;

export const fetchChanges = (run: string): Promise<ChangeLog> => told("changelog", { run });

/** The groups that hold more than changes of side series. */
export function mainGroups(log: ChangeLog): ChangeLogGroup[] {
  return log.groups.filter((group) => group.main);
}

/** The last step of all that a group holds. */
export function endOf(group: ChangeLogGroup): number {
  const own = group.changes.filter((change) => change.source !== "checkpoint");
  return Math.max(group.last_step, ...own.map((change) => change.last_step));
}

/** What to change of the view to see the charts of a group above each other at its steps; null if it has none. */
export function chartsOf(group: ChangeLogGroup, charts: readonly Chart[]): Change | null {
  const tags = new Set(group.changes.map((change) => change.tag).filter(Boolean));
  const known = new Set(charts.flatMap((chart) => chart.lines.map((line) => line.tag)));
  const shown = [...tags].filter((tag) => known.has(tag));
  if (!shown.length) return null;
  const end = endOf(group);
  const margin = Math.max(MARGIN, 2 * (end - group.first_step));
  return {
    page: "scalars",
    charts: {
      x: "step",
      filter: `^(${shown.map(escaped).join("|")})$`,
      zoom: [Math.max(0, group.first_step - margin), end + margin],
    },
  };
}

/** Where a group lies between the first step and the last, as left edge and width between 0 and 1. */
export function spanOf(group: ChangeLogGroup, last: number): { left: number; width: number } {
  const whole = Math.max(last, endOf(group), 1);
  const left = Math.max(0, group.first_step) / whole;
  return { left, width: Math.max(0, endOf(group) / whole - left) };
}
