/** What a metric is, told by its names: whether neighbouring values may be averaged to show where it goes. */
import type { Chart } from "../server/api";

/** Set by the program, step by step: the learning rate and its kin. */
const SCHEDULE =
  /(^|[/_.\s-])(lr|lrs|learning[_\s-]?rates?|momentum|beta[_-]?[12]|weight[_\s-]?decay|loss[_\s-]?scale|teacher[_\s-]?forcing)([/_.\s\d-]|$)/i;
/** Counts something: whole numbers of which a mean says nothing. */
const COUNT =
  /(^|[/_.\s-])(epochs?|(global|optimizer|update)[_-]?steps?|counts?|num|nonfinite|non[_-]finite|nans?|infs?|(tokens|samples|examples|batches)[_-]?(seen|consumed|processed)|(dropped|skipped|restarts|retries|evictions|recompiles))([/_.\s-]|$)/i;
/** A rate or a share of something counted is none. */
const NO_COUNT = /(per[_\s-]second|per[_\s-]step|_per_|\/s$|ratio|rate|fraction|share|loss|time|_ms$|_s$)/i;

/** Whether the values of a tag are drawn as recorded, whatever the smoothing of the page is. */
export function isExact(tag: string): boolean {
  return SCHEDULE.test(tag) || (COUNT.test(tag) && !NO_COUNT.test(tag));
}

/** The smoothing of a chart: none where all that it shows is exact. */
export function smoothingOf(chart: Pick<Chart, "lines">, wanted: number): number {
  return chart.lines.length > 0 && chart.lines.every(({ tag }) => isExact(tag)) ? 0 : wanted;
}
