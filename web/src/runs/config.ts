/** The configuration of runs: one flat list of keys, and what differs between runs. */
import { rounded, typed } from "../format/number";

const flats = new WeakMap<object, Record<string, unknown>>();

/** Nested objects, and lists of nothing else, as dotted keys; other lists stay values. Of each config it is made once. */
export function flatten(config: Record<string, unknown>): Record<string, unknown> {
  let flat = flats.get(config);
  if (!flat) flats.set(config, (flat = flattened(config, "")));
  return flat;
}

function flattened(config: Record<string, unknown>, prefix: string): Record<string, unknown> {
  const flat: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(config)) {
    const nested = Array.isArray(value) ? value.every(isObject) : isObject(value);
    if (nested && Object.keys(value as object).length) {
      Object.assign(flat, flattened(value as Record<string, unknown>, `${prefix}${key}.`));
    } else {
      flat[prefix + key] = value;
    }
  }
  return flat;
}

const isObject = (value: unknown) => value !== null && typeof value === "object" && !Array.isArray(value);

/** A config value on one line, as it would be typed. */
export function configText(value: unknown): string {
  if (value === undefined) return "–";
  if (value === null) return "None";
  if (typeof value === "number") return typed(value);
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return value ? "True" : "False";
  return JSON.stringify(value);
}

/** Most digits of a number in a table: sampled ones have sixteen. */
const DIGITS = 5;

/** A config value for a column of a table: of a number that was sampled the first digits. */
export function configBrief(value: unknown, digits = DIGITS): string {
  const sampled = typeof value === "number" && Number.isFinite(value) && !Number.isInteger(value);
  return configText(sampled ? rounded(value, digits) : value);
}

export interface Difference {
  key: string;
  /** Distinct values, numbers in order. */
  values: unknown[];
  /** Whether every value is a number. */
  numeric: boolean;
  /** Runs that have no such key. */
  missing: number;
}

/** The keys whose value is not the same in all runs, most telling first: those that all have, few distinct values before many. */
export function differences(configs: Record<string, unknown>[]): Difference[] {
  const recorded = configs.map((config) => flatten(config)).filter((flat) => Object.keys(flat).length > 0);
  const keys = [...new Set(recorded.flatMap((flat) => Object.keys(flat)))];
  const found = keys.map((key) => differenceOf(key, recorded)).filter((one) => countOf(one) > 1);
  return found.sort(
    (a, b) =>
      Number(a.missing > 0) - Number(b.missing > 0) ||
      a.values.length - b.values.length ||
      a.key.localeCompare(b.key),
  );
}

/** How many values there are; that a run has no such key is one. */
export const countOf = ({ values, missing }: Difference): number => values.length + Number(missing > 0);

function differenceOf(key: string, flats: Record<string, unknown>[]): Difference {
  const distinct = new Map<unknown, unknown>();
  let missing = 0;
  for (const flat of flats) {
    if (!(key in flat)) missing += 1;
    else distinct.set(identity(flat[key]), flat[key]);
  }
  const values = [...distinct.values()];
  const numeric = values.every((value) => typeof value === "number");
  values.sort((a, b) =>
    numeric ? (a as number) - (b as number) : configText(a).localeCompare(configText(b)),
  );
  return { key, values, numeric, missing };
}

/** What equal values share: lists are equal if what they hold is. */
function identity(value: unknown): unknown {
  return typeof value === "object" && value !== null ? `${typeof value} ${JSON.stringify(value)}` : value;
}

/** The values on one line: a range for many numbers, a list otherwise. */
export function differenceText(difference: Difference): string {
  const { values, numeric, missing } = difference;
  const without = missing ? ", not set" : "";
  if (numeric && values.length > 3)
    return `${configBrief(values[0], 3)} … ${configBrief(values.at(-1), 3)}${without}`;
  const shown = values.slice(0, 3).map(configText).join(", ");
  return (values.length > 3 ? `${shown}, …` : shown) + without;
}
