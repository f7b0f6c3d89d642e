/** The time of a step and how much of it waits for data, as `run.steps()` and others record them. */
import type { Chart, StageMeans } from "../server/api";
import type { Trend } from "../runs/trend";
import type { DrawLine } from "../series/shape";
import type { StepTime } from "./verdict";

const SECONDS: Record<string, number> = { s: 1, ms: 1e-3, us: 1e-6 };

export interface StepCharts {
  time?: Chart;
  wait?: Chart;
}

/** The charts of a time of a step, in a unit that their tag names. */
export function stepCharts(charts: readonly Chart[]): StepCharts {
  const find = (role: Chart["role"]): Chart | undefined =>
    charts.find((chart) => chart.role === role && chart.unit !== null && chart.unit in SECONDS);
  const found: StepCharts = {};
  const [time, wait] = [find("step_time"), find("data_wait")];
  if (time) found.time = time;
  if (wait) found.wait = wait;
  return found;
}

/** Newest places whose median says what a step takes now: one slow step is no change, as for steps per second. */
const NEWEST = 9;
/** Places before an onset that say what was usual then. */
const LEAST_BEFORE = 3;
/** A step that takes longer by less than this part is not said to. */
const LONGER = 0.1;

/** Medians of what was recorded before a step, in seconds; null where too little was, or the step does not take longer now. */
export function stepTimeBefore(
  { time, wait }: StepCharts,
  trend: (chart: string) => Trend | undefined,
  onset: number,
  now: StepTime,
): StepTime | null {
  const usual = (chart: Chart | undefined): number | null =>
    medianOf(chart, trend, (line) => {
      const values = valuesOf(line, (x) => x < onset);
      return values.length < LEAST_BEFORE ? [] : values;
    });
  const step = usual(time);
  if (step === null || now.step - step <= LONGER * step) return null;
  return { step, wait: usual(wait) };
}

/** Medians of the newest recorded values, in seconds. */
export function stepTimeOf(
  { time, wait }: StepCharts,
  trend: (chart: string) => Trend | undefined,
): StepTime | null {
  const read = (chart: Chart | undefined): number | null =>
    medianOf(chart, trend, (line) => valuesOf(line).slice(-NEWEST));
  const step = read(time);
  return step === null ? null : { step, wait: read(wait) };
}

function valuesOf(line: DrawLine, there: (x: number) => boolean = () => true): number[] {
  return [...line.raw.subarray(0, line.end)].filter(
    (value, at) => Number.isFinite(value) && there(line.x[at]!),
  );
}

function medianOf(
  chart: Chart | undefined,
  trend: (chart: string) => Trend | undefined,
  choose: (line: DrawLine) => number[],
): number | null {
  const line = chart && trend(chart.id)?.line;
  const values = line ? choose(line).sort((a, b) => a - b) : [];
  return values.length ? values[values.length >> 1]! * SECONDS[chart!.unit!]! : null;
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
