/** The series that two sides share, and the values of each in between.
 *
 * A side of several runs is drawn as the mean of those that have a value there. Between two recorded points a line is
 * taken as straight; before its first and after its last it has no value, so that a mean never reaches beyond its runs.
 */
import type { Chart, Split } from "../server/api";
import { linesOf, type Family, type LineOf } from "./catalog";
import { groupOf, type Group } from "../series/sides";
import { lowerBound, type DrawLine } from "../series/shape";

/** One series compared: a chart, or its part of one split. */
export interface Track {
  id: string;
  chart: Chart;
  split: Split | null;
  title: string;
  a: readonly LineOf[];
  b: readonly LineOf[];
}

/** The series of some charts, those that no run of either side has left out. */
export function tracksOf(charts: readonly Chart[], a: readonly Family[], b: readonly Family[]): Track[] {
  return charts.flatMap((chart) => {
    const [ofA, ofB] = [linesOf(chart, a), linesOf(chart, b)];
    const named = [...ofA, ...ofB].some((line) => line.split !== null);
    // A plain tag beside others that name their part is that of the training.
    const part = (line: LineOf): Split | null => line.split ?? (named ? "train" : null);
    const parts = ([null, "train", "eval", "test"] as const).filter((split) =>
      [...ofA, ...ofB].some((line) => part(line) === split),
    );
    return parts.map((split) => ({
      id: JSON.stringify([chart.id, split]),
      chart,
      split,
      title: chart.title + (parts.length > 1 ? ` (${split})` : ""),
      a: ofA.filter((line) => part(line) === split),
      b: ofB.filter((line) => part(line) === split),
    }));
  });
}

/** The recorded values of each place of a line: their first, least and largest; their last is the line itself. */
export interface Extremes {
  first: Float64Array;
  low: Float64Array;
  high: Float64Array;
}

/** A line of one side: the mean over its runs at each x, their extremes and how many have a value there. */
export interface SideLine {
  x: Float64Array;
  mean: Float64Array;
  low: Float64Array;
  high: Float64Array;
  /** Standard deviation of the runs; NaN with fewer than two. */
  spread: Float64Array;
  count: Float64Array;
  /** Runs with any value. */
  runs: number;
  /** x of values that are not finite numbers. */
  nonfinite: number[];
  /** Of a line that is drawn in buckets and is no mean, what they hold; null: every value of it is drawn. */
  extremes: Extremes | null;
}

/** A function of x between the points of one writer, its attempts joined. */
interface Chain {
  x: number[];
  y: number[];
  /** Of each place, where one holds several values. */
  extremes: Record<keyof Extremes, number[]> | null;
}

/** More places than this of lines that do not share theirs are thinned evenly. */
const MOST_PLACES = 1200;

/** Joins the lines of one side.
 *
 * @param familyOf: The run that counts as one, of a line's run.
 * @returns: null where no line has a finite value.
 */
export function sideLine(lines: readonly DrawLine[], familyOf: (run: string) => string): SideLine | null {
  const runs = new Map<string, Map<string, DrawLine[]>>();
  for (const line of lines) {
    const writers = runs.get(familyOf(line.run)) ?? new Map<string, DrawLine[]>();
    const key = `${line.run}\n${line.tag}\n${line.writer}`;
    writers.set(key, [...(writers.get(key) ?? []), line]);
    runs.set(familyOf(line.run), writers);
  }
  const chains = [...runs.values()]
    .map((writers) => [...writers.values()].map(chainOf).filter(({ x }) => x.length))
    .filter((found) => found.length);
  if (!chains.length) return null;
  const x = placesOf(chains.flat());
  const nonfinite = [...new Set(lines.flatMap((line) => line.nonfinite))].sort((p, q) => p - q);
  const [only, ...others] = chains.flat();
  const extremes = others.length || only!.x.length !== x.length ? null : only!.extremes;
  return {
    ...meansAt(chains, x),
    x,
    runs: chains.length,
    nonfinite,
    extremes: extremes && {
      first: Float64Array.from(extremes.first),
      low: Float64Array.from(extremes.low),
      high: Float64Array.from(extremes.high),
    },
  };
}

/** The attempts of a writer one after the other, each until the next begins. */
function chainOf(attempts: readonly DrawLine[]): Chain {
  const [x, y, first, low, high]: [number[], number[], number[], number[], number[]] = [[], [], [], [], []];
  const columns = [x, y, first, low, high];
  for (const line of [...attempts].sort((p, q) => p.attempt - q.attempt)) {
    const from = line.end ? line.x[0]! : Infinity;
    while (x.length && x.at(-1)! >= from) for (const column of columns) column.pop();
    for (let at = 0; at < line.end; at += 1) {
      x.push(line.x[at]!);
      y.push(line.y[at]!);
      first.push((line.first ?? line.raw)[at]!);
      low.push((line.low ?? line.raw)[at]!);
      high.push((line.high ?? line.raw)[at]!);
    }
  }
  return { x, y, extremes: attempts.some((line) => line.first) ? { first, low, high } : null };
}

function placesOf(chains: readonly Chain[]): Float64Array {
  const all = Float64Array.from(new Set(chains.flatMap(({ x }) => x))).sort();
  if (all.length <= MOST_PLACES || chains.every(({ x }) => x.length === all.length)) return all;
  const [first, last] = [all[0]!, all.at(-1)!];
  return Float64Array.from(
    { length: MOST_PLACES },
    (_, at) => first + ((last - first) * at) / (MOST_PLACES - 1),
  );
}

function meansAt(
  runs: readonly Chain[][],
  x: Float64Array,
): Pick<SideLine, "mean" | "low" | "high" | "spread" | "count"> {
  const column = (): Float64Array => new Float64Array(x.length).fill(NaN);
  const found = { mean: column(), low: column(), high: column(), spread: column(), count: column() };
  for (let at = 0; at < x.length; at += 1) {
    const values = runs
      .map((chains) => meanOf(chains.map((chain) => valueAt(chain.x, chain.y, x[at]!))))
      .filter(Number.isFinite);
    const { mean, spread, count } = groupOf(values);
    found.mean[at] = mean;
    found.spread[at] = spread ?? NaN;
    found.count[at] = count;
    if (!count) continue;
    found.low[at] = Math.min(...values);
    found.high[at] = Math.max(...values);
  }
  return found;
}

/** Mean of the finite ones; NaN: there is none. */
function meanOf(values: readonly number[]): number {
  const finite = values.filter(Number.isFinite);
  return finite.length ? finite.reduce((sum, value) => sum + value, 0) / finite.length : NaN;
}

/** The value of a line at an x, straight between its points; NaN before the first and after the last. */
export function valueAt(x: ArrayLike<number>, y: ArrayLike<number>, at: number): number {
  const next = lowerBound(x, at);
  if (next >= x.length) return NaN;
  if (x[next] === at) return y[next]!;
  if (next === 0) return NaN;
  const [x0, x1] = [x[next - 1]!, x[next]!];
  return y[next - 1]! + ((y[next]! - y[next - 1]!) * (at - x0)) / (x1 - x0);
}

/** The runs of a side at one x; none where it has no value there. */
export function groupAt(side: SideLine | null, x: number): Group {
  const mean = side ? valueAt(side.x, side.mean, x) : NaN;
  if (!side || !Number.isFinite(mean)) return { mean: NaN, spread: null, count: 0, bad: 0 };
  const spread = valueAt(side.x, side.spread, x);
  return {
    mean,
    spread: Number.isFinite(spread) ? spread : null,
    count: Math.max(1, Math.floor(valueAt(side.x, side.count, x))),
    bad: 0,
  };
}

/** Where both sides have values; null: nowhere. */
export function overlapOf(a: SideLine | null, b: SideLine | null): [number, number] | null {
  if (!a || !b) return null;
  const from = Math.max(a.x[0]!, b.x[0]!);
  const to = Math.min(a.x.at(-1)!, b.x.at(-1)!);
  return from <= to ? [from, to] : null;
}

/** Every x within the overlap at which either side has a place, with both values: the edges of the band between. */
export function between(a: SideLine, b: SideLine): { x: number[]; a: number[]; b: number[] } {
  const overlap = overlapOf(a, b);
  if (!overlap) return { x: [], a: [], b: [] };
  const x = [...new Set([...a.x, ...b.x, ...overlap])]
    .filter((place) => place >= overlap[0] && place <= overlap[1])
    .sort((p, q) => p - q);
  return {
    x,
    a: x.map((place) => valueAt(a.x, a.mean, place)),
    b: x.map((place) => valueAt(b.x, b.mean, place)),
  };
}
