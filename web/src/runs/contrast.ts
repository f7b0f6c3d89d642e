/** Facts of two sides by key: what each side says, and whether they say the same. */
import { configBrief, configText } from "./config";
import { count } from "../format/number";
import type { Fact } from "./fact";

/** The value by which some runs are compared with others; none where they share no steps. */
export const ofCompared = (
  runs: readonly string[],
  what: { chart: string; split: string | null },
  window: string,
  unit: string,
): Fact | null =>
  window
    ? { of: [...runs].sort().join(", "), what: `${what.chart} ${what.split}`, statistic: window, unit }
    : null;

export interface Contrast {
  key: string;
  a: string;
  b: string;
  /** Whether all runs of both sides have the same value. */
  same: boolean;
}

/** Rows of every key, in the order of their names.
 *
 * @param a: Flat facts of the runs of a side.
 * @param digits: Of numbers that were sampled, where there is little room; null: all.
 */
export function contrast(
  a: readonly Record<string, unknown>[],
  b: readonly Record<string, unknown>[],
  digits: number | null = null,
): Contrast[] {
  const keys = [...new Set([...a, ...b].flatMap((facts) => Object.keys(facts)))].sort((p, q) =>
    p.localeCompare(q, "en", { numeric: true }),
  );
  return keys.map((key) => {
    const values = new Set([...a, ...b].map((facts) => JSON.stringify(facts[key]) ?? ""));
    const text = (side: readonly Record<string, unknown>[], most: number | null): string =>
      valuesText(
        side.map((facts) => (most === null ? configText(facts[key]) : configBrief(facts[key], most))),
      );
    const [same, short] = [values.size <= 1, [text(a, digits), text(b, digits)] as const];
    // What differs is shown to differ.
    const [textA, textB] = same || short[0] !== short[1] ? short : [text(a, null), text(b, null)];
    return { key, a: textA, b: textB, same };
  });
}

/** The distinct values with how many runs have each; one alone stands without a number. */
function valuesText(values: readonly string[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1);
  if (counts.size <= 1) return [...counts.keys()][0] ?? configText(undefined);
  return [...counts].map(([text, number]) => `${text} (${count(number)})`).join(", ");
}

/** What is known of the machine and the program of a run, by the names people use; what is not recorded is left out. */
export function environmentOf(info: Record<string, unknown>): Record<string, unknown> {
  const frameworks = (info["frameworks"] ?? {}) as Record<string, unknown>;
  const found: Record<string, unknown> = {
    command: info["command"],
    host: info["host"],
    python: info["python"],
    stepscope: info["version"],
    ranks: info["world_size"],
    ...Object.fromEntries(Object.entries(frameworks)),
  };
  return Object.fromEntries(
    Object.entries(found).filter(([, value]) => value !== undefined && value !== null),
  );
}
