/** How the comparison of two figures reads. */
import { NOTHING, percent } from "../format/number";
import type { Verdict } from "../series/reading";
import type { Tone } from "../runs/state";

export const VERDICTS: Record<Verdict, { word: string; tone: Tone }> = {
  better: { word: "better", tone: "ok" },
  worse: { word: "worse", tone: "bad" },
  same: { word: "the same", tone: "" },
  noise: { word: "within the runs' spread", tone: "" },
  changed: { word: "", tone: "" },
};

/** A share with its sign; a dash where there is nothing to be a share of. */
export function change(ratio: number | null): string {
  return ratio === null ? NOTHING : `${ratio > 0 ? "+" : ""}${percent(ratio)}`;
}
