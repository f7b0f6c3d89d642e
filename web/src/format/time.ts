/** Times and durations as people read them. Inputs are seconds unless a name says otherwise. */
import { GAP, NOTHING, fixed, measured } from "./number";

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration: three digits, from a minute on its two largest units: 4 h 27 min, 13 min 2 s. As the server writes it. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return NOTHING;
  const value = Math.max(0, seconds);
  for (const [large, name, small, smaller, least] of LONG) {
    if (Math.round(value / least) * least < large) continue;
    const count = Math.round(value / small);
    const rest = count % (large / small);
    const whole = `${Math.floor((count * small) / large)}${GAP}${name}`;
    return rest ? `${whole} ${rest}${GAP}${smaller}` : whole;
  }
  return measured(value, "s");
}

/** Seconds of the two units of a longer time, the largest first, and of the least that a shorter one shows. */
const LONG: [number, string, number, string, number][] = [
  [DAY, "d", HOUR, "h", MINUTE],
  [HOUR, "h", MINUTE, "min", 1],
  [MINUTE, "min", 1, "s", 0.1],
];

/** An age in one unit, for a badge that is read at a glance: 0.8 s, 12 s, 4 min, 3 h. */
export function age(seconds: number): string {
  const value = Math.max(0, seconds);
  if (value < 9.95) return `${fixed(value, 1)}${GAP}s`;
  if (value < MINUTE) return `${Math.floor(value)}${GAP}s`;
  if (value < HOUR) return `${Math.floor(value / MINUTE)}${GAP}min`;
  if (value < DAY) return `${Math.floor(value / HOUR)}${GAP}h`;
  return `${Math.floor(value / DAY)}${GAP}d`;
}

const two_digits = (value: number): string => String(value).padStart(2, "0");

/** Wall time of day; the date is added where it is not today. */
export function clock(wall: number, now: number, seconds = false): string {
  const date = new Date(wall * 1e3);
  const time = `${two_digits(date.getHours())}:${two_digits(date.getMinutes())}${seconds ? `:${two_digits(date.getSeconds())}` : ""}`;
  return sameDay(date, new Date(now * 1e3)) ? time : `${day(date, new Date(now * 1e3))} ${time}`;
}

/** Date and time to the millisecond, as it is in the log. */
export function exact(wall: number): string {
  const date = new Date(wall * 1e3);
  const time = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two_digits).join(":");
  const rest = date.getMilliseconds();
  return `${iso(date)} ${time}${rest ? `.${String(rest).padStart(3, "0")}` : ""}`;
}

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function day(date: Date, now: Date): string {
  const text = `${date.getDate()} ${MONTHS[date.getMonth()]}`;
  return date.getFullYear() === now.getFullYear() ? text : `${text} ${date.getFullYear()}`;
}

function iso(date: Date): string {
  return `${date.getFullYear()}-${two_digits(date.getMonth() + 1)}-${two_digits(date.getDate())}`;
}

function sameDay(one: Date, other: Date): boolean {
  return iso(one) === iso(other);
}

/** Labels of the ticks of an axis of wall time; midnight carries its date. */
export function wallLabels(ticks: number[], step: number): string[] {
  return ticks.map((tick) => {
    const date = new Date(tick * 1e3);
    const midnight = date.getHours() === 0 && date.getMinutes() === 0 && date.getSeconds() === 0;
    if (step >= DAY || midnight) return `${date.getDate()} ${MONTHS[date.getMonth()]}`;
    const time = `${two_digits(date.getHours())}:${two_digits(date.getMinutes())}`;
    return step >= MINUTE ? time : `${time}:${two_digits(date.getSeconds())}`;
  });
}

/** Steps between ticks of an axis of durations. */
export const DURATION_STEPS = [
  1e-3,
  2e-3,
  5e-3,
  1e-2,
  2e-2,
  5e-2,
  0.1,
  0.2,
  0.5,
  1,
  2,
  5,
  10,
  15,
  30,
  MINUTE,
  2 * MINUTE,
  5 * MINUTE,
  10 * MINUTE,
  15 * MINUTE,
  30 * MINUTE,
  HOUR,
  2 * HOUR,
  3 * HOUR,
  6 * HOUR,
  12 * HOUR,
  DAY,
  2 * DAY,
  5 * DAY,
  10 * DAY,
  20 * DAY,
  50 * DAY,
  100 * DAY,
  200 * DAY,
  500 * DAY,
];

/** Labels of the ticks of an axis of durations. */
export function durationLabels(ticks: number[], step: number): string[] {
  return ticks.map((tick) => {
    if (tick === 0) return "0";
    if (step < 1) return `${fixed(tick, Math.min(3, Math.ceil(-Math.log10(step))))}${GAP}s`;
    return tick < 0 ? `−${pairOrSeconds(-tick)}` : pairOrSeconds(tick);
  });
}

function pairOrSeconds(value: number): string {
  return value < MINUTE ? `${Math.round(value)}${GAP}s` : duration(Math.round(value));
}
