/** Facts of two sides by key: what each side says, and whether they say the same. */
import { configText } from "./config";
import { count } from "../format/number";

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
 */
export function contrast(
  a: readonly Record<string, unknown>[],
  b: readonly Record<string, unknown>[],
): Contrast[] {
  const keys = [...new Set([...a, ...b].flatMap((facts) => Object.keys(facts)))].sort((p, q) =>
    p.localeCompare(q, "en", { numeric: true }),
  );
  return keys.map((key) => {
    const values = new Set([...a, ...b].map((facts) => JSON.stringify(facts[key]) ?? ""));
    return {
      key,
      a: valuesText(a.map((facts) => facts[key])),
      b: valuesText(b.map((facts) => facts[key])),
      same: values.size <= 1,
    };
  });
}

/** The distinct values with how many runs have each; one alone stands without a number. */
function valuesText(values: readonly unknown[]): string {
  const counts = new Map<string, number>();
  for (const value of values) counts.set(configText(value), (counts.get(configText(value)) ?? 0) + 1);
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
