/** Runs in groups: by config keys, or by what a regex finds in their names. */
import { compileRegex, reasonOf } from "../regex/regex.svelte";
import { byName, type Family } from "./catalog";
import { configText, flatten } from "./config";

/** What stands for a run that has no such key, or whose name does not match. */
export const NO_GROUP = "–";

export interface Grouping {
  /** The group of a run, in words. */
  of: (family: Family) => string;
  keys: string[];
  /** The regex; null: config keys. */
  pattern: string | null;
  /** Why the regex is none; then no run has a group. */
  error: string | null;
  /** The groups in their order; absent: in that of their names. */
  order?: readonly string[];
}

/** Reads a grouping: config keys with commas between them, or `~` and a regex over names, its groups joined. */
export function parseGrouping(text: string | null): Grouping | null {
  if (!text) return null;
  if (text.startsWith("~")) return byPattern(text.slice(1));
  const keys = text
    .split(",")
    .map((key) => key.trim())
    .filter(Boolean);
  if (!keys.length) return null;
  return { of: (family) => keyGroup(family, keys), keys, pattern: null, error: null };
}

function keyGroup(family: Family, keys: string[]): string {
  const flat = flatten(family.main.config);
  if (keys.length === 1) return configText(flat[keys[0]!]);
  return keys.map((key) => `${key}=${configText(flat[key])}`).join(", ");
}

function byPattern(pattern: string): Grouping {
  try {
    const regex = compileRegex(pattern);
    const of = ({ name }: Family): string => {
      const match = regex.match(name);
      return match
        ? (match.length > 1
            ? match
                .slice(1)
                .map((part) => part ?? "")
                .join(" ")
            : match[0]) || NO_GROUP
        : NO_GROUP;
    };
    return { of, keys: [], pattern, error: null };
  } catch (error) {
    return { of: () => NO_GROUP, keys: [], pattern, error: reasonOf(error) };
  }
}

/** Runs by group, groups in the order of their names, those without one last. */
export function grouped(families: readonly Family[], grouping: Grouping): [string, Family[]][] {
  const groups = new Map<string, Family[]>();
  for (const family of families) {
    const name = grouping.of(family);
    const members = groups.get(name);
    if (members) members.push(family);
    else groups.set(name, [family]);
  }
  const places = new Map(grouping.order?.map((name, place) => [name, place]));
  const placeOf = (name: string): number => places.get(name) ?? places.size;
  return [...groups].sort(
    ([a], [b]) => Number(a === NO_GROUP) - Number(b === NO_GROUP) || placeOf(a) - placeOf(b) || byValue(a, b),
  );
}

/** Numbers by size, other names as people expect. */
function byValue(a: string, b: string): number {
  const difference = Number(a) - Number(b);
  return Number.isNaN(difference) || difference === 0 ? byName(a, b) : difference;
}
