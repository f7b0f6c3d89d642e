/** The difference of two sides that counts most: beyond the spread of the runs, or of the steps where each side is one run. */
import { count, counted } from "../format/number";
import type { MetricKind } from "../server/api";
import { groupAt, overlapOf, valueAt, type SideLine, type Track } from "../runs/sidelines";
import { deltaOf, type Delta, type Group, type Verdict } from "../series/sides";

/** Places at which both sides are known; fewer show nothing. */
const LEAST_PLACES = 8;
/** A difference of less than this part of A is none. */
const LEAST_RATIO = 0.01;
/** A side that has come less far than this part of the other's steps is far behind. */
const BEHIND = 0.5;

/** Kinds that are set rather than found, or that only count. */
const SET: ReadonlySet<MetricKind> = new Set<MetricKind>(["schedule", "counter", "bytes"]);

/** What is said of a metric wherever it stands: in the sentence, on cards, in tables and by colours. */
export interface Judgement {
  /** Of the means over the steps that are compared. */
  a: number;
  b: number;
  delta: Delta;
  sides: [Group, Group];
  /** Ends of B − A: over the places compared of two runs, the margin about that of groups. */
  ends: [number, number];
  /** Ends of the steps that are compared. */
  steps: [number, number];
  /** How it is known, in words. */
  how: string;
}

export interface Lead extends Judgement {
  track: Track;
}

/** The steps that a verdict is about, in the same words wherever its figures stand: a bucket's middle may lie half a step on. */
export function windowOf({ steps: [from, to] }: Judgement): string {
  const [first, last] = [count(Math.floor(from)), count(Math.floor(to))];
  return first === last ? `step ${last}` : `mean of steps ${first}–${last}`;
}

/** The verdict on a metric over the last half of the steps that both sides share; null: they share too few.
 *
 * The sides are compared at the same steps, so that a loss that falls on both is not a spread. Between groups of runs the
 * difference must exceed chance between them; between two runs one must lie above the other at every place. A schedule,
 * which is set and not found, only differs.
 */
export function judge(track: Track, a: SideLine | null, b: SideLine | null): Judgement | null {
  const overlap = overlapOf(a, b);
  if (!a || !b || !overlap) return null;
  const lower = isFound(track) ? track.chart.lower_is_better : null;
  const [groupA, groupB] = [groupAt(a, overlap[1]), groupAt(b, overlap[1])];
  if (groupA.spread !== null && groupB.spread !== null) {
    const delta = deltaOf(groupA, groupB, lower);
    const margin = delta?.margin ?? 0;
    return (
      delta && {
        a: groupA.mean,
        b: groupB.mean,
        delta,
        sides: [groupA, groupB],
        ends: [delta.difference - margin, delta.difference + margin],
        steps: [overlap[1], overlap[1]],
        how: `more than chance between ${groupA.count} and ${counted(groupB.count, "run")} (Welch's test at 5 %)`,
      }
    );
  }
  const pairs = pairsOf(a, b);
  if (!pairs) return null;
  const mean = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanA, meanB] = [mean(pairs.a), mean(pairs.b)];
  const sides: [Group, Group] = [wholly(groupA, meanA), wholly(groupB, meanB)];
  const delta = deltaOf(...sides, lower);
  if (!delta) return null;
  const differences = pairs.a.map((value, at) => pairs.b[at]! - value);
  const signs = new Set(differences.map(Math.sign));
  const clear = signs.size === 1 && !signs.has(0);
  const side = delta.difference > 0 ? "above" : "below";
  const one = groupA.count === 1 && groupB.count === 1 ? "; one run per side, so other seeds may differ" : "";
  return {
    a: meanA,
    b: meanB,
    delta: clear || delta.verdict === "same" ? delta : { ...delta, verdict: "noise", of: "steps" },
    sides,
    ends: [Math.min(...differences), Math.max(...differences)],
    steps: [pairs.x[0]!, pairs.x.at(-1)!],
    how: `B ${side} A at all ${counted(pairs.x.length, "place")} compared${one}`,
  };
}

/** The verdict where both sides are one configuration: seeds can make how it learns differ, but not how it runs. */
export function byChance(track: Track, judged: Judgement): Judgement {
  if (judged.delta.verdict === "same" || track.chart.tier === "running") return judged;
  return { ...judged, delta: { ...judged.delta, verdict: "noise", of: "seeds" } };
}

const BEYOND: ReadonlySet<Verdict> = new Set<Verdict>(["better", "worse", "changed"]);

/** A difference that may lead: a result, beyond the spread, and not small; null: it is none. */
export function leadOf(track: Track, judged: Judgement | null): Lead | null {
  if (!judged || !isFound(track) || !BEYOND.has(judged.delta.verdict)) return null;
  const { ratio } = judged.delta;
  return ratio !== null && Math.abs(ratio) < LEAST_RATIO ? null : { track, ...judged };
}

/** A result that is not finite at the end of one side, while the other's is. */
export interface Lost {
  track: Track;
  side: "A" | "B";
}

/** The side of two runs whose values end in NaN or infinity; null: neither's or both's do. */
export function lostOf(track: Track, a: SideLine | null, b: SideLine | null): Lost | null {
  if (!isFound(track) || a?.runs !== 1 || b?.runs !== 1) return null;
  const [lostA, lostB] = [isLost(a), isLost(b)];
  return lostA === lostB ? null : { track, side: lostA ? "A" : "B" };
}

/** Whether values that are not finite come after the last finite one. */
function isLost({ x, mean, nonfinite }: SideLine): boolean {
  const last = x[mean.findLastIndex(Number.isFinite)]!;
  return nonfinite.some((step) => step > last);
}

/** A difference that is read somewhere, with the verdict on its metric. */
export function judgedAs(delta: Delta, judged: Judgement | null): Delta {
  if (judged) return { ...delta, verdict: judged.delta.verdict, of: judged.delta.of };
  return delta.verdict === "same" ? delta : { ...delta, verdict: "unknown" };
}

/** A side by its mean over all places that are compared: whether it lies beyond the other is asked of each of them. */
const wholly = (group: Group, mean: number): Group => ({ ...group, mean, spread: null, noise: 0 });

/** The last step that two sides share, to two digits as a side may go on; null: neither is far behind the other.
 *
 * @param steps: The last step of each.
 */
export function sharedOf(steps: readonly number[]): number | null {
  const [least, most] = [Math.min(...steps), Math.max(...steps)];
  if (least < LEAST_PLACES || least >= BEHIND * most) return null;
  const unit = Math.max(1, 10 ** (Math.floor(Math.log10(least)) - 1));
  return Math.floor(least / unit) * unit;
}

/** What is said where no difference leads: of how many series that is known, and of how many nothing is. */
export function withoutLead(known: number, unknown: number): string {
  const few = `${counted(unknown, "series", "series")} ${unknown === 1 ? "shares" : "share"} too few steps to tell`;
  if (!known) return `The largest difference is not known yet: ${few}`;
  const none = `No difference exceeds the spread in ${counted(known, "series", "series")}`;
  return unknown ? `${none}; ${few}` : none;
}

/** Whether a series is found and not set: a schedule that differs is not a result. */
export const isFound = (track: Track): boolean => !SET.has(track.chart.kind);

/** Whether both sides share steps enough to be compared. */
export const comparable = (a: SideLine | null, b: SideLine | null): boolean => pairsOf(a, b) !== null;

function pairsOf(a: SideLine | null, b: SideLine | null): { x: number[]; a: number[]; b: number[] } | null {
  const overlap = overlapOf(a, b);
  if (!a || !b || !overlap) return null;
  const from = (overlap[0] + overlap[1]) / 2;
  // Of two lines the one with fewer points: what lies between them is a straight line and no further evidence.
  const fewer = a.x.length <= b.x.length ? a : b;
  const x = [...fewer.x].filter(
    (place) =>
      place >= from &&
      place <= overlap[1] &&
      Number.isFinite(valueAt(a.x, a.mean, place)) &&
      Number.isFinite(valueAt(b.x, b.mean, place)),
  );
  if (x.length < LEAST_PLACES) return null;
  return {
    x,
    a: x.map((place) => valueAt(a.x, a.mean, place)),
    b: x.map((place) => valueAt(b.x, b.mean, place)),
  };
}

/** The largest first: those that are better or worse before those that only differ, each by its factor. */
export function ordered(leads: readonly Lead[]): Lead[] {
  const judged = ({ delta }: Lead): number => Number(delta.verdict === "changed");
  return [...leads].sort((p, q) => judged(p) - judged(q) || factorOf(q) - factorOf(p));
}

/** By how many times the sides differ, either way: a third is as far as three times. */
function factorOf({ a, b, delta }: Lead): number {
  return a > 0 && b > 0 ? Math.abs(Math.log(b / a)) : Math.abs(delta.ratio ?? 0);
}
