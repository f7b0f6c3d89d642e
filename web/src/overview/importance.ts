/** How much of a metric goes with each config key, and how much of that chance alone would give.
 *
 * Runs are ranked by the metric, so that one run far away counts no more than any other. A key splits the runs into
 * groups: its values where they are few, else about equally many runs each in the order of its numbers, so that a best
 * value in the middle is seen too. The share is that of the ranks' variance that lies between groups, adjusted for
 * their number: 1 - (1 - η²)(n - 1)/(n - k) (Kelley 1935). Chance is what the largest share of all keys reaches in 19
 * of 20 random orders of the metric (Westfall and Young 1993), so that many keys make no key important.
 */
import { rounded } from "../format/number";
import { configText, flatten } from "../runs/config";
import type { Family } from "../runs/catalog";
import { correlationOf, ranksOf } from "./dimensions";
import { median } from "../ranks/ranks";

/** Fewer runs say nothing. */
export const FEWEST = 8;
/** Numbers with more values than this are put into groups. */
const MOST_VALUES = 5;
const MOST_GROUPS = 5;
const ORDERS = 999;
const FEWEST_ORDERS = 99;
/** Additions that a second of nobody's time is spent on. */
const WORK = 5e6;

export interface Importance {
  key: string;
  /** Adjusted share of the ranks' variance; below 0: less than chance gives on average. Null: it cannot be told. */
  share: number | null;
  /** Whether the share is beyond that of chance. */
  told: boolean;
  /** Spearman's rank correlation, of numbers. */
  correlation: number | null;
  groups: Group[];
  /** Another key that splits the runs alike, so that the two cannot be told apart. */
  alike: string | null;
  /** Why there is no share. */
  reason: string;
}

export interface Group {
  /** Its value, or the least and largest of them. */
  label: string;
  runs: number;
  /** Of the metric. */
  median: number;
}

export interface Importances {
  keys: Importance[];
  /** The share that chance reaches; null: too few runs. */
  chance: number | null;
  runs: number;
  /** Runs whose metric is not a finite number, or that have none. */
  left: number;
}

/** The importance of config keys for a metric, the most important first.
 *
 * @param values: The metric by run.
 */
export function importances(
  families: readonly Family[],
  keys: readonly string[],
  values: ReadonlyMap<string, number>,
): Importances {
  const used = families.filter(({ name }) => Number.isFinite(values.get(name)));
  const metric = used.map(({ name }) => values.get(name)!);
  const ranks = ranksOf(metric);
  const flats = used.map(({ main }) => flatten(main.config));
  const split = keys.map((key) => splitOf(flats.map((flat) => flat[key])));
  const enough = used.length >= FEWEST && new Set(metric).size > 1;
  const chance = enough
    ? chanceOf(
        ranks,
        split.flatMap((one) => (one.reason ? [] : [one])),
      )
    : null;
  const found = keys.map((key, at): Importance => {
    const { groups, labels, numbers, reason } = split[at]!;
    const share = reason || !enough ? null : shareOf(ranks, groups, labels.length);
    return {
      key,
      share,
      told: share !== null && chance !== null && share > chance,
      correlation: numbers && enough ? correlationOf(ranksOf(numbers), ranks) : null,
      groups: reason ? [] : groupsOf(metric, groups, labels),
      alike: keys.find((_, other) => other !== at && same(groups, split[other]!.groups)) ?? null,
      reason:
        reason || (used.length < FEWEST ? "too few runs" : enough ? "" : "every run has the same value"),
    };
  });
  found.sort((a, b) => (b.share ?? -Infinity) - (a.share ?? -Infinity));
  return { keys: found, chance, runs: used.length, left: families.length - used.length };
}

interface Split {
  /** The group of each run. */
  groups: number[];
  labels: string[];
  /** The values where all are numbers. */
  numbers: number[] | null;
  reason: string;
}

function splitOf(values: readonly unknown[]): Split {
  const texts = values.map((value) => (value === undefined ? "not set" : configText(value)));
  const distinct = [...new Set(texts)];
  const all = values.every((value) => typeof value === "number" && Number.isFinite(value));
  const numbers = all ? (values as number[]) : null;
  if (distinct.length < 2)
    return { groups: texts.map(() => 0), labels: distinct, numbers, reason: "the same in all runs" };
  if (numbers && distinct.length > MOST_VALUES) return { ...binned(numbers), numbers, reason: "" };
  const groups = texts.map((text) => distinct.indexOf(text));
  const lone = distinct.length > values.length / 2;
  return { groups, labels: distinct, numbers, reason: lone ? "nearly every run has its own value" : "" };
}

/** About equally many runs in each group, in the order of their numbers; equal numbers stay together. */
function binned(numbers: readonly number[]): { groups: number[]; labels: string[] } {
  const count = Math.max(2, Math.min(MOST_GROUPS, Math.round(Math.sqrt(numbers.length))));
  const raw = ranksOf(numbers).map((rank) =>
    Math.min(count - 1, Math.floor((rank * count) / numbers.length)),
  );
  const order = [...new Set(raw)].sort((a, b) => a - b);
  const groups = raw.map((group) => order.indexOf(group));
  const labels = order.map((_, group) => {
    const own = numbers.filter((_, at) => groups[at] === group);
    const [low, high] = [Math.min(...own), Math.max(...own)].map(short);
    return low === high ? low! : `${low} – ${high}`;
  });
  return { groups, labels };
}

/** A number of a config with three digits: where a group ends. */
const short = (value: number): string => configText(rounded(value, 3));

function shareOf(ranks: readonly number[], groups: readonly number[], count: number): number | null {
  const n = ranks.length;
  if (n <= count) return null;
  const middle = (n - 1) / 2;
  const sums = new Float64Array(count);
  const sizes = new Float64Array(count);
  let total = 0;
  for (let at = 0; at < n; at += 1) {
    const value = ranks[at]! - middle;
    sums[groups[at]!]! += value;
    sizes[groups[at]!]! += 1;
    total += value * value;
  }
  const between = sums.reduce((sum, value, group) => sum + (value * value) / Math.max(1, sizes[group]!), 0);
  return 1 - ((1 - between / total) * (n - 1)) / (n - count);
}

/** The largest share of all keys in 19 of 20 random orders. */
function chanceOf(ranks: readonly number[], splits: readonly Split[]): number {
  const orders = Math.max(
    FEWEST_ORDERS,
    Math.min(ORDERS, Math.floor(WORK / (ranks.length * Math.max(1, splits.length)))),
  );
  const shuffled = [...ranks];
  const random = randomOf(1);
  const largest = Array.from({ length: orders }, () => {
    for (let at = shuffled.length - 1; at > 0; at -= 1) {
      const other = Math.floor(random() * (at + 1));
      [shuffled[at], shuffled[other]] = [shuffled[other]!, shuffled[at]!];
    }
    return Math.max(0, ...splits.map(({ groups, labels }) => shareOf(shuffled, groups, labels.length) ?? 0));
  }).sort((a, b) => a - b);
  return largest[Math.ceil(0.95 * orders) - 1]!;
}

/** Numbers from 0 to 1 that are the same every time: mulberry32. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function groupsOf(metric: readonly number[], groups: readonly number[], labels: readonly string[]): Group[] {
  return labels.map((label, group) => {
    const own = metric.filter((_, at) => groups[at] === group);
    return { label, runs: own.length, median: median(own) };
  });
}

/** Whether two keys put the same runs together. */
function same(a: readonly number[], b: readonly number[]): boolean {
  const [there, back] = [new Map<number, number>(), new Map<number, number>()];
  return a.every((group, at) => {
    const other = b[at]!;
    if (!there.has(group)) there.set(group, other);
    if (!back.has(other)) back.set(other, group);
    return there.get(group) === other && back.get(other) === group;
  });
}
