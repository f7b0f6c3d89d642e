/** What the kind of a metric decides of its chart: averaging, scale, and what may flatten it. */
import type { Chart, MetricKind } from "../server/api";
import { lowerBound, type DrawLine } from "../series/shape";
import type { Range } from "../series/limits";

type Averaging = "mean" | "median" | "none";

interface Drawn {
  /** As people call it. */
  name: string;
  averaging: Averaging;
  /** Whether its y axis is logarithmic where values spread over powers of ten. */
  log: boolean;
  /** Whether few points far beyond all others, such as a step that compiles, leave the range of the y axis. */
  clip: boolean;
}

const drawn = (name: string, averaging: Averaging, log = false, clip = false): Drawn => ({
  name,
  averaging,
  log,
  clip,
});

export const KINDS: Record<MetricKind, Drawn> = {
  loss: drawn("Loss", "mean", true),
  score: drawn("Score", "mean"),
  schedule: drawn("Schedule", "none"),
  counter: drawn("Counter", "none"),
  nonfinite: drawn("Count of non-finite values", "none"),
  norm: drawn("Norm", "mean", true),
  latency: drawn("Time", "median", false, true),
  rate: drawn("Rate", "median", false, true),
  ratio: drawn("Share", "mean"),
  bytes: drawn("Bytes", "none"),
  other: drawn("Other", "mean"),
};

type Kinded = Pick<Chart, "kind">;

/** The weight of the average that the server is asked for: none where values are exact, or a median is drawn. */
export function smoothingOf({ kind }: Kinded, wanted: number): number {
  return KINDS[kind].averaging === "mean" ? wanted : 0;
}

/** Whether nothing of it may be averaged, whatever the smoothing of the page is. */
export function isExact({ kind }: Kinded): boolean {
  return KINDS[kind].averaging === "none";
}

/** Beyond so many times the rest a point leaves the range. */
const FAR = 3;
/** At least so many points say what the rest is. */
const ENOUGH = 20;
const SHARE = 0.995;
/** From so many times the least value on the largest needs a logarithm to see both. */
const SPREAD = 1000;
const MOST_SPAN = 400;

/** Points that the median is taken over: as many as an exponential average of this weight remembers. */
function spanOf(weight: number): number {
  return Math.min(MOST_SPAN, Math.max(1, Math.round((1 + weight) / (1 - weight))));
}

/** Lines of times and rates with the running median of what was recorded in place of an average. */
export function withMedian<L extends DrawLine>(lines: readonly L[], { kind }: Kinded, weight: number): L[] {
  const span = spanOf(weight);
  if (KINDS[kind].averaging !== "median" || span < 2) return [...lines];
  return lines.map((line) =>
    line.group === null && line.raw.length > 2
      ? { ...line, y: runningMedian(line.raw, span), smoothed: true }
      : line,
  );
}

/** The median of the last values at each place; what is not finite is left out. */
export function runningMedian(values: ArrayLike<number>, span: number): Float64Array {
  const sorted: number[] = [];
  const found = new Float64Array(values.length);
  const place = (value: number): number => lowerBound(sorted, value);
  for (let at = 0; at < values.length; at += 1) {
    const value = values[at]!;
    if (Number.isFinite(value)) sorted.splice(place(value), 0, value);
    const gone = at >= span ? values[at - span]! : NaN;
    if (Number.isFinite(gone)) sorted.splice(place(gone), 1);
    const middle = sorted.length >> 1;
    found[at] = !Number.isFinite(value)
      ? value
      : sorted.length % 2
        ? sorted[middle]!
        : (sorted[middle - 1]! + sorted[middle]!) / 2;
  }
  return found;
}

/** Whether the y axis of a chart is logarithmic by itself: all values are above 0, and far apart. */
export function wantsLog({ kind }: Kinded, lines: readonly DrawLine[]): boolean {
  if (!KINDS[kind].log) return false;
  let [least, most] = [Infinity, -Infinity];
  for (const { raw, low, high, end, group } of lines)
    for (let at = 0; at < end; at += 1) {
      // The band of a mean may reach below 0, which no value did.
      const bounds = group === null ? { low, high } : { low: null, high: null };
      const [down, up] = [bounds.low?.[at] ?? raw[at]!, bounds.high?.[at] ?? raw[at]!];
      if (down < least) least = down;
      if (up > most) most = up;
    }
  return least > 0 && Number.isFinite(most) && most / least >= SPREAD;
}

/** The largest value that leaves the range of the y axis, where it is, and how many do. */
export interface Cut {
  value: number;
  x: number;
  count: number;
}

/** What lies far beyond all else in view, and the largest value of the rest; null: nothing does. */
export function cutOf(
  { kind }: Kinded,
  lines: readonly DrawLine[],
  x: Range,
): { cut: Cut; most: number } | null {
  if (!KINDS[kind].clip) return null;
  const values: number[] = [];
  const each = (take: (value: number, at: number) => void): void => {
    for (const line of lines) {
      const to = Math.min(line.end, lowerBound(line.x, x.max) + 1);
      for (let at = lowerBound(line.x, x.min); at < to; at += 1) {
        const value = line.high?.[at] ?? line.raw[at]!;
        if (Number.isFinite(value) && line.x[at]! <= x.max) take(value, line.x[at]!);
      }
    }
  };
  each((value) => values.push(value));
  if (values.length < ENOUGH) return null;
  values.sort((a, b) => a - b);
  // Of few points one alone is more than half a percent.
  const within = Math.min(values.length - 2, Math.floor(SHARE * (values.length - 1)));
  const most = values[within]!;
  if (!(most > 0) || values.at(-1)! <= FAR * most) return null;
  const cut: Cut = { value: -Infinity, x: 0, count: 0 };
  each((value, at) => {
    if (value <= FAR * most) return;
    cut.count += 1;
    if (value > cut.value) [cut.value, cut.x] = [value, at];
  });
  return { cut, most };
}

/** Runs of which the others lose sight: their largest value is so many times that of the median run. */
const GONE = 100;
/** Fewer lines have no other ones to be seen. */
const OTHERS = 3;

/** Losses and norms of runs that diverged, where most did not: they would flatten all others; none: they stay in view. */
export function divergedOf<L extends DrawLine>({ kind }: Kinded, lines: readonly L[]): L[] {
  if (kind !== "loss" && kind !== "norm") return [];
  const largest = lines.map(({ raw, high, end }) => {
    let most = -Infinity;
    for (let at = 0; at < end; at += 1) {
      const value = high?.[at] ?? raw[at]!;
      if (value - value === 0 && value > most) most = value;
    }
    return most;
  });
  const sorted = largest.filter(Number.isFinite).sort((a, b) => a - b);
  const median = sorted[sorted.length >> 1];
  if (sorted.length <= OTHERS || median === undefined || !(median > 0)) return [];
  const found = lines.filter((_, at) => largest[at]! > GONE * median);
  return 3 * found.length <= sorted.length ? found : [];
}

/** How far beyond the others some lines go: the largest value of them in view, and how many lie there. */
export function beyondOf(
  diverged: readonly DrawLine[],
  others: readonly DrawLine[],
  x: Range,
): { cut: Cut; most: number } | null {
  const each = (lines: readonly DrawLine[], take: (value: number, at: number) => void): void => {
    for (const line of lines)
      for (let at = lowerBound(line.x, x.min); at < line.end && line.x[at]! <= x.max; at += 1) {
        const value = line.high?.[at] ?? line.raw[at]!;
        if (value - value === 0) take(value, line.x[at]!);
      }
  };
  let most = -Infinity;
  each(others, (value) => (most = Math.max(most, value)));
  if (!(most > 0)) return null;
  const cut: Cut = { value: -Infinity, x: 0, count: 0 };
  each(diverged, (value, at) => {
    if (value <= most) return;
    cut.count += 1;
    if (value > cut.value) [cut.value, cut.x] = [value, at];
  });
  return cut.count ? { cut, most } : null;
}

/** Whether a chart says nothing: a count of what went wrong that never did. */
export function isIdle({ kind }: Kinded, line: DrawLine | undefined): boolean {
  if (!line || (kind !== "counter" && kind !== "nonfinite" && kind !== "other")) return false;
  return line.bad === 0 && line.raw.length > 0 && (line.high ?? line.raw).every((value) => value === 0);
}

/** Kinds whose values are never below 0; of a share none is above 1. */
const NEVER_NEGATIVE: ReadonlySet<MetricKind> = new Set([
  "counter",
  "nonfinite",
  "norm",
  "latency",
  "rate",
  "ratio",
  "bytes",
]);

/** Lines whose bands end where their values can: a mean less its deviation may be a count that there is not. */
export function withinBounds<L extends DrawLine>(lines: readonly L[], { kind }: Kinded): L[] {
  return lines.map((line) => {
    if (line.group === null || !line.low || !line.high) return line;
    const positive = NEVER_NEGATIVE.has(kind) || (kind === "loss" && line.y.every((value) => !(value < 0)));
    const most = kind === "ratio" && line.y.every((value) => !(value > 1)) ? 1 : Infinity;
    const least = positive && line.y.every((value) => !(value < 0)) ? 0 : -Infinity;
    if (least === -Infinity && most === Infinity) return line;
    const bounded = (values: typeof line.low): typeof line.low =>
      values!.map((value) => Math.min(most, Math.max(least, value)));
    return { ...line, low: bounded(line.low), high: bounded(line.high) };
  });
}
