/** What a figure on the page states, as attributes: a test collects them and compares those that state the same. */

export interface Fact {
  /** Of what: a run or a profile. */
  of: string;
  /** What of it: a tag, or a name of its own. */
  what: string;
  /** Which value: newest, smallest, mean, … */
  statistic: string;
  /** The unit, where it does not stand beside the figure. */
  unit?: string | undefined;
}

export interface Stated {
  "data-fact"?: string;
  "data-unit"?: string;
}

/** The attributes of the element that has a figure and nothing else; none where it states nothing of its own. */
export function stated(fact: Fact | null | undefined): Stated {
  if (!fact) return {};
  const id = `${fact.of} | ${fact.what} | ${fact.statistic}`;
  return fact.unit ? { "data-fact": id, "data-unit": fact.unit } : { "data-fact": id };
}
