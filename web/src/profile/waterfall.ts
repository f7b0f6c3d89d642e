/** How the mean step of A becomes that of B, part by part, and what is said of it in one sentence. */
import type { DiffAnswer, DiffRow, Verdict } from "../server/api";
import { percent } from "../format/number";
import { nsText } from "../format/units";
import { PARTS } from "./questions";

/** What a part is called within a sentence. */
const SPOKEN: Record<string, string> = {
  data_loading: "loading data",
  forward: "the forward pass",
  backward: "the backward pass",
  optimizer: "the optimizer",
  other: "other compute",
  communication: "communication",
  copy: "copies",
  idle: "idle time",
};

export const partName = (key: string): string => PARTS.find((part) => part.key === key)?.name ?? key;

/** A bar of the waterfall: from where to where it goes, in nanoseconds of the step. */
export interface Fall {
  row: DiffRow;
  from: number;
  to: number;
  /** Whether the steps show it to be more than chance. */
  real: boolean;
}

const REAL: ReadonlySet<string> = new Set(["slower", "faster"]);
/** A remainder below this part of the step is rounding. */
const ROUNDING = 1e-3;

/** The parts that either side has, the largest change first, each beginning where the one before it ends.
 *
 * @returns: the bars, and what they leave of B's step that no part has; 0 where they add up.
 */
export function fallsOf(step: DiffRow, parts: readonly DiffRow[]): { falls: Fall[]; rest: number } {
  const [a, b] = [step.a?.mean_ns ?? 0, step.b?.mean_ns ?? 0];
  const present = parts.filter((row) => (row.a?.mean_ns ?? 0) > 0 || (row.b?.mean_ns ?? 0) > 0);
  let at = a;
  const falls = [...present]
    .sort((p, q) => Math.abs(q.difference_ns) - Math.abs(p.difference_ns))
    .map((row) => {
      const from = at;
      at += row.difference_ns;
      return { row, from, to: at, real: REAL.has(row.verdict) };
    });
  const rest = b - at;
  return { falls, rest: Math.abs(rest) > ROUNDING * Math.max(a, b) ? rest : 0 };
}

/** Of the step's change the part that is in parts which changed beyond chance; null: the step did not. */
export function beyondChance(step: DiffRow, parts: readonly DiffRow[]): number | null {
  if (!REAL.has(step.verdict) || step.difference_ns === 0) return null;
  const real = parts.filter((row) => REAL.has(row.verdict));
  return real.reduce((sum, row) => sum + row.difference_ns, 0) / step.difference_ns;
}

export interface Said {
  /** Before what is stressed, that itself, and after it. */
  before: string;
  stressed: string;
  after: string;
  tone: "" | "ok" | "bad";
}

/** How the step changed, and how sure that is. */
export interface Change extends Pick<DiffRow, "verdict" | "difference_ns"> {
  /** The verdict as people read it. */
  word: string;
  why: string;
  /** It is of the profiled steps alone, and of no run. */
  alone: boolean;
}

/** What the verdict of each comparison of recorded times is of a step. */
const OF_RECORDED: Partial<Record<Verdict, string>> = { better: "faster", worse: "slower", same: "same" };

/** How the step changed: by the times that both runs recorded, if they did.
 *
 * @param one: Whether both sides are of one profile, so that its steps can be told apart.
 */
export function changeOfStep(
  { recorded, step }: Pick<DiffAnswer, "recorded" | "step">,
  one: boolean,
): Change {
  if (recorded) {
    const verdict = OF_RECORDED[recorded.verdict] ?? "unclear";
    const word = verdict === "unclear" ? recorded.word : verdict;
    return {
      verdict,
      difference_ns: 1e6 * (recorded.difference ?? 0),
      word,
      why: recorded.why,
      alone: false,
    };
  }
  const why =
    step.verdict !== "unclear"
      ? ""
      : step.p_value === null
        ? "one step does not show how they vary"
        : "chance may explain it";
  return { ...step, word: one ? step.verdict : "not judged", why, alone: !one };
}

/** What is said of a comparison first: only what its steps show.
 *
 * @param step: By what tells most of it.
 * @param lead: The part that changed most beyond chance; null: none did.
 * @param profiled: The step whose parts explain it.
 */
export function saidOf(
  step: Change,
  lead: DiffRow | null,
  profiled: Pick<DiffRow, "difference_ns"> = step,
): Said {
  const size = nsText(Math.abs(step.difference_ns));
  const said = (before: string, stressed = "", after = "", tone: Said["tone"] = ""): Said => ({
    before,
    stressed,
    after,
    tone,
  });
  if (step.verdict === "same") return said("The steps of A and B take the same time");
  if (!REAL.has(step.verdict)) {
    if (step.difference_ns === 0) return said("The mean steps of A and B are the same");
    const way = step.difference_ns > 0 ? "longer" : "shorter";
    return said(
      `B's mean step is ${size} ${way}: ${step.word === "unclear" || step.alone ? step.why : step.word}`,
    );
  }
  const slower = step.difference_ns > 0;
  return said(
    step.alone ? "In these profiles B is " : "B is ",
    `${size} a step ${slower ? "slower" : "faster"}`,
    Math.sign(profiled.difference_ns) === Math.sign(step.difference_ns) ? because(profiled, lead) : "",
    step.alone ? "" : slower ? "bad" : "ok",
  );
}

/** A part that went the way of the step is a share of it; one that went farther is not. */
function because(step: Pick<DiffRow, "difference_ns">, lead: DiffRow | null): string {
  if (!lead || Math.sign(lead.difference_ns) !== Math.sign(step.difference_ns)) return "";
  const [share, name] = [lead.difference_ns / step.difference_ns, SPOKEN[lead.name] ?? lead.name];
  return share <= 1 ? `, and ${percent(share, 0)} of it is ${name}` : `, mostly in ${name}`;
}

/** Heights of dots in a row, so that those at one place do not cover each other: 0, 1, −1, 2, −2…, at most so many.
 *
 * @param places: Pixels of the dots along the row, in any order.
 * @param gap: Pixels that two dots need.
 */
export function swarm(places: readonly number[], gap: number, most: number): number[] {
  const last = new Map<number, number>();
  const levels = Array.from({ length: 2 * most + 1 }, (_, at) => (at % 2 ? (at + 1) / 2 : 0 - at / 2));
  const found = new Array<number>(places.length);
  for (const at of [...places.keys()].sort((p, q) => places[p]! - places[q]!)) {
    const place = places[at]!;
    const level =
      levels.find((one) => place - (last.get(one) ?? -Infinity) >= gap) ??
      levels.reduce((best, one) => (last.get(one)! < last.get(best)! ? one : best));
    last.set(level, place);
    found[at] = level;
  }
  return found;
}
