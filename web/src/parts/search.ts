/** Search by parts of words. */

/** How well a text matches: 0 not at all; every word must be found, beginnings of words count more. */
export function matchScore(text: string, wanted: string): number {
  const inside = text.toLowerCase();
  let score = 0;
  for (const word of wanted.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = inside.indexOf(word);
    if (at < 0) return 0;
    score += word.length / inside.length + (at === 0 || /[\s/_.-]/.test(inside[at - 1]!) ? 1 : 0.1);
  }
  return score;
}
