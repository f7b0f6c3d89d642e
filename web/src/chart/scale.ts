/** The y axes of a chart: which line is drawn against which, and the range of each. */
import type { Chart, MetricKind } from "../server/api";
import type { Measure } from "../format/number";
import { yLimits, type Range } from "../series/limits";
import { isOwn } from "../series/own";
import { lowerBound, type DrawLine } from "../series/shape";
import { KINDS, beyondOf, cutOf, divergedOf, smoothingOf, wantsLog, withMedian, withinBounds } from "./kinds";
import type { ChartModel, Placing, SecondScale } from "./model";

interface Shown {
  logY: boolean | null;
  outliers: boolean;
  ghost: boolean;
  superseded: boolean;
}

type Scale = Pick<ChartModel, "y" | "logY" | "cut"> & { counted: boolean; omitted: number };

/** The kind of what a line of a chart shows: that of its tag where the chart holds several. */
function kindOf(chart: Chart, tag: string): MetricKind {
  return isOwn(chart) ? (chart.kinds.get(tag) ?? "other") : chart.kind;
}

/** Lines as their kinds want them: medians of times, schedules and counts as recorded, bands within what can be. */
export function ofTheirKinds<L extends DrawLine>(lines: readonly L[], chart: Chart, smoothing: number): L[] {
  return lines.map((line) => {
    const kind = kindOf(chart, line.tag);
    const exact = KINDS[kind].averaging !== "mean" && line.smoothed && line.group === null;
    const recorded = exact ? { ...line, y: line.raw, smoothed: false } : line;
    return withinBounds(withMedian([recorded], { kind }, smoothing), { kind })[0]!;
  });
}

/** The weight that the server is asked for: none where nothing of a chart is averaged. */
export function smoothingFor(chart: Chart, wanted: number): number {
  const kinds = isOwn(chart) ? chart.lines.map(({ tag }) => kindOf(chart, tag)) : [chart.kind];
  return Math.max(0, ...kinds.map((kind) => smoothingOf({ kind }, wanted)));
}

/** Unit and kind of what is read on the left axis: of the other tags where only they are drawn. */
export function onLeft(chart: Chart, lines: readonly DrawLine[]): Pick<Chart, "unit" | "measure" | "kind"> {
  const right = isOwn(chart) ? chart.right : null;
  return right && lines.every((line) => isRight(chart, line)) ? right : chart;
}

/** Whether a line is drawn against the axis on the right. */
export function isRight(chart: Chart, { tag }: Pick<DrawLine, "tag">): boolean {
  return isOwn(chart) && (chart.right?.tags.has(tag) ?? false);
}

/** Range, logarithm and what is left out of the axis of some lines. */
export function scaleOf(lines: readonly DrawLine[], kind: MetricKind, view: Shown, x: Range): Scale {
  // Whoever asks for a logarithm wants to see all of it.
  const diverged = view.outliers && view.logY !== true ? divergedOf({ kind }, lines) : [];
  const others = diverged.length ? lines.filter((line) => !diverged.includes(line)) : lines;
  const logY = view.logY ?? wantsLog({ kind }, others);
  const far = diverged.length
    ? beyondOf(diverged, others, x)
    : view.outliers && !logY
      ? cutOf({ kind }, lines, x)
      : null;
  const { outliers, ghost, superseded } = view;
  const options = { log: logY, ...(far ? { most: far.most } : {}), outliers, ghost, superseded };
  const y = yLimits(lines, x, options) ?? { min: logY ? 1 : 0, max: logY ? 10 : 1 };
  // How many values are not finite is read against none, also where it is the same at every step that has it.
  const whole = kind === "nonfinite" && !logY && view.outliers;
  const counted =
    (kind === "nonfinite" || kind === "counter") &&
    lines.every(({ raw }) => raw.every((value) => Number.isInteger(value) || !Number.isFinite(value)));
  return {
    y: whole ? { ...y, min: Math.min(0, y.min) } : y,
    logY,
    cut: far?.cut ?? null,
    counted,
    omitted: logY ? notAboveZero(lines, x) : 0,
  };
}

/** Places of lines whose recorded value is 0 or below. */
function notAboveZero(lines: readonly DrawLine[], x: Range): number {
  let found = 0;
  for (const line of lines)
    for (let at = lowerBound(line.x, x.min); at < line.end && line.x[at]! <= x.max; at += 1)
      if (line.raw[at]! <= 0) found += 1;
  return found;
}

/** The second axis of a chart; null: it has none.
 *
 * @param zoom: The range of the first axis that is shown, of that which all of its values take.
 */
export function secondScale(
  chart: Chart,
  lines: readonly DrawLine[],
  view: Shown,
  x: Range,
  zoom: { near: Range; all: Range; log: boolean } | null,
): SecondScale | null {
  const second = isOwn(chart) ? chart.right : null;
  const own = lines.filter((line) => isRight(chart, line));
  if (!second || !own.length || own.length === lines.length) return null;
  const { y: all, logY, cut } = scaleOf(own, second.kind, view, x);
  const y = zoom ? alike(zoom, all, logY) : all;
  return { y, logY, cut: zoom ? null : cut, measure: second.measure };
}

/** The stretch of an axis that lies beside a stretch of another one. */
function alike({ near, all, log }: { near: Range; all: Range; log: boolean }, other: Range, logs: boolean) {
  const scaled = (value: number, on: boolean): number => (on ? Math.log(value) : value);
  const [from, to] = [scaled(all.min, log), scaled(all.max, log)];
  const [start, end] = [scaled(other.min, logs), scaled(other.max, logs)];
  const [min, max] = [near.min, near.max].map((value) => {
    const found = start + ((scaled(value, log) - from) / (to - from)) * (end - start);
    return logs ? Math.exp(found) : found;
  });
  return { min: min!, max: max! };
}

/** Where values of a line are placed, and how they read: against the axis that it is drawn against. */
export function placingOf(placing: Placing, line: { right?: boolean }): Placing {
  return line.right && placing.right ? { ...placing, y: placing.right } : placing;
}

export function measureOfLine(model: ChartModel, line: { right?: boolean }): Measure {
  return line.right && model.right ? model.right.measure : model.measure;
}
