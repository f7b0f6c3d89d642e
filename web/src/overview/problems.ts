/** Words about what could not be read. */
import { count } from "../format/number";
import type { Problem } from "../server/api";

/** Kinds whose count is how often it happened; the texts of all others say themselves how many there were. */
const HAPPENED: ReadonlySet<string> = new Set(["truncated", "replaced"]);

/** How often something happened, where its text does not say it. */
export function times({ kind, count: often }: Pick<Problem, "kind" | "count">): string {
  return often > 1 && HAPPENED.has(kind) ? `, ${count(often)} times` : "";
}
