/** Where a tensor stops being finite, or is recorded no more: what histograms of its finite values do not show. */
import type { Histogram } from "./histograms";

/** How many values of a tensor were not finite at a step. */
export interface Bad {
  step: number;
  count: number;
  /** The step is that of one of several points that came as one. */
  about?: boolean;
}

export interface Ending {
  /** `gone`: nothing is finite from here on; `part`: some values are not; `silent`: no histogram from here on. */
  kind: "gone" | "part" | "silent";
  /** First step of it. */
  step: number;
  /** It is one of several steps nearby. */
  about: boolean;
  /** Last step that is known of. */
  last: number;
  /** Recorded steps of it. */
  steps: number;
  /** Most values that were not finite at one step, and values of the tensor. */
  most: number;
  values: number;
}

/** Intervals between histograms that may pass before they count as ended. */
const PATIENCE = 3;

/** Steps from one histogram to the next, as they usually lie. */
export function intervalOf(histograms: readonly Histogram[]): number {
  const between = histograms
    .slice(1)
    .map((one, at) => one.step - histograms[at]!.step)
    .filter((steps) => steps > 0)
    .sort((a, b) => a - b);
  return between.length ? between[between.length >> 1]! : 1;
}

/** How the histograms of a tensor end before the run does; null where they do not.
 *
 * @param bad: Counted values that are not finite, in the order of steps; counts of 0 are of no matter.
 * @param runStep: The last step of the run.
 */
export function endingOf(
  histograms: readonly Histogram[],
  bad: readonly Bad[],
  runStep: number | null,
): Ending | null {
  const full = histograms.filter(({ total }) => total > 0);
  const end = full.at(-1)?.step ?? -Infinity;
  const broken = bad.filter(({ count }) => count > 0);
  const empty = histograms.filter(
    ({ total, step }) => !(total > 0) && broken.some((one) => one.step === step),
  );
  const most = broken.reduce((sum, { count }) => Math.max(sum, count), 0);
  const finite = full.at(-1)?.total ?? 0;
  const values = Math.max(most, finite, (broken.find(({ step }) => step === end)?.count ?? 0) + finite);
  const after = [...new Set([...broken, ...empty].map(({ step }) => step).filter((step) => step > end))];
  const last = Math.max(end, runStep ?? -Infinity, ...after);
  const about = (step: number): boolean => broken.some((one) => one.step === step && one.about);
  if (after.length) {
    const step = Math.min(...after);
    return { kind: "gone", step, about: about(step), last, steps: after.length, most, values };
  }
  if (broken.length) {
    const { step } = broken[0]!;
    return { kind: "part", step, about: about(step), last: end, steps: broken.length, most, values };
  }
  const interval = intervalOf(full);
  if (!full.length || runStep === null || full.length < 2 || runStep - end <= PATIENCE * interval)
    return null;
  return { kind: "silent", step: end + interval, about: false, last, steps: 0, most: 0, values };
}
