/** Queries that the page offers: examples, and those that this browser has asked. */
import { recall, remember } from "../state/storage";

/** An example of each table that can be drawn or counted. */
export const EXAMPLES: readonly { says: string; query: string }[] = [
  {
    says: "Curves of a tag, a line for each run",
    query: "SELECT run, step, value\nFROM series\nWHERE tag = 'train/loss'\nORDER BY run, step",
  },
  {
    says: "Runs with the newest step first",
    query: "SELECT run, state, step, steps_per_second\nFROM runs\nORDER BY step DESC",
  },
  {
    says: "Smallest value of each tag in each run",
    query: "SELECT run, tag, min(value) AS least\nFROM series\nGROUP BY run, tag\nORDER BY tag, least",
  },
  {
    says: "Settings in which runs differ",
    query:
      "SELECT key, count(DISTINCT value) AS different\nFROM settings\nGROUP BY key\nHAVING different > 1\nORDER BY different DESC",
  },
  {
    says: "Findings by rule",
    query:
      "SELECT rule, severity, count(*) AS findings\nFROM findings\nGROUP BY rule, severity\nORDER BY findings DESC",
  },
  {
    says: "Seconds of each rank in each stage",
    query:
      "SELECT run, rank, stage, avg(seconds) AS seconds\nFROM ranks\nGROUP BY run, rank, stage\nORDER BY seconds DESC",
  },
];

/** Queries that the history keeps; the page says so. */
export const REMEMBERED = 20;
const KEY = "sql";

/** The newest first. What an older page or somebody else has stored there is no history. */
export function history(): string[] {
  try {
    const stored: unknown = JSON.parse(recall(KEY) ?? "[]");
    return Array.isArray(stored) ? stored.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
}

/** Puts a query first, once. */
export function keep(query: string): string[] {
  const queries = [query, ...history().filter((one) => one !== query)].slice(0, REMEMBERED);
  remember(KEY, JSON.stringify(queries));
  return queries;
}
