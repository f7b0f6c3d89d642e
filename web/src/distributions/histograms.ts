/** Histograms over steps: what is drawn of rows of left edge, right edge and count. */
import { fixed, GAP, power } from "../format/number";
import type { RecordValue, Tensor, TensorKind } from "../server/api";

export interface Histogram {
  step: number;
  rows: readonly (readonly number[])[];
  total: number;
}

export function histogramsOf(values: readonly RecordValue[]): Histogram[] {
  return values
    .filter((value) => value.rows !== null && value.rows !== undefined)
    .map((value) => ({
      step: value.step,
      rows: value.rows!,
      total: value.rows!.reduce((sum, row) => sum + row[2]!, 0),
    }));
}

/** Value below which a share of the counts lies; within a bucket counts are taken as spread evenly. */
export function percentile(histogram: Histogram, share: number): number {
  if (!(histogram.total > 0)) return NaN;
  const wanted = share * histogram.total;
  let before = 0;
  for (const [left, right, number] of histogram.rows as [number, number, number][]) {
    if (number > 0 && before + number >= wanted)
      return left + (right - left) * Math.min(1, Math.max(0, (wanted - before) / number));
    before += number;
  }
  const last = histogram.rows.findLast((row) => row[2]! > 0);
  return last ? last[1]! : NaN;
}

/** The same histogram of log10 of absolute values; what is zero or below 1e-38 is left out. */
export function ofMagnitudes(histogram: Histogram): Histogram {
  const rows: [number, number, number][] = [];
  for (const [left, right, number] of histogram.rows as [number, number, number][]) {
    if (!(number > 0)) continue;
    if (left < 0 && right > 0) {
      // A bucket that spans zero: its counts go to both sides as its width does.
      const negative = -left / (right - left);
      magnitude(rows, 0, -left, number * negative);
      magnitude(rows, 0, right, number * (1 - negative));
    } else {
      magnitude(
        rows,
        Math.min(Math.abs(left), Math.abs(right)),
        Math.max(Math.abs(left), Math.abs(right)),
        number,
      );
    }
  }
  rows.sort((a, b) => a[0] - b[0]);
  return { step: histogram.step, rows, total: rows.reduce((sum, row) => sum + row[2], 0) };
}

function magnitude(rows: [number, number, number][], low: number, high: number, number: number): void {
  if (!(high > 1e-38) || !(number > 0)) return;
  const top = Math.log10(high);
  // Below a thousandth of its upper edge a bucket that begins at zero says nothing.
  rows.push([low > 1e-38 ? Math.log10(low) : top - 3, top, number]);
}

/** The largest number below 1 that float32 has: a bucket from there to 1 holds what is 1. */
const BELOW_ONE = 1 - 2 ** -24;

/** Histograms of a function that ends at 1, without what fixed buckets reach beyond it.
 *
 * Fixed buckets hold their edge nearest to zero: of a sigmoid the one from 1 to 1.25 holds nothing but ones.
 */
export function endingAtOne(histograms: readonly Histogram[]): Histogram[] {
  return histograms.map((one) => {
    if (one.rows.some(([left, right, number]) => number! > 0 && (left! > 1 || right! < -1))) return one;
    return {
      ...one,
      rows: one.rows.map(([left, right, number]) =>
        left === 1 && right! > 1
          ? [BELOW_ONE, 1, number!]
          : right === -1 && left! < -1
            ? [-1, -BELOW_ONE, number!]
            : [left!, right!, number!],
      ),
    };
  });
}

/** The range of a bounded function whose values these are: 0 to 1 of a sigmoid, -1 to 1 of a tanh; null: of none.
 *
 * Values in -1 to 1 must be outputs of a layer; those in 0 to 1 must reach far into it, as shares do.
 */
export function boundsOf(
  histograms: readonly Histogram[],
  outputs: boolean,
): readonly [number, number] | null {
  const rows = histograms.flatMap((one) => one.rows.filter((row) => row[2]! > 0));
  if (!rows.length) return null;
  const low = Math.min(...rows.map((row) => row[0]!));
  const high = Math.max(...rows.map((row) => row[1]!));
  if (low >= -1e-6 && high <= 1 + 1e-6) return high > 0.5 ? [0, 1] : null;
  return outputs && low >= -1 - 1e-6 && high <= 1 + 1e-6 && high - low > 1 ? [-1, 1] : null;
}

/** Whether magnitudes say more than values: they differ by more than three powers of ten.
 *
 * Not of bounded functions: whether a sigmoid is saturated is seen on a linear axis.
 */
export function wantsLog(histograms: readonly Histogram[], outputs = false): boolean {
  const last = histograms.at(-1);
  if (!last || boundsOf(histograms, outputs)) return false;
  const magnitudes = ofMagnitudes(last);
  return (
    percentile(magnitudes, 0.95) - percentile(magnitudes, 0.25) > 2 ||
    Math.abs(percentile(magnitudes, 0.5)) > 4
  );
}

/** Range of values that holds nearly all counts of every step. */
export function rangeOf(histograms: readonly Histogram[]): [number, number] {
  const lows = histograms.map((one) => percentile(one, 0.001)).filter(Number.isFinite);
  const highs = histograms.map((one) => percentile(one, 0.999)).filter(Number.isFinite);
  if (!lows.length) return [0, 1];
  const [low, high] = [Math.min(...lows), Math.max(...highs)];
  const room = (high - low) * 0.04 || Math.max(Math.abs(low) * 0.05, 1e-9);
  return [low - room, high + room];
}

/** Width in bins of a bucket without width. */
const NARROWEST = 1e-6;

/** Where values go: so many into a bin of the column at hand. */
type Put = (bin: number, values: number) => void;

/** Draws every bucket that counts: float32 [columns, bins], by step and, the lowest first, by value.
 *
 * @param draw: Puts a bucket, which reaches from one place to another in bins, where it belongs.
 */
function drawnInto(
  histograms: readonly Histogram[],
  range: readonly [number, number],
  bins: number,
  draw: (put: Put, from: number, to: number, number: number, total: number) => void,
): Float32Array {
  const cells = new Float32Array(histograms.length * bins);
  const scale = bins / (range[1] - range[0]);
  histograms.forEach((histogram, column) => {
    const put: Put = (bin, values) => {
      if (bin >= 0 && bin < bins) cells[column * bins + bin]! += values;
    };
    for (const [left, right, number] of histogram.rows as [number, number, number][])
      if (number > 0) {
        const from = (left - range[0]) * scale;
        // What lies at the upper end itself is in the last bin.
        const begin = left <= range[1] ? Math.min(from, bins - NARROWEST) : from;
        draw(put, begin, (right - range[0]) * scale, number, histogram.total);
      }
  });
  return cells;
}

/** Puts values evenly into the bins that a bucket covers. */
function spread(put: Put, bins: number, from: number, to: number, number: number): void {
  for (let bin = Math.max(0, Math.floor(from)); bin < Math.min(bins, Math.ceil(to)); bin += 1)
    put(bin, (number * (Math.min(bin + 1, to) - Math.max(bin, from))) / (to - from));
}

/** Counts by step and value, as each column's share of its total. */
export const density = (
  histograms: readonly Histogram[],
  range: readonly [number, number],
  bins: number,
): Float32Array =>
  drawnInto(histograms, range, bins, (put, from, to, number, total) =>
    spread(put, bins, from, Math.max(from + NARROWEST, to), number / total),
  );

/** Values by step and value.
 *
 * A bucket with fewer values than it covers bins is drawn as that many values, evenly within it: spread over all of
 * its bins, each would look like a fraction of a value everywhere.
 */
export const valuesIn = (
  histograms: readonly Histogram[],
  range: readonly [number, number],
  bins: number,
): Float32Array =>
  drawnInto(histograms, range, bins, (put, from, to, number) => {
    const wide = to - from;
    if (number >= wide && wide >= 1) return spread(put, bins, from, to, number);
    const single = Math.max(1, Math.min(Math.round(number), Math.ceil(wide)));
    for (let at = 0; at < single; at += 1)
      put(Math.floor(from + ((at + 0.5) / single) * wide), number / single);
  });

/** How much wider the distribution is at the end than where it was calm: its 95th percentile of magnitude against
 * the median of those before; null where there is nothing to compare. */
export function change(histograms: readonly Histogram[]): number | null {
  const full = histograms.filter(({ total }) => total > 0);
  if (full.length < 3) return null;
  const spread = full.map((one) => percentile(ofMagnitudes(one), 0.95)).map((log) => 10 ** log);
  const before = spread
    .slice(0, -1)
    .filter(Number.isFinite)
    .sort((a, b) => a - b);
  const last = spread.at(-1)!;
  if (!before.length || !Number.isFinite(last)) return null;
  const calm = before[before.length >> 1]!;
  return calm > 0 ? last / calm : null;
}

/** In the order in which they are shown. */
export const KINDS = ["gradients", "updates", "weights", "activations"] as const satisfies TensorKind[];

export interface LayerRow<T> {
  layer: string;
  cells: Record<TensorKind, T | null>;
}

/** Tensors of a layer beside each other: gradients, updates and weights of a parameter, activations of its module.
 *
 * Other histograms are left out.
 */
export function byLayer<T extends { tensor: Tensor | null }>(tags: readonly T[]): LayerRow<T>[] {
  const rows = new Map<string, LayerRow<T>>();
  const modules = new Map<string, T>();
  for (const one of tags) {
    const { kind = null, layer = "" } = one.tensor ?? {};
    if (kind === null) continue;
    if (kind === "activations") {
      modules.set(layer, one);
      continue;
    }
    const row = rows.get(layer) ?? {
      layer,
      cells: { gradients: null, updates: null, weights: null, activations: null },
    };
    row.cells[kind] = one;
    rows.set(layer, row);
  }
  const used = new Set<string>();
  for (const row of rows.values()) {
    for (
      let cut = row.layer.length;
      cut > 0;
      cut = Math.max(row.layer.lastIndexOf(".", cut - 1), row.layer.lastIndexOf("/", cut - 1))
    ) {
      const module = row.layer.slice(0, cut);
      if (!modules.has(module)) continue;
      row.cells.activations = modules.get(module)!;
      used.add(module);
      break;
    }
  }
  for (const [layer, one] of modules)
    if (!used.has(layer))
      rows.set(`${layer}\n`, {
        layer,
        cells: { gradients: null, updates: null, weights: null, activations: one },
      });
  return [...rows.values()].sort((a, b) => a.layer.localeCompare(b.layer, undefined, { numeric: true }));
}

/** Steps of which a curve each is drawn, evenly over all of them. */
export function chosenEvenly<T>(all: readonly T[], most: number): T[] {
  const number = Math.min(most, all.length);
  return Array.from(
    { length: number },
    (_, place) => all[Math.round((place * (all.length - 1)) / Math.max(1, number - 1))]!,
  );
}

/** How high the tallest curve of a ridgeline is. */
export const reachOf = (height: number): number => height * 0.22;

/** Where of a ridgeline a curve stands, from the top. */
export const baseOf = (place: number, curves: number, height: number): number =>
  reachOf(height) + 2 + (place * (height - reachOf(height) - 4)) / Math.max(1, curves - 1);

/** A factor as people read it: one below a tenth as what it is divided by, a huge one as a power of ten. */
export function factorText(factor: number): string {
  if (!(factor > 0)) return "";
  if (factor < 0.1) return `÷${GAP}${short(1 / factor)}`;
  return `×${GAP}${short(factor)}`;
}

const short = (factor: number): string =>
  factor >= 1e4
    ? `10${power(factor, 1).split("10")[1]!}`
    : fixed(factor, factor < 10 ? 2 : factor < 100 ? 1 : 0);
