/** The time of a step and how much of it waits for data, as the server has them. */
import type { RunFinding, RunFindings, StageMeans, StepTime, StepTimeBefore } from "../server/api";
import { count } from "../format/number";

/** How long a step takes, in which steps, and how long it took before. */
export interface Pace extends StepTime {
  window: string;
  /** The steps of which its share of waiting is, where these are others. */
  waited?: string;
  before: StepTimeBefore | null;
}

/** The time of a step: in the steps that an open finding on it is about, else of the newest.
 *
 * What the finding says in its sentence and what stands as a figure beside it is then one measurement.
 */
export function paceOf(
  newest: StepTime | null,
  findings: RunFindings | null,
  before: StepTimeBefore | null,
): Pace | null {
  if (newest === null) return null;
  const open = (rule: string): RunFinding | undefined =>
    findings?.findings.find((one) => one.rule === rule && one.closed_step === null);
  const since = ({ since_step }: RunFinding): string => `since step ${count(since_step)}`;
  const [waits, slower] = [open("data-wait"), open("slower-steps")];
  if (waits) {
    const { step_ms, wait_ms } = waits.values as { step_ms: number; wait_ms: number };
    return { seconds: 1e-3 * step_ms, wait_s: 1e-3 * wait_ms, window: `mean ${since(waits)}`, before };
  }
  if (slower) {
    const { before_ms, after_ms } = slower.values as { before_ms: number; after_ms: number };
    const share = newest.wait_s === null ? null : newest.wait_s / newest.seconds;
    return {
      seconds: 1e-3 * after_ms,
      wait_s: share === null ? null : 1e-3 * after_ms * share,
      window: `usual ${since(slower)}`,
      ...(share === null ? {} : { waited: "median of the newest" }),
      before: { wait_s: null, ...before, step: slower.since_step, seconds: 1e-3 * before_ms },
    };
  }
  return { ...newest, window: "median of the newest", before };
}

export interface StagePart {
  name: string;
  value: number;
}

/** Stages of the step but its wait for data, as parts of a time: their shares are those of the newest steps. */
export function partsOf(stages: StageMeans | null, seconds: number): StagePart[] {
  const own = (stages?.stages ?? []).map((name, at) => ({ name, value: stages!.mean_s[at]! }));
  const worked = own.filter((part) => part.name !== "data");
  const whole = worked.reduce((sum, part) => sum + part.value, 0);
  if (!(whole > 0)) return [];
  return worked
    .filter((part) => part.value > 0)
    .map(({ name, value }) => ({
      name: name === "rest" ? "Rest of the step" : `${name[0]!.toUpperCase()}${name.slice(1)}`,
      value: (value / whole) * seconds,
    }));
}
