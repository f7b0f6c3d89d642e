/** Fetched series as lines that can be drawn and read: each with its own x, empty buckets left out. */
import type { Split } from "../server/api";
import type { DecodedChart, DecodedLine, Numbers } from "../server/wire";

export interface DrawLine {
  /** Run, tag, writer and attempt. */
  id: string;
  run: string;
  tag: string;
  split: Split | null;
  writer: string;
  attempt: number;
  x: Numbers;
  /** What is drawn: smoothed where asked for, else as recorded. */
  y: Numbers;
  /** Last recorded value of each place. */
  raw: Numbers;
  /** Extremes of each place; null where every point is drawn. */
  low: Numbers | null;
  high: Numbers | null;
  first: Numbers | null;
  smoothed: boolean;
  /** The group that it is the mean of; `low` and `high` then are a band. */
  group: string | null;
  /** Runs of the group, and how many of them are at each place. */
  members: number;
  counts: Numbers | null;
  /** Places from here on were gone over again by a later attempt. */
  end: number;
  /** x of places that hold values that are not finite. */
  nonfinite: number[];
  points: number;
  bad: number;
  last: DecodedLine["last"];
}

export function lineId(line: {
  run: string;
  tag: string;
  writer: string;
  attempt: number;
  group?: string | null;
}): string {
  return JSON.stringify([
    line.group == null ? line.run : `group ${line.group}`,
    line.tag,
    line.writer,
    line.attempt,
  ]);
}

/** The lines of an answer that hold anything. */
export function drawLines(chart: DecodedChart): DrawLine[] {
  return chart.lines
    .map((line) => shapeOf(line, chart))
    .filter((line) => line.x.length > 0 || line.nonfinite.length > 0);
}

function shapeOf(line: DecodedLine, { mode, x_values }: DecodedChart): DrawLine {
  if (mode === "raw") return rawLine(line);
  return mode === "groups" ? groupLine(line, x_values) : bucketLine(line, x_values);
}

const NONE = new Float64Array(0);

function rawLine(line: DecodedLine): DrawLine {
  const x = line.columns["x"] ?? NONE;
  const value = line.columns["value"] ?? NONE;
  const smoothed = line.columns["smoothed"];
  return {
    ...shared(line, x),
    y: smoothed ?? value,
    raw: value,
    low: null,
    high: null,
    first: null,
    smoothed: smoothed !== undefined,
    nonfinite: line.nonfinite ? badPlaces(x, value) : [],
  };
}

/** Width of the buckets of an answer in the unit of its x; null: every place is one recorded point. */
export function bucketOf({ mode, x, x0, x1, x_values }: DecodedChart): number | null {
  if (mode === "raw" || !x_values?.length) return null;
  // Means of groups stand at the steps that all have, or in the middles of buckets.
  if (mode === "groups" && (x !== "step" || x_values.every((each) => Number.isInteger(each)))) return null;
  if (x_values.length > 1) return x_values[1]! - x_values[0]!;
  return x0 === null || x1 === null ? null : x1 - x0 + (x === "step" ? 1 : 0);
}

function bucketLine(line: DecodedLine, shared_x: Numbers | null): DrawLine {
  const columns = line.columns;
  const counts = columns["count"] ?? NONE;
  const bad = columns["nonfinite"] ?? NONE;
  const all = shared_x ?? NONE;
  const kept = keptPlaces(columns["last"] ?? NONE);
  const take = (name: string): Numbers => pick(columns[name] ?? NONE, kept);
  const x = pick(all, kept);
  const smoothed = columns["smoothed"];
  const nonfinite: number[] = [];
  if (line.nonfinite)
    for (let at = 0; at < counts.length; at += 1) if (bad[at]! > 0) nonfinite.push(all[at]!);
  return {
    ...shared(line, x),
    y: smoothed ? pick(smoothed, kept) : take("last"),
    raw: take("last"),
    low: take("min"),
    high: take("max"),
    first: take("first"),
    smoothed: smoothed !== undefined,
    nonfinite,
  };
}

/** A mean with its band, at the places where any run of the group is. */
function groupLine(line: DecodedLine, shared_x: Numbers | null): DrawLine {
  const columns = line.columns;
  const kept = keptPlaces(columns["mean"] ?? NONE);
  const take = (name: string): Numbers => pick(columns[name] ?? NONE, kept);
  const y = take("mean");
  return {
    ...shared(line, pick(shared_x ?? NONE, kept)),
    y,
    raw: y,
    low: take("low"),
    high: take("high"),
    first: null,
    smoothed: false,
    nonfinite: [],
    counts: take("count"),
  };
}

function shared(line: DecodedLine, x: Numbers) {
  const { run, tag, split, writer, attempt, points, last } = line;
  return {
    id: lineId(line),
    run,
    tag,
    split,
    writer,
    attempt,
    points,
    last,
    bad: line.nonfinite,
    x,
    group: line.group ?? null,
    members: line.members ?? 1,
    counts: null as Numbers | null,
    end: line.superseded_from === null ? x.length : lowerBound(x, line.superseded_from),
  };
}

function badPlaces(x: Numbers, value: Numbers): number[] {
  const places: number[] = [];
  for (let at = 0; at < value.length; at += 1) if (!Number.isFinite(value[at]!)) places.push(x[at]!);
  return places;
}

/** Indices of buckets that hold a finite value; null: all do, and nothing needs copying. */
function keptPlaces(last: Numbers): Int32Array | null {
  let empty = 0;
  for (let at = 0; at < last.length; at += 1) if (Number.isNaN(last[at]!)) empty += 1;
  if (!empty) return null;
  const kept = new Int32Array(last.length - empty);
  let next = 0;
  for (let at = 0; at < last.length; at += 1) if (!Number.isNaN(last[at]!)) kept[next++] = at;
  return kept;
}

function pick(values: Numbers, kept: Int32Array | null): Numbers {
  if (!kept) return values;
  const picked =
    values instanceof Float64Array ? new Float64Array(kept.length) : new Float32Array(kept.length);
  for (let at = 0; at < kept.length; at += 1) picked[at] = values[kept[at]!]!;
  return picked;
}

/** First index whose value is at least `bound`; values ascend. */
export function lowerBound(values: ArrayLike<number>, bound: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! < bound) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Index of the value nearest to x; −1 where there is none. */
export function nearestIndex(values: ArrayLike<number>, x: number, end = values.length): number {
  if (end === 0) return -1;
  const at = Math.min(lowerBound(values, x), end - 1);
  return at > 0 && x - values[at - 1]! <= values[at]! - x ? at - 1 : at;
}
