/** Which charts most runs have, and which only a few. */
import type { Chart } from "../server/api";
import { recordedBy, type Family } from "./catalog";

/** Runs that are looked at: of thousands, so many say which charts most of them have. */
const SAMPLE = 200;

export interface Recorded {
  /** Charts that at least half as many runs have as have the chart of the most. */
  common: Chart[];
  /** The other charts that any of the runs has. */
  rare: Chart[];
}

/** The charts of some runs; charts of other runs are left out. */
export function byRecorded(charts: readonly Chart[], families: readonly Family[]): Recorded {
  const every = Math.ceil(families.length / SAMPLE);
  const sample = every > 1 ? families.filter((_, at) => at % every === 0) : families;
  const counts = charts.map((chart) => sample.filter((each) => recordedBy(chart, [each])).length);
  const most = counts.reduce((a, b) => Math.max(a, b), 1);
  const isCommon = (at: number): boolean => 2 * counts[at]! >= most;
  return {
    common: charts.filter((_, at) => isCommon(at)),
    rare: charts.filter((chart, at) => !isCommon(at) && (counts[at]! > 0 || recordedBy(chart, families))),
  };
}
