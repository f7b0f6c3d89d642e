/** Precision-recall curves: the question, and where a threshold lies on one. */
import { px } from "../format/path";
import type { CurveAnswer } from "../server/api";
import { told } from "../server/client";

export const fetchCurve = (run: string, tag: string, step: number | null): Promise<CurveAnswer> =>
  told("curve", { run, tag, step });

/** Place of the threshold nearest to a number; -1: there is none. */
export function thresholdAt(thresholds: readonly number[], wanted: number): number {
  let found = -1;
  thresholds.forEach((threshold, at) => {
    if (found < 0 || Math.abs(threshold - wanted) < Math.abs(thresholds[found]! - wanted)) found = at;
  });
  return found;
}

/** The steps of a curve, as an SVG path of precision over recall: each rise of recall at the precision reached there. */
export function curvePath(
  recall: readonly number[],
  precision: readonly number[],
  x: (recall: number) => number,
  y: (precision: number) => number,
): string {
  let path = "";
  for (let at = recall.length - 1; at >= 0; at -= 1) {
    const [right, high] = [px(x(recall[at]!)), px(y(precision[at]!))];
    path += path ? `V${high}H${right}` : `M${px(x(0))},${high}H${right}`;
  }
  return path;
}

/** Harmonic mean of precision and recall; null where both are 0. */
export function f1(precision: number, recall: number): number | null {
  return precision + recall > 0 ? (2 * precision * recall) / (precision + recall) : null;
}
