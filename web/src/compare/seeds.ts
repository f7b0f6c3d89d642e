/** Whether all seeds of two configurations settle what one run of each leaves open. */
import { configurationOf, entriesOf, type Seeded } from "../runs/configurations";
import type { Sweep, SweepRow } from "../server/api";
import { deltaOf, type Delta, type Group } from "../series/sides";

/** The seeds of both sides. */
export interface Seeds {
  a: readonly string[];
  b: readonly string[];
  /** What their means say. */
  delta: Delta;
}

/** All seeds of the configurations of two runs; null: they are one configuration, or no seed is left to add. */
export function seedsOf(sweep: Sweep, a: string, b: string): Seeds | null {
  const [rowA, rowB] = [a, b].map((run) => sweep.rows.find(({ runs }) => runs.includes(run)));
  if (!rowA || !rowB || rowA === rowB || rowA.runs.length < 2 || rowB.runs.length < 2) return null;
  const delta = deltaOf(groupOfRow(rowA), groupOfRow(rowB), sweep.lower_is_better);
  return delta && { a: rowA.runs, b: rowB.runs, delta };
}

/** Whether runs are of one configuration and have other seeds. */
export function areSeeds(runs: readonly Seeded[]): boolean {
  const names = new Set(runs.map(configurationOf));
  return names.size === 1 && !names.has(null) && new Set(runs.map((run) => entriesOf(run, true))).size > 1;
}

/** Whether the seeds tell the sides apart. */
export const settles = ({ delta }: Seeds): boolean => delta.verdict === "better" || delta.verdict === "worse";

const groupOfRow = ({ mean, spread, finite, bad }: SweepRow): Group => ({
  mean: mean ?? NaN,
  spread,
  noise: null,
  count: finite,
  bad,
});
