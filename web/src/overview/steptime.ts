/** The time of a step and how much of it waits for data, as `run.steps()` records them. */
import type { Chart } from "../server/api";
import type { Trend } from "../runs/trend";
import type { StepTime } from "./verdict";

const SECONDS: Record<string, number> = { s: 1, ms: 1e-3, us: 1e-6 };

export interface StepCharts {
  time?: Chart;
  wait?: Chart;
}

export function stepCharts(charts: readonly Chart[]): StepCharts {
  const find = (tag: string): Chart | undefined =>
    charts.find((chart) => chart.lines.some((line) => line.tag === tag));
  const found: StepCharts = {};
  const [time, wait] = [find("speed/step_time_ms"), find("speed/data_wait_ms")];
  if (time) found.time = time;
  if (wait) found.wait = wait;
  return found;
}

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
  const usual = (chart: Chart | undefined): number | null => {
    const line = chart && trend(chart.id)?.line;
    if (!line) return null;
    const values = [...line.raw.subarray(0, line.end)]
      .filter((value, at) => line.x[at]! < onset && Number.isFinite(value))
      .sort((a, b) => a - b);
    return values.length < LEAST_BEFORE
      ? null
      : values[values.length >> 1]! * (SECONDS[chart!.unit ?? "ms"] ?? 1e-3);
  };
  const step = usual(time);
  if (step === null || now.step - step <= LONGER * step) return null;
  return { step, wait: usual(wait) };
}

/** The newest smoothed values, in seconds. */
export function stepTimeOf(
  { time, wait }: StepCharts,
  trend: (chart: string) => Trend | undefined,
): StepTime | null {
  const read = (chart: Chart | undefined): number | null => {
    const line = chart && trend(chart.id)?.line;
    const value = line?.y[line.end - 1];
    return value === undefined || !Number.isFinite(value)
      ? null
      : value * (SECONDS[chart!.unit ?? "ms"] ?? 1e-3);
  };
  const step = read(time);
  return step === null ? null : { step, wait: read(wait) };
}
