/** Which captured profile is nearest to a step. */
import type { Capture, RunFinding } from "../server/api";

/** Rules about where a step's time goes: a profile says more about them. */
export const TIMED = new Set([
  "data-wait",
  "cpu-bottleneck",
  "io-bottleneck",
  "gpu-underused",
  "step-outliers",
  "stalled-training",
  "slow-rank",
]);

export interface Near {
  capture: Capture;
  path: string;
  /** The step of it that is nearest, and how far that is away. */
  step: number;
  away: number;
}

/** The capture with the step nearest to one that is wanted; later ones first where two are as near.
 *
 * @param rank Only those of this rank; null: of any.
 * @param from Only steps from here on, as before that what is looked for had not begun; null: any.
 */
export function nearest(
  captures: readonly Capture[],
  wanted: number,
  rank: number | null,
  from: number | null = null,
): Near | null {
  let best: Near | null = null;
  for (const capture of captures) {
    if (
      capture.path === null ||
      capture.format === "memory_snapshot" ||
      (rank !== null && (capture.rank ?? 0) !== rank)
    )
      continue;
    for (const step of capture.steps) {
      const away = Math.abs(step - wanted);
      if ((from === null || step >= from) && (best === null || away < best.away))
        best = { capture, path: capture.path, step, away };
    }
  }
  return best;
}

/** The capture that shows a finding best: one of its rank where there is one, else of any. Where a rank makes the others wait,
 * theirs show nothing but that they wait.
 */
export function nearestTo(captures: readonly Capture[], finding: RunFinding, from: number): Near | null {
  const own = nearest(captures, finding.step, finding.rank, from);
  return own ?? (finding.rule === "slow-rank" ? null : nearest(captures, finding.step, null, from));
}
