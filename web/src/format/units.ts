/** Times in nanoseconds, bytes and rates with their units. */
import { GAP, NOTHING, fixed, measured, prefixed } from "./number";

function timeScale(ns: number): [scale: number, unit: string] {
  const size = Math.abs(ns);
  return size >= 1e9 ? [1e9, "s"] : size >= 1e6 ? [1e6, "ms"] : size >= 1e3 ? [1e3, "µs"] : [1, "ns"];
}

/** A time with its unit, three significant digits. */
export function nsText(ns: number | null | undefined): string {
  if (ns === null || ns === undefined || !Number.isFinite(ns)) return NOTHING;
  return measured(Math.abs(ns) < 1e3 ? Math.round(ns) : ns, "ns");
}

/** A difference of times, with its sign. */
export function nsSigned(ns: number): string {
  return ns > 0 ? `+${nsText(ns)}` : nsText(ns);
}

/** A time with so many digits that times a step apart differ. */
export function preciseText(ns: number, step: number): string {
  const [scale, unit] = timeScale(ns);
  return `${fixed(ns / scale, Math.max(0, Math.min(9, Math.ceil(Math.log10(scale / Math.max(step, 1)) - 1e-9))))}${GAP}${unit}`;
}

export function bytesText(bytes: number | null | undefined): string {
  return measured(bytes, "bytes");
}

/** A rate of operations, 12.3 TFLOP/s. */
export function flopsText(perSecond: number | null | undefined): string {
  return prefixed(perSecond, "FLOP/s");
}

/** A rate of bytes, in powers of ten as makers give it. */
export function rateText(perSecond: number | null | undefined): string {
  return prefixed(perSecond, "B/s");
}
