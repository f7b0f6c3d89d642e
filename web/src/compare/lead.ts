/** The words about the largest difference of two sides. */
import { count, counted } from "../format/number";
import type { Judgement, SideValues } from "../server/api";
import type { Difference, Group } from "../series/sides";

/** The value that is compared; of sides that share no steps the newest stands. */
export const windowOf = ({ window }: Judgement): string => window || "newest";

/** Figures of a side; a mean that is not known is no number. */
export const groupOfSide = (side: SideValues): Group => ({ ...side, mean: side.mean ?? NaN });

/** The difference of which the verdict is; null: there is none. */
export const differenceIn = ({ difference, ratio }: Judgement): Difference | null =>
  difference === null ? null : { difference, ratio };

/** The side that alone has runs which end without a finite value; null: neither or both have. */
export function loserOf({ a, b }: Judgement): "A" | "B" | null {
  return !a.bad === !b.bad ? null : a.bad ? "A" : "B";
}

/** What is said where no difference leads: of how many series that is known, and of how many nothing is. */
export function withoutLead(known: number, unknown: number): string {
  const few = `${counted(unknown, "series", "series")} ${unknown === 1 ? "shares" : "share"} too few steps to tell`;
  if (!known) return `The largest difference is not known yet: ${few}`;
  const none = `No difference exceeds the spread in ${counted(known, "series", "series")}`;
  return unknown ? `${none}; ${few}` : none;
}

/** By how many runs a side is lost. */
export function lostText({ a, b }: Judgement): string {
  const side = a.bad ? a : b;
  return side.bad === 1 && side.count <= 1
    ? "ends without a finite value"
    : `${count(side.bad)} ${side.bad === 1 ? "run ends" : "runs end"} without a finite value`;
}
