/** Ranks of a run: questions, and which of them stands apart. */
import { STAGE, VALUE, isStage, isValue, type RankQuantity } from "../view/view";
import type { RankFact, RankList, RankSteps, RankSummary, RankedRuns, StageMeans } from "../server/api";
import { csvRow } from "../chart/export/csv";
import { ask, question, told } from "../server/client";
import { bytesText } from "../format/units";
import { count, figure, measured, NOTHING } from "../format/number";
import { columnOf, openFrame, type Numbers } from "../server/wire";

export interface RankGrid extends Omit<RankSteps, "steps" | "maximum" | "mean" | "count" | "nonfinite"> {
  steps: Numbers;
  maximum: Numbers;
  mean: Numbers;
  count: Numbers;
  nonfinite: Numbers;
}

export const fetchRankedRuns = (): Promise<RankedRuns> => told("ranks");

export const fetchRanks = (run: string): Promise<RankList> => told("ranks", { run });

export const fetchStages = (run: string): Promise<StageMeans> => told("ranks/stages", { run });

export async function fetchRankSteps(
  run: string,
  fact: RankQuantity,
  columns: number,
  attempt: number | null,
  within: [number, number] | null = null,
): Promise<RankGrid> {
  const [begin, end] = within ?? [null, null];
  const asked = question("ranks/steps", { run, fact, columns, attempt, begin, end });
  const frame = await (await ask(asked)).arrayBuffer();
  const { header, start } = openFrame<RankSteps>(frame);
  const { steps, maximum, mean, count: counts, nonfinite, ...rest } = header;
  return {
    ...rest,
    steps: columnOf(frame, start, steps),
    maximum: columnOf(frame, start, maximum),
    mean: columnOf(frame, start, mean),
    count: columnOf(frame, start, counts),
    nonfinite: columnOf(frame, start, nonfinite),
  };
}

const FACT_NAMES: Record<RankFact, string> = {
  own_work_s: "Own work",
  step_time_s: "Step time",
  data_wait_s: "Data wait",
  loss: "Loss",
  nonfinite_count: "Non-finite",
  resident_bytes: "Memory",
  device_bytes: "Device memory",
};

/** What a fact, a stage or a series of the ranks' own is called. */
export function factName(fact: RankQuantity): string {
  if (isValue(fact)) return fact.slice(VALUE.length);
  if (!isStage(fact)) return FACT_NAMES[fact];
  const stage = fact.slice(STAGE.length);
  return `${stage[0]?.toUpperCase() ?? ""}${stage.slice(1)} stage`;
}

/** Whether a cell shows the mean of its steps; of times and bytes it shows the largest. */
export const isMean = (fact: RankQuantity): boolean => fact === "loss" || isValue(fact);

/** One value of a fact with its unit. */
export function factText(fact: RankQuantity, value: number | null): string {
  if (value === null || !Number.isFinite(value)) return NOTHING;
  if (isMean(fact)) return figure(value);
  if (fact.endsWith("_bytes")) return bytesText(value);
  if (fact === "nonfinite_count") return count(value);
  return measured(value, "s");
}

export interface Row {
  /** Index into the grid's rows. */
  at: number;
  label: string;
  host: string | null;
  /** Mean over all steps; NaN: nothing was recorded. */
  mean: number;
}

export function rowsOf(grid: RankGrid, ranks: readonly RankSummary[]): Row[] {
  const hosts = new Map(ranks.map((rank) => [rank.label, rank.host]));
  return grid.labels.map((label, at) => {
    let sum = 0;
    let number = 0;
    for (let column = 0; column < grid.columns; column += 1) {
      const [value, weight] = [
        grid.mean[at * grid.columns + column]!,
        grid.count[at * grid.columns + column]!,
      ];
      if (weight > 0 && Number.isFinite(value)) {
        sum += value * weight;
        number += weight;
      }
    }
    return { at, label, host: hosts.get(label) ?? null, mean: number ? sum / number : NaN };
  });
}

export function median(values: readonly number[]): number {
  const sorted = values.filter(Number.isFinite).sort((a, b) => a - b);
  if (!sorted.length) return NaN;
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** Median and highest mean of each column, and whose the highest is (-1: nobody's). */
export interface Columns {
  middle: Float64Array;
  most: Float64Array;
  of: Int32Array;
}

const COLUMNS = new WeakMap<RankGrid, Columns>();

/** Worked out once for a grid: it may have a thousand ranks by thousands of columns. */
export function columnsOf(grid: RankGrid): Columns {
  let found = COLUMNS.get(grid);
  if (!found) {
    found = {
      middle: new Float64Array(grid.columns),
      most: new Float64Array(grid.columns),
      of: new Int32Array(grid.columns),
    };
    const values = new Float32Array(grid.labels.length);
    for (let column = 0; column < grid.columns; column += 1) {
      let number = 0;
      let most = -Infinity;
      let of = -1;
      for (let row = 0; row < grid.labels.length; row += 1) {
        const value = grid.mean[row * grid.columns + column]!;
        if (!Number.isFinite(value)) continue;
        values[number] = value;
        number += 1;
        if (value > most) [most, of] = [value, row];
      }
      found.middle[column] = middleOf(values.subarray(0, number));
      found.most[column] = number ? most : NaN;
      found.of[column] = of;
    }
    COLUMNS.set(grid, found);
  }
  return found;
}

/** Median of finite values, which are reordered in place. */
function middleOf(values: Float32Array): number {
  if (!values.length) return NaN;
  const middle = values.length >> 1;
  const upper = nth(values, middle);
  if (values.length % 2) return upper;
  let lower = -Infinity;
  for (let at = 0; at < middle; at += 1) lower = Math.max(lower, values[at]!);
  return (lower + upper) / 2;
}

/** The value that sorting would put at a place (Hoare 1961); smaller ones end before it, larger ones behind. */
function nth(values: Float32Array, place: number): number {
  let [from, to] = [0, values.length - 1];
  while (from < to) {
    const pivot = values[(from + to) >> 1]!;
    let [left, right] = [from, to];
    while (left <= right) {
      while (values[left]! < pivot) left += 1;
      while (values[right]! > pivot) right -= 1;
      if (left > right) break;
      const held = values[left]!;
      values[left] = values[right]!;
      values[right] = held;
      left += 1;
      right -= 1;
    }
    if (place <= right) to = right;
    else if (place >= left) from = left;
    else break;
  }
  return values[place]!;
}

export interface Blame {
  label: string;
  /** Columns in which it was the highest, and by enough. */
  columns: number;
  first: number;
  last: number;
}

/** Who was highest, how often and since when: columns in which the highest lies at least 5 % above the median. */
export function blame(grid: RankGrid): { ranks: Blame[]; none: number } {
  const { middle, most, of } = columnsOf(grid);
  const found = new Map<number, Blame>();
  let none = 0;
  for (let column = 0; column < grid.columns; column += 1) {
    if (of[column]! < 0) continue;
    if (
      most[column]! - middle[column]! < LEAST_DIFFERENCE * Math.abs(middle[column]!) ||
      grid.labels.length < 2
    ) {
      none += 1;
      continue;
    }
    const step = grid.steps[column]!;
    const own = found.get(of[column]!);
    if (own) [own.columns, own.last] = [own.columns + 1, step];
    else found.set(of[column]!, { label: grid.labels[of[column]!]!, columns: 1, first: step, last: step });
  }
  return { ranks: [...found.values()].sort((a, b) => b.columns - a.columns), none };
}

/** How far a rank stands from the others, as a modified z-score (Iglewicz and Hoaglin 1993: 0.6745 (x − median) / MAD). */
export function apart(rows: readonly Row[]): Map<string, number> {
  const means = rows.map((row) => row.mean);
  const middle = median(means);
  const spread = median(means.map((mean) => Math.abs(mean - middle)));
  // Ranks that agree to the last digit have no spread: a thousandth of the median then counts as one.
  const scale = Math.max(spread / 0.6745, Math.abs(middle) * 1e-3, Number.MIN_VALUE);
  return new Map(rows.map((row) => [row.label, (row.mean - middle) / scale]));
}

export interface Outlier {
  row: Row;
  score: number;
  /** Its mean from that step on. */
  mean: number;
  /** Median of the other ranks' means from that step on. */
  others: number;
  /** Step from which on it stands apart; null: from the beginning. */
  since: number | null;
}

/** Score from which a rank counts as apart, and the least difference that is worth a word. */
export const LEAST_SCORE = 3.5;
export const LEAST_DIFFERENCE = 0.05;

/** The rank that is slower or larger than the others by most, if one stands out of at least three. */
export function outlier(rows: readonly Row[], grid: RankGrid): Outlier | null {
  const known = rows.filter((row) => Number.isFinite(row.mean));
  if (known.length < 3) return null;
  const scores = apart(known);
  const worst = known.reduce((a, b) => (scores.get(b.label)! > scores.get(a.label)! ? b : a));
  const score = scores.get(worst.label)!;
  const others = median(known.filter((row) => row !== worst).map((row) => row.mean));
  if (score < LEAST_SCORE || worst.mean - others < LEAST_DIFFERENCE * Math.abs(others)) return null;
  const since = sinceStep(worst, known, grid);
  if (since === null) return { row: worst, score, mean: worst.mean, others, since };
  const later = meansFrom(grid, since);
  return {
    row: worst,
    score,
    since,
    mean: later[worst.at]!,
    others: median(known.filter((row) => row !== worst).map((row) => later[row.at]!)),
  };
}

/** Mean of every row of the grid from a step on. */
function meansFrom(grid: RankGrid, step: number): number[] {
  const first = grid.steps.findIndex((one: number) => one >= step);
  return grid.labels.map((_, at) => {
    const values: number[] = [];
    for (let column = first; column < grid.columns; column += 1)
      values.push(grid.mean[at * grid.columns + column]!);
    const finite = values.filter(Number.isFinite);
    return finite.reduce((sum, value) => sum + value, 0) / finite.length;
  });
}

/** The split of its steps that best parts a near level from a far one, by the sum of squares. */
function sinceStep(worst: Row, known: readonly Row[], grid: RankGrid): number | null {
  const beginnings = known.filter((row) => row !== worst).map((row) => row.at * grid.columns);
  const values = new Float32Array(beginnings.length);
  const excess: number[] = [];
  const places: number[] = [];
  for (let column = 0; column < grid.columns; column += 1) {
    const own = grid.mean[worst.at * grid.columns + column]!;
    let number = 0;
    for (const from of beginnings) {
      const value = grid.mean[from + column]!;
      if (Number.isFinite(value)) values[number++] = value;
    }
    const others = middleOf(values.subarray(0, number));
    if (Number.isFinite(own) && Number.isFinite(others)) {
      excess.push(own - others);
      places.push(column);
    }
  }
  const total = excess.reduce((sum, value) => sum + value, 0);
  let before = 0;
  let best = 0;
  let split = 0;
  for (let at = 1; at < excess.length; at += 1) {
    before += excess[at - 1]!;
    const rest = excess.length - at;
    const jump = (total - before) / rest - before / at;
    const gain = jump * jump * ((at * rest) / excess.length);
    if (jump > 0 && gain > best) [best, split] = [gain, at];
  }
  if (!split) return null;
  const low = excess.slice(0, split).reduce((sum, value) => sum + value, 0) / split;
  const high = excess.slice(split).reduce((sum, value) => sum + value, 0) / (excess.length - split);
  return low < high / 3 ? grid.steps[places[split]!]! : null;
}

/** Rows in the order in which they are shown. */
export function ordered(rows: readonly Row[], sort: "rank" | "host" | "outlier"): Row[] {
  if (sort === "outlier") {
    const scores = apart(rows);
    return [...rows].sort((a, b) => (scores.get(b.label) || 0) - (scores.get(a.label) || 0) || a.at - b.at);
  }
  if (sort === "host")
    return [...rows].sort((a, b) => (a.host ?? "").localeCompare(b.host ?? "") || a.at - b.at);
  return [...rows];
}

/** Range of values that the colours cover, up to the 99th percentile: the first step of a job takes a hundred times as
 * long as the others, and one rank that is slow would be as dark as they are. */
export function colourRange(values: ArrayLike<number>): [number, number] {
  const stride = Math.max(1, Math.floor(values.length / 100_000));
  const room = new Float64Array(Math.ceil(values.length / stride));
  let number = 0;
  for (let at = 0; at < values.length; at += stride)
    if (Number.isFinite(values[at]!)) room[number++] = values[at]!;
  if (!number) return [0, 1];
  const finite = room.subarray(0, number).sort();
  const low = finite[Math.floor(0.001 * (number - 1))]!;
  const high = finite[Math.ceil(0.99 * (number - 1))]!;
  return high > low ? [low, high] : [low, low + Math.max(Math.abs(low) * 1e-3, 1e-12)];
}

/** How many values the colours do not tell apart, since they lie above the range. */
export function above(values: ArrayLike<number>, high: number): number {
  let number = 0;
  for (let at = 0; at < values.length; at += 1) if (values[at]! > high) number += 1;
  return number;
}

const STEPS_AT_ONCE = 4000;

/** Every rank at every step as CSV, in pieces: a column of an answer holds one step. */
export async function rankCsv(
  run: string,
  fact: RankQuantity,
  attempt: number | null,
  first: number,
  end: number,
): Promise<string[]> {
  const parts = [csvRow(["run", "rank", "step", fact, "points", "nonfinite"])];
  for (let begin = first; begin < end; begin += STEPS_AT_ONCE) {
    const grid = await fetchRankSteps(run, fact, STEPS_AT_ONCE, attempt, [
      begin,
      Math.min(end, begin + STEPS_AT_ONCE),
    ]);
    const rows: string[] = [];
    grid.labels.forEach((label, row) => {
      for (let column = 0; column < grid.columns; column += 1) {
        const at = row * grid.columns + column;
        if (!grid.count[at] && !grid.nonfinite[at]) continue;
        const value = isMean(fact) ? grid.mean[at]! : grid.maximum[at]!;
        rows.push(
          csvRow([
            run,
            label,
            grid.steps[column]!,
            grid.count[at] ? value : null,
            grid.count[at]!,
            grid.nonfinite[at]!,
          ]),
        );
      }
    });
    parts.push(rows.join(""));
  }
  return parts;
}
