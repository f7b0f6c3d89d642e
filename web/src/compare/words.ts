/** How the comparison of two figures reads. */
import { changeOf, figure } from "../format/number";
import type { Delta, Verdict } from "../series/sides";
import type { Tone } from "../runs/state";

const WORDS: Record<Verdict, string> = {
  better: "better",
  worse: "worse",
  same: "the same",
  noise: "within the runs' spread",
  unknown: "too few values to tell",
  changed: "",
};
/** Only what lies beyond the spread has a colour. */
const TONES: Partial<Record<Verdict, Tone>> = { better: "ok", worse: "bad" };

/** How a difference reads, and the colour of that. */
export function verdictOf({ verdict, of }: Delta): { word: string; tone: Tone } {
  const noise = { runs: WORDS.noise, steps: "within the steps' noise", seeds: "may be chance between seeds" };
  return {
    word: verdict === "noise" ? noise[of ?? "runs"] : WORDS[verdict],
    tone: TONES[verdict] ?? "",
  };
}

/** From here on how many times as much reads better than how many percent. */
const TWICE = 2;

/** What B is to A: as a factor where one is at least twice the other, else as a share. */
export function times(a: number, b: number, ratio: number): string {
  if (a <= 0 || b <= 0) return changeOf(ratio);
  const factor = b / a;
  return factor >= TWICE || factor <= 1 / TWICE ? `${figure(factor, 3)} times A` : changeOf(ratio);
}
