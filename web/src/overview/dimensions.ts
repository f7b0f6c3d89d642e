/** Runs as points: what can be on an axis of a plot, where each run lies on it, and ranges that choose runs. */
import { byName, type Family } from "../runs/catalog";
import { configText, flatten } from "../runs/config";
import { compact, rounded, tickLabels, typed, type Measure } from "../format/number";
import { cellOf, type Cell } from "../runs/order";
import { linearTicks, logTicks } from "../format/ticks";

/** Fields are named as columns are sorted by: `config:lr`, `metric:train/loss`, `step`, `duration`, `speed`. */
export interface Dimension {
  field: string;
  label: string;
  /** Of the values. */
  unit: string | null;
  /** How they are shown. */
  measure: Measure;
  /** By run; runs without a value are left out. Values that are not finite numbers are NaN. */
  values: ReadonlyMap<string, number | string>;
}

export interface Axis extends Dimension {
  /** Whether its values are names, one beside the other. */
  named: boolean;
  log: boolean;
  /** Least and largest place: of numbers their values, of names their numbers and a half beyond. */
  min: number;
  max: number;
  ticks: { at: number; label: string }[];
  /** Where a run lies, 0 to 1; null: it has no value that can lie here. */
  share: (run: string) => number | null;
  /** The place of a run in the axis' own numbers. */
  place: (run: string) => number | null;
}

/** Of an axis of what has no unit, or is shown in its own. */
export const shownAsIs = (unit: string | null): Pick<Dimension, "unit" | "measure"> => ({
  unit,
  measure: { factor: 1, unit: unit ?? "" },
});

export type MetricOf = (chart: string, family: Family) => number | null;

export function dimensionOf(
  field: string,
  label: string,
  { unit, measure }: Pick<Dimension, "unit" | "measure">,
  families: readonly Family[],
  metric: MetricOf,
): Dimension {
  const values = new Map<string, number | string>();
  for (const family of families) {
    const cell = field.startsWith("config:")
      ? configCell(flatten(family.main.config)[field.slice(7)])
      : cellOf(family, field, metric);
    if (cell !== null) values.set(family.name, cell);
  }
  return { field, label, unit, measure, values };
}

/** The name of an axis with its unit. */
export function withUnit({ label, measure: { unit } }: Dimension): string {
  return unit ? `${label}, ${unit}` : label;
}

/** A truth value is a name, not 0 or 1. */
function configCell(value: unknown): Cell {
  if (value === undefined || value === null) return null;
  return typeof value === "number" ? value : configText(value);
}

/** Whether values spread over a factor of ten or more, as learning rates do. */
export function wide({ values }: Dimension): boolean {
  const numbers = [...values.values()].filter(
    (value) => typeof value === "number" && Number.isFinite(value),
  ) as number[];
  if (numbers.length !== values.size && [...values.values()].some((value) => typeof value === "string"))
    return false;
  return numbers.length > 1 && Math.min(...numbers) > 0 && Math.max(...numbers) / Math.min(...numbers) > 9.99;
}

/** An axis for a dimension.
 *
 * @param log: Whether it is to be logarithmic; then values of 0 or less have no place.
 * @param most: Labels that fit.
 */
export function axisOf(dimension: Dimension, log: boolean, most: number): Axis {
  const all = [...dimension.values.values()];
  return all.some((value) => typeof value === "string")
    ? namedAxis(dimension, most)
    : numberAxis(dimension, log, most);
}

function namedAxis(dimension: Dimension, most: number): Axis {
  const names = [...new Set([...dimension.values.values()].map(String))].sort(byName);
  const places = new Map(names.map((name, at) => [name, at]));
  const place = (run: string): number | null => {
    const value = dimension.values.get(run);
    return value === undefined ? null : (places.get(String(value)) ?? null);
  };
  const [min, max] = [-0.5, names.length - 0.5];
  const every = Math.ceil(names.length / Math.max(2, most));
  const ticks = names
    .map((label, at) => ({ at: (at - min) / (max - min), label }))
    .filter((_, at) => at % every === 0);
  return {
    ...dimension,
    named: true,
    log: false,
    min,
    max,
    ticks,
    place,
    share: shareOf(place, min, max, false),
  };
}

function numberAxis(dimension: Dimension, log: boolean, most: number): Axis {
  const place = (run: string): number | null => {
    const value = dimension.values.get(run);
    return typeof value === "number" && Number.isFinite(value) && (!log || value > 0) ? value : null;
  };
  const numbers = [...dimension.values.keys()].map(place).filter((value): value is number => value !== null);
  const [min, max] = limits(numbers, log);
  const toShare = scale(min, max, log);
  const { factor } = dimension.measure;
  const shown = numbers.map((value) => value * factor);
  const ticks = ticksOf(shown, min * factor, max * factor, log, most).map(({ value, label }) => ({
    at: toShare(value / factor),
    label,
  }));
  return { ...dimension, named: false, log, min, max, place, share: shareOf(place, min, max, log), ticks };
}

/** The values themselves where they are few and apart, as those of a config are; else round numbers. */
function ticksOf(
  numbers: readonly number[],
  min: number,
  max: number,
  log: boolean,
  most: number,
): { value: number; label: string }[] {
  const distinct = [...new Set(numbers)].sort((p, q) => p - q);
  const shares = distinct.map(scale(min, max, log));
  const apart = shares.every((share, at) => !at || share - shares[at - 1]! > 0.06);
  if (distinct.length <= most && apart && distinct.every((value) => String(value).length <= 8))
    return distinct.map((value) => ({ value, label: configText(value) }));
  const { ticks, step } = log ? logTicks(min, max, most) : linearTicks(min, max, most);
  const labels = step === null ? ticks.map((tick) => compact(tick)) : tickLabels(ticks, step, false);
  return ticks.map((value, at) => ({
    value,
    label: value !== 0 && Math.abs(value) < 1e-3 ? typed(value) : labels[at]!,
  }));
}

function limits(numbers: readonly number[], log: boolean): [number, number] {
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  if (!(low <= high)) return log ? [1, 10] : [0, 1];
  if (log)
    return low === high ? [low / 2, high * 2] : [low / (high / low) ** 0.06, high * (high / low) ** 0.06];
  const air = low === high ? Math.abs(low) * 0.1 || 1 : (high - low) * 0.06;
  return [low - air, high + air];
}

const scale =
  (min: number, max: number, log: boolean) =>
  (value: number): number =>
    log ? Math.log(value / min) / Math.log(max / min) : (value - min) / (max - min);

function shareOf(place: Axis["place"], min: number, max: number, log: boolean): Axis["share"] {
  const toShare = scale(min, max, log);
  return (run) => {
    const at = place(run);
    return at === null ? null : toShare(at);
  };
}

/** The place on an axis at a share of its length. */
export function placeAt({ min, max, log }: Axis, share: number): number {
  return log ? min * (max / min) ** share : min + (max - min) * share;
}

/** A range of one axis that runs must lie in. */
export interface Brush {
  field: string;
  low: number;
  high: number;
}

export function readBrush(text: string): Brush | null {
  const match = /^(.+) (\S+) (\S+)$/s.exec(text);
  const [low, high] = [Number(match?.[2]), Number(match?.[3])];
  return match && Number.isFinite(low) && Number.isFinite(high) && low <= high
    ? { field: match[1]!, low, high }
    : null;
}

export function writeBrush({ field, low, high }: Brush): string {
  return `${field} ${rounded(low, 6)} ${rounded(high, 6)}`;
}

/** Runs that lie within all ranges; a run without a value on a brushed axis does not. */
export function within(runs: readonly string[], brushes: readonly Brush[], axes: readonly Axis[]): string[] {
  const tests = brushes.flatMap((brush) => {
    const axis = axes.find(({ field }) => field === brush.field);
    return axis ? [{ brush, axis }] : [];
  });
  return runs.filter((run) =>
    tests.every(({ brush, axis }) => {
      const place = axis.place(run);
      return place !== null && place >= brush.low && place <= brush.high;
    }),
  );
}

/** Spearman's rank correlation of two axes over the runs that have a number on both; null with fewer than three, or where
 * one does not vary. Each axis is put in order once, whatever number of others it is compared with. */
export function correlationsOf(runs: readonly string[]): (a: Axis, b: Axis) => number | null {
  const known = new Map<Axis, Placed>();
  const placed = (axis: Axis): Placed => {
    let found = known.get(axis);
    if (!found) known.set(axis, (found = placedOn(axis, runs)));
    return found;
  };
  return (a, b) => {
    if (a.named || b.named) return null;
    const [x, y] = [placed(a), placed(b)];
    const [p, q] = [ranksBeside(x, y), ranksBeside(y, x)];
    const both = runs.flatMap((_, at) => (x.values[at] === null || y.values[at] === null ? [] : [at]));
    return both.length < 3
      ? null
      : correlationOf(
          both.map((at) => p[at]!),
          both.map((at) => q[at]!),
        );
  };
}

export const rankCorrelation = (a: Axis, b: Axis, runs: readonly string[]): number | null =>
  correlationsOf(runs)(a, b);

/** Runs on an axis, by their number, and those that have a place in its order. */
interface Placed {
  values: (number | null)[];
  order: number[];
}

function placedOn(axis: Axis, runs: readonly string[]): Placed {
  const values = runs.map((run) => axis.place(run));
  const order = values.flatMap((value, at) => (value === null ? [] : [at]));
  return { values, order: order.sort((p, q) => values[p]! - values[q]!) };
}

/** Ranks from 0 of the runs that have a place on both axes, equal values sharing the middle of theirs. */
function ranksBeside({ values, order }: Placed, other: Placed): Float64Array {
  const shared = order.filter((at) => other.values[at] !== null);
  const ranks = new Float64Array(values.length);
  for (let from = 0; from < shared.length;) {
    let to = from;
    while (to + 1 < shared.length && values[shared[to + 1]!] === values[shared[from]!]) to += 1;
    for (let at = from; at <= to; at += 1) ranks[shared[at]!] = (from + to) / 2;
    from = to + 1;
  }
  return ranks;
}

/** The correlation of two lists of ranks; null where one does not vary. */
function correlationOf(x: readonly number[], y: readonly number[]): number | null {
  const middle = (x.length - 1) / 2;
  const sum = (p: readonly number[], q: readonly number[]): number =>
    p.reduce((total, value, at) => total + (value - middle) * (q[at]! - middle), 0);
  const [vx, vy] = [sum(x, x), sum(y, y)];
  return vx > 0 && vy > 0 ? sum(x, y) / Math.sqrt(vx * vy) : null;
}

/** Things by a key, in the order of the first of each. */
export function grouped<Key, Thing>(
  things: Iterable<Thing>,
  keyOf: (thing: Thing) => Key,
): Map<Key, Thing[]> {
  const groups = new Map<Key, Thing[]>();
  for (const thing of things) {
    const key = keyOf(thing);
    const group = groups.get(key);
    if (group) group.push(thing);
    else groups.set(key, [thing]);
  }
  return groups;
}

/** Dots of one colour as one path, whatever their number; where several lie on one pixel it has one.
 *
 * @param at: Where a dot lies, in pixels; null: it has no place.
 */
export function discs(dots: Iterable<readonly [number, number] | null>, radius: number): string {
  const arc = `a${radius} ${radius} 0 1 0 `;
  const drawn = new Set<string>();
  for (const dot of dots) if (dot) drawn.add(`M${Math.round(dot[0]) - radius} ${Math.round(dot[1])}`);
  return [...drawn].map((start) => `${start}${arc}${2 * radius} 0${arc}${-2 * radius} 0z`).join("");
}
