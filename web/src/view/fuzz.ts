/** Damaged texts for tests: seeds that are well formed, mutated by chance; the same for the same number. */

/** Inputs of a short part of it, as in every run of the tests. `FUZZ_INPUTS=1000000 npm run test` makes it the long one. */
export const INPUTS = Number(process.env.FUZZ_INPUTS ?? 2_000);

const EXTREMES = [
  "%", "%ff", "%ed%a0%80", "\ud800", "\udfff", "\0", "\u001b[31m", "\u202e", "é", "🙂", "&", "=", "#", "?", "+",
  "-1", "1e999", "NaN", "Infinity", "99999999999999999999", "null", "__proto__", "constructor", "true",
  "<script>", "](javascript:", "`", "[", "](", "> ", "* ", "|", "\n", "\t", "    ", "~~", "**", "\\", "$", "(",
]; // prettier-ignore

/** Numbers from 0 to 1, the same for the same seed (mulberry32). */
export function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

/** The seeds, then damaged ones: parts cut out, doubled, replaced by extremes, or taken from another seed. */
export function* damaged(seeds: readonly string[], count: number, seed = 1): Generator<string> {
  const random = chance(seed);
  const below = (end: number) => Math.floor(random() * end);
  const one = <T>(from: readonly T[]) => from[below(from.length)]!;
  yield* seeds;
  for (let made = 0; made < count; made += 1) {
    let text = one(seeds);
    for (let times = one([1, 1, 2, 4, 8, 16]); times > 0; times -= 1) {
      const at = below(text.length + 1);
      const size = Math.min(one([1, 1, 2, 4, 8, 64, 1000]), text.length - at);
      const [head, part, tail] = [text.slice(0, at), text.slice(at, at + size), text.slice(at + size)];
      const other = one(seeds);
      text =
        head +
        [
          "",
          part.repeat(2),
          one(EXTREMES),
          part + one(EXTREMES).repeat(one([1, 2, 50])),
          other.slice(below(other.length + 1)).slice(0, size),
          String.fromCharCode(below(65536)) + part,
        ][below(6)]! +
        tail;
    }
    yield text.slice(0, 20_000);
  }
}
