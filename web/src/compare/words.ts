/** How the comparison of two figures reads. */
import { changeOf, figure } from "../format/number";
import type { Verdict } from "../server/api";
import type { Tone } from "../runs/state";

/** Only what lies beyond the spread has a colour. */
const TONES: Partial<Record<Verdict, Tone>> = { better: "ok", worse: "bad" };

export const toneOf = (verdict: Verdict | undefined): Tone => (verdict && TONES[verdict]) ?? "";

/** From here on how many times as much reads better than how many percent. */
const TWICE = 2;

/** What B is to A: as a factor where one is at least twice the other, else as a share. */
export function times(a: number, b: number, ratio: number): string {
  if (a <= 0 || b <= 0) return changeOf(ratio);
  const factor = b / a;
  return factor >= TWICE || factor <= 1 / TWICE ? `${figure(factor, 3)} times A` : changeOf(ratio);
}
