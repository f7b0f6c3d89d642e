/** Numbers as people read them. No other folder makes text of a number: `one.test.ts` holds that.
 *
 * The rule: a figure has three digits, with a unit or without, and below a million the whole part all of its own; from there
 * on it is shortened to millions, billions and trillions. A column has the decimals of its largest value, and a smaller one
 * has three digits at least. A unit is scaled so that the figure is at least 1. Below 10⁻⁴ and from 10¹⁵ on there is a power
 * of ten. Counts of things and steps have all their digits up to ten millions. A true minus, thousands commas.
 */

export const MINUS = "\u2212";
export const NOTHING = "–";
/** No-break space, between a figure and its unit. */
export const GAP = "\u00a0";

const SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹";
const COMPACT: [number, string][] = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "k"],
];

/** Below it a value has a power of ten; 0.0001 in single precision is a little less. */
const LEAST_WRITTEN = 1e-4 * (1 - 1e-6);
/** From here on a value is shortened. */
const LEAST_COMPACT = 999_999.5;
/** From here on a power of ten reads better than so many trillions. */
const MOST_COMPACT = 1e15;

/** Returns what non-finite values are called, or null for a finite one. */
export function nonFiniteName(value: number): string | null {
  if (Number.isNaN(value)) return "NaN";
  if (value === Infinity) return "∞";
  if (value === -Infinity) return `${MINUS}∞`;
  return null;
}

function grouped(digits: string): string {
  const [whole = "", fraction] = digits.split(".");
  const comma = whole.length > 3 ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole;
  return fraction === undefined ? comma : `${comma}.${fraction}`;
}

/** A value with a fixed number of decimals. */
export function fixed(value: number, decimals: number): string {
  const name = nonFiniteName(value);
  if (name !== null) return name;
  if (Math.abs(value) >= 1e15) return power(value, 3);
  const text = grouped(Math.abs(value).toFixed(decimals));
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}

/** A difference, which carries its sign. */
export function signed(value: number, decimals: number): string {
  const text = fixed(value, decimals);
  return value > 0 && /[1-9∞]/.test(text) ? `+${text}` : text;
}

/** 10 to a power in superscript digits. */
export function tenTo(exponent: number): string {
  const digits = [...String(Math.abs(exponent))].map((digit) => SUPERSCRIPT[Number(digit)]).join("");
  return `10${exponent < 0 ? "⁻" : ""}${digits}`;
}

/** A value with a unit: three digits, all of a larger whole part, and no decimals of a whole number of the unit itself. */
export function ofUnit(value: number, exact: boolean): string {
  const size = Math.abs(value);
  if (!Number.isFinite(value) || size >= 1e15) return figure(value, 3);
  if (exact && Number.isInteger(value)) return fixed(value, 0);
  return fixed(value, decimalsFor([value], 3));
}

/** A value rounded to so many digits, as it is typed into an address, a query or a file. */
export function rounded(value: number, digits: number): number {
  return Number(value.toPrecision(digits));
}

/** A number as it would be typed into a program: 0.0003 is 3e-4 for a reader of configs. */
export function typed(value: number): string {
  if (value !== 0 && Math.abs(value) < 1e-3) return value.toExponential();
  return Number.isInteger(value) ? fixed(value, 0) : String(value);
}

/** Mantissa times a power of ten: 1.20×10⁻⁵. */
export function power(value: number, digits: number): string {
  if (value === 0) return "0";
  let exponent = Math.floor(Math.log10(Math.abs(value)));
  let mantissa = Math.abs(value) / 10 ** exponent;
  if (Number(mantissa.toFixed(digits - 1)) >= 10) {
    mantissa /= 10;
    exponent += 1;
  }
  return `${value < 0 ? MINUS : ""}${mantissa.toFixed(digits - 1)}×${tenTo(exponent)}`;
}

/** Decimals that show `digits` significant digits of the largest of the values; for a column of figures. */
export function decimalsFor(values: Iterable<number>, digits = 3): number {
  let largest = 0;
  for (const value of values) if (Number.isFinite(value)) largest = Math.max(largest, Math.abs(value));
  if (largest === 0) return 0;
  // 9.999 reads 10.0: its digits are counted once it is rounded.
  return Math.min(8, Math.max(0, digits - 1 - Math.floor(Math.log10(rounded(largest, digits)))));
}

/** Likewise, and none where all of them are whole, as counts are. */
export function decimalsOrNone(values: readonly number[], digits = 3): number {
  const whole = values.every((value) => !Number.isFinite(value) || Number.isInteger(value));
  return whole ? 0 : decimalsFor(values, digits);
}

/** One value with about `digits` significant digits. */
export function figure(value: number | null | undefined, digits = 3): string {
  if (value === null || value === undefined) return NOTHING;
  const name = nonFiniteName(value);
  if (name !== null) return name;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e15 || size < LEAST_WRITTEN) return power(value, Math.min(3, digits));
  if (size >= LEAST_COMPACT) return compact(value, digits);
  if (Number.isInteger(value) && size >= 1) return fixed(value, 0);
  return fixed(value, decimalsFor([value], digits));
}

/** A count or a step: every digit up to ten millions, then shortened. */
export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return NOTHING;
  return Math.abs(value) < 1e7 ? fixed(value, 0) : compact(value, 3);
}

/** A shortened value: 26.2 B, 25 k. Zeros at the end are left out. */
export function compact(value: number, digits = 3): string {
  const name = nonFiniteName(value);
  if (name !== null) return name;
  const size = Math.abs(value);
  if (size >= MOST_COMPACT) return power(value, Math.min(3, digits));
  for (const [scale, letter] of COMPACT) {
    if (size >= scale * 0.9995) return `${trimmed(value / scale, digits)}${GAP}${letter}`;
  }
  return trimmed(value, digits);
}

/** How many of what there are: "1 run", "2 runs"; the plural where it is not the singular with an s. */
export function counted(value: number, one: string, several = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : several}`;
}

const DECIMAL: [number, string][] = [
  [1e18, "E"],
  [1e15, "P"],
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];

/** A value with a decimal prefix before its unit: 40.2 GFLOP/s. */
export function prefixed(value: number | null | undefined, unit: string): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  const size = Math.abs(value);
  const [scale, prefix] = DECIMAL.find(([scale]) => size >= scale * 0.9995) ?? [1, ""];
  return `${trimmed(value / scale, 3)}${GAP}${prefix}${unit}`;
}

function trimmed(value: number, digits: number): string {
  const text = fixed(value, Math.min(6, decimalsFor([value], digits)));
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** A value in a column of the same decimals; one that these would leave fewer than three digits has its own. */
export function inColumn(value: number, decimals: number): string {
  if (value === 0) return "0";
  if (Math.abs(value) >= LEAST_COMPACT && Number.isFinite(value)) return compact(value, 3);
  if (Math.abs(value) < LEAST_WRITTEN) return power(value, 3);
  const lost = Math.abs(Number(value.toFixed(Math.min(20, decimals))) - value);
  const isRough = lost > 1e-9 * Math.abs(value) && Math.abs(value) < 10 ** (2 - decimals);
  return isRough ? figure(value, 3) : fixed(value, decimals);
}

/** Where several lines end: one figure, or the smallest and the largest; and that some are not numbers. */
export function spread(values: readonly number[]): string {
  const finite = values.filter(Number.isFinite);
  const odd = [...new Set(values.map(nonFiniteName).filter((name) => name !== null))];
  if (!finite.length) return odd.join(", ");
  const whole = finite.every(Number.isInteger);
  // Beside a fraction a whole number has its digits too: 0.609 – 1.00.
  const text = (value: number): string =>
    whole || value === 0 || Math.abs(value) >= 1000 || Math.abs(value) < 1
      ? figure(value, 3)
      : fixed(value, decimalsFor([value], 3));
  const [low, high] = [text(Math.min(...finite)), text(Math.max(...finite))];
  return [low === high ? low : between(low, high), ...odd].join(", ");
}

/** Two ends of a range; a dash beside a minus would be read as one. */
export function between(low: string, high: string): string {
  return low.startsWith(MINUS) || high.startsWith(MINUS) ? `${low} to ${high}` : `${low} – ${high}`;
}

/** How values of a unit are shown: multiplied by `factor`, with `unit` beside them. */
export interface Measure {
  factor: number;
  unit: string;
}

/** Of numbers without a unit. */
export const AS_RECORDED: Measure = { factor: 1, unit: "" };

const BYTES: [number, string][] = [
  [2 ** 40, "TiB"],
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];
const SECONDS = { s: 1, ms: 1e-3, us: 1e-6, ns: 1e-9 };
/** What the page itself measures; the unit of a metric comes with its chart. */
type Unit = "bytes" | keyof typeof SECONDS;
const TIMES: [number, string][] = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "µs"],
  [1e-9, "ns"],
];

/** Picks the factor and the unit under which values up to `largest` read best. */
export function measure(unit: Unit, largest: number): Measure {
  const size = Math.abs(largest);
  if (unit === "bytes") {
    const [scale, name] = BYTES.find(([scale]) => size >= scale) ?? BYTES.at(-1)!;
    return { factor: 1 / scale, unit: name };
  }
  const own = SECONDS[unit];
  const seconds = size * own;
  if (!(seconds > 0)) return { factor: 1, unit: unit === "us" ? "µs" : unit };
  const [scale, name] = TIMES.find(([scale]) => seconds >= scale) ?? TIMES.at(-1)!;
  return { factor: own / scale, unit: name };
}

/** A value in its measure, unit included. */
export function measured(value: number | null | undefined, unit: Unit): string {
  return shownIn(value, measure(unit, value ?? 0));
}

/** A value as its metric is shown everywhere, unit included. */
export function shownIn(value: number | null | undefined, { factor, unit }: Measure): string {
  if (value === null || value === undefined) return NOTHING;
  const name = nonFiniteName(value);
  if (name !== null) return name;
  return unit ? beside(ofUnit(value * factor, factor === 1), unit) : figure(value * factor);
}

/** A figure and its unit; "per second" follows without a gap. */
export function beside(text: string, unit: string): string {
  return unit.startsWith("/") ? text + unit : `${text}${GAP}${unit}`;
}

/** A value in the unit in which the largest of its table reads best, so that the figures of the table compare. */
export function alike(value: number | null, largest: number, unit: Unit): string {
  if (value === null) return NOTHING;
  const { factor, unit: shown } = measure(unit, largest);
  return beside(inColumn(value * factor, decimalsFor([largest * factor], 3)), shown);
}

/** A part of a whole in the unit of the whole, said once: "25.8 of 35.6 ms". */
export function partOf(part: number, whole: number, unit: Unit): string {
  const { factor, unit: shown } = measure(unit, whole);
  const decimals = decimalsFor([whole * factor], 3);
  return beside(`${inColumn(part * factor, decimals)} of ${fixed(whole * factor, decimals)}`, shown);
}

/** A share, 0 to 1, in percent: with the digits that matter, or, in columns, with so many decimals; never 0 of something. */
export function percent(ratio: number | null | undefined, decimals?: number): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return NOTHING;
  const value = ratio * 100;
  const least = 10 ** -(decimals ?? 2);
  if (value !== 0 && Math.abs(value) < (decimals === undefined ? least : least / 2))
    return `<${GAP}${least}${GAP}%`;
  return `${decimals === undefined ? trimmed(value, 3) : fixed(value, decimals)}${GAP}%`;
}

/** How much more or less, in percent with its sign; a dash where there is nothing to be a share of. */
export function changeOf(ratio: number | null): string {
  if (!ratio || Math.abs(ratio) < 1e-4) return percent(ratio);
  return `${signed(ratio * 100, decimalsFor([ratio * 100], 3))}${GAP}%`;
}

/** Decimals that tell neighbours apart and do not round them: 2.5 needs one, 20 none. */
function stepDecimals(step: number): number {
  const least = Math.min(8, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
  const scaled = step * 10 ** least;
  return least + Number(Math.abs(scaled - Math.round(scaled)) > 1e-6 * scaled);
}

/** Labels of the ticks of an axis, all with the decimals that the step between them needs. */
export function tickLabels(ticks: number[], step: number, short: boolean): string[] {
  const largest = Math.max(...ticks.map(Math.abs), 0);
  if ((largest > 0 && largest < 1e-4) || largest >= MOST_COMPACT)
    return ticks.map((tick) => (tick === 0 ? "0" : power(tick, 2)));
  const scale =
    short || largest >= 1e6 ? COMPACT.find(([scale]) => largest >= (short ? scale * 10 : scale)) : undefined;
  const divisor = scale?.[0] ?? 1;
  const decimals = stepDecimals(step / divisor);
  return ticks.map((tick) => {
    if (tick === 0) return "0";
    return fixed(tick / divisor, decimals) + (scale ? GAP + scale[1] : "");
  });
}

/** Labels of the ticks of a logarithmic axis: 1, 2, 3 or 5 times a power of ten each. Where numbers would be long all that
 * are far from 1 are powers: a billion is no "1 B" below 10¹⁸.
 */
export function logLabels(ticks: number[], short: boolean): string[] {
  const far = (tick: number): boolean => tick >= 1e4 || tick < 1e-3;
  const long = ticks.some((tick) => tick >= 1e6 || tick < 1e-4);
  return ticks.map((tick) => {
    const exponent = Math.floor(Math.log10(tick) + 1e-9);
    if (!long || !far(tick)) return tickLabels([tick], 10 ** exponent, short)[0]!;
    const mantissa = Math.round(tick / 10 ** exponent);
    return mantissa === 1 ? tenTo(exponent) : `${mantissa}×${tenTo(exponent)}`;
  });
}

/** A recorded value with all its digits, in the unit in which it was recorded; nothing of what is no number. */
export function exactly(value: number | null | undefined, unit: string | null): string | undefined {
  if (value === null || value === undefined || !Number.isFinite(value)) return undefined;
  return unit && unit !== "ratio" ? beside(nineDigits(value), unit) : nineDigits(value);
}

/** A number of a table that is read beside its file: nine digits tell any two of single precision apart, more are noise.
 *
 * Large numbers keep three decimals: times in seconds since 1970 differ by those.
 */
export function nineDigits(value: number): string {
  const whole = Math.ceil(Math.log10(Math.max(1, Math.abs(value))));
  return String(Number(value.toPrecision(Math.min(17, Math.max(9, whole + 3)))));
}
