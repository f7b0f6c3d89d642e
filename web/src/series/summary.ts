/** A chart in words, for people who do not see it. */
import type { XAxis } from "../server/api";
import type { Range } from "./limits";
import { beside, counted, figure, fixed, type Measure } from "../format/number";
import { newest, recordedAt } from "./reading";
import type { DrawLine } from "./shape";
import { duration, exact } from "../format/time";

export const AXIS_NAME: Record<XAxis, string> = { step: "Step", wall: "Time", relative: "After", tag: "At" };

/** What may be drawn around the mean of a group; each: no mean. */
export const BANDS = ["std", "minmax", "stderr", "each"] as const;
export type BandChoice = (typeof BANDS)[number];

/** What lies around a mean. */
export const BAND_NAMES: Record<BandChoice, string> = {
  std: "± std dev",
  stderr: "± std error",
  minmax: "Min–max",
  each: "Each run",
};

/** An x as it is read on its axis. */
export function xText(x: number, axis: XAxis): string {
  if (axis === "wall") return exact(x);
  if (axis === "relative") return duration(x);
  if (axis === "tag") return figure(x, 6);
  return Number.isInteger(x) ? fixed(x, 0) : fixed(Math.round(x), 0);
}

/** A place of a chart: a step, or the steps of a bucket, whose middle x is. */
export function placeText(x: number, axis: XAxis, bucket: number | null, tag: string | null = null): string {
  if (axis === "tag" && tag !== null) return `${tag} ${xText(x, axis)}`;
  if (axis !== "step" || bucket === null || bucket <= 1) return `${AXIS_NAME[axis]} ${xText(x, axis)}`;
  const half = (bucket - 1) / 2;
  return `Steps ${xText(x - half, axis)} – ${xText(x + half, axis)}`;
}

/** A value in the measure of its chart, the unit included. */
export function valueText(value: number, measure: Measure, unit = true): string {
  const text = figure(value * measure.factor);
  if (!unit || !measure.unit || !Number.isFinite(value)) return text;
  return beside(text, measure.unit);
}

/** A chart in one sentence.
 *
 * @param right: How values of lines that are drawn against a second axis read.
 */
export function chartSummary(
  title: string,
  lines: readonly (DrawLine & { right?: boolean })[],
  x: Range | null,
  axis: XAxis,
  measure: Measure,
  right: { measure: Measure } | null = null,
): string {
  if (!lines.length || !x) return `${title}, no points`;
  const runs = new Set(lines.map((line) => line.run)).size;
  const [left, beside] = [false, true].map((side) =>
    lines.filter((line) => (right !== null && (line.right ?? false)) === side),
  ) as [DrawLine[], DrawLine[]];
  const last = left.length ? `, last ${lastOf(left, measure)}` : "";
  const other = right && beside.length ? `, on the right axis ${lastOf(beside, right.measure)}` : "";
  const bad = lines.reduce((sum, line) => sum + line.bad, 0);
  return (
    `${title}, ${counted(runs, "run")}, ${counted(lines.length, "line")}, ` +
    `${AXIS_NAME[axis].toLowerCase()} ${xText(x.min, axis)} to ${xText(x.max, axis)}${last}${other}` +
    (bad ? `, ${counted(bad, "value")} not finite` : "")
  );
}

/** The newest value of lines, or the least and largest of them. */
function lastOf(lines: readonly DrawLine[], measure: Measure): string {
  const lasts = newest(lines).map((line) => recordedAt(line, null));
  const finite = lasts.filter(Number.isFinite);
  const low = finite.length ? Math.min(...finite) : lasts[0]!;
  const high = finite.length ? Math.max(...finite) : lasts[0]!;
  return Object.is(low, high)
    ? valueText(low, measure)
    : `${valueText(low, measure)} to ${valueText(high, measure)}`;
}
