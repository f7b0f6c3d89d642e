/** Figures of several runs, and how two sides of runs differ. */
import { nearestIndex } from "./shape";

/** Figures of the runs of one side. */
export interface Group {
  mean: number;
  /** Standard deviation of the runs; null with fewer than two. */
  spread: number | null;
  /** Of a single run: how far one of its values lies from its course, as a standard deviation; null: not known. */
  noise: number | null;
  /** Runs with a finite value, and runs whose value is not finite. */
  count: number;
  bad: number;
}

/** @param noise: Of the values of a run along its steps; it counts where there is one run alone. */
export function groupOf(values: readonly (number | null)[], noise: number | null = null): Group {
  const known = values.filter((value): value is number => value !== null);
  const finite = known.filter(Number.isFinite);
  const mean = finite.length ? finite.reduce((sum, value) => sum + value, 0) / finite.length : NaN;
  const squares = finite.reduce((sum, value) => sum + (value - mean) ** 2, 0);
  return {
    mean,
    spread: finite.length > 1 ? Math.sqrt(squares / (finite.length - 1)) : null,
    noise: finite.length === 1 ? noise : null,
    count: finite.length,
    bad: known.length - finite.length,
  };
}

/** Values around a place that say how noisy a run is there, and the fewest that say anything. */
const AROUND = 32;
const FEWEST = 5;

/** Standard deviation of a line's values around its course, near a place; null: there are too few of them.
 *
 * Each value is compared with the straight line between those before and after it, so that neither a trend nor its
 * slope counts. The mean of what remains is that of a normal distribution's absolute values, sigma times the root of
 * 2 / pi, which one spike moves less than it moves the mean of squares.
 */
export function noiseAt(
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  place: number,
  end = x.length,
): number | null {
  const middle = nearestIndex(x, place, end);
  const from = Math.max(0, Math.min(middle - AROUND / 2, end - AROUND));
  const to = Math.min(end, from + AROUND);
  const known: number[] = [];
  for (let at = from; at < to; at += 1) if (Number.isFinite(y[at]!)) known.push(at);
  if (known.length < FEWEST) return null;
  let sum = 0;
  for (let at = 1; at + 1 < known.length; at += 1) {
    const [before, here, after] = [known[at - 1]!, known[at]!, known[at + 1]!];
    const width = x[after]! - x[before]!;
    const part = width ? (x[here]! - x[before]!) / width : 0.5; // several values of one step
    const course = y[before]! + (y[after]! - y[before]!) * part;
    sum += Math.abs(y[here]! - course) / Math.sqrt(1 + part ** 2 + (1 - part) ** 2);
  }
  return (sum / (known.length - 2)) * Math.sqrt(Math.PI / 2);
}

/** B − A. */
export interface Delta {
  difference: number;
  /** Of A's size; null where that is 0. */
  ratio: number | null;
  /** Standard error of the difference; null: not known. */
  error: number | null;
  /** How far from 0 a difference must be so that it is none by chance, at 5 % on both sides; null: not known. */
  margin: number | null;
  /** What is not exceeded: the spread of runs, that of the values of single runs along their steps, or what seeds do. */
  of: "runs" | "steps" | "seeds" | null;
  verdict: Verdict;
}

/** `noise`: less than the margin; `unknown`: too few values to tell; `changed`: its name does not tell which way is better. */
export type Verdict = "better" | "worse" | "same" | "noise" | "unknown" | "changed";

/** null where a side has no finite value. */
export function deltaOf(a: Group, b: Group, lower: boolean | null): Delta | null {
  if (!a.count || !b.count) return null;
  const difference = b.mean - a.mean;
  const { error, margin, of } = errorOf(a, b);
  return {
    difference,
    ratio: a.mean === 0 ? null : difference / Math.abs(a.mean),
    error,
    margin,
    of,
    verdict: verdictOf(difference, Math.max(Math.abs(a.mean), Math.abs(b.mean)), margin, lower),
  };
}

/** Standard error of B − A, and Welch's margin (1947) between runs, as the server has it between configurations.
 *
 * A single run beside several is taken to be spread as they are. The many steps of single runs need no quantile.
 */
function errorOf(a: Group, b: Group): Pick<Delta, "error" | "margin" | "of"> {
  const [spreadA, spreadB] = [a.spread ?? b.spread, b.spread ?? a.spread];
  if (spreadA !== null && spreadB !== null) {
    const parts = [spreadA ** 2 / a.count, spreadB ** 2 / b.count];
    const sum = parts[0]! + parts[1]!;
    const error = Math.sqrt(sum);
    const within = [a, b].reduce(
      (total, { spread, count }, side) => total + (spread === null ? 0 : parts[side]! ** 2 / (count - 1)),
      0,
    );
    const single = a.spread === null || b.spread === null;
    const free = single ? Math.max(a.count, b.count) - 1 : sum ** 2 / within;
    return { error, margin: error && error * studentQuantile(free), of: "runs" };
  }
  if (a.noise !== null && b.noise !== null) {
    const error = Math.hypot(a.noise, b.noise);
    return { error, margin: 2 * error, of: "steps" };
  }
  return { error: null, margin: null, of: null };
}

/** Of the angle, as the server takes them: they give a quantile of any degrees of freedom to 1e-3. */
const STRIPS = 4000;
const quantiles = new Map<number, number>();

/** The size beyond which 5 % of Student's distribution lie on both sides; correct to 1e-3 of it.
 *
 * The integral is taken over the angle whose tangent is t / √free, by trapezia.
 *
 * @param free: Degrees of freedom, at least 1.
 */
export function studentQuantile(free: number): number {
  const key = Math.round(100 * free);
  const known = quantiles.get(key);
  if (known !== undefined) return known;
  const strip = Math.PI / 2 / STRIPS;
  const area = [0];
  let before = 1;
  for (let at = 1; at <= STRIPS; at += 1) {
    const here = Math.max(Math.cos(at * strip), 0) ** (free - 1);
    area.push(area[at - 1]! + (before + here) / 2);
    before = here;
  }
  const wanted = 0.95 * area[STRIPS]!;
  const after = area.findIndex((sum) => sum >= wanted);
  const part = (wanted - area[after - 1]!) / (area[after]! - area[after - 1]!);
  const quantile = Math.tan((after - 1 + part) * strip) * Math.sqrt(free);
  quantiles.set(key, quantile);
  return quantile;
}

/** A difference of a smaller part is none: half of the last of four digits. */
const ALIKE = 5e-4;

function verdictOf(difference: number, size: number, margin: number | null, lower: boolean | null): Verdict {
  if (Math.abs(difference) <= ALIKE * size) return "same";
  if (lower === null) return margin !== null && Math.abs(difference) < margin ? "noise" : "changed";
  if (margin === null) return "unknown";
  if (Math.abs(difference) < margin) return "noise";
  return difference < 0 === lower ? "better" : "worse";
}
