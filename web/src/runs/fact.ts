/** What a figure on the page states, as attributes: a test collects them and compares those that state the same. */

import { exactly } from "../format/number";
import type { Chart } from "../server/api";

export interface Fact {
  /** Of what: a run or a profile. */
  of: string;
  /** What of it: a tag, or a name of its own. */
  what: string;
  /** Which value: newest, smallest, mean, … */
  statistic: string;
  /** The unit, where it does not stand beside the figure. */
  unit?: string | undefined;
  /** The figure with all its digits, as it was recorded, for who points at it. */
  exact?: string | undefined;
}

export interface Stated {
  "data-fact"?: string;
  "data-unit"?: string;
  title?: string;
}

/** A value of a series. */
export const ofSeries = (
  { run, tag }: { run: string; tag: string },
  statistic: string,
  value: number | null | undefined,
  { unit, measure }: Pick<Chart, "unit" | "measure">,
): Fact => ({ of: run, what: tag, statistic, unit: measure.unit, exact: exactly(value, unit) });

/** What a sentence about a finding states: it stands in several places, and says the same in all of them. */
export const ofFinding = (run: string, finding: { rule: string; tag: string; since_step: number }): Fact => ({
  of: run,
  what: `${finding.rule} of ${finding.tag} since ${finding.since_step}`,
  statistic: "sentence",
});

/** The step since which a finding holds. */
export const sinceOf = (run: string, finding: { rule: string; tag: string }): Fact => ({
  of: run,
  what: `${finding.rule} of ${finding.tag}`,
  statistic: "first step",
});

/** The time of a part of the step, or of the whole of it, in a profile.
 *
 * @param steps: Those that were chosen; empty: all.
 */
export const ofProfile = (path: string, part: string, statistic: string, steps = ""): Fact => ({
  of: path,
  what: part,
  statistic: steps ? `${statistic}, steps ${steps}` : statistic,
});

/** How much longer the mean step of one profile takes than that of another, or a part of it does.
 *
 * @param steps: Those of either that were chosen; empty: all.
 */
export const differenceOf = (a: string, b: string, part: string, [ofA, ofB] = ["", ""]): Fact => ({
  of: `${a}${ofA && `, steps ${ofA}`} to ${b}${ofB && `, steps ${ofB}`}`,
  what: part,
  statistic: "difference of means per step",
});

/** The attributes of the element that has a figure and nothing else; none where it states nothing of its own. */
export function stated(fact: Fact | null | undefined): Stated {
  if (!fact) return {};
  const id = `${fact.of} | ${fact.what} | ${fact.statistic}`;
  return {
    "data-fact": id,
    ...(fact.unit && { "data-unit": fact.unit }),
    ...(fact.exact && { title: fact.exact }),
  };
}
