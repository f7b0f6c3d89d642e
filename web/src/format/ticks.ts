/** Where an axis puts its ticks. */

export interface Ticks {
  ticks: number[];
  /** Distance between neighbours; null where each tick is a power of ten or a part of one. */
  step: number | null;
}

const NICE = [1, 2, 2.5, 5, 10];

/** Round values between two bounds, about `most` of them. */
export function linearTicks(min: number, max: number, most: number): Ticks {
  const span = max - min;
  if (!(span > 0)) return { ticks: [min], step: 1 };
  const rough = span / Math.max(1, most);
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = magnitude * (NICE.find((nice) => nice * magnitude >= rough * 0.8) ?? 10);
  return spaced(min, max, step);
}

/** Durations: multiples of the first step that leaves few enough. */
export function stepTicks(min: number, max: number, most: number, steps: readonly number[]): Ticks {
  const step = steps.find((step) => (max - min) / step <= most) ?? steps.at(-1)!;
  return spaced(min, max, step);
}

function spaced(min: number, max: number, step: number): Ticks {
  const ticks: number[] = [];
  const first = Math.ceil(min / step - 1e-9);
  for (let at = first; at * step <= max + step * 1e-9 && ticks.length < 1000; at += 1) {
    ticks.push(Number((at * step).toPrecision(12)));
  }
  return { ticks, step };
}

const MANTISSAS = [[1, 2, 3, 4, 5, 6, 7, 8, 9], [1, 2, 3, 5], [1, 3], [1]];

/** Ticks of a log axis: as many of 1, 2, 3, 5 per decade as fit; whole decades, then every second, for a long one.
 *
 * Within a decade they are as on a linear axis.
 */
export function logTicks(min: number, max: number, most: number): Ticks {
  const low = Math.floor(Math.log10(min));
  const high = Math.ceil(Math.log10(max));
  for (const mantissas of MANTISSAS) {
    const ticks = decades(low, high, 1, mantissas).filter((tick) => tick >= min && tick <= max);
    if (ticks.length > most) continue;
    return ticks.length >= 3 ? { ticks, step: null } : linearTicks(min, max, most);
  }
  const every = Math.ceil((high - low) / most);
  const ticks = decades(low, high, every, [1]).filter((tick) => tick >= min && tick <= max);
  return { ticks, step: null };
}

function decades(low: number, high: number, every: number, mantissas: number[]): number[] {
  const ticks: number[] = [];
  for (let decade = Math.ceil(low / every) * every; decade <= high; decade += every) {
    for (const mantissa of mantissas) ticks.push(Number(`${mantissa}e${decade}`));
  }
  return ticks;
}

/** Round distances between ticks: 1, 2 or 5 times a power of ten. */
export function tickStep(range: number, most: number): number {
  const rough = range / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1e-300)));
  for (const factor of [1, 2, 5]) if (factor * power >= rough) return factor * power;
  return 10 * power;
}
