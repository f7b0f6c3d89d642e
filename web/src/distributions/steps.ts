/** The axis of steps that all pictures of a tensor share: it runs to the last step, not to the last histogram. */
import type { Ending } from "./finite";
import { intervalOf } from "./finite";
import type { Histogram } from "./histograms";
import { count } from "../format/number";
import { linearTicks } from "../format/ticks";

export interface Steps {
  first: number;
  last: number;
  /** For how many steps a histogram stands where none follows. */
  interval: number;
}

export interface Tick {
  /** 0 to 1. */
  at: number;
  text: string;
  tone: "plain" | "warn" | "bad";
}

export function stepsOf(histograms: readonly Histogram[], ending: Ending | null): Steps {
  const first = histograms[0]?.step ?? 0;
  const interval = intervalOf(histograms);
  return { first, last: Math.max((histograms.at(-1)?.step ?? 0) + interval, ending?.last ?? 0), interval };
}

/** Share of the axis at which a step lies. */
export const placeOf = (step: number, { first, last }: Steps): number =>
  Math.min(1, Math.max(0, (step - first) / Math.max(1e-9, last - first)));

/** For each of some columns of pixels the histogram that stands there; −1: none. */
export function columnsOf(histograms: readonly Histogram[], steps: Steps, columns: number): Int32Array {
  const found = new Int32Array(columns).fill(-1);
  let at = 0;
  for (let column = 0; column < columns; column += 1) {
    const step = steps.first + ((column + 0.5) / columns) * (steps.last - steps.first);
    while (at + 1 < histograms.length && histograms[at + 1]!.step <= step) at += 1;
    const histogram = histograms[at];
    // A histogram speaks for the steps up to the next one, not for a gap.
    if (histogram && histogram.total > 0 && step < histogram.step + 3 * steps.interval) {
      const next = histograms[at + 1]?.step ?? histogram.step + steps.interval;
      if (step < Math.max(next, histogram.step + steps.interval)) found[column] = at;
    }
  }
  return found;
}

/** Ticks of the axis: those that are marked always, round steps where there is room beside them. */
export function stepTicks(
  steps: Steps,
  marked: readonly { step: number; tone: "warn" | "bad" }[],
  most: number,
): Tick[] {
  const room = 0.6 / Math.max(1, most);
  const marks = [...marked]
    .sort((a, b) => Number(b.tone === "bad") - Number(a.tone === "bad"))
    .filter(({ step }) => step >= steps.first && step <= steps.last)
    .map(({ step, tone }) => ({ at: placeOf(step, steps), text: count(step), tone }))
    .filter((tick, place, all) => all.slice(0, place).every(({ at }) => Math.abs(at - tick.at) >= room));
  const plain = linearTicks(steps.first, steps.last, most)
    .ticks.filter((step) => Number.isInteger(step))
    .map((step) => ({ at: placeOf(step, steps), text: count(step), tone: "plain" as const }))
    .filter((tick) => marks.every(({ at }) => Math.abs(at - tick.at) >= room));
  return [...marks, ...plain].sort((a, b) => a.at - b.at);
}
