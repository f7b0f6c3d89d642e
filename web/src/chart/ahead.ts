/** The forecast of a loss on its chart: a band behind the newest point, and the ranges of axes that hold it. */
import type { RunForecast } from "../server/api";
import { fixed } from "../format/number";
import type { Range } from "../series/limits";
import type { Ahead, StyledLine } from "./model";

/** Dots of the middle of a band, and of its entry in a legend. */
export const AHEAD_DASH: readonly number[] = [1.5, 3];

export const AHEAD_SAYS =
  "If it continues as before, by a power law; the band contains the end in about 95 of 100 cases";

/** The band of the first line of a run that something is foretold of; null: there is none.
 *
 * @param run: Whose losses are foretold.
 */
export function aheadOf(
  forecasts: readonly RunForecast[],
  run: string,
  lines: readonly StyledLine[],
): Ahead | null {
  for (const { tag, figure, step, curve_step, curve_low, curve_high } of forecasts) {
    const own = lines.filter((line) => line.run === run && line.tag === tag && line.group === null);
    const line = own.reduce<StyledLine | null>((a, b) => (a && a.attempt > b.attempt ? a : b), null);
    if (!line || curve_step.length < 2) continue;
    // A loss that never was below 0 is one that cannot be.
    const positive = (line.low ?? line.raw).every((value) => !(value < 0));
    return {
      line: line.id,
      colour: line.colour,
      x: curve_step,
      low: positive ? curve_low.map((value) => Math.max(0, value)) : curve_low,
      high: curve_high,
      text: `Forecast: ${figure} at step ${fixed(step, 0)}`,
    };
  }
  return null;
}

/** An x range that reaches to the end of a band. */
export function throughX(range: Range, ahead: Ahead | null): Range {
  return ahead ? { min: range.min, max: Math.max(range.max, ahead.x.at(-1)!) } : range;
}

/** A y range that holds what of a band lies within an x range.
 *
 * @param log: Whether only values above 0 can be drawn.
 */
export function throughY(range: Range, ahead: Ahead | null, x: Range, log: boolean): Range {
  let { min, max } = range;
  ahead?.x.forEach((at, place) => {
    if (at < x.min || at > x.max) return;
    const [low, high] = [ahead.low[place]!, ahead.high[place]!];
    if (!log || low > 0) min = Math.min(min, low);
    max = Math.max(max, high);
  });
  return { min, max };
}
