/** Which runs are of one configuration: they differ in nothing but their seeds. */
import { flatten } from "./config";

/** Settings of a run, and which of them are seeds. */
export interface Seeded {
  config: Record<string, unknown>;
  seeds: readonly string[];
}

/** The settings that are seeds, or the others, as one text. */
export const entriesOf = ({ config, seeds }: Seeded, seed: boolean): string =>
  JSON.stringify(
    Object.entries(flatten(config))
      .filter(([key]) => seeds.includes(key) === seed)
      .sort(),
  );

/** What runs of one configuration share: their settings that are no seeds; null: none is recorded. */
export function configurationOf(run: Seeded): string | null {
  return Object.keys(run.config).length ? entriesOf(run, false) : null;
}

/** Whether runs are a sweep with seeds: at least half of several configurations ran more than once. */
export function repeated(runs: readonly Seeded[]): boolean {
  const counts = new Map<string, number>();
  for (const run of runs) {
    const name = configurationOf(run);
    if (name !== null) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  const twice = [...counts.values()].filter((count) => count > 1).length;
  return counts.size > 1 && 2 * twice >= counts.size;
}
